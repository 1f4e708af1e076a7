"""A part of the training cells that the fit does not see: to stop in time, and to calibrate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallyfold.data.split import split
from tallyfold.data.tensor import CountTensor
from tallyfold.kernels import select as kernels
from tallyfold.probability.counts import CountLikelihood

MIN_CELLS = 20
"""With fewer cells than this to validate on, there is no validation."""


class ValidationCells:
    """Cells that were held out of a fit."""

    def __init__(self, tensor: CountTensor, backend: str = "auto") -> None:
        self.indices_NM = tensor.indices
        self.counts_N = tensor.counts
        self.backend = backend

    def rates(self, factors: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        """Return the rates of the cells."""
        return kernels.cell_rates(factors, self.indices_NM, backend=self.backend)

    def score(
        self,
        factors: Sequence[npt.NDArray[np.float64]],
        likelihood: CountLikelihood,
        dispersion: float,
    ) -> float:
        """Return the mean log pmf of the cells at these factors."""
        log_pmf_N = likelihood.log_pmf(self.counts_N, self.rates(factors), dispersion)
        return float(np.mean(log_pmf_N))


def hold_out(
    tensor: CountTensor, share: float | None, seed: int
) -> tuple[CountTensor, CountTensor | None]:
    """Split off a share of the cells for validation, if there are enough of them."""
    if not share or tensor.nnz * share < MIN_CELLS:
        return tensor, None
    parts = split(tensor, share, random_state=np.random.default_rng([seed, 1]))
    return parts.train, parts.test
