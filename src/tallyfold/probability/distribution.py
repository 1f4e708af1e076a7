"""What every distribution of cells' counts can be asked, whatever its form."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats, Ints


class CountDistribution(ABC):
    """Distributions of the counts of N cells."""

    @abstractmethod
    def log_pmf(self, y_N: ArrayLike) -> Floats:
        """Return the log of the pmf at one count per cell."""

    @abstractmethod
    def cdf(self, y_N: ArrayLike) -> Floats:
        """Return the probability of a count of at most y."""

    @abstractmethod
    def mean(self) -> Floats:
        """Return the mean of each cell."""

    @abstractmethod
    def quantile(self, p: ArrayLike) -> Ints:
        """Return, per cell, the smallest count with a cdf of at least p."""

    def median(self) -> Ints:
        """Return the median of each cell."""
        return self.quantile(0.5)

    def interval(self, level: float) -> tuple[Ints, Ints]:
        """Return the lower and upper end of an interval with equal tails."""
        if not 0 < level < 1:
            raise ParameterError(f"`level` must be in 0 < level < 1; got {level}.")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    @abstractmethod
    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n counts per cell: n rows."""

    @abstractmethod
    def log_at_least(self, y_N: ArrayLike) -> Floats:
        """Return the log probability of a count of at least y, exact in the far tail."""

    @abstractmethod
    def log_at_most(self, y_N: ArrayLike) -> Floats:
        """Return the log probability of a count of at most y, exact in the far tail."""

    @abstractmethod
    def given_positive(self) -> CountDistribution:
        """Return the distributions given that counts are at least one."""

    @abstractmethod
    def with_zeros(self) -> CountDistribution | None:
        """Return the distributions of counts that may be zero; None if nothing is known of that."""
