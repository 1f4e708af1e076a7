"""A heavy tail of counts: the discretised Lomax (Pareto II) distribution from a start on.

P(Y >= v) = ((start + offset) / (v + offset)) ** exponent for v >= start. The exponent is above one,
so that the mean exists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import zeta

from tallyfold.kernels.arrays import Floats, Ints

LARGEST = 2**53
FAR_OUT = 1e6
LEAST_CELLS = 5
"""With fewer counts in the tail, its parameters stay where they start."""
CENTRE, WIDTH = np.array([0.3, 0.0, 1.0]), np.array([1.0, 0.3, 2.0])
"""A Gaussian prior on the three parameters."""
EXPONENTS = (-1.5, 3.0)
"""Limits of ln(exponent - 1)."""


@dataclass(frozen=True)
class LomaxTail:
    """A tail whose exponent depends on how probable the tail is.

    Attributes
    ----------
    start
        The smallest count in the tail.
    level, slope
        ln(exponent - 1) is level + slope * ln P(tail).
    offset
        What is added to counts.
    """

    start: int
    level: float = float(CENTRE[0])
    slope: float = 0.0
    offset: float = float(np.log1p(np.e) - 0.5)

    @classmethod
    def of(cls, start: int, parameters: npt.ArrayLike) -> LomaxTail:
        """Build from three numbers without limits."""
        level, slope, free = np.asarray(parameters, dtype=float).tolist()
        return cls(start, level, slope, float(np.logaddexp(0.0, free) - 0.5))

    @classmethod
    def fitted(cls, start: int, counts_N: Ints, log_tail_N: Floats) -> LomaxTail:
        """Maximise the likelihood of counts in the tail, and a weak prior.

        `log_tail_N` is the log probability that each cell was given to have a count in the tail.
        """
        if len(counts_N) < LEAST_CELLS:
            return cls(start)

        def loss(parameters: Floats) -> float:
            log_pmf_N = cls.of(start, parameters).log_pmf(counts_N, log_tail_N)
            return float(np.sum(((parameters - CENTRE) / WIDTH) ** 2) / 2 - log_pmf_N.sum())

        return cls.of(start, np.round(minimize(loss, CENTRE, method="L-BFGS-B").x, 6))

    def exponents(self, log_tail_N: Floats) -> Floats:
        """Return the exponent of each cell."""
        return 1.0 + np.exp(np.clip(self.level + self.slope * log_tail_N, *EXPONENTS))

    def log_at_least(self, counts_N: npt.ArrayLike, log_tail_N: Floats) -> Floats:
        """Return ln P(Y >= y) given that the count is in the tail."""
        ratio_N = np.log(np.asarray(counts_N) + self.offset) - np.log(self.start + self.offset)
        return np.asarray(-self.exponents(log_tail_N) * np.maximum(ratio_N, 0.0))

    def log_pmf(self, counts_N: npt.ArrayLike, log_tail_N: Floats) -> Floats:
        """Return ln P(Y = y) given that the count is in the tail."""
        step_N = np.log1p(1.0 / (np.asarray(counts_N) + self.offset))
        left_N = -np.expm1(-self.exponents(log_tail_N) * step_N)
        return np.asarray(self.log_at_least(counts_N, log_tail_N) + np.log(left_N))

    def mean(self, log_tail_N: Floats) -> Floats:
        """Return the mean given that the count is in the tail."""
        a_N, base = self.exponents(log_tail_N), self.start + self.offset
        if base > FAR_OUT:  # the sum below is an integral by then, and powers overflow
            return np.asarray(self.start + base / (a_N - 1) - 0.5)
        return np.asarray(self.start + np.exp(a_N * np.log(base)) * zeta(a_N, base + 1.0))

    def quantile(self, p_N: Floats, log_tail_N: Floats) -> Floats:
        """Return the smallest count with a cdf of at least p, given that it is in the tail."""
        log_left_N = np.log1p(-np.minimum(p_N, 1 - 1e-16))
        grown_N = np.exp(np.minimum(-log_left_N / self.exponents(log_tail_N), 40.0))
        count_N = np.ceil((self.start + self.offset) * grown_N - self.offset) - 1.0
        return np.clip(count_N, self.start, LARGEST)
