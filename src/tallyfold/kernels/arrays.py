"""The array types that kernels, and all above them, speak."""

from collections.abc import Sequence
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
