"""The array types that kernels, and all above them, speak."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int32]
Singles = NDArray[np.float32]
Whole = NDArray[np.integer]
"""Whole numbers of any size."""
Factors = Sequence[Floats]
"""One (D, K) array per axis, all with the same K."""
OverRows = Callable[[Array], Floats]
"""What makes sums over all rows of an axis of sums over the rows that are in this process."""


def all_here(sums: Array) -> Floats:
    """Return sums over rows as they are: all rows are here."""
    return np.asarray(sums)
