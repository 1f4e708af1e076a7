import importlib
import math
import time
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from scipy.special import gammainc

from tallyfold import simulate
from tallyfold.data.cells import Cells
from tallyfold.errors import ParameterError, ShapeError

module = importlib.import_module("tallyfold.data.simulate")
ROUTES = (module._by_cells, module._by_events)


def dense(cells: Cells, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    counts = np.zeros(shape, np.int64)
    counts[tuple(cells.indices_NM.T)] = cells.counts_N
    return counts


def all_rates(truth: Any) -> npt.NDArray[np.float64]:
    cells = np.indices(truth.tensor.shape).reshape(len(truth.tensor.shape), -1).T
    rates: npt.NDArray[np.float64] = truth.rate(cells)
    return rates


def uniform_of(truth: Any) -> npt.NDArray[np.float64]:
    """The place of each factor in its own Gamma distribution: uniform if it is a draw from it."""
    parts = zip(truth.shapes, truth.rates, truth.factors, strict=True)
    return np.concatenate([gammainc(a, b * z).ravel() for a, b, z in parts])


# -- what comes back --------------------------------------------------------------------------


def test_same_seed_same_simulation() -> None:
    first, again = (simulate((30, 20, 5), 3, density=0.05, random_state=7) for _ in range(2))
    assert first.tensor == again.tensor
    assert first.thinning == again.thinning
    for one, two in zip(first.factors, again.factors, strict=True):
        np.testing.assert_array_equal(one, two)
    assert simulate((30, 20, 5), 3, density=0.05, random_state=8).tensor != first.tensor


def test_a_generator_goes_on_and_a_fresh_one_equals_its_seed() -> None:
    rng = np.random.default_rng(3)
    first, second = (simulate((20, 20), 2, random_state=rng).tensor for _ in range(2))
    assert first == simulate((20, 20), 2, random_state=3).tensor
    assert first != second


@pytest.mark.parametrize("recipe", [simulate, simulate.paper])
def test_density_changes_the_factors_only_by_the_constant(recipe: Any) -> None:
    thin, thinner = (recipe((30, 20, 5), 3, density=d, random_state=1) for d in (0.1, 0.01))
    assert thinner.thinning < thin.thinning
    scale = (thinner.thinning / thin.thinning) ** (1 / 3)
    for one, two in zip(thin.factors, thinner.factors, strict=True):
        np.testing.assert_allclose(one * scale, two, rtol=1e-9)
    for one, two in zip(thin.rates, thinner.rates, strict=True):
        np.testing.assert_allclose(one / scale, two, rtol=1e-9)
    for one, two in zip(thin.shapes, thinner.shapes, strict=True):
        np.testing.assert_array_equal(one, two)


def test_labels_are_in_order_and_every_entity_has_one() -> None:
    truth = simulate((1_001, 10, 2), 2, density=0.0005, axes=("user", "word", "year"))
    assert truth.tensor.shape == (1_001, 10, 2)
    assert truth.tensor.names == ("user", "word", "year")
    assert (truth.tensor.marginal("user") == 0).any()
    users = truth.tensor.axes[0].labels.to_pylist()
    assert users == sorted(users)
    assert users[17] == "user-0017"
    assert truth.tensor.axes[1].label(9) == "word-9"
    assert simulate((3, 2), 1).tensor.names == ("axis_0", "axis_1")


def test_the_truth_is_read_only_and_short_to_print() -> None:
    truth = simulate((30, 20), 2)
    with pytest.raises(ValueError, match="read-only"):
        truth.factors[0][0, 0] = 1.0
    assert len(repr(truth)) < 300


def test_cells_are_canonical_by_either_route() -> None:
    truth = simulate((20, 30, 4), 3, density=0.2)
    for route in ROUTES:
        cells = route(truth.factors, np.random.default_rng(0))
        keys = np.ravel_multi_index(tuple(cells.indices_NM.T), truth.tensor.shape)
        assert (np.diff(keys) > 0).all()
        assert cells.counts_N.min() >= 1


# -- the law of the counts --------------------------------------------------------------------


@pytest.mark.parametrize("route", ROUTES)
def test_counts_follow_their_rates_by_either_route(route: Any) -> None:
    truth = simulate((4, 3, 2), 2, prior_shape=1.0, density=0.4, random_state=5)
    rng, repeats = np.random.default_rng(11), 2_000
    draws = np.stack([dense(route(truth.factors, rng), (4, 3, 2)).ravel() for _ in range(repeats)])
    rates = all_rates(truth)
    expected = repeats * rates
    statistic = ((draws.sum(axis=0) - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, df=24) > 1e-3  # means
    busiest = int(np.argmax(rates))
    seen = np.bincount(np.minimum(draws[:, busiest], 4), minlength=5)
    wanted = stats.poisson.pmf(np.arange(4), rates[busiest])
    wanted = repeats * np.append(wanted, 1 - wanted.sum())
    assert stats.chisquare(seen, wanted).pvalue > 1e-3  # the whole distribution of a cell
    total = draws.sum(axis=1)
    dispersion = (repeats - 1) * total.var(ddof=1) / rates.sum()
    assert 1e-3 < stats.chi2.sf(dispersion, df=repeats - 1) < 1 - 1e-3  # cells are independent


def test_the_two_routes_agree_on_a_larger_tensor() -> None:
    truth = simulate((60, 50, 20), 4, density=0.1, random_state=2)
    by_cells, by_events = (
        dense(route(truth.factors, np.random.default_rng(1)), (60, 50, 20)) for route in ROUTES
    )
    for axis in ((1, 2), (0, 2), (0, 1)):
        one, two = by_cells.sum(axis=axis), by_events.sum(axis=axis)
        both = (one + two) > 0
        statistic = ((one - two)[both] ** 2 / (one + two)[both]).sum()
        assert stats.chi2.sf(statistic, df=int(both.sum())) > 1e-3
    histograms = np.stack(
        [
            np.bincount(np.minimum(counts, 4).ravel(), minlength=5)
            for counts in (by_cells, by_events)
        ]
    )
    assert stats.chi2_contingency(histograms).pvalue > 1e-3


def test_a_dense_tensor_follows_its_rates() -> None:
    truth = simulate((40, 30, 20), 3, prior_shape=2.0, prior_rate=0.5, random_state=4)
    rates = all_rates(truth)
    counts = dense(Cells(truth.tensor.indices, truth.tensor.counts, 0), (40, 30, 20)).ravel()
    pearson = ((counts - rates) ** 2 / rates).sum()
    spread = math.sqrt(2 * len(rates) + (1 / rates).sum())  # of Poisson counts
    assert abs(pearson - len(rates)) < 4 * spread


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = simulate((20, 30, 4), 3, density=0.2)
    whole = module._by_cells(truth.factors, np.random.default_rng(0))
    monkeypatch.setattr(module, "_BLOCK", 10)
    monkeypatch.setattr(module, "_EVENTS_AT_ONCE", 7)
    blocks = module._by_cells(truth.factors, np.random.default_rng(0))
    np.testing.assert_array_equal(whole.indices_NM, blocks.indices_NM)
    np.testing.assert_array_equal(whole.counts_N, blocks.counts_N)
    events = module._by_events(truth.factors, np.random.default_rng(0))
    assert abs(events.counts_N.sum() - whole.counts_N.sum()) < 6 * math.sqrt(truth.tensor.total)


@pytest.mark.parametrize(
    ("options", "route"), [({"density": 0.001}, "_by_events"), ({"prior_shape": 2.0}, "_by_cells")]
)
def test_the_cheaper_route_is_taken(
    options: Any, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = {"_by_events": "_by_cells", "_by_cells": "_by_events"}[route]
    monkeypatch.setattr(module, other, None)
    assert simulate((100, 100), 3, **options).tensor.nnz > 0


# -- density ----------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [0.0001, 0.02, 0.5])
@pytest.mark.parametrize("recipe", [simulate, simulate.paper])
def test_the_density_asked_for_is_the_expected_one(recipe: Any, density: float) -> None:
    truth = recipe((100, 60, 20), 5, density=density, random_state=1)
    assert -np.expm1(-all_rates(truth)).mean() == pytest.approx(density, rel=1e-6)
    expected = density * 120_000
    assert abs(truth.tensor.nnz - expected) < 5 * math.sqrt(expected)


@pytest.mark.parametrize("density", [0.001, 0.1, 0.5])
def test_a_sample_of_cells_gives_nearly_the_same_constant(
    density: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = simulate((100, 60, 20), 5, prior_shape=0.5, density=density).thinning
    monkeypatch.setattr(module, "EXACT_CELLS", 0)
    monkeypatch.setattr(module, "SAMPLED_CELLS", 200_000)
    sampled = simulate((100, 60, 20), 5, prior_shape=0.5, density=density).thinning
    assert sampled != exact
    assert sampled == pytest.approx(exact, rel=0.03)


def test_a_large_sparse_tensor_is_quick_and_small() -> None:
    simulate((10, 10), 2, density=0.1)  # imports
    tracemalloc.start()
    start = time.perf_counter()
    truth = simulate((20_000, 10_000, 50), 10, density=1e-6)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert abs(truth.tensor.nnz - 10_000) < 600
    assert peak < 300e6  # the cells would need 80 GB
    assert seconds < 30


def test_more_cells_than_a_machine_integer_can_number() -> None:
    truth = simulate((10_000,) * 5, 2, density=1e-17)
    assert 700 < truth.tensor.nnz < 1_300


# -- the truth --------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [None, 0.05])
@pytest.mark.parametrize("recipe", [simulate, simulate.paper])
def test_factors_are_draws_from_the_gammas_given(recipe: Any, density: float | None) -> None:
    truth = recipe((80, 70, 60), 5, density=density, random_state=6)
    assert (truth.thinning == 1.0) == (density is None)
    assert stats.kstest(uniform_of(truth), "uniform").pvalue > 1e-3


def test_the_paper_recipe_reaches_ten_per_cent() -> None:
    truth = simulate.paper()
    assert truth.tensor.shape == (100, 100, 100)
    assert truth.factors[2].shape == (100, 10)
    assert truth.tensor.density == pytest.approx(0.10, abs=0.002)
    for parameter in (*truth.shapes, *truth.rates):
        assert (parameter == parameter[:, :1]).all()  # one pair for each entity


def test_the_paper_entities_have_gamma_distributed_parameters() -> None:
    truth = simulate.paper((500, 400), density=None)
    for parameter in (*truth.shapes, *truth.rates):
        assert stats.kstest(parameter[:, 0], stats.gamma(2, scale=4).cdf).pvalue > 1e-3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_literal_recipe_is_far_from_sparse(seed: int) -> None:
    tensor = simulate.paper(density=None, random_state=seed).tensor
    assert 0.7 < tensor.density < 0.95
    assert 30 < tensor.total / 1e6 < 250


def test_tiny_shapes_give_tiny_but_positive_factors() -> None:
    truth = simulate((200, 200, 200), 3, prior_shape=1e-3)
    assert min(factor.min() for factor in truth.factors) > 0
    assert all(np.isfinite(factor).all() for factor in truth.factors)
    rates = truth.rate(np.random.default_rng(0).integers(0, 200, (10_000, 3)))
    assert rates.min() > 0


def test_rate_is_the_sum_of_products() -> None:
    truth = simulate((5, 4, 3), 2, random_state=3)
    expected = np.einsum("ak,bk,ck->abc", *truth.factors).ravel()
    np.testing.assert_allclose(all_rates(truth), expected, rtol=1e-12)


# -- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize("indices", [[0, 1], [[0, 1]], [[0.0, 1.0, 1.0]]])
def test_rate_refuses_what_are_not_cells(indices: Any) -> None:
    with pytest.raises(ShapeError, match=r"indices must be whole numbers of shape \(cells, 3\)"):
        simulate((5, 4, 3), 2).rate(indices)


@pytest.mark.parametrize("cell", [[5, 0, 0], [0, -1, 0]])
def test_rate_refuses_cells_outside(cell: list[int]) -> None:
    with pytest.raises(ShapeError, match=r"positions on axis 'axis_\d' must be from 0 to \d; got"):
        simulate((5, 4, 3), 2).rate([[0, 0, 0], cell])


@pytest.mark.parametrize(
    ("shape", "n_components", "options", "message"),
    [
        ((5,), 2, {}, "`shape` must be at least two positive integers"),
        ((5, 0), 2, {}, "`shape` must be"),
        ((5, 2.0), 2, {}, "`shape` must be"),
        (5, 2, {}, "`shape` must be"),
        ((5, 2**31), 2, {}, "`shape` must be"),
        ((5, 4), 0, {}, "`n_components` must be a positive integer; got 0"),
        ((5, 4), True, {}, "`n_components` must be"),
        ((5, 4), 2, {"density": 0}, "`density` must lie between 0 and 1"),
        ((5, 4), 2, {"density": 1.0}, "`density` must lie"),
        ((5, 4), 2, {"density": "high"}, "`density` must lie"),
        ((5, 4), 2, {"density": math.nan}, "`density` must lie"),
        ((5, 4), 2, {"prior_shape": 0}, "`prior_shape` must be a number"),
        ((5, 4), 2, {"prior_shape": 1e-9, "density": 0.5}, "larger `prior_shape`"),
        ((5, 4), 2, {"prior_rate": -1.0}, "`prior_rate` must be a number"),
        ((5, 4), 2, {"prior_rate": math.inf}, "`prior_rate` must be a number"),
        ((5, 4), 2, {"axes": ("a",)}, "`axes` must be 2 different names"),
        ((5, 4), 2, {"axes": ("a", "a")}, "`axes` must be"),
        ((5, 4), 2, {"axes": "ab"}, "`axes` must be"),
        ((5, 4), 2, {"random_state": -1}, "`random_state` must be"),
    ],
)
def test_bad_arguments_are_refused(
    shape: Any, n_components: Any, options: Any, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        simulate(shape, n_components, **options)


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((3_000, 3_000, 3_000), {}),
        ((5, 4), {"prior_rate": 1e-20}),
        ((5, 4, 3), {"prior_rate": 1e-30}),
    ],
)
def test_an_absurd_number_of_events_is_refused(shape: tuple[int, ...], options: Any) -> None:
    with pytest.raises(ParameterError, match=r"expects .*e\+.* events .* \(`density=`\)"):
        simulate(shape, 10, **options)
