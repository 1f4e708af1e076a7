"""Compiled form of the evidence network: no array of cells times hidden units is ever made."""

import math

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.evidence import Layers, network_size
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.visits import frozen, sum_cells, visit_cells


def evidence_weights(net: Layers, x_2N: Floats) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.evidence.evidence_weights`."""
    weight_2N = np.empty_like(x_2N)
    visit_cells(_weights, x_2N.shape[1], *_frozen(*net, x_2N), weight_2N)
    return weight_2N


def evidence_gradient(net: Layers, x_2N: Floats, slope_2N: Floats) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.evidence.evidence_gradient`."""
    size = network_size(len(net.hidden_H))
    return sum_cells(_add_gradient, x_2N.shape[1], size, *_frozen(*net, x_2N, slope_2N))


def _frozen(*arrays: Floats) -> list[Floats]:
    return [frozen(array, np.float64) for array in arrays]


@jit_sums
def _inner(into_2H, hidden_H, out_H2, bias_2, x, y, unit_H):  # type: ignore[no-untyped-def]
    """Write the hidden units; return what goes into the two softplus.

    The loop that sums writes nothing: where it does, vectors are used only if what is written lies
    far enough from what is read, and the order of the sum depends on addresses.
    """
    for h in range(len(hidden_H)):
        unit_H[h] = max(into_2H[0, h] * x + into_2H[1, h] * y + hidden_H[h], 0.0)
    one, two = bias_2[0], bias_2[1]
    for h in range(len(hidden_H)):
        one += unit_H[h] * out_H2[h, 0]
        two += unit_H[h] * out_H2[h, 1]
    return one, two


@jit_sums
def _softplus(a):  # type: ignore[no-untyped-def]
    return max(a, 0.0) + math.log1p(math.exp(-abs(a)))


@jit_sums
def _sigmoid(a):  # type: ignore[no-untyped-def]
    e = math.exp(-abs(a))
    return 1.0 / (1.0 + e) if a >= 0.0 else e / (1.0 + e)


@jit_sums
def _weights(start, stop, into_2H, hidden_H, out_H2, bias_2, x_2N, weight_2N):  # type: ignore[no-untyped-def]
    unit_H = np.empty(len(hidden_H))
    for n in range(start, stop):
        one, two = _inner(into_2H, hidden_H, out_H2, bias_2, x_2N[0, n], x_2N[1, n], unit_H)
        weight_2N[0, n] = _softplus(one)
        weight_2N[1, n] = _softplus(two)


@jit_sums
def _add_gradient(  # type: ignore[no-untyped-def]
    start, stop, into_2H, hidden_H, out_H2, bias_2, x_2N, slope_2N, sum_P
):
    units = len(hidden_H)
    unit_H = np.empty(units)
    for n in range(start, stop):
        x, y = x_2N[0, n], x_2N[1, n]
        one, two = _inner(into_2H, hidden_H, out_H2, bias_2, x, y, unit_H)
        one, two = slope_2N[0, n] * _sigmoid(one), slope_2N[1, n] * _sigmoid(two)
        for h in range(units):
            slope = one * out_H2[h, 0] + two * out_H2[h, 1]
            slope = slope if unit_H[h] > 0.0 else 0.0
            sum_P[h] += slope * x
            sum_P[units + h] += slope * y
            sum_P[2 * units + h] += slope
            sum_P[3 * units + 2 * h] += one * unit_H[h]
            sum_P[3 * units + 2 * h + 1] += two * unit_H[h]
        sum_P[5 * units] += one
        sum_P[5 * units + 1] += two
