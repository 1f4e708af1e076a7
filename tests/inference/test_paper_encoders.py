from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.errors import DivergedError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import Phase, run_loop
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.paper_encoders.pathwise import LEAST_DRAW, pathwise_draw
from tallyfold.inference.paper_encoders.step import ABSURD_FALL, ATTEMPTS, PaperStep
from tallyfold.kernels import use_threads
from tallyfold.kernels.encoder import Network
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.fit_constant import fit_constant

POISSON, TRUNCATED = COUNTS["poisson", False], COUNTS["poisson", True]
BOTH = pytest.mark.parametrize("likelihood", [POISSON, TRUNCATED], ids=lambda each: each.name)
ACTIVATIONS = {
    "softplus": torch.nn.functional.softplus,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
}


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((30, 20, 6), 2, density=0.25, random_state=3).tensor)


def make_step(tensor, likelihood=POISSON, zeros_observed=False, **parameters):
    small = {
        "n_components": 3,
        "network": Network(1, 5, "softplus", "softplus"),
        "backend": "numpy",
        "learning_rate": 0.03,
    }
    cells = TrainingCells(tensor)
    return PaperStep(cells, likelihood, zeros_observed, **(small | parameters))


def after(step, n, state=None):
    state = step.start() if state is None else state
    for iteration in range(1, n + 1):
        state, bound = step.advance(state, iteration)
    return state, bound


def fit(step, max_iter, **rest):
    phases = [Phase("encoders", step, step.start, StoppingRules(max_iter, patience=None))]
    return run_loop(phases, **rest)


# -- the gradient, against torch's ----------------------------------------------------------------


def torch_bound(step, axis, weights, state, seed):
    """The penalised bound in float64, written as the paper has it, by torch's automatic gradient.

    The draw moves by its pathwise derivative around the value that the step draws too.
    """
    cells, encoder = step.cells, step.encoders[axis]
    draws = [torch.tensor(draw_DK) for draw_DK in state.draws]
    seen = [torch.tensor(s) for s in cells.seen]
    indices = torch.tensor(cells.indices_NM.astype(np.int64))
    counts = torch.tensor(cells.counts_N.astype(float))
    cell_weight = torch.tensor(step._cell_weights(state))
    inputs = [
        (draws[m] / draws[m][seen[m]].mean(0)).clamp(max=20.0)[indices[:, m]]
        for m in range(cells.n_axes)
        if m != axis
    ]
    x = torch.stack([*inputs, (counts / counts.mean())[:, None].expand_as(inputs[0])], -1)
    parameters = {}
    for kind in ("shape", "rate"):
        signal = x.permute(1, 0, 2)  # components first
        for layer in range(step.network.hidden_layers + 1):
            is_last = layer == step.network.hidden_layers
            name = step.network.output_activation if is_last else step.network.hidden_activation
            weight, bias = weights[f"{kind}_weight_{layer}"], weights[f"{kind}_bias_{layer}"]
            signal = ACTIVATIONS[name](signal @ weight + bias[:, None])
        part = cell_weight[:, None] * signal[..., 0].T
        zeros = torch.zeros(cells.shape[axis], step.n_components, dtype=torch.float64)
        parameters[kind] = zeros.index_add(0, indices[:, axis], part)[seen[axis]]
    shape, rate = 1e-3 + parameters["shape"], (1e-3 + parameters["rate"]) / step.scale
    if step.zeros_observed:
        others = [draws[m].sum(0) for m in range(cells.n_axes) if m != axis]
        rate = rate + others[0] * others[1]
    fixed = pathwise_draw(
        np.random.default_rng(seed), shape.detach().numpy(), rate.detach().numpy()
    )
    z = (
        torch.tensor(fixed.z_DK)
        + torch.tensor(fixed.by_shape_DK) * (shape - shape.detach())
        + torch.tensor(fixed.by_rate_DK) * (rate - rate.detach())
    )
    own = draws[axis].clone()
    own[seen[axis]] = z
    factors = [own if m == axis else draws[m] for m in range(cells.n_axes)]
    lam = torch.stack([factors[m][indices[:, m]] for m in range(cells.n_axes)]).prod(0).sum(1)
    bound = torch_log_pmf(step.likelihood, counts, lam).sum()
    if step.zeros_observed:
        bound = bound + lam.sum() - torch.stack([f.sum(0) for f in factors]).prod(0).sum()
    posterior = torch.distributions.Gamma(shape, rate)
    prior = torch.distributions.Gamma(*torch.tensor(step.prior, dtype=torch.float64))
    bound = bound - torch.distributions.kl_divergence(posterior, prior).sum()
    penalty = sum((w**2).sum() for w in weights.values()) / (2 * step.weight_variance)
    assert encoder.layout.axis == axis
    return bound - penalty


def torch_log_pmf(likelihood, y, rate):
    value = y * torch.log(rate) - rate - torch.lgamma(y + 1)
    return value - torch.log(-torch.expm1(-rate)) if likelihood.truncated else value


CASES = [
    (POISSON, Network(1, 5, "softplus", "softplus"), False, False),
    (TRUNCATED, Network(1, 5, "softplus", "softplus"), False, False),
    (POISSON, Network(0, 0, "softplus", "softplus"), False, False),
    (POISSON, Network(2, 4, "relu", "softplus"), False, False),
    (POISSON, Network(1, 4, "sigmoid", "sigmoid"), False, False),
    (POISSON, Network(1, 5, "softplus", "softplus"), True, False),
    (TRUNCATED, Network(1, 5, "softplus", "softplus"), False, True),
]


@pytest.mark.parametrize(("likelihood", "network", "zeros_observed", "shared"), CASES)
def test_the_gradient_is_that_of_automatic_differentiation(
    likelihood, network, zeros_observed, shared, parts
):
    step = make_step(
        parts.train,
        likelihood,
        zeros_observed,
        network=network,
        shared=shared,
        prior_shape=0.8,
        weight_variance=0.5,
    )
    state, _ = after(step, 2)
    for axis in range(3):
        weights = state.encoders[axis].values
        found = step.gradient(axis, weights, state, np.random.default_rng(5))
        leaves = {n: torch.tensor(w, requires_grad=True) for n, w in weights.items()}
        torch_bound(step, axis, leaves, state, 5).backward()
        assert {*found} == {*leaves}
        for name, leaf in leaves.items():
            scale = float(leaf.grad.abs().max()) + 1e-12
            np.testing.assert_allclose(found[name], leaf.grad, atol=1e-5 * scale, err_msg=name)


def test_steps_along_the_gradient_raise_the_bound(parts):
    """On average over draws: with small steps the bound ends above where it began."""
    step = make_step(parts.train, learning_rate=0.01)
    state = step.start()
    first = np.mean([step.advance(state, i)[1] for i in range(1, 6)])
    state, _ = after(step, 20)
    last = np.mean([step.advance(state, i)[1] for i in range(21, 26)])
    assert last > first


# -- the laws of a step ---------------------------------------------------------------------------


@pytest.mark.parametrize("reweight", ["paper", "none", "error"])
@BOTH
def test_an_iteration_depends_on_its_number_and_the_state_alone(likelihood, reweight, parts):
    def fresh():
        return make_step(parts.train, likelihood, reweight=reweight)

    step = fresh()
    one, _ = step.advance(step.start(), 1)
    copy = deepcopy(one)
    two, bound = step.advance(one, 2)
    assert same_states(one, copy)
    again, bound_again = fresh().advance(copy, 2)
    assert bound == bound_again
    assert same_states(two, again)
    assert not np.array_equal(two.draws[0], step.advance(copy, 3)[0].draws[0])


def test_a_resumed_fit_is_the_uninterrupted_one(parts):
    whole, kept = fit(make_step(parts.train), 6), []
    fit(make_step(parts.train), 3, keep=kept.append)
    rest = fit(make_step(parts.train), 6, run=kept[-1])
    assert same_states(rest.state, whole.state)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_same_bits_with_one_thread_and_with_two(backend, parts):
    states = []
    for threads in (1, 2):
        with use_threads(threads):
            states.append(after(make_step(parts.train, backend=backend), 3)[0])
    assert same_states(*states)


def test_another_seed_is_another_fit(parts):
    one, two = (after(make_step(parts.train, seed=seed), 1)[0] for seed in (0, 1))
    assert not np.array_equal(one.draws[0], two.draws[0])
    first, other = (state.encoders[0].values["shape_weight_0"] for state in (one, two))
    assert not np.array_equal(first, other)


def test_torchs_settings_are_left_alone(parts):
    before = torch.get_num_threads(), torch.get_rng_state().clone()
    after(make_step(parts.train), 1)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


# -- what it comes to -----------------------------------------------------------------------------


@BOTH
def test_it_learns_more_than_a_constant(likelihood):
    train, test = tf.split(tf.simulate((40, 30, 6), 2, density=0.25, random_state=5).tensor)
    validation = ValidationCells(test)
    step = make_step(train, likelihood, validation=validation)
    state, _ = after(step, 25)
    counted = np.unique(train.counts, return_counts=True)
    best = fit_constant(likelihood, *counted)
    constant = likelihood.log_pmf(test.counts, best.rate, best.r).mean()
    assert step.validation_score(state) > constant + 0.01


def test_observed_zeros_give_rates_of_the_mean_over_all_cells():
    tensor = tf.simulate((40, 30, 6), 2, density=0.1, random_state=7).tensor
    state, _ = after(make_step(tensor, zeros_observed=True), 40)
    totals = [mean.sum(axis=0) for mean in state.means]
    assert np.prod(totals, axis=0).sum() == pytest.approx(tensor.counts.sum(), rel=0.25)


@pytest.mark.parametrize("zeros_observed", [False, True])
def test_an_entity_without_a_cell_has_the_prior(zeros_observed):
    axes = [tf.Axis.numbered("a", 4), tf.Axis.numbered("b", 3)]
    cells = [[0, 0], [0, 1], [1, 2], [2, 0], [2, 2]]
    tensor = tf.CountTensor(axes, cells, [1, 2, 1, 3, 1])
    step = make_step(tensor, zeros_observed=zeros_observed, prior_shape=0.7, prior_rate=1.9)
    before, _ = after(step, 1)
    state, _ = step.advance(before, 2)
    exposure = before.draws[1].sum(axis=0) if zeros_observed else np.zeros(3)
    table = state.encoded.axes[0]
    assert table.shape_DK[3].tolist() == [0.7] * 3
    assert table.rate_DK[3] == pytest.approx(1.9 + exposure)
    if not zeros_observed:
        table = state.posterior.axes[0]
        assert table.shape_DK[3] == pytest.approx([0.7] * 3)
        assert table.rate_DK[3] == pytest.approx([1.9] * 3)


def balanced_moments(step, state):
    """Return the present moments of axis 1, each component's mean the same on every axis."""
    tables = state.encoded.axes
    means = [table.shape_DK / table.rate_DK for table in tables]
    sizes = [mean[seen].mean(axis=0) for mean, seen in zip(means, step.cells.seen, strict=True)]
    gauge = np.prod(sizes, axis=0) ** (1 / 3) / sizes[1]
    shape, rate = tables[1].shape_DK, tables[1].rate_DK / gauge
    return shape / rate, shape * (shape + 1) / rate**2


def test_averaged_gammas_have_the_averaged_moments(parts):
    step = make_step(parts.train)
    state, means, squares = step.start(), [], []
    for iteration in range(1, 4):
        state, _ = step.advance(state, iteration)
        mean, square = balanced_moments(step, state)
        means.append(mean)
        squares.append(square)
    axes = state.posterior.axes
    shape, rate = axes[1].shape_DK, axes[1].rate_DK
    weight = np.array([0.1, 0.3, 0.6])  # shares 1, 3/4, 3/5: later iterations weigh more
    mean, seen = np.tensordot(weight, means, 1), step.cells.seen[1]
    variance = np.tensordot(weight, squares, 1) - mean**2
    assert (shape / rate)[seen] == pytest.approx(mean[seen])
    assert (shape / rate**2)[seen] == pytest.approx(variance[seen])
    assert [table.shape_DK.shape for table in axes] == [(size, 3) for size in parts.train.shape]


def test_a_scale_that_drifts_between_axes_does_not_spoil_the_average(parts):
    """The same posterior, ten times larger on one axis and smaller on another: the same average."""
    step = make_step(parts.train)
    state, _ = after(step, 1)
    first, middle, last = state.encoded.axes
    first = replace(first, rate_DK=first.rate_DK / 10)
    last = replace(last, rate_DK=last.rate_DK * 10)
    moved = replace(state, encoded=GammaPosterior((first, middle, last)))
    seen = step.cells.seen
    one, other = (s.averaged(seen, 0.5).averages for s in (state, moved))
    for moments, others, rows in zip(one, other, seen, strict=True):
        assert moments.mean_DK[rows] == pytest.approx(others.mean_DK[rows])
        assert moments.square_DK[rows] == pytest.approx(others.square_DK[rows])


def test_weights_by_error_follow_the_errors(parts):
    step = make_step(parts.train, reweight="error")
    assert np.all(step._cell_weights(step.start()) == 1)
    state, _ = after(step, 5)
    weights = step._cell_weights(state)
    assert weights.min() < 1 < weights.max()
    assert np.corrcoef(weights, state.error_N)[0, 1] > 0.9


# -- stability ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [1.0, 100.0])
def test_an_absurd_learning_rate_is_backed_off_from(learning_rate, parts):
    step = make_step(
        parts.train, learning_rate=learning_rate, validation=ValidationCells(parts.test)
    )
    outcome = fit(step, 15)
    assert np.isfinite(outcome.history[-1].objective)
    assert outcome.state.learning_rate < learning_rate


def fallen(step, state, by):
    """Return a bound that is lower than another, `by` times as far as it may fall."""
    return state.bound - by * ABSURD_FALL * (step.cells.n_cells + abs(state.bound))


def watch_attempts(monkeypatch, spoil, n_failures):
    """Spoil the first attempts at axis 1; return what all were made with: axis, learning rate."""
    made, real = [], PaperStep._attempt

    def attempt(self, state, axis, rng):
        made.append((axis, state.learning_rate))
        new = real(self, state, axis, rng)
        fails = axis == 1 and sum(each[0] == 1 for each in made) <= n_failures
        return replace(new, bound=spoil(self, state)) if fails else new

    monkeypatch.setattr(PaperStep, "_attempt", attempt)
    return made


def not_finite(step, state):
    raise FloatingPointError


@pytest.mark.parametrize(
    "spoil",
    [not_finite, lambda step, state: np.nan, lambda step, state: fallen(step, state, 1.01)],
    ids=["error", "nan", "fall"],
)
def test_a_visit_that_fails_is_repeated_with_half_the_learning_rate(spoil, parts, monkeypatch):
    step = make_step(parts.train, learning_rate=0.04)
    made = watch_attempts(monkeypatch, spoil, n_failures=2)
    first, _ = step.advance(step.start(), 1)
    assert made == [(0, 0.04), (1, 0.04), (1, 0.02), (1, 0.01), (2, 0.01)]
    assert first.learning_rate == 0.01
    assert [adam.steps for adam in first.encoders] == [step.steps] * 3  # what failed leaves nothing
    second, _ = step.advance(first, 2)
    assert made[5:] == [(0, 0.01), (1, 0.01), (2, 0.01)]
    assert second.learning_rate == 0.01


def test_a_visit_after_which_the_bound_has_fallen_a_little_is_kept(parts, monkeypatch):
    step = make_step(parts.train, learning_rate=0.04)
    made = watch_attempts(monkeypatch, lambda step, state: fallen(step, state, 0.99), n_failures=1)
    state, _ = step.advance(step.start(), 1)
    assert made == [(0, 0.04), (1, 0.04), (2, 0.04)]
    assert state.learning_rate == 0.04


def test_a_fit_that_cannot_be_saved_says_so(parts, monkeypatch):
    made = watch_attempts(monkeypatch, not_finite, n_failures=10**6)
    with pytest.raises(DivergedError, match="diverged in iteration 1: the values of bound"):
        fit(make_step(parts.train, learning_rate=0.04), 3)
    assert [rate for axis, rate in made if axis == 1] == [0.04 / 2**n for n in range(ATTEMPTS)]


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize("prior", [(0.1, None), (1.0, 1.0), (100.0, None), (1.0, 1e4), (1.0, 1e-4)])
def test_neither_the_counts_scale_nor_the_priors_upsets_it(factor, prior, parts):
    train = parts.train
    tensor = tf.CountTensor(train.axes, train.indices, train.counts * factor)
    step = make_step(tensor, prior_shape=prior[0], prior_rate=prior[1])
    outcome = fit(step, 20)
    assert all(draw_DK.min() >= LEAST_DRAW for draw_DK in outcome.state.draws)


def test_one_cell_is_enough():
    axes = [tf.Axis("a", [1]), tf.Axis("b", [1])]
    tensor = tf.CountTensor(axes, [[0, 0]], [3])
    for likelihood in (POISSON, TRUNCATED):
        assert len(fit(make_step(tensor, likelihood), 5).history) == 5
