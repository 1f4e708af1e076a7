"""Encoders in plain NumPy, float64, cell by cell: obvious and slow. The others must agree."""

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.encoder import (
    INPUT_CAP,
    KINDS,
    Arguments,
    AxisEncoder,
    Weights,
    other_factors,
)
from tallyfold.kernels.layout import entities


class ReferenceEncoder(AxisEncoder):
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`."""

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
