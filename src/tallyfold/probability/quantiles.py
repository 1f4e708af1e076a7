"""Quantiles of a mixture of count distributions: walk up the small counts, then bisect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Floats, Ints

if TYPE_CHECKING:
    from tallyfold.probability.counts import CountLikelihood

WALK = 32
LARGEST = 2**53


def mixture_quantile(counts: CountLikelihood, p_N: Floats, rate_SN: Floats, r_SN: Floats) -> Ints:
    """Return, per cell, the smallest count with a cdf of at least p, averaged over S draws."""
    answer_N, open_N = _walk(counts, p_N, rate_SN, r_SN)
    rate_SO, r_SO, p_O = rate_SN[:, open_N], r_SN[:, open_N], p_N[open_N]

    def reached(y: Floats, cells: NDArray[np.intp]) -> NDArray[np.bool_]:
        cdf_S = counts.cdf(y, rate_SO[:, cells], r_SO[:, cells])
        return np.asarray(cdf_S.mean(axis=0) >= p_O[cells])

    guess_O = counts.mean(rate_SO, r_SO).mean(axis=0)
    answer_N[open_N] = smallest_count(reached, counts.lowest, guess_O)
    return answer_N


def _walk(
    counts: CountLikelihood, p_N: Floats, rate_SN: Floats, r_SN: Floats
) -> tuple[Ints, NDArray[np.intp]]:
    """Add up the pmf from below; return the answers found and the cells that want more steps."""
    answer_N = np.zeros(len(p_N), dtype=np.int64)
    open_N = np.arange(len(p_N))
    pmf_SO = np.exp(counts.log_pmf(counts.lowest, rate_SN, r_SN))
    mass_O = pmf_SO.mean(axis=0)
    for y in range(counts.lowest, counts.lowest + WALK):
        wanting = mass_O < p_N[open_N]
        answer_N[open_N[~wanting]] = y
        if not wanting.all():
            open_N, mass_O, pmf_SO = open_N[wanting], mass_O[wanting], pmf_SO[:, wanting]
            rate_SN, r_SN = rate_SN[:, wanting], r_SN[:, wanting]
        if len(open_N) == 0:
            break
        pmf_SO = pmf_SO * counts.step(y, rate_SN, r_SN)
        mass_O = mass_O + pmf_SO.mean(axis=0)
    return answer_N, open_N


def smallest_count(
    reached: Callable[[Floats, NDArray[np.intp]], NDArray[np.bool_]], low: int, guess_N: Floats
) -> Ints:
    """Return, per cell, the smallest whole y >= `low` with ``reached(y, cells)``.

    `reached` must be monotone in y; it is asked about the undecided cells only. First double
    from the guess until it holds, then halve.
    """
    low_N = np.full(len(guess_N), low - 1.0)  # not reached there
    high_N = np.clip(np.ceil(guess_N), low, LARGEST)
    open_N = np.arange(len(guess_N))
    while len(open_N):
        open_N = open_N[~reached(high_N[open_N], open_N) & (high_N[open_N] < LARGEST)]
        low_N[open_N] = high_N[open_N]
        high_N[open_N] = np.minimum(2 * high_N[open_N] + 1, LARGEST)
    open_N = np.flatnonzero(high_N - low_N > 1)
    while len(open_N):
        middle = np.floor((low_N[open_N] + high_N[open_N]) / 2)
        holds = reached(middle, open_N)
        high_N[open_N[holds]] = middle[holds]
        low_N[open_N[~holds]] = middle[~holds]
        open_N = open_N[high_N[open_N] - low_N[open_N] > 1]
    return high_N.astype(np.int64)
