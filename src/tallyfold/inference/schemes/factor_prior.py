"""The Gamma prior of an axis's factors, with what is believed of some of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = slice | npt.NDArray[Any]


class FactorPrior(NamedTuple):
    """Gamma(shape, rate * b) of every factor of an axis; b is learnt or given, one per axis.

    Attributes
    ----------
    shape, rate
        One number for all factors where nothing is believed of them, so that all have the mean
        1 / b; else a table (labels x components).
    """

    shape: float | Floats
    rate: float | Floats

    def rows(self, entities: Rows) -> FactorPrior:
        """Return the prior of some labels, in their order."""
        if isinstance(self.shape, float) or isinstance(self.rate, float):
            return self
        return FactorPrior(self.shape[entities], self.rate[entities])

    def at(self, b: float) -> FactorPrior:
        """Return the Gamma distributions themselves, given b."""
        return FactorPrior(self.shape, self.rate * b)

    def learnt(self, mean_DK: Floats) -> float:
        """Return the b that the factors' means make most likely.

        Examples
        --------
        >>> FactorPrior(0.5, 0.5).learnt(np.array([[2.0, 6.0]]))
        0.25
        """
        if isinstance(self.shape, float) or isinstance(self.rate, float):
            return float(1 / mean_DK.mean())
        return float(self.shape.sum() / (self.rate * mean_DK).sum())
