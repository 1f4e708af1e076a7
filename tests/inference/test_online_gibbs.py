"""The conditionals of the beta-negative-binomial model, exact ones against quadrature."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid, quad
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase, run_loop
from tallyfold.inference.fit.state_arrays import to_arrays
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.gibbs import Part
from tallyfold.inference.schemes.online_gibbs import (
    Averaging,
    Draw,
    OnlineGibbsStep,
    Prior,
    draw_axis,
    draw_odds,
    draw_odds_collapsed,
    draw_scaled_column,
    folded,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.probability.counts import COUNTS

LEVEL = 1e-3
"""Seeds are fixed, so a test passes always or never; a right sampler fails one in a thousand."""

COPIES = 4000
"""Components do not meet in a conditional: so many of them are so many copies of one chain."""


class Cells(TrainingCells):
    """Cells by hand; zeros may be among the counts."""

    def __init__(self, shape, indices, counts):
        self.shape = shape
        self.indices_NM = np.asfortranarray(np.asarray(indices, dtype=np.int32))
        self.counts_N = np.asarray(counts)


def step_for(cells, truncated=False, zeros=False, **parameters):
    chosen = {
        "n_components": 2,
        "prior": Prior(dirichlet=1.0, c=6.0, g=2.0, eps=0.5),
        "part": Part(),
        "backend": "numpy",
    }
    return OnlineGibbsStep(cells, COUNTS["poisson", truncated], zeros, **(chosen | parameters))


def copies(*values):
    return np.repeat(np.array(values, dtype=float)[:, None], COPIES, axis=1)


def tabulated(density, grid):
    """Return the distribution function of a density known up to a factor."""
    cdf = cumulative_trapezoid(density(grid), grid, initial=0)
    return lambda x: np.interp(x, grid, cdf / cdf[-1])


def test_with_zeros_observed_all_is_dirichlet_beta_and_gamma():
    prior = Prior(dirichlet=0.5, c=2.0, g=1.5, eps=0.25)
    counts, now = copies(3, 0, 4), Draw(copies(1, 1, 1) / 3, copies(1)[0], copies(1)[0])
    draw = draw_axis(np.random.default_rng(0), counts, np.ones((1, 1)), now, prior, True)
    np.testing.assert_allclose(draw.column_DK.sum(axis=0), 1)
    for row, count in enumerate((3, 0, 4)):
        law = stats.beta(0.5 + count, 1.0 + 7 - count)
        assert stats.kstest(draw.column_DK[row], law.cdf).pvalue > LEVEL
    p = 1 / (1 + draw.odds_K)
    assert stats.kstest(p, stats.beta(0.5 + 7, 1.5 + 1.5).cdf).pvalue > LEVEL
    standard = draw.weight_K / p  # Gamma(g + n, scale p)
    assert stats.kstest(standard, stats.gamma(1.5 + 7).cdf).pvalue > LEVEL


@pytest.mark.parametrize("n", [0.0, 20.0])
def test_odds_given_the_weight_agree_with_the_collapsed_ones_where_both_hold(n):
    """At an exposure of one: weights and odds in turn lead to the Beta of the collapsed form."""
    prior, rng, n_K = Prior(1.0, 2.0, 1.5, 0.25), np.random.default_rng(1), np.full(COPIES, n)
    odds = np.ones(COPIES)
    for _ in range(60):
        odds = draw_odds(rng, rng.gamma(1.5 + n_K) / (1 + odds), odds, prior)
    law = stats.beta(0.5 + n, 1.5 + 1.5)
    assert stats.kstest(1 / (1 + odds), law.cdf).pvalue > LEVEL
    collapsed = draw_odds_collapsed(rng, n_K, prior)
    assert stats.kstest(1 / (1 + collapsed), law.cdf).pvalue > LEVEL


@pytest.mark.parametrize(("a", "g"), [(2.0, 1.0), (0.5, 1.0), (0.3, 2.5), (1.0, 0.1)], ids=str)
@pytest.mark.parametrize("counts", [(3, 1), (0, 0)], ids=str)
def test_columns_with_zeros_missing_are_those_of_quadrature(a, g, counts):
    """D a above, at and below g: the auxiliary variable, none, and the Metropolis step."""
    prior, exposure, odds = Prior(a, 1.0, g, 0.5), (0.2, 3.0), 0.7
    rng, n = np.random.default_rng(2), sum(counts)
    now = Draw(copies(1, 1) / 2, copies(1.0)[0], np.full(COPIES, odds))
    for _ in range(80):
        # as in draw_axis, the weight is drawn afresh before the next column
        seen = odds + (now.column_DK * copies(*exposure)).sum(axis=0)
        now = Draw(
            now.column_DK, np.maximum(rng.gamma(g + n, size=COPIES) / seen, 1e-290), now.odds_K
        )
        column, weight = draw_scaled_column(rng, copies(*counts), copies(*exposure), now, prior)
        now = Draw(column, weight, now.odds_K)
    grid = np.linspace(0, 1, 20_001)[1:-1]
    rate = odds + exposure[0] * grid + exposure[1] * (1 - grid)

    def column_density(u):
        log = (a + counts[0] - 1) * np.log(u) + (a + counts[1] - 1) * np.log1p(-u)
        return np.exp(log) * rate ** -(g + n)

    if min(counts) + a >= 1:  # the grid can follow the density to its ends
        assert stats.kstest(now.column_DK[0], tabulated(column_density, grid)).pvalue > LEVEL
    # whatever the column, the weight given it is Gamma(g + n, rate)
    seen = odds + exposure[0] * now.column_DK[0] + exposure[1] * now.column_DK[1]
    assert stats.kstest(now.weight_K * seen, stats.gamma(g + n).cdf).pvalue > LEVEL
    mean = _mean_column(a, g, counts, exposure, odds)
    error = now.column_DK[0].std() / np.sqrt(COPIES)
    assert abs(now.column_DK[0].mean() - mean) < 4 * error


def _mean_column(a, g, counts, exposure, odds):
    """Return E u_1; substituting u = sin(t)^2 keeps the ends harmless."""

    def term(t, extra):
        u = np.sin(t) ** 2
        log = (2 * (a + counts[0]) - 1) * np.log(np.sin(t))
        log += (2 * (a + counts[1]) - 1) * np.log(np.cos(t))
        rate = odds + exposure[0] * u + exposure[1] * (1 - u)
        return u**extra * np.exp(log) * rate ** -(g + sum(counts))

    top, bottom = (quad(term, 0, np.pi / 2, args=(extra,), limit=200)[0] for extra in (1, 0))
    return top / bottom


@pytest.mark.parametrize("zeros", [True, False])
def test_the_weight_of_a_single_cell_has_the_law_of_the_closed_form(zeros):
    """With one cell its exposure is one however zeros are treated: a mixture of Gammas over p."""
    prior, y, rng = Prior(1.0, 2.0, 1.5, 0.25), 4, np.random.default_rng(3)
    now = Draw(copies(1), copies(1)[0], copies(1)[0])
    for _ in range(60):
        now = draw_axis(rng, copies(y), copies(1), now, prior, zeros)
    assert np.all(now.column_DK == 1)
    p = rng.beta(0.5 + y, 1.5 + 1.5, 20_000)
    assert stats.ks_2samp(now.weight_K, p * rng.gamma(1.5 + y, size=20_000)).pvalue > LEVEL
    mean = (prior.g + y) * (2.0 * 0.25 + y) / (2.0 + prior.g + y)
    assert abs(now.weight_K.mean() - mean) < 4 * now.weight_K.std() / np.sqrt(COPIES)


@pytest.mark.parametrize(
    ("zeros", "truncated", "dirichlet"),
    [(True, False, 0.4), (False, False, 1.5), (False, False, 0.4), (False, True, 1.5)],
    ids=str,
)
def test_new_counts_and_new_factors_in_turn_keep_the_prior(zeros, truncated, dirichlet):
    """Draw all from the prior, then counts given factors and factors given counts, in turn."""
    rng, shape = np.random.default_rng(7), (3, 2)
    prior = Prior(dirichlet, c=6.0, g=2.0, eps=0.5)
    index = np.stack(np.unravel_index(np.arange(6), shape), axis=1)[: 6 if zeros else 5]
    first_state, ends = step_for(Cells(shape, index, np.ones(len(index), int))).start(), []
    for copy in range(250):
        odds = rng.gamma(3.0, size=2) / rng.gamma(3.0, size=2)
        columns = [rng.dirichlet(np.full(size, dirichlet), 2).T for size in shape]
        columns = [np.maximum(column, 1e-290) for column in columns]
        weight = rng.gamma(2.0, size=2) / odds
        state = replace(first_state, columns=tuple(columns), weight_K=weight, odds_K=odds)
        for iteration in (1, 2):
            rate = kernels.cell_rates(folded(state.columns, state.weight_K, 0), index)
            counts = COUNTS["poisson", truncated].sample(rng, rate)
            cells = Cells(shape, index, counts)
            step = step_for(cells, truncated, zeros, prior=prior, seed=copy)
            state, _ = step.advance(state, iteration)
        ends.append([state.columns[m][0] for m in (0, 1)] + [state.odds_K, state.weight_K])
    first, second, odds, weight = np.swapaxes(ends, 0, 1)
    mixed = np.random.default_rng(8).gamma(2.0, size=20_000) / stats.betaprime(3, 3).rvs(
        20_000, random_state=9
    )
    for values, law in [
        (first, stats.beta(dirichlet, 2 * dirichlet).cdf),
        (second, stats.beta(dirichlet, dirichlet).cdf),
        (odds, stats.betaprime(3, 3).cdf),
        (weight, mixed),
    ]:
        assert stats.kstest(values.ravel(), law).pvalue > LEVEL


def test_averages_and_batches():
    averaging = Averaging(batch_size=30, t0=2.0, kappa=0.75)
    assert averaging.rho(1) == pytest.approx(3**-0.75)
    tensor = tf.simulate((8, 7, 6), 2, density=0.4, random_state=0).tensor
    step = step_for(TrainingCells(tensor), averaging=averaging)
    n_batches = -(-tensor.nnz // 30)
    passes = []
    for turn in range(2):
        batches = [step.batch(turn * n_batches + i) for i in range(1, n_batches + 1)]
        sizes = [len(batch.counts_N) for batch in batches]
        assert max(sizes) <= 30
        assert max(sizes) - min(sizes) <= 1
        passes.append(np.concatenate([batch.indices_NM for batch in batches]))
    for visited in passes:  # each pass visits every cell once, in an order of its own
        np.testing.assert_array_equal(np.unique(visited, axis=0), np.unique(tensor.indices, axis=0))
        assert len(visited) == tensor.nnz
    assert not np.array_equal(*passes)


@pytest.mark.parametrize("zeros", [True, False])
def test_a_batch_of_all_cells_counted_fully_is_the_batch_form(zeros):
    tensor = tf.simulate((8, 7, 6), 2, density=0.4, random_state=0).tensor
    cells = TrainingCells(tensor)
    online = step_for(cells, zeros=zeros, averaging=Averaging(10**6, t0=0.0, kappa=0.6))
    state = online.start()
    new, _ = online.advance(state, 1)  # rho_1 = 1: the start's averages are forgotten
    for axis in range(3):
        total = np.bincount(tensor.indices[:, axis], tensor.counts, minlength=tensor.shape[axis])
        np.testing.assert_allclose(new.counts[axis].sum(axis=1), total)
    later, _ = online.advance(new, 2)
    rho, whole = 2**-0.6, tensor.counts.sum()
    np.testing.assert_allclose(later.counts[0].sum(), whole)
    smallest = (1 - rho) * new.counts[0]
    assert np.all(later.counts[0] >= smallest - 1e-9)


def test_scaled_batches_estimate_the_whole():
    tensor = tf.simulate((8, 7, 6), 2, density=0.5, random_state=0).tensor
    step = step_for(TrainingCells(tensor), averaging=Averaging(20, t0=5.0, kappa=0.6))
    state = step.start()
    for iteration in range(1, 200):
        state, _ = step.advance(state, iteration)
    assert state.counts[1].sum() == pytest.approx(tensor.counts.sum(), rel=0.15)


@pytest.mark.parametrize("zeros", [True, False])
def test_the_objective_is_the_mean_log_pmf(zeros):
    tensor = tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor
    step = step_for(TrainingCells(tensor), truncated=not zeros, zeros=zeros)
    state, objective = step.advance(step.start(), 1)
    index, counts = tensor.indices, tensor.counts
    if zeros:
        dense = np.zeros(tensor.shape)
        dense[tuple(tensor.indices.T)] = tensor.counts
        index, counts = np.stack(np.unravel_index(np.arange(120), (6, 5, 4)), 1), dense.ravel()
    rate = kernels.cell_rates(folded(state.columns, state.weight_K, 0), index)
    assert objective == pytest.approx(step.likelihood.log_pmf(counts, rate).mean(), rel=1e-9)


@pytest.mark.parametrize("averaging", [None, Averaging(20, 1.0, 0.6)])
def test_a_step_changes_nothing_it_was_given_and_repeats_itself(averaging):
    cells = TrainingCells(tf.simulate((6, 5), 2, density=0.6).tensor)
    step, other = step_for(cells, averaging=averaging), step_for(cells, averaging=averaging)
    state = step.start()
    before = deepcopy(state)
    step.advance(state, 40)  # whatever came before
    one, two = step.advance(state, 12), other.advance(state, 12)
    assert same_states(state, before)
    assert same_states(one[0], two[0])
    assert one[1] == two[1]
    assert not np.array_equal(one[0].weight_K, step.advance(state, 13)[0].weight_K)


def chain_phases(averaging):
    cells = TrainingCells(tf.simulate((6, 5), 2, density=0.6).tensor)
    burning = step_for(cells, averaging=averaging)
    drawing = step_for(cells, averaging=averaging, part=Part(before=3, thin=2))
    return [
        Phase("burn-in", burning, burning.start, StoppingRules(3)),
        Phase("draws", drawing, lambda state: state, StoppingRules(4)),
    ]


@pytest.mark.parametrize("averaging", [None, Averaging(5, 1.0, 0.6)])
def test_draws_of_factors_and_weights_are_kept_after_burn_in(averaging):
    """Batches, too, go on where burn-in ended: the chain is the one that is not in parts."""
    states = []
    outcome = run_loop(chain_phases(averaging), keep=lambda run: states.append(run.state), every=1)
    assert [len(state.draws[0]) for state in states] == [0, 0, 0, 0, 1, 1, 2]
    last = outcome.state
    for number, kept in enumerate((states[4], states[6])):
        factors = folded(kept.columns, kept.weight_K, 0)
        assert same_states([draws[number] for draws in last.draws], factors)
        np.testing.assert_array_equal(last.weight_draws_SK[number], kept.weight_K)
    step = chain_phases(averaging)[0].step
    state = step.start()
    assert bool(state.counts) == bool(state.exposures) == (averaging is not None)
    for iteration in range(1, 8):
        state, _ = step.advance(state, iteration)
    assert len(state.draws[0]) == len(state.weight_draws_SK) == 0
    empty = {"draws": state.draws, "weight_draws_SK": state.weight_draws_SK}
    assert same_states(state, replace(last, **empty))


@pytest.mark.parametrize("averaging", [None, Averaging(5, 1.0, 0.6)])
@pytest.mark.parametrize("stop", [2, 3, 5])
def test_a_resumed_chain_is_the_uninterrupted_one(stop, averaging):
    kept = []
    whole = run_loop(chain_phases(averaging))
    run_loop(chain_phases(averaging), max_iter=stop, keep=kept.append)
    rest = run_loop(chain_phases(averaging), run=kept[-1])
    assert same_states(rest.state, whole.state)


@pytest.mark.parametrize("value", [1e-3, 1e3])
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("averaging", [None, Averaging(20, 1.0, 0.6)])
def test_extreme_constants_leave_finite_positive_numbers(value, zeros, averaging):
    cells = TrainingCells(tf.simulate((6, 5, 4), 2, density=0.4).tensor)
    prior = Prior(value, value, value, 0.5)
    step = step_for(cells, not zeros, zeros, prior=prior, averaging=averaging, n_components=4)
    state = step.start()
    for iteration in range(1, 30):
        state, objective = step.advance(state, iteration)
        assert np.isfinite(objective)
        for array in to_arrays(state).values():
            assert np.all(np.isfinite(array))
        assert all(np.all(column > 0) for column in state.columns)
        assert np.all(state.weight_K > 0)
