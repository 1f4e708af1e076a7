import numpy as np
import pytest
import torch

import tallyfold as tf
from tallyfold.errors import DivergedError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import StoppingRules, run_loop
from tallyfold.inference.paper_encoders.pathwise import LEAST_DRAW, pathwise_draw
from tallyfold.inference.paper_encoders.state import averaged, averaged_gammas
from tallyfold.inference.paper_encoders.step import PaperStep
from tallyfold.kernels import use_threads
from tallyfold.kernels.encoder import Network
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.fit_constant import fit_constant

POISSON = COUNTS["poisson", False]
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


# -- the gradient, against torch's ----------------------------------------------------------------


def torch_bound(step, axis, weights, state, seed):
    """The penalised bound in float64, written as the paper has it, by torch's automatic gradient.

    The draw moves by its pathwise derivative around the value that the step draws too.
    """
    cells, encoder = step.cells, step.encoders[axis]
    draws = [torch.tensor(state[f"draw_{m}"]) for m in range(cells.n_axes)]
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
    bound = torch_log_pmf(step.likelihood, counts, lam, float(state["dispersion"])).sum()
    if step.zeros_observed:
        bound = bound + lam.sum() - torch.stack([f.sum(0) for f in factors]).prod(0).sum()
    posterior = torch.distributions.Gamma(shape, rate)
    prior = torch.distributions.Gamma(*torch.tensor(step.prior, dtype=torch.float64))
    bound = bound - torch.distributions.kl_divergence(posterior, prior).sum()
    penalty = sum((w**2).sum() for w in weights.values()) / (2 * step.weight_variance)
    assert encoder.layout.axis == axis
    return bound - penalty


def torch_log_pmf(likelihood, y, rate, r):
    if likelihood.dispersed:
        value = torch.lgamma(y + r) - torch.lgamma(torch.tensor(r)) - torch.lgamma(y + 1)
        value = value + y * torch.log(rate / (r + rate)) - r * torch.log1p(rate / r)
        log_zero = -r * torch.log1p(rate / r)
    else:
        value, log_zero = y * torch.log(rate) - rate - torch.lgamma(y + 1), -rate
    return value - torch.log(-torch.expm1(log_zero)) if likelihood.truncated else value


CASES = [
    *[(name, Network(1, 5, "softplus", "softplus"), False, False) for name in COUNTS],
    (("poisson", False), Network(0, 0, "softplus", "softplus"), False, False),
    (("poisson", False), Network(2, 4, "relu", "softplus"), False, False),
    (("poisson", False), Network(1, 4, "sigmoid", "sigmoid"), False, False),
    (("poisson", False), Network(1, 5, "softplus", "softplus"), True, False),
    (("poisson", True), Network(1, 5, "softplus", "softplus"), False, True),
]


@pytest.mark.parametrize(("likelihood", "network", "zeros_observed", "shared"), CASES)
def test_the_gradient_is_that_of_automatic_differentiation(
    likelihood, network, zeros_observed, shared, parts
):
    step = make_step(
        parts.train,
        COUNTS[likelihood],
        zeros_observed,
        network=network,
        shared=shared,
        prior_shape=0.8,
        weight_variance=0.5,
        dispersion=0.9,
    )
    state, _ = after(step, 2)
    for axis in range(3):
        prefix = f"net_{axis}_"
        weights = {n.removeprefix(prefix): state[n] for n in state if n.startswith(prefix)}
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
@pytest.mark.parametrize("likelihood", COUNTS)
def test_an_iteration_depends_on_its_number_and_the_state_alone(likelihood, reweight, parts):
    def fresh():
        return make_step(parts.train, COUNTS[likelihood], reweight=reweight)

    step = fresh()
    one, _ = step.advance(step.start(), 1)
    copy = {name: array.copy() for name, array in one.items()}
    two, bound = step.advance(one, 2)
    assert all(np.array_equal(one[name], copy[name]) for name in one)
    again, bound_again = fresh().advance(copy, 2)
    assert bound == bound_again
    assert {*two} == {*again} == {*one}
    assert all(np.array_equal(two[name], again[name]) for name in two)
    assert not np.array_equal(two["draw_0"], step.advance(copy, 3)[0]["draw_0"])


def test_a_resumed_fit_is_the_uninterrupted_one(parts):
    whole = run_loop(make_step(parts.train), StoppingRules(max_iter=6))
    kept = []
    run_loop(make_step(parts.train), StoppingRules(max_iter=3), keep=kept.append)
    rest = run_loop(make_step(parts.train), StoppingRules(max_iter=6), run=kept[-1])
    assert all(np.array_equal(rest.state[name], whole.state[name]) for name in whole.state)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_the_same_bits_with_one_thread_and_with_two(backend, parts):
    states = []
    for threads in (1, 2):
        with use_threads(threads):
            states.append(after(make_step(parts.train, backend=backend), 3)[0])
    assert all(np.array_equal(states[0][name], states[1][name]) for name in states[0])


def test_another_seed_is_another_fit(parts):
    one, two = (after(make_step(parts.train, seed=seed), 1)[0] for seed in (0, 1))
    assert not np.array_equal(one["draw_0"], two["draw_0"])
    assert not np.array_equal(one["net_0_shape_weight_0"], two["net_0_shape_weight_0"])


def test_torchs_settings_are_left_alone(parts):
    before = torch.get_num_threads(), torch.get_rng_state().clone()
    after(make_step(parts.train), 1)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


# -- what it comes to -----------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", COUNTS)
def test_it_learns_more_than_a_constant(likelihood):
    train, test = tf.split(tf.simulate((40, 30, 6), 2, density=0.25, random_state=5).tensor)
    validation = ValidationCells(test)
    step = make_step(train, COUNTS[likelihood], average_last=20, validation=validation)
    state, _ = after(step, 25)
    counted = np.unique(train.counts, return_counts=True)
    best = fit_constant(COUNTS[likelihood], *counted)
    constant = COUNTS[likelihood].log_pmf(test.counts, best.rate, best.r).mean()
    assert step.validation_score(state) > constant + 0.01


def test_observed_zeros_give_rates_of_the_mean_over_all_cells():
    tensor = tf.simulate((40, 30, 6), 2, density=0.1, random_state=7).tensor
    state, _ = after(make_step(tensor, zeros_observed=True, average_last=10), 40)
    totals = [state[f"mean_{axis}"].sum(axis=0) for axis in range(3)]
    assert np.prod(totals, axis=0).sum() == pytest.approx(tensor.counts.sum(), rel=0.25)


@pytest.mark.parametrize("zeros_observed", [False, True])
def test_an_entity_without_a_cell_has_the_prior(zeros_observed):
    axes = [tf.Axis.numbered("a", 4), tf.Axis.numbered("b", 3)]
    cells = [[0, 0], [0, 1], [1, 2], [2, 0], [2, 2]]
    tensor = tf.CountTensor(axes, cells, [1, 2, 1, 3, 1])
    step = make_step(tensor, zeros_observed=zeros_observed, prior_shape=0.7, prior_rate=1.9)
    before, _ = after(step, 1)
    state, _ = step.advance(before, 2)
    exposure = before["draw_1"].sum(axis=0) if zeros_observed else np.zeros(3)
    assert state["shape_0"][3].tolist() == [0.7] * 3
    assert state["rate_0"][3] == pytest.approx(1.9 + exposure)
    if not zeros_observed:
        shapes, rates = averaged_gammas(state)
        assert shapes[0][3] == pytest.approx([0.7] * 3)
        assert rates[0][3] == pytest.approx([1.9] * 3)


def balanced_moments(step, state):
    """Return the present moments of axis 1, each component's mean the same on every axis."""
    means = [state[f"shape_{m}"] / state[f"rate_{m}"] for m in range(3)]
    sizes = [mean[seen].mean(axis=0) for mean, seen in zip(means, step.cells.seen, strict=True)]
    gauge = np.prod(sizes, axis=0) ** (1 / 3) / sizes[1]
    shape, rate = state["shape_1"], state["rate_1"] / gauge
    return shape / rate, shape * (shape + 1) / rate**2


def test_averaged_gammas_have_the_averaged_moments(parts):
    step = make_step(parts.train, average_last=4)
    state, means, squares = step.start(), [], []
    for iteration in range(1, 4):
        state, _ = step.advance(state, iteration)
        mean, square = balanced_moments(step, state)
        means.append(mean)
        squares.append(square)
    shapes, rates = averaged_gammas(state)
    weight = np.array([0.1, 0.3, 0.6])  # shares 1, 3/4, 3/5: later iterations weigh more
    mean, seen = np.tensordot(weight, means, 1), step.cells.seen[1]
    variance = np.tensordot(weight, squares, 1) - mean**2
    assert (shapes[1] / rates[1])[seen] == pytest.approx(mean[seen])
    assert (shapes[1] / rates[1] ** 2)[seen] == pytest.approx(variance[seen])
    assert [s.shape for s in shapes] == [(size, 3) for size in parts.train.shape]


def test_a_scale_that_drifts_between_axes_does_not_spoil_the_average(parts):
    """The same posterior, ten times larger on one axis and smaller on another: the same average."""
    step = make_step(parts.train)
    state, _ = after(step, 1)
    moved = state | {"rate_0": state["rate_0"] / 10, "rate_2": state["rate_2"] * 10}
    one, other = (averaged(s, step.cells.seen, 0.5) for s in (state, moved))
    seen = step.cells.seen
    for name in one:
        rows = seen[int(name[-1])]
        assert one[name][rows] == pytest.approx(other[name][rows])


def test_weights_by_error_follow_the_errors(parts):
    step = make_step(parts.train, reweight="error")
    assert np.all(step._cell_weights(step.start()) == 1)
    state, _ = after(step, 5)
    weights = step._cell_weights(state)
    assert weights.min() < 1 < weights.max()
    assert np.corrcoef(weights, state["error_N"])[0, 1] > 0.9


def test_the_dispersion_is_learnt_unless_it_is_given(parts):
    likelihood = COUNTS["negative-binomial", True]
    assert after(make_step(parts.train, likelihood, dispersion=0.4), 2)[0]["dispersion"] == 0.4
    assert after(make_step(parts.train, likelihood), 2)[0]["dispersion"] != 1.0


# -- stability ------------------------------------------------------------------------------------


@pytest.mark.parametrize("learning_rate", [1.0, 100.0])
def test_an_absurd_learning_rate_is_backed_off_from(learning_rate, parts):
    step = make_step(
        parts.train, learning_rate=learning_rate, validation=ValidationCells(parts.test)
    )
    outcome = run_loop(step, StoppingRules(max_iter=15, patience=15))
    assert np.isfinite(outcome.history[-1].objective)
    last = float(outcome.state["learning_rate"])
    assert last < learning_rate if learning_rate > 50 else last <= learning_rate


def test_a_fit_that_cannot_be_saved_says_so(parts, monkeypatch):
    def lost(*arguments):
        raise FloatingPointError

    monkeypatch.setattr(PaperStep, "_attempt", lost)
    with pytest.raises(DivergedError, match="iteration 1 left the rails: the values of bound"):
        run_loop(make_step(parts.train), StoppingRules(max_iter=3))


@pytest.mark.parametrize("factor", [1, 1000])
@pytest.mark.parametrize("prior", [(0.1, None), (1.0, 1.0), (100.0, None), (1.0, 1e4), (1.0, 1e-4)])
def test_neither_the_counts_scale_nor_the_priors_upsets_it(factor, prior, parts):
    train = parts.train
    tensor = tf.CountTensor(train.axes, train.indices, train.counts * factor)
    step = make_step(tensor, prior_shape=prior[0], prior_rate=prior[1])
    outcome = run_loop(step, StoppingRules(max_iter=20))
    assert all(outcome.state[f"draw_{axis}"].min() >= LEAST_DRAW for axis in range(3))


def test_one_cell_is_enough():
    axes = [tf.Axis("a", [1]), tf.Axis("b", [1])]
    tensor = tf.CountTensor(axes, [[0, 0]], [3])
    for likelihood in COUNTS.values():
        run_loop(make_step(tensor, likelihood), StoppingRules(max_iter=5))
