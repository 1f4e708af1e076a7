"""The chain's law: exact conditionals, exact posteriors, and a prior that comes back."""

from copy import deepcopy

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid
from scipy.special import k0
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase, run_loop
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.inference.schemes.gibbs import (
    START_SWEEPS,
    GibbsState,
    GibbsStep,
    Part,
    draw_exposures,
    draws_or_present,
    no_draws,
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
        "prior_shape": 1.5,
        "prior_rate": 1.5,
        "dispersion": DISPERSION,
        "part": Part(),
        "backend": "numpy",
    }
    return GibbsStep(cells, COUNTS[likelihood], zeros, **(chosen | parameters))


def state_for(factors, prior_rate=1.0):
    return GibbsState(tuple(factors), no_draws(factors), np.full(len(factors), prior_rate))


def sweeps_for(step):
    """Return the variational sweeps that a chain starts with."""
    return CAVIStep(
        cells=step.cells,
        likelihood=step.likelihood,
        zeros_observed=step.zeros_observed,
        n_components=2,
        prior_shape=step.prior_shape,
        prior_rate=step.prior_rate,
        dispersion=step.dispersion,
        backend=step.backend,
    )


def start_for(step, n_sweeps=START_SWEEPS):
    sweeps = sweeps_for(step)
    swept = sweeps.start()
    for iteration in range(1, n_sweeps + 1):
        swept, _ = sweeps.advance(swept, iteration)
    return GibbsState.from_sweeps(swept)


def blocks(n, size=2):
    """Return the cells of n separate size x size tables, side by side in one tensor."""
    first, second = np.meshgrid(range(size), range(size), indexing="ij")
    start = size * np.arange(n)[:, None]
    return np.stack([(start + first.ravel()).ravel(), (start + second.ravel()).ravel()], axis=1)


def test_burn_in_keeps_no_draw_and_draws_are_thinned():
    assert not any(Part().keeps(iteration) for iteration in range(1, 9))
    assert [i for i in range(1, 9) if Part(before=3, thin=2).keeps(i)] == [2, 4, 6, 8]
    assert [i for i in range(1, 4) if Part(before=3, thin=1).keeps(i)] == [1, 2, 3]


def test_one_axis_given_the_others_is_a_known_gamma():
    other = np.array([[0.5], [2.0], [1.5]])
    cells = Cells((2, 3), [[0, 0], [0, 2], [1, 1]], [4, 1, 7])
    step = step_for(cells, prior_shape=0.7)
    factors = [np.ones((2, 1)), other]
    drawn = np.stack([step.draw_axis(0, factors, 2.0, i)[:, 0] for i in range(1, 2001)])
    for entity, (count, exposure) in enumerate([(5, 0.5 + 1.5), (7, 2.0)]):
        law = stats.gamma(0.7 + count, scale=1 / (0.7 * 2.0 + exposure))
        assert stats.kstest(drawn[:, entity], law.cdf).pvalue > LEVEL


def test_one_axis_with_zeros_observed_is_exposed_to_all_cells():
    other = np.array([[0.5], [2.0], [1.5]])
    step = step_for(Cells((2, 3), [[0, 1]], [3]), zeros=True)
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
    step = step_for(cells, likelihood, prior_rate=rate)
    state = state_for([np.ones((n, 1))] * 2, rate / shape)
    for iteration in range(1, 41):
        state, _ = step.advance(state, iteration)
    grid = np.exp(np.linspace(-14, 5, 4001))
    log_prior = (shape - 1) * np.log(grid) + np.log(
        np.maximum(k0(2 * rate * np.sqrt(grid)), 1e-300)
    )
    density = np.exp(log_prior + COUNTS[likelihood].log_pmf(count, grid, DISPERSION))
    cdf = cumulative_trapezoid(density, grid, initial=0)
    drawn = kernels.cell_rates(state.factors, cells.indices_NM)
    assert stats.kstest(drawn, lambda x: np.interp(x, grid, cdf / cdf[-1])).pvalue > LEVEL


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_new_counts_and_new_factors_in_turn_keep_the_prior(likelihood):
    """Geweke's test: counts given factors, factors given counts, again and again."""
    n, law = 2000, stats.gamma(1.5, scale=1 / 1.5)
    rng, index = np.random.default_rng(5), blocks(n)
    state = state_for([rng.gamma(1.5, 1 / 1.5, (2 * n, 2)) for _ in range(2)])
    for iteration in range(1, 21):
        rate = kernels.cell_rates(state.factors, index)
        counts = COUNTS[likelihood].sample(rng, rate, DISPERSION)
        step = step_for(Cells((2 * n, 2 * n), index, counts), likelihood)
        state, _ = step.advance(state, iteration)
    first, second = state.factors
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
            counts = rng.poisson(kernels.cell_rates(state.factors, index))
            step = step_for(Cells((3, 2, 2), index, counts), zeros=True, seed=copy)
            state, _ = step.advance(state, iteration)
        ends.extend(factor.ravel() for factor in state.factors)
    assert stats.kstest(np.concatenate(ends), law.cdf).pvalue > LEVEL


@pytest.mark.parametrize("zeros", [False, True])
def test_the_objective_is_the_mean_log_pmf(zeros):
    tensor = tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor
    step = step_for(TrainingCells(tensor), ("poisson", not zeros), zeros=zeros)
    state, objective = step.advance(start_for(step), 1)
    if zeros:
        dense = np.zeros(tensor.shape)
        dense[tuple(tensor.indices.T)] = tensor.counts
        index, counts = np.stack(np.unravel_index(np.arange(120), (6, 5, 4)), 1), dense.ravel()
    else:
        index, counts = tensor.indices, tensor.counts
    rate = kernels.cell_rates(state.factors, index)
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
    state, _ = step.advance(start_for(step), 1)
    step.advance(state, 2)
    assert len(drawn) == len(addresses) == 6
    for number, counts_DK in enumerate(drawn):
        entity = tensor.indices[:, number % 3]
        total = np.bincount(entity, tensor.counts, minlength=tensor.shape[number % 3])
        np.testing.assert_array_equal(counts_DK.sum(axis=1), total)


def test_a_step_changes_nothing_it_was_given_and_repeats_itself():
    step = step_for(TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor), prior_rate=None)
    state = start_for(step)
    before = deepcopy(state)
    one, two = step.advance(state, 11), step.advance(state, 11)
    assert same_states(state, before)
    assert same_states(one[0], two[0])
    assert one[1] == two[1]
    assert not np.array_equal(one[0].factors[0], step.advance(state, 12)[0].factors[0])


def test_the_draws_go_on_where_burn_in_ended():
    """An iteration of a part is that of the chain: none has the random numbers of another."""
    cells = TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor)
    burn_in, draws = step_for(cells), step_for(cells, part=Part(before=3, thin=1))
    state = start_for(burn_in)
    for iteration in range(1, 4):
        state, _ = burn_in.advance(state, iteration)
    first, _ = draws.advance(state, 1)
    fourth, _ = burn_in.advance(state, 4)
    assert same_states(first.factors, fourth.factors)
    repeated, _ = burn_in.advance(state, 1)
    assert not same_states(first.factors, repeated.factors)


def chain_phases(burn_in, n_draws, thin):
    """Return the phases of a chain: variational sweeps, burn-in, draws."""
    cells = TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor)
    burning = step_for(cells, prior_rate=None)
    drawing = step_for(cells, prior_rate=None, part=Part(burn_in, thin))
    sweeps = sweeps_for(burning)
    return [
        Phase("start", sweeps, sweeps.start, StoppingRules(START_SWEEPS)),
        Phase("burn-in", burning, GibbsState.from_sweeps, StoppingRules(burn_in)),
        Phase("draws", drawing, lambda state: state, StoppingRules(n_draws * thin)),
    ]


def test_a_chain_starts_at_the_means_of_the_sweeps_with_no_draw_kept():
    step = step_for(TrainingCells(tf.simulate((6, 5), 2, density=0.4).tensor), prior_rate=None)
    swept, _ = sweeps_for(step).advance(sweeps_for(step).start(), 1)
    state = start_for(step, n_sweeps=1)
    for factor, draws, table in zip(state.factors, state.draws, swept.posterior.axes, strict=True):
        np.testing.assert_array_equal(factor, table.shape_DK / table.rate_DK)
        assert draws.shape == (0, *factor.shape)
    np.testing.assert_array_equal(state.prior_rate_M, swept.prior_rate_M)
    present = draws_or_present(state.draws, state.factors)  # it stands for the first draw
    assert [draws.shape for draws in present] == [(1, 6, 2), (1, 5, 2)]


def test_draws_are_kept_after_burn_in_and_the_prior_rate_settles():
    runs = []
    outcome = run_loop(
        chain_phases(burn_in=3, n_draws=2, thin=2),
        keep=lambda run: runs.append(run.state),
        every=1,
    )
    assert [each.phase for each in outcome.history] == ["start"] * 20 + ["burn-in"] * 3 + [
        "draws"
    ] * 4
    chain = runs[START_SWEEPS:]
    assert [len(state.draws[0]) for state in chain] == [0, 0, 0, 0, 1, 1, 2]
    last = outcome.state
    assert same_states(last, chain[-1])
    assert [draws.shape for draws in last.draws] == [(2, 6, 2), (2, 5, 2)]
    for number, kept in enumerate((chain[4], chain[6])):
        assert same_states([draws[number] for draws in last.draws], list(kept.factors))
    np.testing.assert_array_equal(chain[2].prior_rate_M, last.prior_rate_M)
    assert not np.array_equal(chain[1].prior_rate_M, chain[2].prior_rate_M)
    assert draws_or_present(last.draws, last.factors)[0] is last.draws[0]


def test_a_chain_without_burn_in_draws_from_the_start():
    outcome = run_loop(chain_phases(burn_in=0, n_draws=3, thin=1))
    assert [each.phase for each in outcome.history[START_SWEEPS:]] == ["draws"] * 3
    assert len(outcome.state.draws[0]) == 3


@pytest.mark.parametrize("stop", [7, START_SWEEPS, 22, 23, 25])
def test_a_resumed_chain_is_the_uninterrupted_one(stop):
    kept = []
    whole = run_loop(chain_phases(3, 2, 2))
    run_loop(chain_phases(3, 2, 2), max_iter=stop, keep=kept.append)
    rest = run_loop(chain_phases(3, 2, 2), run=kept[-1])
    assert same_states(rest.state, whole.state)
    assert [i.objective for i in rest.history] == [i.objective for i in whole.history]
