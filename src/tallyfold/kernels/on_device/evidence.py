"""The evidence network in torch; see :mod:`tallyfold.kernels.evidence`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.evidence import Layers
from tallyfold.kernels.on_device.tensors import (
    array_of,
    chunks,
    floats,
    kept_if_fixed,
    on_one_thread,
)

if TYPE_CHECKING:
    from torch import Tensor


@on_one_thread
def evidence_weights(net: Layers, x_2N: Floats) -> Floats:
    """Return the two weights of each cell, (2, N)."""
    given, x = [floats(array) for array in net], kept_if_fixed(x_2N, floats)
    weight_2N = x.new_empty(x.shape)
    for part in chunks(x.shape[1], len(net.hidden_H)):
        inner_2P, _ = _inner(given, x[:, part])
        weight_2N[:, part] = inner_2P.logaddexp(x.new_zeros(()))
    return array_of(weight_2N)


@on_one_thread
def evidence_gradient(net: Layers, x_2N: Floats, slope_2N: Floats) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    given, x, slope = [floats(a) for a in net], kept_if_fixed(x_2N, floats), floats(slope_2N)
    sums = [each.new_zeros(each.shape) for each in given]
    for part in chunks(x.shape[1], len(net.hidden_H)):
        for total, found in zip(sums, _gradient(given, x[:, part], slope[:, part]), strict=True):
            total += found
    return np.concatenate([array_of(total).ravel() for total in sums])


def _inner(given: list[Tensor], x_2P: Tensor) -> tuple[Tensor, Tensor]:
    """Return what goes into the softplus, and the hidden units."""
    into_2H, hidden_H, out_H2, bias_2 = given
    unit_PH = (x_2P.T @ into_2H + hidden_H).relu()
    return (unit_PH @ out_H2 + bias_2).T, unit_PH


def _gradient(given: list[Tensor], x_2P: Tensor, slope_2P: Tensor) -> tuple[Tensor, ...]:
    """Return what some cells add, layer by layer."""
    inner_2P, unit_PH = _inner(given, x_2P)
    inner_slope_2P = slope_2P * inner_2P.sigmoid()
    unit_slope_PH = (inner_slope_2P.T @ given[2].T) * (unit_PH > 0)
    return (
        x_2P @ unit_slope_PH,
        unit_slope_PH.sum(0),
        (inner_slope_2P @ unit_PH).T,
        inner_slope_2P.sum(1),
    )
