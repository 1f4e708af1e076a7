"""Tails in logarithms: against scipy where a float can hold them, against exact sums beyond."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.stats

from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture
from tallyfold.probability.tails import log_at_least, log_at_most


def one(family, truncated, rate, r=1.0):
    return CountMixture(COUNTS[family, truncated], np.array([[rate]]), np.array([[r]]))


@pytest.mark.parametrize(("rate", "y"), [(0.3, 2), (4.0, 4), (4.0, 40), (900.0, 700)])
def test_both_tails_agree_with_scipy(rate, y):
    poisson = scipy.stats.poisson(rate)
    said = one("poisson", False, rate)
    assert log_at_least(said, [y]) == pytest.approx(np.log(poisson.sf(y - 1)), rel=1e-10)
    assert log_at_most(said, [y]) == pytest.approx(np.log(poisson.cdf(y)), rel=1e-10)
    nb = scipy.stats.nbinom(2.5, 2.5 / (2.5 + rate))
    said = one("negative-binomial", False, rate, 2.5)
    assert log_at_least(said, [y]) == pytest.approx(np.log(nb.sf(y - 1)), rel=1e-10)
    assert log_at_most(said, [y]) == pytest.approx(np.log(nb.cdf(y)), rel=1e-10)


def test_truncated_tails_are_given_at_least_one():
    poisson = scipy.stats.poisson(0.7)
    said = one("poisson", True, 0.7)
    wanted = poisson.sf(2) / poisson.sf(0)
    assert log_at_least(said, [3]) == pytest.approx(np.log(wanted), rel=1e-10)
    wanted = (poisson.cdf(3) - poisson.pmf(0)) / poisson.sf(0)
    assert log_at_most(said, [3]) == pytest.approx(np.log(wanted), rel=1e-10)
    assert log_at_least(said, [1]) == pytest.approx(0.0, abs=1e-12)


def exact_log(value: Fraction) -> float:
    """Take the logarithm of a fraction far below the smallest float."""
    shift = value.denominator.bit_length() - value.numerator.bit_length()
    return math.log(float(value * 2**shift)) - shift * math.log(2)


def test_far_upper_tail_of_a_poisson_is_exact():
    y, rate = 300, Fraction(1, 2)
    terms = [rate**k / math.factorial(k) for k in range(y, y + 60)]
    wanted = exact_log(sum(terms)) - float(rate)
    assert wanted < math.log(1e-308)
    assert log_at_least(one("poisson", False, 0.5), [y]) == pytest.approx(wanted, rel=1e-12)


def test_far_upper_tail_of_a_slow_negative_binomial():
    # with r = 1 it is geometric: P(Y >= y) = q ** y, here with terms that fall by 2 in a thousand
    q = 500 / 501
    said = one("negative-binomial", False, 500.0, 1.0)
    wanted = 1_000_000 * math.log(q)
    assert log_at_least(said, [1_000_000]) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("truncated", [False, True])
def test_far_lower_tail_is_exact(truncated):
    y, rate = 3, 2000
    terms = [Fraction(rate**k, math.factorial(k)) for k in range(int(truncated), y + 1)]
    wanted = exact_log(sum(terms)) - rate
    assert log_at_most(one("poisson", truncated, 2000.0), [y]) == pytest.approx(wanted, rel=1e-12)


def test_a_mixture_in_the_far_tail_is_ruled_by_its_largest_draw():
    rates = np.array([[0.5, 0.5], [2.0, 0.5]])
    mixture = CountMixture(COUNTS["poisson", False], rates)
    alone = log_at_least(one("poisson", False, 2.0), [400])[0]
    both, same = log_at_least(mixture, [400, 400])
    assert both == pytest.approx(alone - math.log(2), rel=1e-12)
    assert same == pytest.approx(log_at_least(one("poisson", False, 0.5), [400])[0], rel=1e-12)


def test_the_two_ways_meet_where_one_takes_over():
    said = one("negative-binomial", False, 3.0, 0.7)
    y = np.arange(2, 6000, 7)
    wide = CountMixture(said.likelihood, np.full((1, len(y)), 3.0), np.full((1, len(y)), 0.7))
    log_tail = log_at_least(wide, y)
    assert log_tail[-1] < math.log(1e-250) < log_tail[0]
    falls = np.diff(log_tail)  # steps settle at 7 ln q: no jump where the sum takes over
    assert np.all(falls < 0)
    assert falls[50:].std() < 0.02
    assert falls[-1] == pytest.approx(7 * math.log(3.0 / 3.7), rel=1e-3)
