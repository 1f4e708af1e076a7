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
        weight_2N[:, part] = _weights(given, x[:, part])
    return array_of(weight_2N)


@on_one_thread
def evidence_gradient(net: Layers, x_2N: Floats, slope_2N: Floats) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    given = [floats(array).requires_grad_() for array in net]
    x, slope = kept_if_fixed(x_2N, floats), floats(slope_2N)
    for part in chunks(x.shape[1], len(net.hidden_H)):
        _weights(given, x[:, part]).backward(slope[:, part])  # type: ignore[no-untyped-call]
    slopes = [each.new_zeros(each.shape) if each.grad is None else each.grad for each in given]
    return np.concatenate([array_of(each).ravel() for each in slopes])


def _weights(given: list[Tensor], x_2P: Tensor) -> Tensor:
    """Return the weights of some cells, without a matrix product.

    Its gradient would sum over cells in an order that depends on the threads of torch's BLAS.
    """
    import torch

    into_2H, hidden_H, out_H2, bias_2 = given
    unit_PH = (x_2P[0, :, None] * into_2H[0] + x_2P[1, :, None] * into_2H[1] + hidden_H).relu()
    inner = [(unit_PH * out_H2[:, i]).sum(1) + bias_2[i] for i in range(2)]
    return torch.stack(inner).logaddexp(x_2P.new_zeros(()))
