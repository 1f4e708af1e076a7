"""Maximum likelihood of one rate (and dispersion) for all counts, from their histogram."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from tallyfold.errors import CountError, ShapeError
from tallyfold.kernels.arrays import Floats
from tallyfold.probability.counts import CountLikelihood

RATE_FLOOR = 1e-9
"""The rate of counts that are all as low as they can be: their likelihood has no maximum."""

R_RANGE = 1e-4, 1e6
"""Limits of the dispersion: below, a log-series; above (under-dispersed counts), a Poisson."""


class ConstantFit(NamedTuple):
    """The best rate and dispersion (None without one), and the mean log pmf they reach."""

    rate: float
    r: float | None
    log_pmf: float


def fit_constant(
    likelihood: CountLikelihood, value_V: ArrayLike, frequency_V: ArrayLike
) -> ConstantFit:
    """Fit the likelihood to counts `value_V` that occur `frequency_V` times.

    For a given dispersion the best rate is the one whose mean is the mean of the counts, in all
    four likelihoods; what is left is a search over ln r.

    Examples
    --------
    >>> from tallyfold.probability.counts import COUNTS
    >>> fit_constant(COUNTS["poisson", False], [0, 1, 2], [2, 1, 1]).rate
    0.75
    """
    values, weights = _checked(likelihood, value_V, frequency_V)
    average = float(values @ weights)

    def fit_at(r: float | None) -> ConstantFit:
        rate = _rate(likelihood, average, r)
        return ConstantFit(rate, r, float(likelihood.log_pmf(values, rate, r) @ weights))

    if not likelihood.dispersed:
        return fit_at(None)
    if average <= likelihood.lowest:  # any dispersion does: take the Poisson's
        return fit_at(R_RANGE[1])
    grid = np.log(np.geomspace(R_RANGE[0], R_RANGE[1], 47))
    best = int(np.argmax([fit_at(float(np.exp(log_r))).log_pmf for log_r in grid]))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(
        lambda log_r: -fit_at(float(np.exp(log_r))).log_pmf, bounds=bounds, method="bounded"
    )
    ends = [fit_at(float(np.exp(log_r))) for log_r in (found.x, *bounds)]
    return max(ends, key=lambda fit: fit.log_pmf)


def _rate(likelihood: CountLikelihood, average: float, r: float | None) -> float:
    """Return the rate at which the likelihood's mean is `average`."""
    if not likelihood.truncated:
        return max(average, RATE_FLOOR)

    def excess(log_rate: float) -> float:
        return float(likelihood.mean(np.exp(log_rate), r)) - average

    low, high = np.log(RATE_FLOOR), np.log(average)  # truncation raises the mean above the rate
    if excess(low) >= 0:
        return RATE_FLOOR
    if excess(high) <= 0:  # so large that truncation changes nothing but the last digit
        return average
    return float(np.exp(brentq(excess, low, high, xtol=1e-13)))


def _checked(
    likelihood: CountLikelihood, value_V: ArrayLike, frequency_V: ArrayLike
) -> tuple[Floats, Floats]:
    """Return counts that occur and their shares."""
    values = np.asarray(value_V, dtype=np.float64)
    weights = np.asarray(frequency_V, dtype=np.float64)
    if values.shape != weights.shape or values.ndim != 1:
        raise ShapeError(f"Got {values.shape} values and {weights.shape} frequencies.")
    values, weights = values[weights > 0], weights[weights > 0]
    if len(values) == 0:
        raise CountError("A constant needs at least one count; got none.")
    if values.min() < likelihood.lowest or np.any(values != np.floor(values)):
        raise CountError(f"Counts must be whole and at least {likelihood.lowest}.")
    return values, weights / weights.sum()
