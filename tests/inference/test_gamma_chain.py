from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gamma, poisson

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.inference.schemes.collapsed import CollapsedStep
from tallyfold.inference.schemes.collapsed_batches import BatchStep
from tallyfold.inference.schemes.gamma_chain import GammaChain
from tallyfold.inference.schemes.guide import Course, Guide
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.probability.counts import COUNTS

SIZES, N_STEPS = (20, 15), 40


def drawn(correlation, seed=0, total=4000):
    """Draw counts of three components whose courses are a chain with this correlation."""
    rng = np.random.default_rng(seed)
    course_TK = np.ones((N_STEPS, 3))
    course_TK[0] = rng.gamma(1.0, 1.0, 3)
    between = correlation / (1 - correlation)
    for step in range(1, N_STEPS):
        number_K = rng.poisson(between * course_TK[step - 1])
        course_TK[step] = rng.gamma(1 + number_K, 1 / (1 + between))
    others = [rng.dirichlet(np.full(size, 0.1), 3).T for size in SIZES]
    rate = np.einsum("ik,jk,tk->ijt", *others, course_TK)
    counts = rng.poisson(rate * total / rate.sum())
    where = np.argwhere(counts)
    axes = [tf.Axis.numbered(name, size) for name, size in zip("ab", SIZES, strict=True)]
    time = tf.Axis("t", np.arange(N_STEPS), tf.AxisOrder("ordered"))
    return tf.CountTensor([*axes, time], where, counts[tuple(where.T)])


def swept(tensor, guide, n_sweeps=40, zeros=True, truncated=False, **settings):
    step = CAVIStep(
        TrainingCells(tensor), COUNTS["poisson", truncated], zeros, 3, 1.0, guide=guide, **settings
    )
    state, bounds = step.start(), []
    for iteration in range(1, n_sweeps + 1):
        state, bound = step.advance(state, iteration)
        bounds.append(bound)
    return state, np.array(bounds)


def linked(correlation=None, steps=None):
    steps = np.arange(N_STEPS) if steps is None else steps
    return Guide(courses={2: Course(steps, correlation)})


@pytest.fixture(scope="module")
def smooth():
    return drawn(0.9)


def test_with_known_factors_the_gain_is_that_of_the_chain_s_density():
    a, b, correlation, step_D = 0.7, 1.3, 0.6, np.array([5, 2, 3])  # so 3 follows 2, 5 skips 4
    theta_D = np.array([0.4, 1.1, 2.0])
    known = GammaTable(np.full((3, 1), 1e9), 1e9 / theta_D[:, None])
    rate, density = a * b, gamma.logpdf(theta_D[1], a, scale=1 / (a * b))
    number = np.arange(400)
    for before, after, gap in ((1.1, 2.0, 1), (2.0, 0.4, 2)):
        s = rate * correlation**gap / (1 - correlation**gap)
        chances = poisson.logpmf(number, s * before)
        density += logsumexp(chances + gamma.logpdf(after, a + number, scale=1 / (rate + s)))
    alone = gamma.logpdf(theta_D, a, scale=1 / rate).sum()
    chain = GammaChain.of(a, step_D, np.ones(3, dtype=bool))
    assert chain.gain(known, b, correlation) == pytest.approx(density - alone, abs=1e-6)


@pytest.mark.parametrize("case", ["zeros", "truncated", "gaps", "given"])
def test_the_bound_rises_at_every_sweep(case, smooth):
    steps = np.cumsum(1 + np.arange(N_STEPS) % 3) if case == "gaps" else None
    guide, missing = linked(0.8 if case == "given" else None, steps), case == "truncated"
    state, bounds = swept(smooth, guide, zeros=not missing, truncated=missing)
    assert np.all(np.diff(bounds) > -1e-9 * abs(bounds[-1]))
    assert state.correlation_M[2] > 0


@pytest.mark.parametrize(("truth", "low", "high"), [(0.5, 0.35, 0.6), (0.9, 0.8, 0.95)])
def test_the_strength_is_recovered_and_helps(truth, low, high):
    tensor = drawn(truth, seed=3)
    state, bounds = swept(tensor, linked())
    assert low < state.correlation_M[2] < high
    assert bounds[-1] > swept(tensor, None)[1][-1] + 5


@pytest.mark.parametrize("prior_shape", [1.0, 0.1])
def test_an_exchangeable_axis_is_not_smoothed(prior_shape, smooth):
    order = np.random.default_rng(0).permutation(N_STEPS)
    step = CAVIStep(
        TrainingCells(smooth), COUNTS["poisson", False], True, 3, prior_shape,
        guide=linked(steps=order),
    )  # fmt: skip
    state = step.start()
    for iteration in range(1, 41):
        state, _ = step.advance(state, iteration)
    assert state.correlation_M[2] == 0


def test_zero_strength_is_the_model_without_a_chain(smooth):
    (alone, _), (zero, _) = swept(smooth, None, 5), swept(smooth, linked(0.0), 5)
    assert all(
        np.array_equal(one.shape_DK, other.shape_DK) and np.array_equal(one.rate_DK, other.rate_DK)
        for one, other in zip(alone.posterior.axes, zero.posterior.axes, strict=True)
    )


@pytest.mark.parametrize("batches", [False, True])
def test_passes_over_complete_logs_link_steps(batches, smooth):
    cells = TrainingCells(smooth)
    step = CollapsedStep(cells, 1.0, [None], 3, 0.5, guide=linked())
    if batches:
        step = BatchStep(step, 12, 10, 10**6)
        step = replace(step, sweeps=replace(step.sweeps, guide=linked(0.9)))  # the longest axis
    state = step.start()
    for iteration in range(1, 13):
        state, objective = step.advance(state, iteration)
    found = state.factors if batches else state
    assert found.correlation_M[2] > 0.5
    assert np.isfinite(objective)
    assert all(np.isfinite(mean_DK).all() for mean_DK in found.posterior.means)


def test_a_model_says_how_alike_steps_are_and_keeps_it(smooth, tmp_path):
    model = tf.BPTF(n_components=3, zeros="observed", max_iter=16, tol=0, smooth="auto").fit(smooth)
    assert 0.5 < model.smoothness_["t"] < 1
    model.save(tmp_path / "model")
    assert tf.load(tmp_path / "model").smoothness_ == model.smoothness_
    plain = [tf.Axis(axis.name, axis.labels) for axis in smooth.axes]
    unordered = tf.CountTensor(plain, smooth.indices, smooth.counts)
    assert tf.BPTF(max_iter=2, smooth="auto").fit(unordered).smoothness_ == {}
    with pytest.raises(LabelError, match=r"axis 't' has no order"):
        tf.BPTF(smooth={"t": "auto"}).fit(unordered)
    with pytest.raises(ParameterError, match=r"`smooth` must be .*auto"):
        tf.BPTF(smooth={"t": 1.0}).fit(smooth)
