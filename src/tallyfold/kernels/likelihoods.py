"""The four distributions of a cell that kernels understand, and what an update needs of each.

Notation: rate is the Poisson mean, y a count, r the dispersion. The negative binomial is a
Poisson whose rate is multiplied by a Gamma(r, r) variable per cell. P0 is the probability of a
count of zero.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats, Ints

LIKELIHOODS = (
    "poisson",
    "truncated-poisson",
    "negative-binomial",
    "truncated-negative-binomial",
)
"""Compiled kernels identify a likelihood by its position in this tuple."""


def likelihood_code(likelihood: str) -> int:
    """Return the number that identifies a likelihood in compiled kernels."""
    if likelihood not in LIKELIHOODS:
        raise ParameterError(f"`likelihood` must be one of {LIKELIHOODS}; got {likelihood!r}.")
    return LIKELIHOODS.index(likelihood)


def checked_dispersion(likelihood: str, dispersion: float | None) -> float:
    """Return the dispersion; 1 where the likelihood has none."""
    if likelihood_code(likelihood) < 2:
        return 1.0
    if dispersion is None or not 0 < dispersion < np.inf:
        raise ParameterError(
            f"`dispersion` must be positive and finite for {likelihood!r}; got {dispersion!r}."
        )
    return float(dispersion)


def expected_exposure(likelihood: str, rate_N: Any, count_N: Any, r_N: Any, xp: Any = np) -> Any:
    """Return a cell's expected exposure: the derivative of the log normaliser by the rate.

    Here and in :func:`log_normaliser`, `xp` is the namespace of the arrays: numpy or torch.
    """
    code = likelihood_code(likelihood)
    if code == 0:
        return xp.ones_like(rate_N)
    if code == 1:
        return -1 / xp.expm1(-rate_N)
    unseen_N = xp.zeros_like(rate_N)
    if code == 3:
        with np.errstate(over="ignore"):
            unseen_N = r_N / xp.expm1(r_N * xp.log1p(rate_N / r_N))
    return (r_N + count_N + unseen_N) / (r_N + rate_N)


def log_normaliser(likelihood: str, rate_N: Any, count_N: Any, r: float, xp: Any = np) -> Any:
    """Return rate (+ ln(1 - P0)), or (r + y) ln(1 + rate / r) (+ ln(1 - P0))."""
    code = likelihood_code(likelihood)
    minus_log_p0_N = rate_N if code < 2 else r * xp.log1p(rate_N / r)
    total_N = rate_N if code < 2 else (1 + count_N / r) * minus_log_p0_N
    if code in (1, 3):
        total_N = total_N + xp.log(-xp.expm1(-minus_log_p0_N))
    return total_N


def log_constants(counts_N: Ints, likelihood: str, r: float) -> float:
    """Sum the parts of the log pmf that do not depend on the rate, by distinct count.

    They are -ln y!, and for the negative binomial also ln Γ(r + y) - ln Γ(r) - y ln r.
    """
    value_V, cells_V = _histogram(counts_N)
    constant_V = -gammaln(value_V + 1.0)
    if likelihood_code(likelihood) >= 2:
        constant_V += log_rising(r, value_V)
    return float(constant_V @ cells_V)


def log_rising(r: float, y_V: Floats) -> Floats:
    """Return ln Γ(r + y) - ln Γ(r) - y ln r without cancellation for a large r."""
    if r < 100.0:
        return np.asarray(gammaln(r + y_V) - gammaln(r) - y_V * np.log(r))
    stirling = (1.0 / (r + y_V) - 1.0 / r) / 12.0 - ((r + y_V) ** -3.0 - r**-3.0) / 360.0
    return np.asarray((r + y_V - 0.5) * np.log1p(y_V / r) - y_V + stirling)


def _histogram(counts_N: Ints) -> tuple[Floats, Floats]:
    """Return the distinct counts and their numbers of cells; linear time unless counts are huge."""
    if len(counts_N) and counts_N.max() > 10 * len(counts_N) + 1000:
        value_V, cells_V = np.unique(counts_N, return_counts=True)
    else:
        cells_V = np.bincount(counts_N)
        value_V = np.arange(len(cells_V))
    return value_V.astype(np.float64), cells_V.astype(np.float64)
