"""Rectified units, in one pass; see :mod:`tallyfold.kernels.head_network`."""

from tallyfold.kernels.fused.jit import jit


@jit
def rectify(hidden_NH, b_H):  # type: ignore[no-untyped-def]
    """Add biases, and put zero where the sum is below."""
    zero = hidden_NH.dtype.type(0)
    for n in range(hidden_NH.shape[0]):
        for h in range(hidden_NH.shape[1]):
            total = hidden_NH[n, h] + b_H[h]
            hidden_NH[n, h] = total if total > zero else zero


@jit
def stop_at_zeros(slope_NH, hidden_NH):  # type: ignore[no-untyped-def]
    """Put zero where a hidden unit is zero."""
    zero = slope_NH.dtype.type(0)
    for n in range(slope_NH.shape[0]):
        for h in range(slope_NH.shape[1]):
            slope_NH[n, h] = slope_NH[n, h] if hidden_NH[n, h] > zero else zero
