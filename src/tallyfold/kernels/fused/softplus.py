"""Activations over blocks of inputs, in float32 and in powers of two, so that they vectorise.

The compiler turns ``exp`` and ``log`` into scalar calls; polynomials become vector code. Arguments
come divided by ln 2 (:mod:`tallyfold.kernels.fused.encoder` scales the layer before), which
spares a multiplication: with x = a / ln 2,

    softplus(a) / ln 2 = max(x, 0) + log2(1 + 2 ** -|x|)        sigmoid(a) = 1 / (1 + 2 ** -x)

Relative errors are below 5e-7 (softplus) and 2e-7 (sigmoid) at any argument. The polynomials are
minimax fits of 2 ** f on -1/2..1/2 and of log2(1 + e) / e on 0..1, in relative error.
"""

import math

import numpy as np

from tallyfold.kernels.fused.jit import jit_in_order, jit_sums

BLOCK = 512
"""Rows that are evaluated together: their inputs and signals stay in the first-level cache."""

SOFTPLUS, RELU, SIGMOID = 0, 1, 2
CODES = {"softplus": SOFTPLUS, "relu": RELU, "sigmoid": SIGMOID}

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_LN_2 = np.float32(math.log(2.0))
_FLOOR = np.float32(-126.0)
_ROUND = np.float32(1.5 * 2.0**23)
_EXPONENT = np.int32(23)
_P0, _P1, _P2, _P3, _P4, _P5 = (
    np.float32(coefficient)
    for coefficient in (
        1.0000000716546635,
        0.6931469670640861,
        0.24022119723909688,
        0.055507132745987876,
        0.0096755413316469,
        0.0013276471636774964,
    )
)
_Q0, _Q1, _Q2, _Q3, _Q4, _Q5, _Q6, _Q7 = (
    np.float32(coefficient / math.log(2.0))
    for coefficient in (
        0.9999998056660206,
        -0.49997405386647287,
        0.33275479626758947,
        -0.24495461956908363,
        0.17745238984403966,
        -0.10768167702955139,
        0.04408960562924215,
        -0.008539201082331147,
    )
)


@jit_in_order
def _split(x):  # type: ignore[no-untyped-def]
    """Return x rounded, in the low bits of a float, and the rest."""
    rounded = x + _ROUND
    return rounded, x - (rounded - _ROUND)


@jit_sums
def tail(x):  # type: ignore[no-untyped-def]
    """Return 2 ** -|x|, but no less than 2 ** -126."""
    rounded, f = _split(max(-abs(x), _FLOOR))
    power = _P0 + f * (_P1 + f * (_P2 + f * (_P3 + f * (_P4 + f * _P5))))
    shift = np.float32(rounded).view(np.int32) << _EXPONENT
    return np.int32(np.float32(power).view(np.int32) + shift).view(np.float32)


@jit_sums
def log2_one_plus(e):  # type: ignore[no-untyped-def]
    """Return log2(1 + e) for e in 0..1."""
    high = _Q4 + e * (_Q5 + e * (_Q6 + e * _Q7))
    return e * (_Q0 + e * (_Q1 + e * (_Q2 + e * (_Q3 + e * high))))


@jit_sums
def _tails(x_B, tail_B):  # type: ignore[no-untyped-def]
    """Write 2 ** -|x|; in a loop of its own, which keeps more vectors in flight than one long."""
    for r in range(BLOCK):
        tail_B[r] = tail(x_B[r])


@jit_sums
def add_signals(code, x_2B, v, w, tail_2B, sum_B):  # type: ignore[no-untyped-def]
    """Add v and w times the activations of two units; softplus counts in units of ln 2."""
    if code == RELU:
        for r in range(BLOCK):
            sum_B[r] += v * max(x_2B[0, r], _ZERO) + w * max(x_2B[1, r], _ZERO)
        return
    _tails(x_2B[0], tail_2B[0])
    _tails(x_2B[1], tail_2B[1])
    if code == SOFTPLUS:
        for r in range(BLOCK):
            one = max(x_2B[0, r], _ZERO) + log2_one_plus(tail_2B[0, r])
            two = max(x_2B[1, r], _ZERO) + log2_one_plus(tail_2B[1, r])
            sum_B[r] += v * one + w * two
    else:
        for r in range(BLOCK):
            d, e = tail_2B[0, r], tail_2B[1, r]
            one = (_ONE if x_2B[0, r] >= _ZERO else d) / (_ONE + d)
            two = (_ONE if x_2B[1, r] >= _ZERO else e) / (_ONE + e)
            sum_B[r] += v * one + w * two


@jit_sums
def pull_back(code, grad_B, tail_B, x_B):  # type: ignore[no-untyped-def]
    """Return the sum of gradient times activation; overwrite x by gradient times slope.

    The loops that sum write nothing, as in :mod:`tallyfold.kernels.fused.evidence`.
    """
    total = _ZERO
    if code == RELU:
        for r in range(BLOCK):
            total += grad_B[r] * max(x_B[r], _ZERO)
        for r in range(BLOCK):
            x_B[r] = grad_B[r] if x_B[r] > _ZERO else _ZERO
        return total
    _tails(x_B, tail_B)
    if code == SOFTPLUS:
        for r in range(BLOCK):
            total += grad_B[r] * (max(x_B[r], _ZERO) + log2_one_plus(tail_B[r]))
        for r in range(BLOCK):
            e = tail_B[r]
            x_B[r] = grad_B[r] * ((_ONE if x_B[r] >= _ZERO else e) / (_ONE + e))
    else:
        for r in range(BLOCK):
            e = tail_B[r]
            total += grad_B[r] * ((_ONE if x_B[r] >= _ZERO else e) / (_ONE + e))
        for r in range(BLOCK):
            inverse = _ONE / (_ONE + tail_B[r])
            x_B[r] = grad_B[r] * (tail_B[r] * inverse * inverse)
    return total


@jit_sums
def finish(code, x_B, tail_B, slope_B):  # type: ignore[no-untyped-def]
    """Overwrite x by the output's activation, in plain units, and keep its slope."""
    _tails(x_B, tail_B)
    if code == SOFTPLUS:
        for r in range(BLOCK):
            e = tail_B[r]
            slope_B[r] = (_ONE if x_B[r] >= _ZERO else e) / (_ONE + e)
            x_B[r] = _LN_2 * (max(x_B[r], _ZERO) + log2_one_plus(e))
    else:
        for r in range(BLOCK):
            e = tail_B[r]
            inverse = _ONE / (_ONE + e)
            slope_B[r] = e * inverse * inverse
            x_B[r] = (_ONE if x_B[r] >= _ZERO else e) * inverse
