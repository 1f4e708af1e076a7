"""Fisher information of counts and factors, against brute force."""

from dataclasses import replace

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders import information
from tallyfold.inference.encoders.information import (
    cells_information,
    count_information,
    information_of,
    occurrence_information,
    with_widths,
)
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import NO_LIMIT, GammaPosterior, GammaTable
from tallyfold.probability.counts import COUNTS


def brute_force(rate, family, truncated, r):
    """The variance of the score in the log rate, by summing over counts."""
    likelihood = COUNTS[family, truncated]
    y, step = np.arange(int(truncated), 4000), 1e-5
    upper = likelihood.log_pmf(y, np.full(len(y), rate * np.exp(step)), r)
    lower = likelihood.log_pmf(y, np.full(len(y), rate * np.exp(-step)), r)
    score = (upper - lower) / (2 * step)
    return float(np.exp(likelihood.log_pmf(y, np.full(len(y), rate), r)) @ score**2)


@pytest.mark.parametrize("rate", [0.01, 0.3, 2.0, 40.0])
@pytest.mark.parametrize("truncated", [True, False])
@pytest.mark.parametrize("r", [None, 0.4, 7.0])
def test_information_of_a_count_is_the_variance_of_its_score(rate, truncated, r):
    family = "poisson" if r is None else "negative-binomial"
    expected = brute_force(rate, family, truncated, 1.0 if r is None else r)
    found = count_information(np.array([rate]), truncated, r)[0]
    assert found == pytest.approx(expected, rel=1e-4)


def test_almost_nothing_is_told_by_a_count_that_is_always_one():
    assert count_information(np.array([1e-9]), True, None)[0] < 1e-8
    assert np.all(np.isfinite(count_information(np.array([0.0, 1e12]), True, 0.5)))


@pytest.mark.parametrize("rate", [1e-9, 0.01, 0.5, 3.0])
def test_information_of_whether_there_is_a_count(rate):
    """Against the variance of the score of a Bernoulli variable, per cell that has a count."""
    p = -np.expm1(-rate)
    slope = rate * np.exp(-rate)  # of p by the log rate
    expected = slope**2 / (p * (1 - p)) / p
    np.testing.assert_allclose(occurrence_information(np.array([rate]))[0], expected, rtol=1e-6)


def test_information_of_factors_is_that_of_the_full_matrix():
    rng = np.random.default_rng(0)
    means = [rng.gamma(1.0, size=(size, 3)) for size in (4, 5, 6)]
    cells_NM = np.asfortranarray(
        np.stack([rng.integers(0, size, 80) for size in (4, 5, 6)], axis=1).astype(np.int32)
    )
    cells = TrainingCells.of((4, 5, 6), cells_NM, rng.integers(1, 5, 80))
    _, found = cells_information(
        means,
        cells,
        np.full(80, 1.5),
        information_of(COUNTS["poisson", True], None),
        0.7,
        range(3),
        "numpy",
    )
    product_NK = np.prod([f[cells_NM[:, m]] for m, f in enumerate(means)], axis=0)
    share_NK = product_NK / product_NK.sum(axis=1, keepdims=True)
    told_N = count_information(1.5 * product_NK.sum(axis=1), True, None)
    for axis, size in enumerate((4, 5, 6)):
        for entity in range(size):
            own = cells_NM[:, axis] == entity
            matrix = 0.7 * np.eye(3) + (share_NK[own].T * told_N[own]) @ share_NK[own]
            expected = 1 / np.diag(np.linalg.inv(matrix)) - 0.7
            np.testing.assert_allclose(found[axis][entity], expected, rtol=1e-8, atol=1e-12)


def test_very_many_cells_are_looked_at_some_at_a_time(monkeypatch):
    rng = np.random.default_rng(3)
    means = [rng.gamma(1.0, size=(size, 3)) for size in (4, 5, 6)]
    cells_NM = np.asfortranarray(rng.integers(0, 4, (80, 3)).astype(np.int32))
    cells = TrainingCells.of((4, 5, 6), cells_NM, rng.integers(1, 5, 80))
    multiplier_N = rng.gamma(2.0, size=80)
    given = means, cells, multiplier_N, occurrence_information, 0.7, range(3), "numpy"
    monkeypatch.setattr(information, "MOST_WORK", 1.0)
    fisher_N, wanted = cells_information(*given)
    monkeypatch.setattr(information, "LARGEST_PART", 23)
    by_parts_N, found = cells_information(*given)
    assert np.array_equal(by_parts_N, fisher_N)
    for axis in range(3):
        np.testing.assert_allclose(found[axis], wanted[axis], rtol=1e-12)


def test_widening_keeps_means_and_never_narrows():
    """The widest shape is the prior's shape and what cells tell: here 1 + 4."""
    shape, rate = np.array([[50.0, 3.0]]), np.array([[10.0, 2.0]])
    table = GammaTable(shape, rate, np.array([[5.0, NO_LIMIT]]))
    wide = table.widened
    np.testing.assert_allclose(wide.mean_DK, table.mean_DK)
    assert wide.shape_DK.tolist() == [[5.0, 3.0]]
    assert GammaTable(shape, rate).widened.shape_DK is shape  # without widths as it is
    barely = GammaTable(shape, rate, np.full((1, 2), 1e-308)).widened
    assert np.all(barely.rate_DK > 0)  # or quantiles are none


def test_widths_are_the_priors_shape_and_the_information_of_the_cells():
    rng = np.random.default_rng(1)
    sizes = (4, 5, 6)
    cells_NM = np.stack([rng.integers(0, size - 1, 60) for size in sizes], axis=1)
    cells = TrainingCells.of(sizes, np.asfortranarray(cells_NM.astype(np.int32)), np.ones(60, int))
    found = Combinations.of((0, 1), sizes, cells_NM, cells_NM)
    shape_P1 = rng.gamma(9.0, size=(found.n_rows, 1))
    derived = replace(found.derived_axis(), table=GammaTable(shape_P1, shape_P1 / 1.5))
    tables = [GammaTable(*rng.gamma(3.0, size=(2, size, 2))) for size in sizes]
    posterior = GammaPosterior(tuple(tables), (derived,)).completed(cells.seen)
    told = information_of(COUNTS["poisson", True], None)
    wide = with_widths(posterior, cells, told, 0.7, "numpy")
    means = [table.mean_DK[:-1] for table in posterior.axes]
    fisher_N, by_axis = cells_information(
        means, cells, np.full(60, 1.5), told, 0.7, range(3), "numpy"
    )
    for axis, table in enumerate(wide.axes):
        seen = cells.seen[axis]
        assert not seen[-1]
        expected = 0.7 + by_axis[axis][seen]
        np.testing.assert_allclose(table.widest_DK[:-1][seen], expected, rtol=1e-12)
        assert np.all(table.widest_DK[:-1][~seen] == NO_LIMIT)
        assert np.all(table.widest_DK[-1] == NO_LIMIT)  # of entities never seen, too
    for row in range(found.n_rows):
        expected = shape_P1[-1, 0] + fisher_N[found.row_N == row].sum()
        assert wide.derived[0].table.widest_DK[row, 0] == pytest.approx(expected)
    assert wide.derived[0].typical_2[0] == pytest.approx(1.5)


def test_intervals_of_rates_cover_the_truth_where_mean_field_does_not():
    truth = tf.simulate((60, 50, 40), 3, prior_shape=0.5, density=0.5, random_state=0)
    model = tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=3,
        prior_shape=0.5,
        interactions="none",
    ).fit(truth.tensor)
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 2000) for size in truth.tensor.shape], axis=1)
    true = truth.rate(cells)

    def coverage(factors):
        draws = [
            np.prod([f[cells[:, m]] for m, f in enumerate(drawn)], axis=0).sum(axis=1)
            for drawn in factors.draws(100, np.random.default_rng(1))
        ]
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        return np.mean((true >= low) & (true <= high))

    factors = model.posterior_
    narrow = GammaPosterior(tuple(replace(t, widest_DK=None) for t in factors.gammas.axes))
    assert 0.78 < coverage(factors) < 0.97
    assert coverage(GammaFactors(factors.names, factors.labels, narrow)) < 0.7
