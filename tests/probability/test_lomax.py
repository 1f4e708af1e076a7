"""The tail of counts: sums, and what is found of a simulated one."""

import numpy as np
import pytest

from tallyfold.probability.lomax import LARGEST, LomaxTail

TAIL = LomaxTail(8, level=0.2, slope=-0.1, offset=1.5)
LOG_TAIL = np.log(np.array([0.3, 0.01]))


def test_the_pmf_sums_to_one():
    for log_tail in LOG_TAIL:
        counts = np.arange(8, 20_000)
        near = np.exp(TAIL.log_pmf(counts, log_tail)).sum()
        far = np.exp(TAIL.log_at_least(20_000, log_tail))
        assert 0 < far < 0.01
        assert near + far == pytest.approx(1, abs=1e-12)


def test_a_tail_that_is_less_probable_has_another_exponent():
    often, seldom = TAIL.exponents(LOG_TAIL)
    assert often == pytest.approx(1 + np.exp(0.2 - 0.1 * LOG_TAIL[0]))
    assert seldom > often > 1


def test_the_mean_agrees_with_a_long_sum_and_an_integral():
    last = 200_000
    counts = np.arange(8, last)
    for log_tail, mean in zip(LOG_TAIL, TAIL.mean(LOG_TAIL), strict=True):
        a = TAIL.exponents(log_tail)
        near = (counts * np.exp(TAIL.log_pmf(counts, log_tail))).sum()
        # beyond: last P(Y >= last) + sum of P(Y >= v), which is an integral up to halves
        left = np.exp(TAIL.log_at_least(last, log_tail))
        far = left * (last + (last + 1.5) / (a - 1) - 0.5)
        assert mean == pytest.approx(near + far, rel=1e-9)


@pytest.mark.parametrize("start", [2, 10**6, 10**12, 10**15])
@pytest.mark.parametrize("level", [-9.0, 0.3, 9.0])
def test_the_mean_is_finite_wherever_the_tail_begins(start, level):
    tail = LomaxTail(start, level)
    mean = tail.mean(np.zeros(1))[0]
    a = tail.exponents(np.zeros(1))[0]
    assert start < mean < start + 2 * (start + 2) / (a - 1)


def test_quantiles_are_the_smallest_counts_that_reach_a_probability():
    p = np.linspace(0, 0.9999, 300)
    for log_tail in LOG_TAIL:
        logs = np.full(len(p), log_tail)
        count = TAIL.quantile(p, logs)
        assert np.all(1 - np.exp(TAIL.log_at_least(count + 1, logs)) >= p - 1e-12)
        below = 1 - np.exp(TAIL.log_at_least(count, logs))
        assert np.all((below < p + 1e-12) | (count == 8))
    assert TAIL.quantile(np.array([1 - 1e-16]), LOG_TAIL[:1])[0] <= LARGEST


@pytest.mark.parametrize("exponent", [1.6, 2.5, 4.0])
def test_a_simulated_exponent_is_recovered(exponent):
    rng = np.random.default_rng(2)
    true = LomaxTail(5, np.log(exponent - 1), 0.0, 1.0)
    log_tail = np.zeros(8_000)
    counts = true.quantile(rng.random(8_000), log_tail)
    found = LomaxTail.fitted(5, counts.astype(np.int64), log_tail)
    assert found.exponents(np.zeros(1))[0] == pytest.approx(exponent, rel=0.15)
    counts, log_tail = np.arange(5, 200), np.zeros(195)
    said, truly = found.log_at_least(counts, log_tail), true.log_at_least(counts, log_tail)
    assert np.exp(said) == pytest.approx(np.exp(truly), abs=0.02)


def test_a_dependence_on_how_probable_the_tail_is_is_found():
    rng = np.random.default_rng(3)
    true = LomaxTail(4, 0.0, 0.4, 1.0)
    log_tail = np.log(rng.uniform(0.001, 0.5, 8_000))
    counts = true.quantile(rng.random(8_000), log_tail).astype(np.int64)
    assert LomaxTail.fitted(4, counts, log_tail).slope == pytest.approx(0.4, abs=0.1)


def test_few_counts_leave_it_where_it_starts():
    assert LomaxTail.fitted(3, np.array([3, 90, 4, 5]), np.zeros(4)) == LomaxTail(3)
