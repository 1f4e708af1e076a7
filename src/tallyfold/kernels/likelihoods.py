"""The four distributions of a cell that kernels understand, and what an update needs of each.

Notation: rate is the Poisson mean, y a count, r the dispersion. The negative binomial is a
Poisson whose rate is multiplied by a Gamma(r, r) variable per cell. P0 is the chance of a zero.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats, Ints

LIKELIHOODS = (
    "poisson",
    "truncated-poisson",
    "negative-binomial",
    "truncated-negative-binomial",
)
"""Compiled kernels know a likelihood by its position here."""


def likelihood_code(likelihood: str) -> int:
    """Return the number by which compiled kernels know a likelihood."""
    if likelihood not in LIKELIHOODS:
        raise ParameterError(f"`likelihood` must be one of {LIKELIHOODS}; got {likelihood!r}.")
    return LIKELIHOODS.index(likelihood)


def dispersion_array(likelihood: str, dispersion: float | Floats | None, size: int) -> Floats:
    """Spread the dispersion over `size` entities; ones where the likelihood has none."""
    if likelihood_code(likelihood) < 2:
        return np.ones(size)
    if dispersion is None:
        raise ParameterError(f"`dispersion` must be given for {likelihood!r}; got None.")
    r_D = np.array(np.broadcast_to(dispersion, (size,)), dtype=np.float64)
    if not np.all((r_D > 0) & np.isfinite(r_D)):
        raise ParameterError("`dispersion` must be positive and finite everywhere.")
    return r_D


def expected_exposure(
    likelihood: str, rate_N: Floats, count_N: Floats | NDArray[np.integer], r_N: Floats
) -> Floats:
    """Return the slope of the log normaliser: how much of a cell's rate counts as seen."""
    code = likelihood_code(likelihood)
    if code == 0:
        return np.ones_like(rate_N)
    if code == 1:
        return np.asarray(-1 / np.expm1(-rate_N))
    unseen_N = np.zeros_like(rate_N)
    if code == 3:
        with np.errstate(over="ignore"):
            unseen_N = r_N / np.expm1(r_N * np.log1p(rate_N / r_N))
    return np.asarray((r_N + count_N + unseen_N) / (r_N + rate_N))


def log_normaliser(likelihood: str, rate_N: Floats, count_N: Floats | Ints, r: float) -> Floats:
    """Return rate (+ ln(1 - P0)), or (r + y) ln(1 + rate / r) (+ ln(1 - P0))."""
    code = likelihood_code(likelihood)
    minus_log_p0_N = rate_N if code < 2 else r * np.log1p(rate_N / r)
    total_N = rate_N if code < 2 else (1 + count_N / r) * minus_log_p0_N
    if code in (1, 3):
        total_N = total_N + np.log(-np.expm1(-minus_log_p0_N))
    return np.asarray(total_N)


def log_constants(counts_N: Ints, likelihood: str, r: float, cell_weight_N: Floats | None) -> float:
    """Sum the parts of the log pmf that no rate changes, by distinct count.

    They are -ln y!, and for the negative binomial also ln Γ(r + y) - ln Γ(r) - y ln r.
    """
    value_V, weight_V = _histogram(counts_N, cell_weight_N)
    constant_V = -gammaln(value_V + 1.0)
    if likelihood_code(likelihood) >= 2:
        constant_V += log_rising(r, value_V)
    return float(constant_V @ weight_V)


def log_rising(r: float, y_V: Floats) -> Floats:
    """Return ln Γ(r + y) - ln Γ(r) - y ln r without cancellation for a large r."""
    if r < 100.0:
        return np.asarray(gammaln(r + y_V) - gammaln(r) - y_V * np.log(r))
    stirling = (1.0 / (r + y_V) - 1.0 / r) / 12.0 - ((r + y_V) ** -3.0 - r**-3.0) / 360.0
    return np.asarray((r + y_V - 0.5) * np.log1p(y_V / r) - y_V + stirling)


def _histogram(counts_N: Ints, cell_weight_N: Floats | None) -> tuple[Floats, Floats]:
    """Return the distinct counts and their total weight; linear time for everyday counts."""
    if len(counts_N) and counts_N.max() > 10 * len(counts_N) + 1000:
        value_V, position_N = np.unique(counts_N, return_inverse=True)
    else:
        value_V, position_N = np.arange(counts_N.max(initial=0) + 1), counts_N
    weight_V = np.bincount(position_N, cell_weight_N, minlength=len(value_V))
    return value_V.astype(np.float64), weight_V.astype(np.float64)
