"""Counts in two parts: whether there is any, and how many given that there is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.distribution import CountDistribution


@dataclass(frozen=True)
class HurdleCounts(CountDistribution):
    """A probability of zero for each cell, and the distribution of counts of at least one.

    Attributes
    ----------
    log_zero_N
        The log probability of a zero.
    positive
        The distribution given that the count is at least one.

    Examples
    --------
    >>> from tallyfold.probability.categorical import CategoricalCounts, CountBins
    >>> some = CategoricalCounts(CountBins(np.array([1, 2]), 2), np.array([[0.5, 0.5]]))
    >>> counts = HurdleCounts(np.log([0.6]), some)
    >>> counts.cdf([1]).round(3).tolist(), counts.median().tolist(), counts.mean().round(3).tolist()
    ([0.8], [0], [0.6])
    """

    log_zero_N: Floats
    positive: CountDistribution

    @property
    def _some_N(self) -> Floats:
        """The probability of any count but zero."""
        return np.maximum(-np.expm1(self.log_zero_N), 1e-300)

    def log_pmf(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log of the pmf at one count per cell."""
        y_N = np.broadcast_to(np.asarray(y_N), self.log_zero_N.shape)
        some_N = np.log(self._some_N) + self.positive.log_pmf(np.maximum(y_N, 1))
        return np.asarray(np.where(y_N == 0, self.log_zero_N, some_N))

    def cdf(self, y_N: npt.ArrayLike) -> Floats:
        """Return the probability of a count of at most y."""
        y_N = np.broadcast_to(np.asarray(y_N), self.log_zero_N.shape)
        cdf_N = np.exp(self.log_zero_N) + self._some_N * self.positive.cdf(y_N)
        return np.asarray(np.where(y_N < 0, 0.0, np.minimum(cdf_N, 1.0)))

    def mean(self) -> Floats:
        """Return the mean of each cell."""
        return np.asarray(self._some_N * self.positive.mean())

    def quantile(self, p: npt.ArrayLike) -> Ints:
        """Return, per cell, the smallest count with a cdf of at least p."""
        zero_N = np.exp(self.log_zero_N)
        p_N = np.broadcast_to(np.asarray(p, dtype=np.float64), zero_N.shape)
        if not np.all((p_N >= 0) & (p_N < 1)):
            raise ParameterError("`p` must be in 0 <= p < 1.")
        rest_N = np.clip((p_N - zero_N) / self._some_N, 0.0, 1 - 1e-16)
        return np.where(p_N <= zero_N, 0, self.positive.quantile(rest_N))

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n counts per cell."""
        any_nN = rng.random((n, len(self.log_zero_N))) >= np.exp(self.log_zero_N)
        return np.where(any_nN, self.positive.sample(rng, n), 0)

    def log_at_least(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log probability of a count of at least y."""
        y_N = np.broadcast_to(np.asarray(y_N), self.log_zero_N.shape)
        some_N = np.log(self._some_N) + self.positive.log_at_least(np.maximum(y_N, 1))
        return np.asarray(np.where(y_N <= 0, 0.0, some_N))

    def log_at_most(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log probability of a count of at most y."""
        y_N = np.broadcast_to(np.asarray(y_N), self.log_zero_N.shape)
        below_N = np.log(self._some_N) + self.positive.log_at_most(np.maximum(y_N, 1))
        both_N = np.minimum(np.logaddexp(self.log_zero_N, below_N), 0.0)
        return np.asarray(np.where(y_N <= 0, self.log_zero_N, both_N))

    def given_positive(self) -> CountDistribution:
        """Return the distributions given that counts are at least one."""
        return self.positive

    def with_zeros(self) -> HurdleCounts:
        """Return the distributions themselves: their counts may be zero."""
        return self
