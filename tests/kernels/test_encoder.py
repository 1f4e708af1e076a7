"""Encoders: every form against the NumPy reference, and all gradients against autograd."""

import itertools
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from tallyfold.errors import BackendError, ParameterError, ShapeError, SlowPathWarning
from tallyfold.kernels import axis_layout, encoder, use_threads
from tallyfold.kernels.encoder import (
    KINDS,
    Network,
    ReferenceEncoder,
    activation,
    axis_encoder,
    layer_sizes,
)
from tallyfold.kernels.encoder_torch import TorchEncoder
from tallyfold.kernels.fused import softplus
from tallyfold.kernels.fused.encoder import FusedEncoder
from tallyfold.kernels.layout import distinct_inputs

SIZES = {2: (12, 30), 3: (9, 14, 6), 4: (8, 7, 6, 5), 5: (5, 6, 4, 3, 4)}
N_COMPONENTS = 3
NETWORKS = [
    Network(layers, 5, hidden, output)
    for layers in (0, 1, 2)
    for hidden, output in itertools.product(
        ("softplus", "relu", "sigmoid"), ("softplus", "sigmoid")
    )
    if layers or hidden == "softplus"
]


@pytest.fixture(autouse=True)
def one_thread_for_torch():
    """On small arrays its threads wait for each other, and for whatever else runs."""
    with threadpool_limits(1, user_api="openmp"):
        yield


class Case:
    """Cells whose last entity has none and whose last but one has one, weights and gradients."""

    def __init__(self, n_axes=3, network=NETWORKS[2], shared=False, axis=1, n_cells=900, seed=0):
        rng = self.rng = np.random.default_rng(seed)
        sizes = list(SIZES[n_axes])
        cells = np.column_stack([rng.integers(0, size, n_cells) for size in sizes])
        cells = np.vstack(
            [np.unique(cells, axis=0), [sizes[m] * (m == axis) for m in range(n_axes)]]
        )
        sizes[axis] += 2
        self.network, self.axis, self.n_axes = network, axis, n_axes
        self.indices_NM, self.counts_N = cells, rng.geometric(0.4, len(cells))
        self.layout = axis_layout(self.indices_NM, self.counts_N, axis, sizes[axis])
        self.factors = [rng.gamma(0.7, 1.5, (size, N_COMPONENTS)) for size in sizes]
        self.weight_N = rng.random(len(cells))
        self.weights = self.draw_weights(1 if shared else N_COMPONENTS)
        self.grads = [rng.normal(size=(sizes[axis], N_COMPONENTS)) for _ in KINDS]

    def draw_weights(self, n_networks):
        weights = {}
        for kind in KINDS:
            for layer, (wide, narrow) in enumerate(layer_sizes(self.network, self.n_axes)):
                shape = (n_networks, wide, narrow)
                weights[f"{kind}_weight_{layer}"] = self.rng.normal(0, 0.5, shape)
                weights[f"{kind}_bias_{layer}"] = self.rng.normal(0, 0.5, (n_networks, narrow))
        return weights

    @property
    def arguments(self):
        return self.weights, self.factors, self.weight_N

    def autograd(self):
        """Return sums and gradients by float64 autograd, one cell and component at a time."""
        values = {name: torch.tensor(w, requires_grad=True) for name, w in self.weights.items()}
        n_networks = len(self.weights["shape_weight_0"])
        functions = {"softplus": torch.nn.functional.softplus, "relu": torch.relu}
        functions["sigmoid"] = torch.sigmoid
        sums = torch.zeros((2, *self.grads[0].shape), dtype=torch.float64)
        entity_N = torch.tensor(self.indices_NM[:, self.axis])
        for (t, kind), k in itertools.product(enumerate(KINDS), range(N_COMPONENTS)):
            columns = [
                self.factors[m][self.indices_NM[:, m], k]
                for m in range(self.n_axes)
                if m != self.axis
            ]
            signal = torch.tensor(np.column_stack([*columns, self.counts_N.astype(float)]))
            for layer in range(self.network.hidden_layers + 1):
                last = layer == self.network.hidden_layers
                weight, bias = (values[f"{kind}_{part}_{layer}"] for part in ("weight", "bias"))
                name = self.network.output_activation if last else self.network.hidden_activation
                signal = functions[name](signal @ weight[k % n_networks] + bias[k % n_networks])
            sums[t, :, k] = sums[t, :, k].index_add(
                0, entity_N, torch.tensor(self.weight_N) * signal[:, 0]
            )
        (sums * torch.tensor(np.stack(self.grads))).sum().backward()
        return sums.detach().numpy(), {name: value.grad.numpy() for name, value in values.items()}


def assert_gradients(got, wanted, tolerance):
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        assert got[name].shape == value.shape
        assert got[name].dtype == np.float64
        assert np.abs(got[name] - value).max() <= tolerance * np.abs(value).max(), name


def assert_agrees(made, case, tolerance):
    sums, gradients = case.autograd()
    for got, wanted in zip(made.forward(*case.arguments), sums, strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, wanted, rtol=tolerance)
        assert not got[-1].any()  # an entity without a cell
    assert_gradients(made.backward(*case.arguments, *case.grads), gradients, tolerance)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: "-".join(map(str, network)))
@pytest.mark.parametrize("n_axes", SIZES)
def test_all_forms_agree_with_autograd(n_axes, network, shared):
    case = Case(n_axes, network, shared, axis=n_axes // 2)
    assert_agrees(ReferenceEncoder(case.layout, network), case, 1e-9)
    assert_agrees(TorchEncoder(case.layout, network), case, 1e-8)
    if network.hidden_layers <= encoder.FUSED_LAYERS:
        assert_agrees(FusedEncoder(case.layout, network), case, 5e-6)


@pytest.mark.parametrize("axis", [0, 2])
def test_first_and_last_axis(axis):
    case = Case(axis=axis)
    assert_agrees(FusedEncoder(case.layout, case.network), case, 5e-6)


def test_torch_in_small_chunks(monkeypatch):
    monkeypatch.setattr("tallyfold.kernels.encoder_torch.CHUNK_NUMBERS", 1000)
    case = Case()
    assert_agrees(TorchEncoder(case.layout, case.network), case, 1e-8)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("n_axes", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(n_axes, shared):
    rng = np.random.default_rng(1)
    sizes = [60, 300, 20][:n_axes]
    cells = np.unique(np.column_stack([rng.integers(0, d, 20_000) for d in sizes]), axis=0)
    case = Case(n_axes, Network(1, 4, "softplus", "softplus"), shared)
    case.factors = [rng.gamma(1.0, 1.0, (size, N_COMPONENTS)) for size in sizes]
    counts_N = rng.integers(1, 1000, len(cells))
    made = FusedEncoder(axis_layout(cells, counts_N, 0, sizes[0]), case.network)
    assert made.n_blocks > 3 * made.chunk_blocks or n_axes == 2
    arguments = (case.weights, case.factors, rng.random(len(cells)))
    grads = [rng.normal(size=(sizes[0], N_COMPONENTS)) for _ in KINDS]
    bits = set()
    for n_threads in (1, 2, 3):
        with use_threads(n_threads):
            results = [*made.forward(*arguments), *made.backward(*arguments, *grads).values()]
        bits.add(b"".join(array.tobytes() for array in results))
    assert len(bits) == 1


@pytest.mark.parametrize("hidden", ["softplus", "relu", "sigmoid"])
@pytest.mark.parametrize("output", ["softplus", "sigmoid"])
@pytest.mark.parametrize("layers", [0, 1])
def test_huge_and_tiny_inputs_and_weights_stay_finite(layers, hidden, output):
    case = Case(network=Network(layers, 5, hidden, output))
    case.counts_N[::3] = 2**53
    case.layout = axis_layout(case.indices_NM, case.counts_N, case.axis, len(case.grads[0]))
    for factor in case.factors:
        factor *= 10.0 ** case.rng.choice([-320, -30, 0, 30, 300], factor.shape)
    case.factors[0][0] = np.inf
    for scale in (1.0, 1e-30, 1e30):
        weights = {name: scale * value for name, value in case.weights.items()}
        arguments = (weights, case.factors, case.weight_N)
        for make in (ReferenceEncoder, FusedEncoder, TorchEncoder):
            made = make(case.layout, case.network)
            results = [*made.forward(*arguments), *made.backward(*arguments, *case.grads).values()]
            assert all(np.isfinite(array).all() for array in results), make


def test_large_counts_agree_with_the_reference():
    case = Case()
    case.counts_N[::2] = case.rng.integers(1, 2**50, len(case.counts_N[::2]))
    case.layout = axis_layout(case.indices_NM, case.counts_N, case.axis, len(case.grads[0]))
    reference, fused = (
        axis_encoder(case.layout, case.network, backend=b) for b in ("numpy", "numba")
    )
    for got, wanted in zip(
        fused.forward(*case.arguments), reference.forward(*case.arguments), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert_gradients(
        fused.backward(*case.arguments, *case.grads),
        reference.backward(*case.arguments, *case.grads),
        1e-5,
    )


@pytest.mark.parametrize("scale", [1e-250, 1e-40, 1e40, 1e250])
def test_gradients_of_any_size_keep_their_digits(scale):
    case = Case()
    made = FusedEncoder(case.layout, case.network)
    plain = made.backward(*case.arguments, *case.grads)
    scaled = made.backward(*case.arguments, *(scale * grad for grad in case.grads))
    assert_gradients({name: value / scale for name, value in scaled.items()}, plain, 1e-6)
    heavy = made.backward(case.weights, case.factors, scale * case.weight_N, *case.grads)
    assert_gradients({name: value / scale for name, value in heavy.items()}, plain, 1e-6)
    nothing = made.backward(case.weights, case.factors, 0 * case.weight_N, *case.grads)
    assert not any(value.any() for value in nothing.values())


def test_backward_needs_no_forward_and_sees_changes_made_in_place():
    case = Case()
    made, reference = (form(case.layout, case.network) for form in (FusedEncoder, ReferenceEncoder))
    for change in (lambda: None, lambda: case.factors[0].sort(axis=0)):
        change()
        wanted = reference.backward(*case.arguments, *case.grads)
        assert_gradients(made.backward(*case.arguments, *case.grads), wanted, 5e-6)
    made.forward(*case.arguments)
    for value in case.weights.values():
        value *= 0.5
    wanted = reference.backward(*case.arguments, *case.grads)
    assert_gradients(made.backward(*case.arguments, *case.grads), wanted, 5e-6)


def test_cell_weights_that_change_in_place_are_seen():
    case = Case()
    made, reference = (form(case.layout, case.network) for form in (FusedEncoder, ReferenceEncoder))
    for _ in range(2):
        pairs = zip(made.forward(*case.arguments), reference.forward(*case.arguments), strict=True)
        for got, wanted in pairs:
            np.testing.assert_allclose(got, wanted, rtol=5e-6)
        wanted = reference.backward(*case.arguments, *case.grads)
        assert_gradients(made.backward(*case.arguments, *case.grads), wanted, 5e-6)
        case.weight_N[::2] *= 7.0


def test_other_types_and_strides_are_taken():
    case = Case()
    made = FusedEncoder(case.layout, case.network)
    whole = np.arange(2 * len(case.weight_N), dtype=np.float32)[::2]
    shape_DK, _ = made.forward(case.weights, case.factors, whole)
    np.testing.assert_array_equal(
        shape_DK, made.forward(case.weights, case.factors, whole.astype(float))[0]
    )
    single = [np.asfortranarray(grad, dtype=np.float32) for grad in case.grads]
    plain = made.backward(*case.arguments, *case.grads)
    assert_gradients(made.backward(*case.arguments, *single), plain, 1e-6)


def test_the_number_of_components_may_change():
    case = Case()
    made = FusedEncoder(case.layout, case.network)
    wide_DK, _ = made.forward(*case.arguments)
    one = {name: value[:1] for name, value in case.weights.items()}
    narrow_DK, _ = made.forward(one, [factor[:, :1] for factor in case.factors], case.weight_N)
    assert narrow_DK.tobytes() == wide_DK[:, :1].tobytes()


def test_a_tensor_without_cells():
    layout = axis_layout(np.empty((0, 3), dtype=int), np.empty(0, dtype=int), 0, 4)
    case = Case()
    factors = [np.ones((4, N_COMPONENTS))] * 3
    for make in (ReferenceEncoder, FusedEncoder, TorchEncoder):
        made, none = make(layout, case.network), np.empty(0)
        sums = made.forward(case.weights, factors, none)
        assert all(array.shape == (4, N_COMPONENTS) and not array.any() for array in sums)
        gradients = made.backward(case.weights, factors, none, *sums)
        assert {name: value.shape for name, value in gradients.items()} == {
            name: value.shape for name, value in case.weights.items()
        }
        assert not any(value.any() for value in gradients.values())


def test_auto_takes_numpy_for_little_and_the_compiled_form_for_much(monkeypatch):
    case = Case()
    assert isinstance(axis_encoder(case.layout, case.network), ReferenceEncoder)
    assert isinstance(axis_encoder(case.layout, case.network, backend="numba"), FusedEncoder)
    monkeypatch.setattr(encoder, "SMALL_WORK", 10)
    assert isinstance(axis_encoder(case.layout, case.network), FusedEncoder)


@pytest.mark.parametrize("backend", ["auto", "numba"])
def test_a_slow_path_says_so(backend, monkeypatch):
    monkeypatch.setattr(encoder, "SMALL_WORK", 10)
    case, deep = Case(), Network(2, 5, "softplus", "softplus")
    with pytest.warns(
        SlowPathWarning, match="2 hidden layers.*no compiled.*0 to 1 is fast"
    ) as seen:
        made = axis_encoder(case.layout, deep, backend=backend)
    assert isinstance(made, TorchEncoder)
    assert seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        axis_encoder(case.layout, deep, backend="torch")
        axis_encoder(case.layout, deep, backend="numpy")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"output_activation": "relu"}, "never zero"),
        ({"hidden_activation": "tanh"}, "hidden_activation"),
        ({"hidden_layers": -1}, "hidden_layers"),
        ({"hidden_units": 0}, "hidden_units"),
    ],
)
def test_networks_that_are_refused(change, word):
    case = Case()
    with pytest.raises(ParameterError, match=word):
        axis_encoder(case.layout, case.network._replace(**change))


@pytest.mark.parametrize("make", [ReferenceEncoder, FusedEncoder, TorchEncoder])
def test_arrays_that_do_not_fit_are_refused(make):
    case = Case()
    made = make(case.layout, case.network)
    with pytest.raises(ShapeError, match="weights of shape"):
        made.forward(case.weights, case.factors, case.weight_N[1:])
    with pytest.raises(ShapeError, match="Factor 2"):
        made.forward(case.weights, [*case.factors[:2], case.factors[2][1:]], case.weight_N)
    with pytest.raises(ShapeError, match="3 axes"):
        made.forward(case.weights, case.factors[:2], case.weight_N)
    with pytest.raises(ShapeError, match="rate_bias_1"):
        made.forward(case.weights | {"rate_bias_1": np.zeros((1, 1))}, *case.arguments[1:])
    two = {name: value[:2] for name, value in case.weights.items()}
    with pytest.raises(ShapeError, match="2 networks"):
        made.forward(two, *case.arguments[1:])
    with pytest.raises(BackendError):
        axis_encoder(case.layout, case.network, backend="cuda")


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32), st.integers(2, 5), st.sampled_from([3, 2**31 - 1]))
def test_distinct_inputs_stand_for_their_cells(seed, n_axes, reach):
    rng = np.random.default_rng(seed)
    cells = rng.choice([0, 1, reach], (40, n_axes))  # large positions: keys would overflow
    cells[:, 0] %= 4
    counts_N = rng.choice([1, 2, 2**53], 40)
    layout = axis_layout(cells, counts_N, 0, 4)
    inputs = distinct_inputs(layout)
    seen = {
        (*others, count) for others, count in zip(inputs.others_RJ, inputs.counts_R, strict=True)
    }
    assert len(seen) == len(inputs.counts_R)
    np.testing.assert_array_equal(inputs.others_RJ[inputs.input_N], layout.others_NJ)
    np.testing.assert_array_equal(inputs.counts_R[inputs.input_N], layout.counts_N)
    input_N = np.repeat(np.arange(len(inputs.counts_R)), np.diff(inputs.indptr_R1))
    np.testing.assert_array_equal(inputs.counts_R[input_N], counts_N[inputs.source_N])
    np.testing.assert_array_equal(inputs.entity_N, cells[inputs.source_N, 0])
    assert sorted(inputs.source_N) == list(range(40))
    first_R = np.unique(inputs.input_N, return_index=True)[1]
    assert np.all(np.diff(first_R) > 0)  # numbered as they come in the layout


def test_inputs_whose_keys_would_wrap_to_the_same_number_stay_distinct():
    cells = np.array([[0, 0, 0], [0, 1, 0], [0, 0, 2**31 - 1]])
    counts_N = np.array([1, 1, 2**33 - 1])  # with the axis before, 2**64 keys
    layout = axis_layout(cells, counts_N, 0, 1)
    assert distinct_inputs(layout).input_N.tolist() == [0, 1, 2]


def test_softplus_and_sigmoid_are_good_to_single_precision():
    grid = np.concatenate(
        [np.linspace(-80, 80, 100 * softplus.BLOCK - 4), [0.0, -0.0, 1e30, -1e30]]
    )
    x = (grid / np.log(2)).astype(np.float32)
    for block_B in x.reshape(-1, softplus.BLOCK):
        exact_B = block_B.astype(np.float64) * np.log(2)
        for name in ("softplus", "sigmoid"):
            value_B, slope_B = block_B.copy(), np.empty_like(block_B)
            softplus.finish(softplus.CODES[name], value_B, block_B * 0, slope_B)
            value, slope = activation(name, exact_B)
            np.testing.assert_allclose(value_B, value, rtol=6e-7, atol=2e-38)
            np.testing.assert_allclose(slope_B, slope, rtol=6e-7, atol=2e-38)


@pytest.mark.parametrize("name", ["softplus", "relu", "sigmoid"])
def test_signals_of_hidden_units_and_their_gradients_are_as_good(name):
    """Two units forward, one backward: sums of activations, slopes in place."""
    rng, unit = np.random.default_rng(0), np.log(2) if name == "softplus" else 1.0
    x_2B = rng.normal(0, 8, (2, softplus.BLOCK)).astype(np.float32)
    scale = np.log(2) if name != "relu" else 1.0
    value_2B, slope_2B = activation(name, x_2B.astype(np.float64) * scale)
    code, tail_2B, sum_B = softplus.CODES[name], x_2B * 0, x_2B[0] * 0
    softplus.add_signals(code, x_2B, np.float32(0.5), np.float32(2.0), tail_2B, sum_B)
    wanted_B = (0.5 * value_2B[0] + 2.0 * value_2B[1]) / unit
    np.testing.assert_allclose(sum_B, wanted_B, rtol=6e-7)
    grad_B, got_B = rng.random(softplus.BLOCK).astype(np.float32), x_2B[0].copy()
    total = softplus.pull_back(code, grad_B, tail_2B[0], got_B)
    assert total == pytest.approx((grad_B * value_2B[0] / unit).sum(), rel=2e-6)
    np.testing.assert_allclose(got_B, grad_B * slope_2B[0], rtol=6e-7)
