"""Encoder weights and factors as the fused kernel wants them, and its gradients as we name them.

Weights are float32, a unit's inputs and bias side by side. A layer before a softplus or sigmoid is
divided by ln 2, because those work in powers of two; softplus signals then come in units of ln 2.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.encoder import INPUT_CAP, KINDS, Network, Weights, other_factors
from tallyfold.kernels.layout import AxisLayout

WEIGHT_CAP = 1e9
"""Weights beyond it are taken as it: with capped inputs, no float32 sum can overflow."""

LN_2 = math.log(2.0)

Singles = NDArray[np.float32]


class Packed(NamedTuple):
    """Weights by kind (T = 2) and network (C).

    Attributes
    ----------
    hidden_TCUI
        For every hidden unit, its M weights and its bias. No unit if there is no hidden layer; an
        odd number is made even by a unit of zeros, as the kernel takes two at a time.
    output_TCI
        The output's weights and its bias.
    table_RK
        The other axes' factors, a row for every entity of any axis.
    """

    hidden_TCUI: Singles
    output_TCI: Singles
    table_RK: Singles

    def equals(self, other: "Packed") -> bool:
        """Return whether both hold the same numbers."""
        return all(np.array_equal(a, b) for a, b in zip(self, other, strict=True))


def pack(layout: AxisLayout, network: Network, weights: Weights, factors: Factors) -> Packed:
    """Return weights and factors for the kernel."""
    last = network.hidden_layers
    output_TCI = _with_bias(weights, last)[:, :, 0, :] / LN_2
    n_networks, n_inputs = output_TCI.shape[1], len(factors)
    hidden_TCUI = np.zeros((2, n_networks, 0, n_inputs + 1))
    if last:
        hidden_TCUI = _with_bias(weights, 0) / _unit(network.hidden_activation != "relu")
        output_TCI[:, :, :-1] *= _unit(network.hidden_activation == "softplus")
    if last and network.hidden_units % 2:
        hidden_TCUI = np.insert(hidden_TCUI, network.hidden_units, 0.0, axis=2)
        output_TCI = np.insert(output_TCI, network.hidden_units, 0.0, axis=2)
    table_RK = np.concatenate(other_factors(layout, factors))
    return Packed(_single(hidden_TCUI), _single(output_TCI), _single(table_RK))


def unpack(
    network: Network, weights: Weights, hidden_TCUI: Floats, output_TCI: Floats
) -> dict[str, Floats]:
    """Return the kernel's sums as gradients with respect to the weights, by name.

    What reaches a hidden unit has passed its output weight: the kernel leaves that factor out.
    """
    gradient, last = {}, network.hidden_layers
    if last:
        hidden_TCUI = hidden_TCUI[:, :, : network.hidden_units]
        output_TCI = np.delete(output_TCI, slice(network.hidden_units, -1), axis=2)
    for t, kind in enumerate(KINDS):
        if last:
            output_CUO = np.clip(weights[f"{kind}_weight_1"], -WEIGHT_CAP, WEIGHT_CAP)
            hidden_CUI = hidden_TCUI[t] * output_CUO
            gradient[f"{kind}_weight_0"] = hidden_CUI[:, :, :-1].transpose(0, 2, 1).copy()
            gradient[f"{kind}_bias_0"] = hidden_CUI[:, :, -1].copy()
        unit = _unit(bool(last) and network.hidden_activation == "softplus")
        gradient[f"{kind}_weight_{last}"] = unit * output_TCI[t, :, :-1, None]
        gradient[f"{kind}_bias_{last}"] = output_TCI[t, :, -1:].copy()
    return gradient


def counts_as_inputs(counts_R: NDArray[np.integer]) -> Singles:
    """Return counts as the kernel wants them."""
    return _single(np.minimum(counts_R, INPUT_CAP))


def _with_bias(weights: Weights, layer: int) -> Floats:
    """Return both kinds of one layer: a row of weights and the bias for every unit."""
    kinds = []
    for kind in KINDS:
        weight_CIO, bias_CO = (weights[f"{kind}_{part}_{layer}"] for part in ("weight", "bias"))
        kinds.append(np.concatenate([weight_CIO.transpose(0, 2, 1), bias_CO[:, :, None]], axis=2))
    return np.asarray(np.clip(np.stack(kinds), -WEIGHT_CAP, WEIGHT_CAP))


def _unit(counted_in_ln_2: bool) -> float:
    return LN_2 if counted_in_ln_2 else 1.0


def _single(array: Floats) -> Singles:
    return np.ascontiguousarray(array, dtype=np.float32)
