"""Probabilities of counts at least or at most so large, in logarithms: exact in the far tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tallyfold.kernels.arrays import Floats
from tallyfold.probability.counts import CountLikelihood
from tallyfold.probability.log_mean import log_mean

if TYPE_CHECKING:
    from tallyfold.probability.mixture import CountMixture

SMALL = 1e-250
"""Below it tails are summed in logarithms: a float is near its smallest."""
TERMS = 256
NEGLIGIBLE = 1e-17


def log_at_least(mixture: CountMixture, y_N: ArrayLike) -> Floats:
    """Return the log probability of a count of at least y, one per cell.

    Examples
    --------
    >>> from tallyfold.probability.counts import COUNTS
    >>> from tallyfold.probability.mixture import CountMixture
    >>> mixture = CountMixture(COUNTS["poisson", False], np.array([[1.0, 1.0]]))
    >>> log_at_least(mixture, [1, 1000]).round(3).tolist()  # the second is no float any more
    [-0.459, -5913.127]
    """
    return _log_tail(mixture, y_N, upper=True)


def log_at_most(mixture: CountMixture, y_N: ArrayLike) -> Floats:
    """Return the log probability of a count of at most y, one per cell.

    Examples
    --------
    >>> from tallyfold.probability.counts import COUNTS
    >>> from tallyfold.probability.mixture import CountMixture
    >>> mixture = CountMixture(COUNTS["poisson", False], np.array([[1.0, 5000.0]]))
    >>> log_at_most(mixture, [1, 0]).round(3).tolist()
    [-0.307, -5000.0]
    """
    return _log_tail(mixture, y_N, upper=False)


def _log_tail(mixture: CountMixture, y_N: ArrayLike, upper: bool) -> Floats:
    likelihood = mixture.likelihood

    def log_tail(y_B: Floats, rate_SB: Floats, r_SB: Floats) -> Floats:
        tail_SB = (
            likelihood.sf(y_B - 1, rate_SB, r_SB) if upper else likelihood.cdf(y_B, rate_SB, r_SB)
        )
        tail_B = tail_SB.mean(axis=0)
        far_B = tail_B < SMALL
        log_B = np.log(np.where(far_B, 1.0, tail_B))
        if far_B.any():
            far_SF = _log_series(likelihood, y_B[far_B], rate_SB[:, far_B], r_SB[:, far_B], upper)
            log_B[far_B] = log_mean(far_SF)
        return log_B

    return mixture.by_block(log_tail, y_N)


def _log_series(
    likelihood: CountLikelihood, y_F: Any, rate_SF: Floats, r_SF: Floats, upper: bool
) -> Floats:
    """Sum probabilities from y outwards, each by its ratio to the one before.

    In the far tail they fall nearly geometrically, so what follows the last term is taken for a
    geometric series.
    """
    log_pmf_SF = likelihood.log_pmf(y_F, rate_SF, r_SF)
    sum_SF = np.ones_like(log_pmf_SF)
    term_SF = np.ones_like(log_pmf_SF)
    for number in range(TERMS):
        ratio_SF = _ratio(likelihood, y_F, number, rate_SF, r_SF, upper)
        term_SF = term_SF * ratio_SF
        sum_SF = sum_SF + term_SF
        if np.all(term_SF <= NEGLIGIBLE * sum_SF):
            break
    ratio_SF = np.minimum(ratio_SF, 1 - 1e-9)
    return np.asarray(log_pmf_SF + np.log(sum_SF + term_SF * ratio_SF / (1 - ratio_SF)))


def _ratio(
    likelihood: CountLikelihood, y_F: Any, number: int, rate_SF: Floats, r_SF: Floats, upper: bool
) -> Floats:
    """Return the probability of the count `number` + 1 further out, divided by that before it."""
    if upper:
        return likelihood.step(y_F + number, rate_SF, r_SF)
    before_F = y_F - number - 1
    down_SF = 1 / likelihood.step(np.maximum(before_F, likelihood.lowest), rate_SF, r_SF)
    return np.asarray(np.where(before_F >= likelihood.lowest, down_SF, 0.0))
