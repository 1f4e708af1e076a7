"""The array types that kernels and probability speak."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Positions = NDArray[np.int32]
Factors = Sequence[Floats]
"""One (D, K) array per axis, all with the same K."""
