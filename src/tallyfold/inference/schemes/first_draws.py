"""Random numbers that factors start from: those of some rows without those of all before them.

Axes of at most `STREAMED` labels take their numbers from one stream, one axis after the other. The
rows of a longer one are drawn in blocks, each with a key of its own, so that a process draws the
blocks that its rows are in. A seed means the same numbers for any number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyfold.kernels.arrays import Floats

SHAPE = 100.0
"""Factors start as draws around one with this shape: close together, but not equal."""
STREAMED = 1 << 20
"""Labels of an axis whose numbers are drawn all in turn."""
BLOCK = 1 << 16
"""Labels of a longer one that are drawn together."""


def first_draws(
    seed: int, sizes: Sequence[int], n_components: int, rows: Sequence[slice]
) -> list[Floats]:
    """Draw numbers around one for some rows of every axis.

    Parameters
    ----------
    seed, sizes, n_components
        Of the model; how many labels each axis has; how many numbers each label gets.
    rows
        Which labels of each axis, a run of them.

    Examples
    --------
    >>> first, second = first_draws(3, (5, 4), 2, [slice(0, 5), slice(1, 3)])
    >>> first.shape, second.shape
    ((5, 2), (2, 2))
    """
    stream, found = np.random.default_rng([seed, 0]), []
    for axis, (size, own) in enumerate(zip(sizes, rows, strict=True)):
        if size <= STREAMED:
            found.append(stream.gamma(SHAPE, 1 / SHAPE, (size, n_components))[own])
        else:
            found.append(_blocks(seed, axis, size, n_components, own))
    return found


def _blocks(seed: int, axis: int, size: int, n_components: int, own: slice) -> Floats:
    drawn_DK = np.empty((own.stop - own.start, n_components))
    for start in range(own.start // BLOCK * BLOCK, own.stop, BLOCK):
        key = np.random.SeedSequence([seed, 0, axis, start])
        stop = min(start + BLOCK, size)
        block = np.random.Generator(np.random.Philox(key)).gamma(
            SHAPE, 1 / SHAPE, (stop - start, n_components)
        )
        first, after = max(start, own.start), min(stop, own.stop)
        drawn_DK[first - own.start : after - own.start] = block[first - start : after - start]
    return drawn_DK
