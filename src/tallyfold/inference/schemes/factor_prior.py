"""The Gamma prior of an axis's factors: what was seen of some before, and what follows what."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.schemes.gamma_chain import GammaChain
from tallyfold.kernels.arrays import OverRows, all_here
from tallyfold.posterior.gamma_posterior import GammaTable, Rows
from tallyfold.probability import gamma

Floats = npt.NDArray[np.float64]

ROUNDS = 3
"""Updates of factors that are linked, given what cells say of them."""


@dataclass(frozen=True)
class FactorPrior:
    """Gamma(first, first * b), exposure that was there before, and a chain of neighbours.

    Attributes
    ----------
    first
        The shape of factors of which nothing was seen before.
    shape
        With the counts that were seen before (labels x components); `first` if there are none.
    again
        By what exposures are multiplied to have in them what was there before; 1 if nothing was.
    chain
        What links factors; None: they are independent.
    over_rows
        What makes sums over all labels of those over the labels that are here.
    """

    first: float
    shape: float | Floats
    again: float | Floats = 1.0
    chain: GammaChain | None = None
    over_rows: OverRows = all_here

    def rows(self, entities: Rows) -> FactorPrior:
        """Return the prior of some labels, in their order, with no links between them."""
        if isinstance(self.shape, float) or isinstance(self.again, float):
            return FactorPrior(self.first, self.shape, self.again)
        return FactorPrior(self.first, self.shape[entities], self.again[entities])

    def posterior(
        self, table: GammaTable, b: float, correlation: float, counts_DK: Floats, exposure: Floats
    ) -> GammaTable:
        """Return the posteriors that counts and exposures of cells give; `table` are the last."""
        shape_DK = self.shape + counts_DK
        rate_DK = np.broadcast_to(self.first * b + self.again * exposure, shape_DK.shape).copy()
        if self.chain is None or not correlation:
            return GammaTable(shape_DK, rate_DK)
        for _ in range(ROUNDS):
            more_DK, more_D1 = self.chain.added(table, b, correlation)
            table = GammaTable(shape_DK + more_DK, rate_DK + more_D1)
        return table

    def divergence(self, table: GammaTable, b: float, correlation: float) -> float:
        """Return the Kullback-Leibler divergence of the posteriors from the prior."""
        rate_DK, gain = table.rate_DK, 0.0
        if self.chain is not None and correlation:
            gain = self.chain.gain(table, b, correlation)
            rate_DK = rate_DK - self.chain.added(table, b, correlation)[1]
        before = self._rate_before(rate_DK, b)
        own = gamma.kl(table.shape_DK, table.rate_DK, self.shape, before).sum()
        return float(self.over_rows(own)) - gain

    def learnt_rate(
        self, table: GammaTable, b: float, correlation: float, rows: Rows = slice(None)
    ) -> float:
        """Return the prior rate b that some rows, all that are linked among them, have."""
        if self.chain is None or not correlation:
            mean_DK = table.mean_DK[rows]
            total, number = self.over_rows(np.array([mean_DK.sum(), mean_DK.size]))
            return float(1 / (total / number))
        return self.chain.learnt_rate(table, b, correlation, rows)

    def _rate_before(self, rate_DK: Floats, b: float) -> float | Floats:
        """Return the rate before the cells, given that with them: what was there before is in it.

        Examples
        --------
        >>> FactorPrior(0.5, np.ones((1, 1)), np.full((1, 1), 1.25))._rate_before(
        ...     np.array([[0.5 + 1.25 * 8.0]]), 1.0
        ... )
        array([[2.5]])
        """
        own = self.first * b
        if isinstance(self.again, float):
            return own
        return np.asarray(own + (1 - 1 / self.again) * (rate_DK - own))
