"""The Poisson distribution by its mean `rate`; the argument `r` is ignored."""

import numpy as np
from scipy.special import gammainc, gammaincc

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.stirling import LOG_2PI, half_deviance, stirling_error


def log_zero(rate: Floats, r: Floats) -> Floats:
    """Return the log probability of a zero."""
    return -rate


def log_pmf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return the log probability of a whole y >= 0."""
    seen = np.maximum(y, 1.0)
    deviance = half_deviance(seen, (rate - seen) / seen, rate / seen)
    positive = -stirling_error(seen) - deviance - 0.5 * (LOG_2PI + np.log(seen))
    return np.asarray(np.where(y == 0, -rate, positive))


def cdf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return P(Y <= y) for y >= 0."""
    return np.asarray(gammaincc(y + 1.0, rate))


def sf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return P(Y > y) for y >= 0."""
    return np.asarray(gammainc(y + 1.0, rate))


def step(y: int, rate: Floats, r: Floats) -> Floats:
    """Return pmf(y + 1) / pmf(y)."""
    return rate / (y + 1)


def sample(rng: np.random.Generator, rate: Floats, r: Floats) -> Ints:
    """Draw one count per rate."""
    return rng.poisson(rate)


def sample_positive(rng: np.random.Generator, rate: Floats, r: Floats) -> Ints:
    """Draw counts given that they are at least one.

    The count is what arrives in a time `rate`. Draw the first arrival, given that there is one,
    and let the rest come as they may: no rejection, however small the rate.
    """
    first = -np.log1p(rng.random(rate.shape) * np.expm1(-rate))
    return 1 + rng.poisson(np.maximum(rate - first, 0.0))
