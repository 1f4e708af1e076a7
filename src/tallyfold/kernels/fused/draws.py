"""Exact binomial and multinomial draws from a counter-based random number generator.

A draw is a function of its address (seed, iteration, cell and the number of the draw), not of the
draws before it.

Philox4x32-10 (Salmon, Moraes, Dror & Shaw, *Parallel random numbers: as easy as 1, 2, 3*,
SC'11): ten rounds of multiplications turn a key and a counter into 128 random bits. A cell's
draws are the same whichever axis, thread or order it is visited in.
"""

import math

import numpy as np

from tallyfold.kernels.fused.jit import jit, jit_inline

_MASK = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_TAIL = np.uint64(11)
_MULTIPLY_0, _MULTIPLY_1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_BUMP_0, _BUMP_1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_ONE = np.uint64(1)


@jit
def philox(a, b, c, d, key_0, key_1):  # type: ignore[no-untyped-def]
    """Return four random words; arguments and results are uint64 below 2**32."""
    for _ in range(10):
        one, two = _MULTIPLY_0 * a, _MULTIPLY_1 * c
        a, b, c, d = (
            (two >> _HALF) ^ b ^ key_0,
            two & _MASK,
            (one >> _HALF) ^ d ^ key_1,
            one & _MASK,
        )
        key_0, key_1 = (key_0 + _BUMP_0) & _MASK, (key_1 + _BUMP_1) & _MASK
    return a, b, c, d


@jit
def uniform_at(seed, iteration, cell, draw):  # type: ignore[no-untyped-def]
    """Return the number in [0, 1) at an address of four uint64, with 53 random bits."""
    high, low, _, _ = philox(
        cell & _MASK, cell >> _HALF, iteration, draw, seed & _MASK, seed >> _HALF
    )
    return float(((high << _HALF) | low) >> _TAIL) * 2.0**-53


@jit
def uniform(stream):  # type: ignore[no-untyped-def]
    """Return the number at a stream's address (four uint64 as above) and advance the address."""
    stream[3] += _ONE
    return uniform_at(stream[0], stream[1], stream[2], stream[3] - _ONE)


@jit_inline
def component_at(target, weight_K):  # type: ignore[no-untyped-def]
    """Return the component whose interval of the cumulative weights contains the target."""
    last = 0
    reached = 0.0
    for k in range(len(weight_K)):
        if weight_K[k] > 0.0:
            reached += weight_K[k]
            last = k
            if target < reached:
                break
    return last


@jit
def split(seed, iteration, cell, count, weight_K, draw_K):  # type: ignore[no-untyped-def]
    """Add a multinomial draw to `draw_K`: each component in turn takes a binomial part."""
    stream = np.array([seed, iteration, cell, np.uint64(0)])
    tail = 0.0
    tail_K = np.empty(len(weight_K))
    for k in range(len(weight_K) - 1, -1, -1):
        tail += weight_K[k]
        tail_K[k] = tail
    for k in range(len(weight_K)):
        if count == 0:
            return
        taken = count
        if weight_K[k] < tail_K[k]:
            taken = draw_binomial(stream, count, weight_K[k] / tail_K[k])
        draw_K[k] += taken
        count -= taken


@jit
def draw_binomial(stream, n, p):  # type: ignore[no-untyped-def]
    """Return an exact binomial draw: by inversion for a small mean, else by rejection."""
    if p <= 0.0:
        return 0
    rare = 1.0 - p if p > 0.5 else p
    taken = _invert(stream, n, rare) if n * rare < 10.0 else _reject(stream, n, rare)
    return n - taken if p > 0.5 else taken


@jit
def _invert(stream, n, p):  # type: ignore[no-untyped-def]
    """Draw by inversion: the count at which the cumulative pmf exceeds a uniform number."""
    odds = p / (1.0 - p)
    while True:
        rest = uniform(stream)
        mass = math.exp(n * math.log1p(-p))
        for k in range(min(n, 200) + 1):
            if rest < mass:
                return k
            rest -= mass
            mass *= odds * (n - k) / (k + 1.0)


@jit
def _reject(stream, n, p):  # type: ignore[no-untyped-def]
    """Draw by transformed rejection with squeeze (BTRS of Hörmann 1993, n p >= 10)."""
    spread = math.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    middle = np.floor((n + 1) * p)
    while True:
        u = uniform(stream) - 0.5
        v = uniform(stream)
        edge = 0.5 - abs(u)
        k = np.floor((2.0 * a / edge + b) * u + n * p + 0.5) if edge > 0.0 else -1.0
        if k < 0.0 or k > n:
            continue
        if edge >= 0.07 and v <= 0.92 - 4.2 / b:
            return int(k)
        v *= alpha / (a / (edge * edge) + b)
        if v <= 0.0 or math.log(v) <= _log_ratio(k, middle, n, p):
            return int(k)


@jit
def _log_ratio(k, middle, n, p):  # type: ignore[no-untyped-def]
    """Return ln(pmf(k) / pmf(middle)) of a binomial, by Stirling's series."""
    odds = p / (1.0 - p)
    return (
        (middle + 0.5) * math.log((middle + 1.0) / (odds * (n - middle + 1.0)))
        + (n + 1.0) * math.log((n - middle + 1.0) / (n - k + 1.0))
        + (k + 0.5) * math.log(odds * (n - k + 1.0) / (k + 1.0))
        + _stirling(middle)
        + _stirling(n - middle)
        - _stirling(k)
        - _stirling(n - k)
    )


@jit
def _stirling(k):  # type: ignore[no-untyped-def]
    """Return ln k! minus Stirling's formula for it, written in k + 1."""
    x = k + 1.0
    if k < 10.0:
        return math.lgamma(x) - (k + 0.5) * math.log(x) + x - 0.5 * math.log(2.0 * math.pi)
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / (x * x)) / (x * x)) / x
