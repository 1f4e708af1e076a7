"""The log-likelihood of all cells at given factors, and its slope along one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.training import TrainingCells
from tallyfold.kernels import select as kernels
from tallyfold.probability.counts import CountLikelihood

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class DrawnLikelihood:
    """What the cells say of factors that are plain numbers, not distributions.

    Parameters
    ----------
    cells, likelihood
        The cells, and the distribution of a count given its rate.
    zeros_observed
        Whether cells without an entry count as zeros; Poisson only.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    backend: str = "auto"

    def value(self, factors: Sequence[Floats], dispersion: float) -> float:
        """Return the log-likelihood, every constant in it."""
        cells = self.cells
        total = kernels.cell_bound(
            factors,
            factors,
            cells.indices_NM,
            cells.counts_N,
            likelihood=self.likelihood.name,
            dispersion=dispersion,
            backend=self.backend,
        )
        if self.zeros_observed:  # the kernel subtracts the rates of the cells seen; all are meant
            rate_N = kernels.cell_rates(factors, cells.indices_NM, backend=self.backend)
            total += float(rate_N.sum() - np.prod([z.sum(axis=0) for z in factors], axis=0).sum())
        return total

    def slope(self, axis: int, factors: Sequence[Floats], dispersion: float) -> Floats:
        """Return the derivative by the factors of one axis: shares over them minus exposure."""
        layout = self.cells.layouts[axis]
        if self.zeros_observed:
            share_DK = kernels.share_sums(factors, layout, backend=self.backend)
            return share_DK - exposure_to_all(axis, factors)
        share_DK, exposure_DK = kernels.bptf_axis_sums(
            factors,
            factors,
            layout,
            likelihood=self.likelihood.name,
            dispersion=dispersion,
            backend=self.backend,
        )
        return share_DK - exposure_DK


def exposure_to_all(axis: int, factors: Sequence[Floats]) -> Floats:
    """Return, per component, the sum over all cells of an entity of the other axes' product.

    Examples
    --------
    >>> exposure_to_all(0, [np.ones((5, 1)), np.array([[1.0], [2.0]]), np.array([[10.0]])])
    array([30.])
    """
    totals = [z_DK.sum(axis=0) for m, z_DK in enumerate(factors) if m != axis]
    return np.asarray(np.prod(totals, axis=0))
