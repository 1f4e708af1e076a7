"""Random numbers by counting: a draw is a function of its address, not of what came before.

Philox4x32-10 (Salmon, Moraes, Dror & Shaw, *Parallel random numbers: as easy as 1, 2, 3*,
SC'11): ten rounds of multiplications turn a key and a counter into 128 random bits. A cell's
draws are the same whichever axis, thread or order it is visited in.
"""

import numpy as np

from tallyfold.kernels.fused.jit import jit

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
    """Return the number at a stream's address (four uint64 as above) and step to the next."""
    stream[3] += _ONE
    return uniform_at(stream[0], stream[1], stream[2], stream[3] - _ONE)
