"""From the uncertain rate of a cell to the distribution of its count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.probability.counts import COUNTS, CountLikelihood
from tallyfold.probability.mixture import CountMixture

TINY = 1e-300
SPREAD_RANGE = 1e-9, 1e9


@dataclass(frozen=True)
class Calibration:
    """How rates are turned into the predictive distribution.

    Fitted on cells the fit has not seen.

    Attributes
    ----------
    scale, exponent
        Rates become ``scale * rate ** exponent``.
    dispersion
        The r of the negative binomial; None leaves the model's own.
    spread
        How much of the rates' posterior variance is taken in. Less than one where counts vary less
        than a Poisson's, as ratings do: there the likelihood alone is too wide already.
    growth
        r is the dispersion times the calibrated rate to this power. With 1 a rate says whether
        there is a count, and little of how large it is; with 0 all cells have the same r.
    """

    scale: float = 1.0
    exponent: float = 1.0
    dispersion: float | None = None
    spread: float = 1.0
    growth: float = 0.0

    def rates(self, rate: Floats) -> Floats:
        """Return calibrated rates."""
        return np.asarray(self.scale * np.maximum(rate, TINY) ** self.exponent)


def matched_mixture(
    mean_N: Floats,
    variance_N: Floats,
    likelihood: CountLikelihood,
    dispersion: float | None,
    calibration: Calibration,
) -> CountMixture:
    """Take rates of known mean and variance for Gamma, so that counts are negative binomial.

    A Poisson count whose rate has a Gamma distribution with squared coefficient of variation c is
    negative binomial with r = 1 / c. A multiplier Gamma(r, r) on top adds up as
    1 + 1 / r' = (1 + c) (1 + 1 / r), exactly in mean and variance.

    A truncated likelihood makes this the distribution of the count given that it is at least one:
    the spread of the rate comes first, the condition after it, as for a cell that is seen because
    its count is not zero.
    """
    relative_N = calibration.spread * (np.sqrt(variance_N) / np.maximum(mean_N, TINY)) ** 2
    r = calibration.dispersion or (dispersion if likelihood.dispersed else None)
    own: float | Floats = 0.0 if r is None else 1 / r
    rate_1N = calibration.rates(mean_N)[None]
    if calibration.growth:
        own = np.clip(own * rate_1N[0] ** -calibration.growth, *SPREAD_RANGE)
    spread_N = relative_N + own + relative_N * own
    if not np.any(spread_N > 0):
        return CountMixture(COUNTS["poisson", likelihood.truncated], rate_1N)
    r_N = 1 / np.clip(spread_N, *SPREAD_RANGE)
    return CountMixture(COUNTS["negative-binomial", likelihood.truncated], rate_1N, r_N[None])
