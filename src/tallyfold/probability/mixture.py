"""A count whose rate is uncertain: the predictive distribution over posterior draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tallyfold.errors import ParameterError, ShapeError
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.counts import COUNTS, CountLikelihood, mixture_quantile
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.log_mean import log_mean
from tallyfold.probability.tails import log_at_least, log_at_most

BLOCK = 2**18
"""Draws times cells that are worked on at once: a few MB per intermediate array."""

NO_DISPERSION = 1e9
"""The r of a negative binomial that is as good as a Poisson."""


@dataclass(frozen=True)
class CountMixture(CountDistribution):
    """Equal mixture of count distributions over S draws of the rates at N cells.

    Parameters
    ----------
    likelihood
        The distribution given the rate.
    rate_SN
        One rate per draw and cell.
    r
        The dispersion, if the likelihood has one: broadcast against `rate_SN`.

    Examples
    --------
    >>> from tallyfold.probability.counts import COUNTS
    >>> rates = np.array([[1.0, 5.0], [2.0, 5.0]])
    >>> mixture = CountMixture(COUNTS["poisson", False], rates)
    >>> mixture.mean(), mixture.median()
    (array([1.5, 5. ]), array([1, 5]))
    """

    likelihood: CountLikelihood
    rate_SN: Floats
    r: ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.rate_SN.ndim != 2 or len(self.rate_SN) == 0:
            raise ShapeError(f"`rate_SN` must be (draws, cells); got {self.rate_SN.shape}.")

    def log_pmf(self, y_N: ArrayLike) -> Floats:
        """Return the log of the predictive pmf at one count per cell."""
        return self.by_block(lambda *block: log_mean(self.likelihood.log_pmf(*block)), y_N)

    def cdf(self, y_N: ArrayLike) -> Floats:
        """Return the predictive probability of a count of at most y."""
        return self.by_block(lambda *block: self.likelihood.cdf(*block).mean(axis=0), y_N)

    def mean(self) -> Floats:
        """Return the predictive mean of each cell."""
        return self.by_block(lambda _, *block: self.likelihood.mean(*block).mean(axis=0), 0.0)

    def quantile(self, p: ArrayLike) -> Ints:
        """Return, per cell, the smallest count with a predictive cdf of at least p."""
        p_ = np.asarray(p, dtype=np.float64)
        if not np.all((p_ >= 0) & (p_ < 1)):
            raise ParameterError("`p` must be in 0 <= p < 1.")
        return self.by_block(partial(mixture_quantile, self.likelihood), p_, np.int64)

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n counts per cell, each from a draw of the rates taken at random."""
        which_nN = rng.integers(len(self.rate_SN), size=(n, *self._shape))
        rate_nN = np.take_along_axis(self.rate_SN, which_nN, axis=0)
        r_nN = np.take_along_axis(self._r_SN, which_nN, axis=0)
        return self.likelihood.sample(rng, rate_nN, r_nN)

    def log_at_least(self, y_N: ArrayLike) -> Floats:
        """Return the log probability of a count of at least y."""
        return log_at_least(self, y_N)

    def log_at_most(self, y_N: ArrayLike) -> Floats:
        """Return the log probability of a count of at most y."""
        return log_at_most(self, y_N)

    def given_positive(self) -> CountMixture:
        """Return the distributions given that counts are at least one."""
        return replace(self, likelihood=COUNTS[self.likelihood.family, True])

    def with_zeros(self) -> CountMixture:
        """Return the distributions without that condition."""
        return replace(self, likelihood=COUNTS[self.likelihood.family, False])

    @property
    def _shape(self) -> tuple[int, ...]:
        """The shape of one number per cell."""
        return self.rate_SN.shape[1:]

    @property
    def _r_SN(self) -> Floats:
        """The dispersion of every draw and cell; ones where there is none."""
        if self.likelihood.dispersed and self.r is None:
            raise ParameterError("`r` must be given for a negative binomial; got None.")
        r = np.asarray(1.0 if self.r is None else self.r, dtype=np.float64)
        return np.broadcast_to(r, self.rate_SN.shape)

    def by_block(
        self, function: Callable[..., Any], value_N: ArrayLike, dtype: DTypeLike = np.float64
    ) -> NDArray[Any]:
        """Return ``function(values, rates, dispersions)`` of ranges of cells, one after the other.

        `value_N` is one float per cell, or one for all.
        """
        value_N, r_SN = np.broadcast_to(np.asarray(value_N, np.float64), self._shape), self._r_SN
        width = max(1, BLOCK // len(self.rate_SN))
        parts = [np.empty(0, dtype)]
        for start in range(0, len(value_N), width):
            cells = slice(start, start + width)
            parts.append(function(value_N[cells], self.rate_SN[:, cells], r_SN[:, cells]))
        return np.concatenate(parts)


def mixed(parts: Sequence[CountMixture]) -> CountMixture:
    """Mix distributions of the same cells, each draw with the same weight."""
    if len(parts) == 1:
        return parts[0]
    truncated = parts[0].likelihood.truncated
    rate_SN = np.concatenate([part.rate_SN for part in parts])
    if not any(part.likelihood.dispersed for part in parts):
        return CountMixture(COUNTS["poisson", truncated], rate_SN)
    r = [
        part._r_SN if part.likelihood.dispersed else np.full_like(part.rate_SN, NO_DISPERSION)
        for part in parts
    ]
    return CountMixture(COUNTS["negative-binomial", truncated], rate_SN, np.concatenate(r))
