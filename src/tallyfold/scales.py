"""Bounded scales, such as stars from 1 to 5, told from counts of events by their values."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

MOST_ON_SCALE, WIDEST_SCALE = 20, 100
LEAST_TOP_SHARE, LEAST_TOP_CELLS = 0.01, 20
"""A scale has few values, not far apart, and its largest is not rare."""
MOST_UNSEEN = 2
"""How many of the lowest values of a scale may be without a cell."""


def recognised_scale(value_V: Ints, times_V: Ints) -> tuple[int, int] | None:
    """Return the ends of a bounded scale, such as stars from 1 to 5, if counts look like one.

    There are at most 20 distinct values, from a range of 100, the most frequent is not the
    smallest, and at least 20 cells, one in a hundred, have the largest: counts of events have a
    thin end, a scale is cut off. Of few cells nobody can tell. The lowest one or two stars may not
    have been given yet: such a scale begins at 1.

    Examples
    --------
    >>> recognised_scale(np.arange(1, 6), np.array([30, 50, 120, 200, 90]))
    (1, 5)
    >>> recognised_scale(np.arange(1, 6), np.array([900, 80, 30, 9, 2]))  # nothing there
    """
    if not len(value_V):
        return None
    common = int(np.argmax(times_V))
    if len(value_V) > MOST_ON_SCALE or value_V[-1] - value_V[0] >= WIDEST_SCALE or common == 0:
        return None
    if times_V[-1] < max(LEAST_TOP_CELLS, LEAST_TOP_SHARE * times_V.sum()):
        return None
    low = int(value_V[0])
    return (1 if low <= MOST_UNSEEN + 1 else low, int(value_V[-1]))


def histogram(counts_N: Ints) -> tuple[Ints, Ints]:
    """Return the values that counts have, and how often; of a wide range, its ends alone.

    Examples
    --------
    >>> [each.tolist() for each in histogram(np.array([3, 1, 3]))]
    [[1, 3], [1, 2]]
    """
    if not len(counts_N):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    low, high = int(counts_N.min()), int(counts_N.max())
    if high - low >= WIDEST_SCALE:  # no scale, whatever is in between
        return np.array([low, high]), np.ones(2, np.int64)
    times_W = np.bincount(counts_N - low)
    place_V = np.flatnonzero(times_W)
    return place_V + low, times_W[place_V]
