"""The Gamma prior of an axis's factors, with what was seen of some of them before."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = slice | npt.NDArray[Any]


class FactorPrior(NamedTuple):
    """Gamma(shape, b * first shape), and exposure that was there before.

    Attributes
    ----------
    first
        The shape of factors of which nothing was seen before.
    shape
        With the counts that were seen before (labels x components); `first` if there are none.
    again
        By what exposures are multiplied to have in them what was there before; 1 if nothing was.
    """

    first: float
    shape: float | Floats
    again: float | Floats = 1.0

    def rows(self, entities: Rows) -> FactorPrior:
        """Return the prior of some labels, in their order."""
        if isinstance(self.shape, float) or isinstance(self.again, float):
            return self
        return FactorPrior(self.first, self.shape[entities], self.again[entities])

    def rate_before(self, rate_DK: Floats, b: float) -> float | Floats:
        """Return the rate before the cells, given that with them: what was there before is in it.

        Examples
        --------
        >>> FactorPrior(0.5, np.ones((1, 1)), np.full((1, 1), 1.25)).rate_before(
        ...     np.array([[0.5 + 1.25 * 8.0]]), 1.0
        ... )
        array([[2.5]])
        """
        own = self.first * b
        if isinstance(self.again, float):
            return own
        return np.asarray(own + (1 - 1 / self.again) * (rate_DK - own))
