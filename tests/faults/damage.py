"""Bytes as they should not be: a valid file, with something wrong somewhere."""

from collections.abc import Iterator

import numpy as np

ODD_BYTES = (b"\x00", b"\xff", b"\x80", b"\n", b'"', b",", b"{", b"-", b"9" * 30, b"\xff" * 8)


def damaged(data: bytes, seed: int, times: int) -> Iterator[bytes]:
    """Give a file so many times, each time with one to three things wrong."""
    rng = np.random.default_rng(seed)
    for _ in range(times):
        spoilt = data
        for _ in range(int(rng.integers(1, 4))):
            spoilt = _spoilt(spoilt, rng)
        yield spoilt


def _spoilt(data: bytes, rng: np.random.Generator) -> bytes:
    if not data:
        return rng.bytes(int(rng.integers(1, 40)))
    place = int(rng.integers(len(data)))
    length = int(rng.integers(1, 1 + min(len(data) - place, 16)))
    before, part, after = data[:place], data[place : place + length], data[place + length :]
    odd = ODD_BYTES[int(rng.integers(len(ODD_BYTES)))]
    flipped = bytes([part[0] ^ (1 << int(rng.integers(8)))]) + part[1:]
    kinds = (
        before,  # cut off
        before + flipped + after,
        before + flipped + after,
        before + after,  # a part is missing
        before + part + part + after,  # or there twice
        before + rng.bytes(length) + after,
        before + (odd * length)[:length] + after,
        before + odd + part + after,
    )
    return kinds[int(rng.integers(len(kinds)))]
