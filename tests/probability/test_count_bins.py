"""Which counts share a bin, and when counts are on a scale."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyfold.errors import CountError
from tallyfold.probability.categorical import LEAST_CELLS, MOST_SINGLE, CountBins
from tallyfold.scales import recognised_scale

STARS = np.arange(1, 6), np.array([40, 30, 60, 150, 120])


def histogram(counts):
    return np.unique(counts, return_counts=True)


def cells_per_bin(bins, value_V, times_V):
    return np.bincount(bins.bin_of(value_V), times_V, minlength=len(bins.lower_B))


def test_counts_up_to_the_last_frequent_one_have_a_bin_each():
    value_V, times_V = np.array([1, 2, 3, 5, 9]), np.array([500, 200, 4, 30, 29])
    bins = CountBins.of(value_V, times_V, None)
    assert bins.lower_B.tolist() == [1, 2, 3, 4, 5, 6]  # 3 and 4 too: rare ones between are kept
    assert bins.upper is None
    assert bins.single_B.tolist() == [True] * 5 + [False]


def test_one_cell_less_and_the_last_bin_begins_sooner():
    bins = CountBins.of(np.array([1, 2, 5]), np.array([500, 200, LEAST_CELLS - 1]), None)
    assert bins.lower_B.tolist() == [1, 2, 3]


def test_few_counts_have_two_bins():
    assert CountBins.of(np.array([7]), np.array([3]), None).lower_B.tolist() == [1, 2]


def test_heavy_tailed_counts_have_bins_that_widen_and_are_never_nearly_empty():
    counts = np.random.default_rng(0).zipf(1.5, 40_000)
    value_V, times_V = histogram(counts[counts < 10**6])
    bins = CountBins.of(value_V, times_V)
    n_single = int(bins.single_B.sum())
    assert bins.lower_B[:n_single].tolist() == list(range(1, n_single + 1))
    assert n_single <= MOST_SINGLE
    width = np.diff(bins.lower_B)[n_single:]
    assert len(width) > 10
    assert np.all(width >= 0.2 * bins.lower_B[n_single:-1])
    times_B = cells_per_bin(bins, value_V, times_V)
    assert times_B[n_single:].min() >= LEAST_CELLS
    assert times_B.sum() == times_V.sum()


@settings(max_examples=50)
@given(
    st.dictionaries(st.integers(1, 10**9), st.integers(1, 400), min_size=1, max_size=40),
    st.sampled_from(["auto", None]),
)
def test_any_histogram_has_bins_in_order_that_hold_all_its_counts(times, scale):
    value_V = np.array(sorted(times))
    times_V = np.array([times[value] for value in value_V.tolist()])
    bins = CountBins.of(value_V, times_V, scale)
    assert np.all(np.diff(bins.lower_B) > 0)
    bin_V = bins.bin_of(value_V)
    assert np.all(bins.lower_B[bin_V] <= value_V)
    after_B = np.append(bins.lower_B[1:], np.inf if bins.upper is None else bins.upper + 1)
    assert np.all(value_V < after_B[bin_V])


def test_stars_are_a_scale():
    assert recognised_scale(*STARS) == (1, 5)
    bins = CountBins.of(*STARS)
    assert (bins.lower_B.tolist(), bins.upper) == ([1, 2, 3, 4, 5], 5)
    assert CountBins.of(*STARS, None).upper is None
    wider = CountBins.of(*STARS, (1, 7))
    assert (wider.lower_B.tolist(), wider.upper) == ([1, 2, 3, 4, 5, 6, 7], 7)


@pytest.mark.parametrize("rate", [3.0, 6.0])
@pytest.mark.parametrize("n_cells", [20, 100, 1_000, 20_000])
def test_counts_of_events_with_a_mode_above_one_are_no_scale(rate, n_cells):
    for seed in range(10):
        counts = np.random.default_rng(seed).poisson(rate, n_cells)
        value_V, times_V = histogram(counts[counts > 0])
        assert n_cells < 1_000 or value_V[np.argmax(times_V)] > 1
        assert recognised_scale(value_V, times_V) is None


def test_values_far_apart_are_no_scale():
    times_V = np.array([30, 60])
    assert recognised_scale(np.array([1, 100]), times_V) == (1, 100)
    assert recognised_scale(np.array([1, 101]), times_V) is None
    assert len(CountBins.of(np.array([1, 10**12]), times_V).lower_B) < 10


def test_counts_that_are_mostly_ones_are_no_scale():
    assert recognised_scale(np.arange(1, 4), np.array([900, 80, 20])) is None
    assert recognised_scale(np.array([3]), np.array([50])) is None


def test_more_than_twenty_values_are_no_scale():
    assert recognised_scale(np.arange(1, 21), 9 * np.arange(1, 21)) == (1, 20)
    assert recognised_scale(np.arange(1, 22), 9 * np.arange(1, 22)) is None


@pytest.mark.parametrize("count", [0, 6, 100])
def test_counts_outside_of_a_scale_are_refused_with_a_remedy(count):
    bins = CountBins(np.arange(1, 6), 5)
    with pytest.raises(
        CountError, match=rf"on the scale 1 to 5 .*got {count} \(2 such\).*scale=None"
    ):
        bins.bin_of(np.array([3, count, count]))


def test_counts_below_one_are_refused_with_a_remedy():
    with pytest.raises(CountError, match=r"must be 1 or more .*got 0 \(1 such\)\. \S.*\.$"):
        CountBins(np.array([1, 2])).bin_of(np.array([0, 3]))
