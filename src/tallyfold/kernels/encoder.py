"""The encoders of one axis: small networks on its cells, summed per entity, with gradients.

A cell and component k give the input (the other axes' factors at k in axis order, the count).
One network turns it into the cell's part of a shape, another into its part of a rate; parts are
weighted and summed over an entity's cells. There are K pairs of networks, or one for all.

Three forms compute this: NumPy (the reference), fused and compiled (float32 inside, distinct
inputs) and eager torch, for networks that have no compiled form and for other devices than the CPU.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tallyfold.errors import ParameterError, ShapeError, SlowPathWarning, warn
from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.backends import announce_compilation, chosen_backend
from tallyfold.kernels.layout import AxisLayout, check_factors, check_weights, entities

KINDS = ("shape", "rate")
HIDDEN_ACTIVATIONS = ("softplus", "relu", "sigmoid")
OUTPUT_ACTIVATIONS = ("softplus", "sigmoid")

INPUT_CAP = 1e15
"""Inputs (factors and counts) are clipped to it, so that float32 never overflows."""

FUSED_LAYERS = 1
"""The largest number of hidden layers that the fused kernel supports."""

SMALL_WORK = 20_000
"""Cells times hidden units below which ``"auto"`` means NumPy, which needs no compilation."""

Weights = Mapping[str, Floats]
"""``{kind}_weight_{l}`` (C, fan in, fan out) and ``{kind}_bias_{l}`` (C, fan out) for both
kinds and l = 0 to the number of hidden layers; C is K, or 1 if components share networks."""


class Network(NamedTuple):
    """The form of an encoder: its depth, its width and its activations."""

    hidden_layers: int
    hidden_units: int
    hidden_activation: str
    output_activation: str

    @property
    def activations(self) -> list[str]:
        """The activation of every layer, the output's last."""
        return [*[self.hidden_activation] * self.hidden_layers, self.output_activation]


class Arguments(NamedTuple):
    """What both passes take, checked; see :meth:`AxisEncoder.forward`."""

    weights: Weights
    factors: Factors
    weight_N: Floats
    n_components: int


class AxisEncoder(ABC):
    """Both networks of one axis.

    Parameters
    ----------
    layout, network
        The axis's cells and the networks' form.
    """

    def __init__(self, layout: AxisLayout, network: Network) -> None:
        self.layout = layout
        self.network = network

    def forward(
        self, weights: Weights, factors: Factors, weight_N: Floats
    ) -> tuple[Floats, Floats]:
        """Return the sums ``shape_DK`` and ``rate_DK``; zero for an entity without a cell.

        Parameters
        ----------
        weights
            The networks' weights, named as :data:`Weights` says.
        factors
            One (D, K) array per axis; the axis's own is not used.
        weight_N
            A weight for each cell, in the cells' original order.
        """
        return self._sums(self._checked(weights, factors, weight_N))

    def backward(
        self,
        weights: Weights,
        factors: Factors,
        weight_N: Floats,
        shape_grad_DK: Floats,
        rate_grad_DK: Floats,
    ) -> dict[str, Floats]:
        """Return the gradient of ``sum(shape_grad * shape + rate_grad * rate)``, by name.

        The first three arguments are those of :meth:`forward`. A call right after it, with equal
        arguments, saves an evaluation.
        """
        grad_TDK = np.stack([shape_grad_DK, rate_grad_DK], dtype=np.float64)
        return self._gradient(self._checked(weights, factors, weight_N), grad_TDK)

    @abstractmethod
    def _sums(self, given: Arguments) -> tuple[Floats, Floats]: ...

    @abstractmethod
    def _gradient(self, given: Arguments, grad_TDK: Floats) -> dict[str, Floats]: ...

    def _checked(self, weights: Weights, factors: Factors, weight_N: Floats) -> Arguments:
        """Refuse arrays that do not fit together."""
        n_components = check_factors([factors], self.layout.reach_M, unused=self.layout.axis)
        check_weights(weight_N, self.layout)
        _check_networks(self.network, weights, len(factors), n_components)
        return Arguments(weights, factors, weight_N, n_components)


class ReferenceEncoder(AxisEncoder):
    """In plain NumPy, float64, cell by cell: obvious and slow. The others must agree with it."""

    def _sums(self, given: Arguments) -> tuple[Floats, Floats]:
        """Sum the networks' outputs, weighted, over every entity's cells."""
        entity_N, weight_N = entities(self.layout), given.weight_N[self.layout.order_N]
        inputs_KNM = self._inputs(given)
        sums_TDK = np.zeros((len(KINDS), len(self.layout.indptr_D1) - 1, given.n_components))
        for kind, sums_DK in zip(KINDS, sums_TDK, strict=True):
            output_KN = self._layers(kind, given.weights, inputs_KNM)[0][-1][:, :, 0]
            np.add.at(sums_DK, entity_N, (weight_N * output_KN).T)
        return sums_TDK[0], sums_TDK[1]

    def _gradient(self, given: Arguments, grad_TDK: Floats) -> dict[str, Floats]:
        """Send each cell's gradient back through the layers."""
        entity_N, weight_N = entities(self.layout), given.weight_N[self.layout.order_N]
        inputs_KNM = self._inputs(given)
        gradient = {}
        for kind, grad_DK in zip(KINDS, grad_TDK, strict=True):
            signals, slopes = self._layers(kind, given.weights, inputs_KNM)
            grad_KNO = (weight_N * grad_DK[entity_N].T)[:, :, None]
            for layer in reversed(range(len(slopes))):
                weight_CIO = given.weights[f"{kind}_weight_{layer}"]
                grad_KNO = grad_KNO * slopes[layer]
                weight_KIO = signals[layer].transpose(0, 2, 1) @ grad_KNO
                shared = len(weight_CIO) == 1
                gradient[f"{kind}_weight_{layer}"] = _over_components(weight_KIO, shared)
                gradient[f"{kind}_bias_{layer}"] = _over_components(grad_KNO.sum(axis=1), shared)
                grad_KNO = grad_KNO @ weight_CIO.transpose(0, 2, 1)
        return gradient

    def _inputs(self, given: Arguments) -> Floats:
        """Return every cell's input for every component."""
        others = other_factors(self.layout, given.factors)
        gathered = [factor_DK[self.layout.others_NJ[:, j]].T for j, factor_DK in enumerate(others)]
        counts_N = np.minimum(self.layout.counts_N, INPUT_CAP)
        counts_KN = np.broadcast_to(counts_N, (given.n_components, len(counts_N)))
        return np.stack([*gathered, counts_KN], axis=2)

    def _layers(
        self, kind: str, weights: Weights, signal: Floats
    ) -> tuple[list[Floats], list[Floats]]:
        """Return the input and every layer's signal, and every layer's slopes."""
        signals, slopes = [signal], []
        for layer, name in enumerate(self.network.activations):
            weight_CIO, bias_CO = (weights[f"{kind}_{part}_{layer}"] for part in ("weight", "bias"))
            signal, slope = activation(name, signal @ weight_CIO + bias_CO[:, None, :])
            signals.append(signal)
            slopes.append(slope)
        return signals, slopes


def axis_encoder(layout: AxisLayout, network: Network, *, backend: str = "auto") -> AxisEncoder:
    """Return the encoder of the layout's axis, by the fastest back-end.

    Parameters
    ----------
    layout
        The cells in the order of the axis.
    network
        The form of both networks.
    backend
        ``"numba"`` (compiled), ``"numpy"``, ``"torch"`` (on the device in use), or ``"auto"``:
        NumPy for small problems, else compiled; torch on a device other than the CPU. A network
        without a compiled form is computed by torch, with a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from tallyfold.kernels.layout import axis_layout
    >>> layout = axis_layout(np.array([[0, 0], [2, 1]]), np.array([1, 4]), 0, 3)
    >>> encoder = axis_encoder(layout, Network(0, 0, "softplus", "softplus"))
    >>> weight, bias = np.array([[[1.0], [0.5]]]), np.zeros((1, 1))
    >>> weights = {"shape_weight_0": weight, "shape_bias_0": bias}
    >>> weights |= {"rate_weight_0": weight, "rate_bias_0": bias}
    >>> shape_DK, _ = encoder.forward(weights, [np.ones((3, 1)), np.ones((2, 1))], np.ones(2))
    >>> shape_DK.round(3).ravel().tolist()
    [1.701, 0.0, 3.049]
    """
    _check_network(network)
    work = len(layout.counts_N) * max(1, network.hidden_units)
    chosen = chosen_backend(backend, small=work < SMALL_WORK)
    if chosen == "numpy":
        return ReferenceEncoder(layout, network)
    if chosen == "numba" and network.hidden_layers <= FUSED_LAYERS:
        announce_compilation()
        from tallyfold.kernels.fused.encoder import FusedEncoder

        return FusedEncoder(layout, network)
    if chosen == "numba":
        _warn_slow(network)
    from tallyfold.kernels.encoder_torch import TorchEncoder

    return TorchEncoder(layout, network)


def layer_sizes(network: Network, n_inputs: int) -> list[tuple[int, int]]:
    """Return the fan in and fan out of every layer, the output's last."""
    widths = [n_inputs, *[network.hidden_units] * network.hidden_layers, 1]
    return list(pairwise(widths))


def other_factors(layout: AxisLayout, factors: Factors) -> list[Floats]:
    """Return the other axes' factors, capped."""
    others = [factor for m, factor in enumerate(factors) if m != layout.axis]
    return [np.clip(factor_DK, -INPUT_CAP, INPUT_CAP) for factor_DK in others]


def _check_network(network: Network) -> None:
    """Refuse an impossible network, or one whose output may be zero."""
    if network.hidden_layers < 0 or (network.hidden_layers and network.hidden_units < 1):
        raise ParameterError(
            f"`hidden_layers` must be 0 or more, `hidden_units` 1 or more; got {network}."
        )
    if network.hidden_activation not in HIDDEN_ACTIVATIONS:
        raise ParameterError(
            f"`hidden_activation` must be one of {HIDDEN_ACTIVATIONS}; "
            f"got {network.hidden_activation!r}."
        )
    if network.output_activation not in OUTPUT_ACTIVATIONS:
        raise ParameterError(
            f"`output_activation` must be one of {OUTPUT_ACTIVATIONS}, which are never zero: "
            f"shapes and rates must be positive; got {network.output_activation!r}."
        )


def _check_networks(network: Network, weights: Weights, n_inputs: int, n_components: int) -> None:
    """Refuse weights of another network."""
    n_networks = weights["shape_weight_0"].shape[0]
    if n_networks not in (1, n_components):
        raise ShapeError(f"Weights for {n_networks} networks, but {n_components} components.")
    for kind in KINDS:
        for layer, (fan_in, fan_out) in enumerate(layer_sizes(network, n_inputs)):
            for name, wanted in (
                (f"{kind}_weight_{layer}", (n_networks, fan_in, fan_out)),
                (f"{kind}_bias_{layer}", (n_networks, fan_out)),
            ):
                if weights[name].shape != wanted:
                    raise ShapeError(f"`{name}` must be {wanted}; got {weights[name].shape}.")


def _warn_slow(network: Network) -> None:
    """Say what is slow, why, and what would be fast."""
    warn(
        f"Encoders with {network.hidden_layers} hidden layers have no compiled kernel: every "
        "iteration runs in eager torch, which takes about ten times as long. "
        f"`hidden_layers` of 0 to {FUSED_LAYERS} is fast, with any activation and width.",
        SlowPathWarning,
    )


def activation(name: str, x: Floats) -> tuple[Floats, Floats]:
    """Return an activation and its slope."""
    if name == "relu":
        return np.maximum(x, 0.0), (x > 0.0).astype(np.float64)
    tail = np.exp(-np.abs(x))
    sigmoid = np.where(x >= 0.0, 1.0, tail) / (1.0 + tail)
    if name == "softplus":
        return np.maximum(x, 0.0) + np.log1p(tail), sigmoid
    return sigmoid, tail / (1.0 + tail) ** 2


def _over_components(grad_K: Floats, shared: bool) -> Floats:
    """Add up the components' gradients if they share their weights."""
    return grad_K.sum(axis=0, keepdims=True) if shared else grad_K
