from copy import deepcopy

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase, run_loop
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cp_apr import CPAPRState, CPAPRStep
from tallyfold.kernels import cell_rates
from tallyfold.probability.counts import COUNTS

KINDS = {
    "observed": {"likelihood": COUNTS["poisson", False], "zeros_observed": True},
    "missing": {"likelihood": COUNTS["poisson", False], "zeros_observed": False},
    "truncated": {"likelihood": COUNTS["poisson", True], "zeros_observed": False},
}


def make_step(kind, tensor, **parameters):
    return CPAPRStep(
        cells=TrainingCells(tensor), **({"n_components": 3} | KINDS[kind] | parameters)
    )


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((15, 12, 8), 3, density=0.3, random_state=2).tensor


def whole(state):
    """Return factors whose product is the rate, weights included."""
    return [state.factors[0] * state.weight_K, *state.factors[1:]]


def fit(step, max_iter=3000):
    return run_loop([Phase("sweeps", step, step.start, StoppingRules(max_iter, 1e-300))])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_inner", [1, 4])
@pytest.mark.parametrize("floor", [1e-10, 0.3])
def test_the_loss_never_rises(kind, max_inner, floor, tensor):
    """Also where many rates lie below the floor."""
    step = make_step(kind, tensor, max_inner=max_inner, floor=floor)
    state = step.start()
    losses = [step.loss(whole(state))]
    for iteration in range(1, 60):
        state, loss = step.advance(state, iteration)
        losses.append(loss)
    assert np.all(np.diff(losses) <= 1e-12)
    assert losses[-1] < losses[0] - 0.1 * (floor < 0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_single_update_of_one_axis_lowers_the_loss(kind, tensor):
    step = make_step(kind, tensor, max_inner=1)
    state = step.start()
    factors, weight = list(state.factors), state.weight_K
    before = step.loss(whole(state))
    for visit in range(30):
        axis = visit % 3
        factors[axis], weight, _ = step._visit(axis, factors, weight)
        now = step.loss(whole(CPAPRState(tuple(factors), weight)))
        assert now <= before + 1e-13
        before = now


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_minus_the_log_pmf(kind, tensor):
    step = make_step(kind, tensor)
    state, loss = step.advance(step.start(), 1)
    factors = whole(state)
    every = np.stack(np.unravel_index(np.arange(np.prod(tensor.shape)), tensor.shape), axis=1)
    likelihood = KINDS[kind]["likelihood"]
    if kind == "observed":
        counts = np.zeros(tensor.shape)
        counts[tuple(tensor.indices.T)] = tensor.counts
        log_pmf = likelihood.log_pmf(counts.ravel(), cell_rates(factors, every))
    else:
        log_pmf = likelihood.log_pmf(tensor.counts, cell_rates(factors, tensor.indices))
    assert loss == pytest.approx(-log_pmf.sum() / tensor.nnz, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_it_stops_where_the_conditions_of_a_minimum_hold(kind, tensor):
    """The gradient, by finite differences, is zero or points out of the allowed region."""
    tol = 5e-4 if kind == "truncated" else 1e-4  # it takes forty times as many sweeps
    step = make_step(kind, tensor, tol=tol, backend="numba")
    outcome = fit(step)
    assert outcome.reason == "converged"
    assert outcome.state.violation < tol
    assert all(np.allclose(factor.sum(axis=0), 1) for factor in outcome.state.factors)
    factors = whole(outcome.state)
    values, scale = factors[0], max(1.0, tensor.counts.sum() / tensor.nnz)
    for d, k in [(d, k) for d in range(len(values)) for k in range(3)]:
        slope = []
        for change in (1e-6, -1e-6):
            moved = values.copy()
            moved[d, k] = max(moved[d, k] + change, 0.0)
            slope.append((step.loss([moved, *factors[1:]]) * tensor.nnz, moved[d, k]))
        (high, right), (low, left) = slope
        gradient = (high - low) / (right - left)
        assert gradient > -1e-2 * scale
        assert min(gradient, values[d, k]) < 1e-2 * scale


def test_a_state_at_the_minimum_is_left_as_it_is(tensor):
    step = make_step("observed", tensor, backend="numba")
    outcome = fit(step)
    state, loss = step.advance(outcome.state, 10**6)
    assert loss == outcome.history[-1].objective
    assert same_states(state.factors, outcome.state.factors)
    assert np.array_equal(state.weight_K, outcome.state.weight_K)


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_that_should_not_be_are_left_behind(kind, tensor):
    """Multiplying never leaves zero; the shift by kappa does, and raises no loss."""
    last = {}
    for kappa in (0.0, 1e-2):
        step = make_step(kind, tensor, kappa=kappa, backend="numba")
        start, losses = step.start(), []
        first = start.factors[0].copy()
        first[:10, 0] = 0.0
        first /= first.sum(axis=0)
        state = CPAPRState((first, *start.factors[1:]), start.weight_K)
        for iteration in range(1, 40):
            state, loss = step.advance(state, iteration)
            losses.append(loss)
        assert np.all(np.diff(losses) <= 1e-12)
        last[kappa] = losses[-1]
        assert np.any(state.factors[0][:10, 0] > 0) == (kappa > 0)
    assert last[1e-2] < last[0.0] - 1e-3


def test_advance_leaves_the_state_it_was_given(tensor):
    step = make_step("truncated", tensor)
    state = step.start()
    before = deepcopy(state)
    new, _ = step.advance(state, 1)
    assert same_states(state, before)
    assert not same_states(new, before)


def test_both_back_ends_agree(tensor):
    losses = []
    for backend in ("numpy", "numba"):
        step = make_step("truncated", tensor, backend=backend)
        state = step.start()
        for iteration in range(1, 4):
            state, loss = step.advance(state, iteration)
        losses.append(loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def test_the_same_minimum_as_pyttb(tensor):
    """Objectives, not iterates: pyttb shifts entries with Phi > 0, the original those with Phi > 1.

    Both start at the same factors. Without that shift (kappa 0) the algorithms are one.
    """
    ttb = pytest.importorskip("pyttb")
    step = make_step("observed", tensor)
    state = step.start()
    sparse = ttb.sptensor(
        np.asarray(tensor.indices, dtype=int), tensor.counts[:, None].astype(float), tensor.shape
    )

    def theirs(maxiters, kappa):
        start = ttb.ktensor([f.copy() for f in state.factors], state.weight_K.copy())
        options = {"init": start, "maxiters": maxiters, "kappa": kappa, "printitn": 0}
        return -ttb.cp_apr(sparse, 3, algorithm="mu", **options)[2]["obj"]

    def ours(max_iter, kappa):
        step = make_step("observed", tensor, kappa=kappa, backend="numba")
        history = fit(step, max_iter).history
        return history[-1].objective * tensor.nnz - step._log_factorials

    assert ours(3, 0.0) == pytest.approx(theirs(3, 0.0), rel=1e-9)
    assert ours(60, 1e-2) == pytest.approx(theirs(60, 1e-2), rel=1e-4)
