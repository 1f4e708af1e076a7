"""What the cells add to the bound or the log-likelihood, and to the posterior of an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.probability.counts import CountLikelihood


@dataclass(frozen=True)
class CellTerms:
    """What the cells say of factors, distributions or plain numbers.

    Parameters
    ----------
    cells, likelihood
        The cells, and the distribution of a count given its rate.
    closed
        Sums over all cells, given the factors' means, where cells without an entry count as zeros;
        Poisson only. None: they do not.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    closed: Callable[[Sequence[Floats]], ClosedSums] | None = None
    backend: str = "auto"

    def bound(
        self, geo: Sequence[Floats], mean: Sequence[Floats], dispersion: float | None
    ) -> float:
        """Return the cells' part of the bound, at geometric and arithmetic means of factors."""
        cells = self.cells
        total = kernels.cell_bound(
            geo,
            mean,
            cells.indices_NM,
            cells.counts_N,
            likelihood=self.likelihood.name,
            dispersion=dispersion,
            backend=self.backend,
        )
        if self.closed is not None:  # the kernel subtracts rates of the cells seen; all are meant
            total += float(kernels.cell_rates(mean, cells.indices_NM, backend=self.backend).sum())
        total = cells.group.all_reduce_number(total)
        if self.closed is not None:
            total -= float(self.closed(mean).total().sum())
        return total

    def sums(
        self, axis: int, geo: Sequence[Floats], mean: Sequence[Floats], dispersion: float | None
    ) -> tuple[Floats, Floats]:
        """Return, per entity of an axis, shares over its own factors, and exposures."""
        layout, total = self.cells.layouts[axis], partial(self.cells.total, axis)
        if self.closed is not None:
            share_DK = total(kernels.share_sums(geo, layout, backend=self.backend))
            sums = self.closed(mean)
            return share_DK, np.where(sums.seen[axis][:, None], sums.exposure(axis), 0.0)
        share_DK, exposure_DK = kernels.bptf_axis_sums(
            geo,
            mean,
            layout,
            likelihood=self.likelihood.name,
            dispersion=dispersion,
            backend=self.backend,
        )
        return total(share_DK), total(exposure_DK)

    def value(self, factors: Sequence[Floats], dispersion: float | None) -> float:
        """Return the log-likelihood at factors that are plain numbers, every constant in it."""
        return self.bound(factors, factors, dispersion)

    def slope(self, axis: int, factors: Sequence[Floats], dispersion: float | None) -> Floats:
        """Return its derivative by the factors of one axis: shares over them minus exposure."""
        share_DK, exposure_DK = self.sums(axis, factors, factors, dispersion)
        return share_DK - exposure_DK
