"""Held-out cells under a calibrated predictive distribution: their score, and its slope.

What the encoders of VAE-BPTF are trained on: cells that no sum of theirs has seen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels.arrays import Array, Floats, Ints
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.probability.counts import COUNTS, CountLikelihood

LEAST_RATE = 1e-12
MOST_DISPERSION = 1e6


class HeldOutCells(TrainingCells):
    """Cells kept out of the fit."""


@dataclass(frozen=True)
class Target:
    """The predictive distribution at held-out cells, all but their rates fixed.

    Attributes
    ----------
    counts_N
        What was counted.
    calibration
        How rates become those of the predictive distribution.
    truncated
        Whether counts are at least one.
    dispersion_N
        The r of each cell: the calibrated one and the spread of its rate together.
    """

    counts_N: Ints
    calibration: Calibration
    truncated: bool
    dispersion_N: Floats

    @classmethod
    def at(
        cls,
        cells: HeldOutCells,
        moments: tuple[Floats, Floats],
        likelihood: CountLikelihood,
        dispersion: float | None,
        calibration: Calibration,
    ) -> Target:
        """Fix the distribution at rates of known mean and variance."""
        mixture = matched_mixture(*moments, likelihood, dispersion, calibration)
        r_N = np.full(len(cells), MOST_DISPERSION)
        if mixture.r is not None:
            r_N = np.minimum(np.ravel(np.asarray(mixture.r)), MOST_DISPERSION)
        return cls(cells.counts_N, calibration, likelihood.truncated, r_N)

    def of_some(self, which: slice | Array) -> Target:
        """Return the distribution at some of the cells."""
        counts_N, r_N = self.counts_N[which], self.dispersion_N[which]
        return Target(counts_N, self.calibration, self.truncated, r_N)

    def log_pmf(self, mean_N: Floats) -> Floats:
        """Return the log pmf of each cell at these mean rates."""
        rate_N = self.calibration.rates(np.maximum(mean_N, LEAST_RATE))
        family = COUNTS["negative-binomial", self.truncated]
        return family.log_pmf(self.counts_N, rate_N, self.dispersion_N)

    def slope(self, mean_N: Floats) -> Floats:
        """Return the derivative of each cell's log pmf with respect to its mean rate."""
        mean_N = np.maximum(mean_N, LEAST_RATE)
        rate_N = self.calibration.rates(mean_N)
        name = "truncated-negative-binomial" if self.truncated else "negative-binomial"
        exposure_N = expected_exposure(name, rate_N, self.counts_N, self.dispersion_N)
        by_log_rate_N = self.counts_N - rate_N * exposure_N
        return np.asarray(by_log_rate_N * self.calibration.exponent / mean_N)
