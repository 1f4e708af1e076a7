"""The chain's law: exact conditionals, exact posteriors, and a prior that comes back."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from scipy.special import k0

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.gibbs import (
    GibbsStep,
    Schedule,
    draw_exposures,
    draws_of,
    factors_of,
    state_of,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.probability.counts import COUNTS

LIKELIHOODS = list(COUNTS)
DISPERSION = 2.0
LEVEL = 1e-3
"""Seeds are fixed, so a test passes always or never; a right sampler fails one in a thousand."""


class Cells(TrainingCells):
    """Cells by hand; zeros may be among the counts."""

    def __init__(self, shape, indices, counts):
        self.shape = shape
        self.indices_NM = np.asfortranarray(np.asarray(indices, dtype=np.int32))
        self.counts_N = np.asarray(counts)


def step_for(cells, likelihood=("poisson", False), zeros=False, **parameters):
    chosen = {
        "n_components": 2,
        "prior_shape": 1.5,
        "prior_rate": 1.5,
        "dispersion": DISPERSION,
        "schedule": Schedule(10, 5, 2),
        "backend": "numpy",
    }
    return GibbsStep(cells, COUNTS[likelihood], zeros, **(chosen | parameters))


def state_for(factors, prior_rate=1.0):
    none = {f"draws_{m}": np.empty((0, *f.shape)) for m, f in enumerate(factors)}
    return state_of(factors) | none | {"prior_rate": np.full(len(factors), prior_rate)}


def blocks(n, size=2):
    """Return the cells of n separate size x size tables, side by side in one tensor."""
    first, second = np.meshgrid(range(size), range(size), indexing="ij")
    start = size * np.arange(n)[:, None]
    return np.stack([(start + first.ravel()).ravel(), (start + second.ravel()).ravel()], axis=1)


def test_schedule():
    schedule = Schedule(burn_in=3, n_draws=2, thin=2)
    assert schedule.n_iterations == 7
    assert [i for i in range(1, 9) if schedule.keeps(i)][:2] == [5, 7]


def test_one_axis_given_the_others_is_a_known_gamma():
    other = np.array([[0.5], [2.0], [1.5]])
    cells = Cells((2, 3), [[0, 0], [0, 2], [1, 1]], [4, 1, 7])
    step = step_for(cells, n_components=1, prior_shape=0.7)
    factors = [np.ones((2, 1)), other]
    drawn = np.stack([step.draw_axis(0, factors, 2.0, i)[:, 0] for i in range(1, 2001)])
    for entity, (count, exposure) in enumerate([(5, 0.5 + 1.5), (7, 2.0)]):
        law = stats.gamma(0.7 + count, scale=1 / (0.7 * 2.0 + exposure))
        assert stats.kstest(drawn[:, entity], law.cdf).pvalue > LEVEL


def test_one_axis_with_zeros_observed_is_exposed_to_all_cells():
    other = np.array([[0.5], [2.0], [1.5]])
    step = step_for(Cells((2, 3), [[0, 1]], [3]), zeros=True, n_components=1)
    factors = [np.ones((2, 1)), other]
    drawn = np.stack([step.draw_axis(0, factors, 1.0, i)[:, 0] for i in range(1, 2001)])
    for entity, count in enumerate([3, 0]):
        law = stats.gamma(1.5 + count, scale=1 / (1.5 + 4.0))
        assert stats.kstest(drawn[:, entity], law.cdf).pvalue > LEVEL


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("rate", [0.02, 0.7, 30.0])
def test_exposures_have_the_expected_mean(likelihood, rate):
    rng = np.random.default_rng(0)
    rates, counts = np.full(40_000, rate), np.full(40_000, 3)
    drawn = draw_exposures(rng, COUNTS[likelihood], rates, counts, DISPERSION)
    expected = expected_exposure(
        COUNTS[likelihood].name, np.array([rate]), np.array([3]), np.array([DISPERSION])
    )[0]
    error = drawn.std() / np.sqrt(len(drawn))
    assert abs(drawn.mean() - expected) <= 4 * error + 1e-9


@pytest.mark.parametrize("rate", [0.05, 1.0])
def test_unseen_zeros_are_geometric(rate):
    rng = np.random.default_rng(1)
    drawn = draw_exposures(rng, COUNTS["poisson", True], np.full(20_000, rate), np.ones(20_000), 1)
    law = stats.geom(-np.expm1(-rate))
    values = np.arange(1, int(law.ppf(0.98)))
    observed = np.array([*(np.sum(drawn == v) for v in values), np.sum(drawn > values[-1])])
    expected = len(drawn) * np.append(law.pmf(values), law.sf(values[-1]))
    assert stats.chisquare(observed, expected).pvalue > LEVEL


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_exposures_of_extreme_rates_are_finite(likelihood):
    rates = np.array([0.0, 1e-300, 1e-30, 1e30, 1e300])
    drawn = draw_exposures(
        np.random.default_rng(0), COUNTS[likelihood], rates, np.ones(5), DISPERSION
    )
    assert np.all(np.isfinite(drawn))
    assert np.all(drawn > 0)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_the_posterior_of_one_cell_is_that_of_quadrature(likelihood):
    """Copies of a 1 x 1 table: the rate, a product of two Gammas, has a prior known by K0."""
    n, shape, rate, count = 2000, 1.5, 1.2, 2
    index = np.repeat(np.arange(n)[:, None], 2, axis=1)
    cells = Cells((n, n), index, np.full(n, count))
    step = step_for(cells, likelihood, n_components=1, prior_rate=rate)
    state = state_for([np.ones((n, 1))] * 2, rate / shape)
    for iteration in range(1, 41):
        state, _ = step.advance(state, iteration)
    grid = np.exp(np.linspace(-14, 5, 4001))
    log_prior = (shape - 1) * np.log(grid) + np.log(
        np.maximum(k0(2 * rate * np.sqrt(grid)), 1e-300)
    )
    density = np.exp(log_prior + COUNTS[likelihood].log_pmf(count, grid, DISPERSION))
    cdf = cumulative_trapezoid(density, grid, initial=0)
    drawn = kernels.cell_rates(factors_of(state), cells.indices_NM)
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > LEVEL


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_new_counts_and_new_factors_in_turn_keep_the_prior(likelihood):
    """Geweke's test: counts given factors, factors given counts, again and again."""
    n, law = 2000, stats.gamma(1.5, scale=1 / 1.5)
    rng, index = np.random.default_rng(5), blocks(n)
    state = state_for([rng.gamma(1.5, 1 / 1.5, (2 * n, 2)) for _ in range(2)])
    for iteration in range(1, 21):
        rate = kernels.cell_rates(factors_of(state), index)
        counts = COUNTS[likelihood].sample(rng, rate, DISPERSION)
        step = step_for(Cells((2 * n, 2 * n), index, counts), likelihood)
        state, _ = step.advance(state, iteration)
    first, second = factors_of(state)
    for factor in (first, second):
        assert stats.kstest(factor.ravel(), law.cdf).pvalue > LEVEL
    # factors of one table are independent too: of two axes, and of two components
    for one, two in [(first[:, 0], second[:, 0]), (first[:, 0], first[:, 1])]:
        assert stats.spearmanr(one, two).pvalue > LEVEL


def test_new_counts_and_new_factors_in_turn_keep_the_prior_with_zeros_observed():
    rng, law = np.random.default_rng(6), stats.gamma(1.5, scale=1 / 1.5)
    index = np.stack(np.unravel_index(np.arange(12), (3, 2, 2)), axis=1)
    ends = []
    for copy in range(200):
        state = state_for([rng.gamma(1.5, 1 / 1.5, (size, 2)) for size in (3, 2, 2)])
        for iteration in range(1, 5):
            counts = rng.poisson(kernels.cell_rates(factors_of(state), index))
            step = step_for(Cells((3, 2, 2), index, counts), zeros=True, seed=copy)
            state, _ = step.advance(state, iteration)
        ends.extend(factor.ravel() for factor in factors_of(state))
    assert stats.kstest(np.concatenate(ends), law.cdf).pvalue > LEVEL


@pytest.mark.parametrize("zeros", [False, True])
def test_the_objective_is_the_mean_log_pmf(zeros):
    tensor = tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor
    step = step_for(TrainingCells(tensor), ("poisson", not zeros), zeros=zeros)
    state, objective = step.advance(step.start(), 1)
    if zeros:
        dense = np.zeros(tensor.shape)
        dense[tuple(tensor.indices.T)] = tensor.counts
        index, counts = np.stack(np.unravel_index(np.arange(120), (6, 5, 4)), 1), dense.ravel()
    else:
        index, counts = tensor.indices, tensor.counts
    rate = kernels.cell_rates(factors_of(state), index)
    assert objective == pytest.approx(step.likelihood.log_pmf(counts, rate).mean(), rel=1e-10)


def test_allocated_counts_add_up_and_are_drawn_anew_each_time(monkeypatch):
    tensor = tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor
    step, drawn, addresses = step_for(TrainingCells(tensor)), [], set()
    real = kernels.allocate_axis

    def spy(factors, layout, seed, iteration, *, backend):
        addresses.add((seed, iteration))
        drawn.append(real(factors, layout, seed, iteration, backend=backend))
        return drawn[-1]

    monkeypatch.setattr(kernels, "allocate_axis", spy)
    state, _ = step.advance(step.start(), 1)
    step.advance(state, 2)
    assert len(drawn) == len(addresses) == 6
    for number, counts_DK in enumerate(drawn):
        entity = tensor.indices[:, number % 3]
        total = np.bincount(entity, tensor.counts, minlength=tensor.shape[number % 3])
        np.testing.assert_array_equal(counts_DK.sum(axis=1), total)


def test_a_step_changes_nothing_it_was_given_and_repeats_itself():
    step = step_for(TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor), prior_rate=None)
    state = step.start()
    before = {name: array.copy() for name, array in state.items()}
    one, two = step.advance(state, 11), step.advance(state, 11)
    assert all(np.array_equal(state[name], before[name]) for name in state)
    assert all(np.array_equal(one[0][name], two[0][name]) for name in state)
    assert not np.array_equal(one[0]["factor_0"], step.advance(state, 12)[0]["factor_0"])


def test_draws_are_kept_by_the_schedule_and_the_prior_rate_settles():
    step = step_for(
        TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor),
        prior_rate=None,
        schedule=Schedule(3, 2, 2),
    )
    state = step.start()
    assert draws_of(state)[0].shape == (1, 6, 2)  # the start stands for the first draw
    rates = []
    for iteration in range(1, 8):
        state, _ = step.advance(state, iteration)
        rates.append(state["prior_rate"])
        if iteration == 5:
            kept = state["factor_0"]
    assert draws_of(state)[1].shape == (2, 5, 2)
    np.testing.assert_array_equal(draws_of(state)[0][0], kept)
    np.testing.assert_array_equal(rates[2], rates[6])
    assert not np.array_equal(rates[1], rates[2])
