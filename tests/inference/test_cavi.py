import itertools
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma
from scipy.stats import gamma as gamma_distribution
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.probability import gamma
from tallyfold.probability.counts import COUNTS

LIKELIHOODS = list(COUNTS)


def step_for(tensor, family="poisson", truncated=False, zeros=False, **parameters):
    chosen = {"n_components": 3, "prior_shape": 0.7, "backend": "numpy"} | parameters
    cells = TrainingCells(tensor)
    return CAVIStep(cells, COUNTS[family, truncated], zeros_observed=zeros, **chosen)


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((12, 9, 5), 3, density=0.3, random_state=1).tensor


@pytest.mark.parametrize("dispersion", [None, 0.7])
@pytest.mark.parametrize("prior_rate", [None, 2.0])
@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
def test_the_bound_rises_at_every_sweep(family, truncated, prior_rate, dispersion, tensor):
    step = step_for(tensor, family, truncated, prior_rate=prior_rate, dispersion=dispersion)
    state, bounds = step.start(), []
    for iteration in range(1, 40):
        state, bound = step.advance(state, iteration)
        bounds.append(bound)
    slack = 1e-9 * abs(bounds[-1])
    assert np.all(np.diff(bounds) > -slack)
    assert bounds[-1] > bounds[0] + 1


@pytest.mark.parametrize("prior_rate", [None, 2.0])
def test_the_bound_rises_with_zeros_observed(prior_rate, tensor):
    step = step_for(tensor, zeros=True, prior_rate=prior_rate)
    state, bounds = step.start(), []
    for iteration in range(1, 40):
        state, bound = step.advance(state, iteration)
        bounds.append(bound)
    assert np.all(np.diff(bounds) > -1e-9 * abs(bounds[-1]))


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
def test_the_bound_rises_at_every_single_update_of_an_axis(family, truncated, tensor):
    step = step_for(tensor, family, truncated, dispersion=0.8, prior_rate=1.0)
    state = step.start()
    bound = step.bound(state)
    for sweep, axis in itertools.product(range(5), range(3)):
        table = step.updated(axis, state, step.terms(state, step.cells))
        state = replace(state, posterior=state.posterior.replace(axis, table))
        risen = step.bound(state)
        assert risen > bound - 1e-9 * abs(bound), (sweep, axis)
        bound = risen


@pytest.mark.parametrize(("family", "truncated"), LIKELIHOODS)
def test_the_bound_is_below_the_evidence(family, truncated):
    """Two axes of one entity each and one component: the evidence by quadrature."""
    tensor = tf.CountTensor([tf.Axis("a", [1]), tf.Axis("b", [1])], [[0, 0]], [3])
    step = step_for(
        tensor, family, truncated, n_components=1, prior_shape=40.0, prior_rate=27.0, dispersion=1.5
    )
    state = step.start()
    for iteration in range(1, 200):
        state, bound = step.advance(state, iteration)
    prior = gamma_distribution(40.0, scale=1 / 27)
    points = prior.ppf((np.arange(2000) + 0.5) / 2000)
    rates = points[:, None] * points[None, :]
    evidence = np.log(np.mean(np.exp(COUNTS[family, truncated].log_pmf(3, rates, 1.5))))
    assert bound < evidence
    assert bound > evidence - 0.1


def test_the_exact_posterior_when_the_other_axis_is_known():
    """With one component and the other axis all but fixed at one, the posterior is conjugate."""
    counts = np.array([3, 1, 4, 1, 5])
    axes = [tf.Axis("a", [0]), tf.Axis.numbered("b", 5)]
    tensor = tf.CountTensor(axes, [[0, place] for place in range(5)], counts)
    step = step_for(tensor, n_components=1, prior_shape=2.0, prior_rate=3.0)
    state = step.start()
    known = GammaTable(np.full((5, 1), 1e9), np.full((5, 1), 1e9))
    updated, _ = step.advance(replace(state, posterior=state.posterior.replace(1, known)), 1)
    assert updated.posterior.axes[0].shape_DK == pytest.approx(2 + counts.sum())
    assert updated.posterior.axes[0].rate_DK == pytest.approx(3 + 5)


def test_observed_zeros_equal_a_dense_sum_over_all_cells(tensor):
    step = step_for(tensor, zeros=True)
    state, _ = step.advance(step.start(), 1)
    tables = state.posterior.axes
    mean = [table.shape_DK / table.rate_DK for table in tables]
    geo = [np.exp(digamma(table.shape_DK)) / table.rate_DK for table in tables]
    terms = step.terms(state, step.cells)
    _, exposure = terms.sums(0, geo, mean, None)
    assert exposure[0] == pytest.approx(np.einsum("jk,lk->k", mean[1], mean[2]))
    lam = np.einsum("ik,jk,lk->ijl", *mean)
    seen = tuple(tensor.indices.T)
    g = np.einsum("ik,jk,lk->ijl", *geo)[seen]
    poisson = tensor.counts @ np.log(g) - lam.sum()
    constant = COUNTS["poisson", False].log_pmf(tensor.counts, 1.0).sum() + tensor.nnz
    assert terms.bound(geo, mean, None) == pytest.approx(poisson + constant)


@pytest.fixture(scope="module")
def part():
    """A part of all cells, of which some days were taken away whole."""
    whole = tf.simulate((12, 9, 6), 3, density=0.3, random_state=1).tensor
    return tf.split_time(tf.split(whole, 0.3, cells="all").train, "axis_2", after="axis_2-4").train


def gated(part, **parameters):
    return step_for(part, zeros=True, gates=[None, (0, 2)], gate=1, **parameters)


def dense_gate(step, state, part):
    """Return the mean multipliers of all cells, and which cells there are."""
    cells = np.stack(np.unravel_index(np.arange(part.size), part.shape), axis=1).astype(np.int32)
    multipliers = step.gated(state).multipliers(cells).reshape(part.shape)
    there = np.einsum("i,j,l->ijl", *(seen.astype(float) for seen in step.cells.covered))
    return multipliers, there * step.cells.share


@pytest.mark.parametrize("prior_rate", [None, 2.0])
def test_the_bound_rises_with_a_gate(prior_rate, part):
    """The shape of the gate's prior is learnt in sweeps 1 to 4, 8, 16 and 32, else fixed."""
    step = gated(part, prior_rate=prior_rate)
    state, bounds, shapes = step.start(), [], set()
    for iteration in range(1, 40):
        state, bound = step.advance(state, iteration)
        bounds.append(bound)
        shapes.add(state.gate.shape)
    assert np.all(np.diff(bounds) > -1e-9 * abs(bounds[-1]))
    assert 4 < len(shapes) < 9


def test_a_gate_equals_dense_sums_over_all_cells(part):
    step = gated(part)
    state, _ = step.advance(step.start(), 1)
    state, bound = step.advance(state, 2)
    gate, there = dense_gate(step, state, part)
    mean, geo = state.posterior.means, state.posterior.geometric_means
    rate = np.einsum("ik,jk,lk->ijlk", *mean) * (gate * there)[..., None]
    terms = step.terms(state, step.cells)
    for axis in range(3):
        _, exposure = terms.sums(axis, geo, mean, None)
        own = rate.sum(axis=tuple(m for m in range(3) if m != axis))
        np.testing.assert_allclose(exposure * mean[axis], own)
    assert not exposure[-1].any()  # the last day was taken away: nothing is known of it

    table, g = state.gate.table, state.gate.shape
    own = step._gates[1]
    exposure_P1 = np.append(*step.sums(state.gate, mean).gate_exposure())
    np.testing.assert_allclose(table.shape_DK[:, 0], g + np.append(own.counts_P, 0))
    np.testing.assert_allclose(table.rate_DK[:, 0], g + exposure_P1)

    seen, row_N = tuple(part.indices.T), own.rows(part.indices)
    log_g = np.log(np.einsum("ik,jk,lk->ijl", *geo)[seen])
    log_u = digamma(table.shape_DK[row_N, 0]) - np.log(table.rate_DK[row_N, 0])
    constant = COUNTS["poisson", False].log_pmf(part.counts, 1.0).sum() + part.nnz
    expected = part.counts @ (log_g + log_u) - rate.sum() + constant
    kl_P1 = gamma.kl(table.shape_DK, table.rate_DK, g, g)[:, 0]
    n_pairs = step.cells.covered[0].sum() * step.cells.covered[2].sum()
    expected -= kl_P1[:-1].sum() + (n_pairs - len(own.counts_P)) * kl_P1[-1]
    priors = zip(step.guidance.priors, state.posterior.axes, state.prior_rate_M, strict=True)
    expected -= sum(prior.divergence(table, b, 0.0) for prior, table, b in priors)
    assert bound == pytest.approx(expected, rel=1e-10)


def test_a_hidden_share_scales_the_exposures(tensor):
    train = tf.split(tensor, 0.4, cells="all").train
    step = step_for(train, zeros=True)
    state = step.start()
    mean = state.posterior.means
    _, exposure = step.terms(state, step.cells).sums(0, mean, mean, None)
    assert step.cells.share == pytest.approx(0.6)
    assert exposure[0] == pytest.approx(0.6 * np.einsum("jk,lk->k", mean[1], mean[2]))


def test_a_sweep_leaves_the_state_it_was_given(tensor):
    step = step_for(tensor, "negative-binomial", True)
    state = step.start()
    before = deepcopy(state)
    new, _ = step.advance(state, 1)
    assert same_states(state, before)
    assert not same_states(new, before)


@pytest.mark.parametrize("truncated", [False, True])
def test_a_states_family_goes_before_that_of_the_step(truncated, tensor):
    """A phase may begin at a state whose likelihood another phase has chosen."""
    validation = ValidationCells(tensor)
    poisson, dispersed = (
        step_for(tensor, family, truncated, validation=validation)
        for family in ("poisson", "negative-binomial")
    )
    state = dispersed.start()
    assert (poisson.start().dispersion, state.dispersion) == (None, 1.0)
    one, bound = dispersed.advance(state, 1)
    other, other_bound = poisson.advance(state, 1)
    assert same_states(one, other)
    assert bound == other_bound
    assert dispersed.validation_score(one) == poisson.validation_score(one)
    plain = replace(one, dispersion=None)
    assert poisson.bound(plain) == dispersed.bound(plain) != bound


def test_compiled_and_plain_kernels_give_the_same_fit(tensor):
    plain = tf.BPTF(n_components=3, backend="numpy", max_iter=15).fit(tensor)
    fast = tf.BPTF(n_components=3, backend="numba", max_iter=15).fit(tensor)
    assert fast.predict(tensor) == pytest.approx(plain.predict(tensor), rel=1e-6)


def test_the_dispersion_of_simulated_counts_is_found():
    rng = np.random.default_rng(0)
    truth = tf.simulate((60, 50), 1, prior_shape=3.0, random_state=2)
    rates = 4 * truth.factors[0] @ truth.factors[1].T
    counts = rng.negative_binomial(1.3, 1.3 / (1.3 + rates))
    tensor = tf.CountTensor.from_array(counts, ["a", "b"])
    model = tf.MainEffects(likelihood="negative-binomial", validation=None).fit(tensor)
    assert 1.1 < model.fitted_.dispersion < 1.6
