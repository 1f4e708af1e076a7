"""Hashes of cells: draws that depend on a cell and a seed, not on where the cell stands."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]


def mixed(number_N: Hashes) -> Hashes:
    """Scramble numbers (the last steps of SplitMix64); overflow is meant."""
    number_N = number_N + np.uint64(0x9E3779B97F4A7C15)
    number_N = (number_N ^ (number_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number_N = (number_N ^ (number_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number_N ^ (number_N >> np.uint64(31))


def cell_hashes(first_N: Hashes, columns: Iterable[NDArray[np.integer]]) -> Hashes:
    """Return a hash per cell of its positions, given a number per cell to begin with.

    Examples
    --------
    >>> cells = np.array([[3, 5], [3, 6]])
    >>> one, two = cell_hashes(np.zeros(2, np.uint64), cells.T)
    >>> alone = cell_hashes(np.zeros(1, np.uint64), cells[:1].T)[0]
    >>> bool(one == alone), bool(one == two)
    (True, False)
    """
    hash_N = mixed(first_N)
    for column_N in columns:
        hash_N = mixed(hash_N ^ column_N.astype(np.uint64))
    return hash_N
