"""Counts over bins: everything against the pmf, count by count."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold.errors import CountError, ParameterError
from tallyfold.probability.categorical import CategoricalCounts, CountBins, mixed_categorical
from tallyfold.probability.lomax import LomaxTail

FAR = 6_000
"""Beyond this the tail is asked for by `log_at_least`."""
BINS = {
    "scale": CountBins(np.arange(1, 6), 5),
    "scale from 3": CountBins(np.arange(3, 8), 7),
    "open": CountBins(np.arange(1, 5)),
    "wide": CountBins(np.array([1, 2, 3, 4, 6, 9, 40])),
}
TAILS = {"open": LomaxTail(4, 0.5, 0.1, 0.8), "wide": LomaxTail(40, 0.1, -0.1, 2.0)}
KINDS = list(BINS)
OPEN = list(TAILS)


def made(kind, seed=0, n=4):
    n_bins = len(BINS[kind].lower_B)
    prob_NB = np.random.default_rng(seed).dirichlet(np.full(n_bins, 0.7), n) + 1e-4
    prob_NB /= prob_NB.sum(axis=1, keepdims=True)
    return CategoricalCounts(BINS[kind], prob_NB, TAILS.get(kind))


def counts_of(kind):
    bins = BINS[kind]
    return np.arange(bins.lower_B[0], FAR if bins.upper is None else bins.upper + 1)


def pmf_by_count(counts, kind):
    """Return the pmf of every cell: a row per count."""
    return np.exp([counts.log_pmf(y) for y in counts_of(kind)])


@pytest.mark.parametrize("kind", KINDS)
def test_the_pmf_sums_to_one(kind):
    counts = made(kind)
    total = pmf_by_count(counts, kind).sum(axis=0)
    if kind in OPEN:
        beyond = np.exp(counts.log_at_least(FAR))
        assert np.all((beyond > 0) & (beyond < 0.05))
        total += beyond
    assert total == pytest.approx(np.ones(4), abs=1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_bins_have_their_probabilities(kind):
    counts = made(kind)
    pmf = pmf_by_count(counts, kind)
    bin_V = BINS[kind].bin_of(counts_of(kind))
    for number in range(len(BINS[kind].lower_B) - (kind in OPEN)):
        assert pmf[bin_V == number].sum(axis=0) == pytest.approx(counts.prob_NB[:, number])


@pytest.mark.parametrize("kind", KINDS)
def test_the_cdf_and_both_tails_agree_with_sums_of_the_pmf(kind):
    counts = made(kind)
    values, summed = counts_of(kind)[:200], np.cumsum(pmf_by_count(counts, kind)[:200], axis=0)
    for y, below in zip(values, summed, strict=True):
        assert counts.cdf(y) == pytest.approx(below, abs=1e-11)
        assert np.exp(counts.log_at_most(y)) == pytest.approx(below, abs=1e-11)
        if y > values[0]:
            before = summed[y - values[0] - 1]
            assert np.exp(counts.log_at_least(y)) == pytest.approx(1 - before, abs=1e-11)
    assert counts.log_at_least(values[0]) == pytest.approx(np.zeros(4), abs=1e-12)
    assert counts.cdf(values[0] - 1).tolist() == [0.0] * 4


def test_the_cdf_is_one_at_the_end_of_a_scale_and_beyond():
    assert made("scale").cdf([5, 6, 99, 5]) == pytest.approx(np.ones(4), abs=1e-15)


@pytest.mark.parametrize("kind", OPEN)
def test_the_far_tail_is_exact_where_no_cdf_can_tell_it(kind):
    counts, tail = made(kind), TAILS[kind]
    far = np.array([10**6, 10**9, 10**12, 10**15])
    log_tail = np.log(counts.prob_NB[:, -1])
    ratio = np.log((tail.start + tail.offset) / (far + tail.offset))
    wanted = log_tail + tail.exponents(log_tail) * ratio
    assert counts.log_at_least(far) == pytest.approx(wanted, rel=1e-9)
    a = tail.exponents(log_tail)
    slope = wanted + np.log(a / (far + tail.offset))  # minus the derivative of the above
    assert counts.log_pmf(far) == pytest.approx(slope, rel=1e-5)
    assert np.all(counts.log_at_most(far) <= 0)


@pytest.mark.parametrize("kind", OPEN)
def test_a_tail_that_is_hardly_there_keeps_its_digits(kind):
    counts = made(kind)
    prob_NB = counts.prob_NB.copy()
    prob_NB[:, -1] = 1e-60
    thin = CategoricalCounts(counts.bins, prob_NB, counts.tail)
    start = int(BINS[kind].lower_B[-1])
    assert thin.log_at_least(start) == pytest.approx(np.full(4, np.log(1e-60)), rel=1e-12)
    assert np.all(thin.log_at_least(start + 1) < np.log(1e-60))
    steep = CategoricalCounts(counts.bins, prob_NB, LomaxTail(start, 9.0))
    beyond = steep.log_at_least(10**15)  # less than the smallest float
    ratio = np.log((start + steep.tail.offset) / 1e15)
    assert beyond == pytest.approx(np.log(1e-60) + (1 + np.exp(3)) * ratio, rel=1e-9)
    assert np.all(beyond < np.log(5e-324))


@pytest.mark.parametrize("kind", KINDS)
def test_quantiles_are_the_smallest_counts_that_reach_a_probability(kind):
    counts = made(kind)
    values, summed = counts_of(kind), np.cumsum(pmf_by_count(counts, kind), axis=0)
    for p in np.linspace(0.0005, 0.9205, 47):
        wanted = values[(summed < p).sum(axis=0)]
        assert counts.quantile(p).tolist() == wanted.tolist()
    low, high = counts.interval(0.8)
    assert low.tolist() == values[(summed < 0.1).sum(axis=0)].tolist()
    assert high.tolist() == values[(summed < 0.9).sum(axis=0)].tolist()
    assert counts.median().tolist() == values[(summed < 0.5).sum(axis=0)].tolist()
    assert counts.quantile(0).tolist() == [values[0]] * 4


@given(st.floats(0, 1, exclude_max=True), st.sampled_from(KINDS), st.integers(0, 30))
def test_any_quantile_reaches_its_probability_and_the_count_below_does_not(p, kind, seed):
    counts = made(kind, seed)
    found = counts.quantile(p)
    bins = BINS[kind]
    assert np.all(found >= bins.lower_B[0])
    assert bins.upper is None or np.all(found <= bins.upper)
    assert np.all(counts.cdf(found) >= p - 1e-12)
    assert np.all((counts.cdf(found - 1) <= p + 1e-12) | (found == bins.lower_B[0]))


@pytest.mark.parametrize("p", [-0.1, 1.0, np.nan])
def test_probabilities_that_are_none_are_refused(p):
    with pytest.raises(ParameterError, match="`p` must be"):
        made("open").quantile(p)
    with pytest.raises(ParameterError, match="`level` must be"):
        made("open").interval(p)


@pytest.mark.parametrize("kind", ["scale", "scale from 3"])
def test_the_mean_of_a_scale_is_the_sum(kind):
    counts = made(kind)
    wanted = counts_of(kind) @ pmf_by_count(counts, kind)
    assert counts.mean() == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(("kind", "tolerance"), [("open", 1e-9), ("wide", 2e-3)])
def test_the_mean_with_a_tail_is_a_long_sum_and_an_integral(kind, tolerance):
    counts, tail = made(kind), TAILS[kind]
    a = tail.exponents(np.log(counts.prob_NB[:, -1]))
    near = counts_of(kind) @ pmf_by_count(counts, kind)
    left = np.exp(counts.log_at_least(FAR))
    far = left * (FAR + (FAR + tail.offset) / (a - 1) - 0.5)
    assert counts.mean() == pytest.approx(near + far, rel=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_shares_of_the_pmf(kind):
    counts = made(kind)
    draws = counts.sample(np.random.default_rng(0), 4_000)
    assert draws.shape == (4_000, 4)
    values, pmf = counts_of(kind)[:10], pmf_by_count(counts, kind)[:10]
    shares = np.stack([(draws == y).mean(axis=0) for y in values])
    assert shares == pytest.approx(pmf, abs=4 * 0.5 / np.sqrt(4_000))
    assert draws.min() >= values[0]
    assert BINS[kind].upper is None or draws.max() <= BINS[kind].upper


@pytest.mark.parametrize("ask", ["log_pmf", "log_at_least"])
def test_counts_that_cannot_be_are_refused(ask):
    with pytest.raises(CountError, match="scale 1 to 5"):
        getattr(made("scale"), ask)(6)
    for kind in ("scale", "open"):
        with pytest.raises(CountError, match="got 0"):
            getattr(made(kind), ask)(0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_count_is_at_most_less_than_the_least(kind):
    assert np.all(np.isneginf(made(kind).log_at_most(BINS[kind].lower_B[0] - 1)))


def test_a_mixture_of_distributions_has_their_mean_pmf():
    parts = [made("scale", seed) for seed in range(3)]
    mixed = mixed_categorical(parts)
    for y in range(1, 6):
        wanted = np.mean([np.exp(part.log_pmf(y)) for part in parts], axis=0)
        assert np.exp(mixed.log_pmf(y)) == pytest.approx(wanted)
    assert mixed_categorical(parts[:1]) is parts[0]


def test_nothing_is_known_of_zeros():
    counts = made("open")
    assert counts.with_zeros() is None
    assert counts.given_positive() is counts
