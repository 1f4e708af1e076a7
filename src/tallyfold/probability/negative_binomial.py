"""The negative binomial by its mean `rate` and dispersion `r`: variance rate + rate**2 / r."""

import numpy as np
from scipy.special import betainc, betaincc

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.stirling import LOG_2PI, half_deviance, stirling_error


def log_zero(rate: Floats, r: Floats) -> Floats:
    """Return the log probability of a zero."""
    return np.asarray(-r * np.log1p(rate / r))


def log_pmf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return the log probability of a whole y >= 0.

    r / (r + y) times the binomial probability of r successes in r + y trials.
    """
    seen = np.maximum(y, 1.0)
    trials, scale = r + seen, r + rate
    failures = half_deviance(r, (seen - rate) / scale, trials / scale)
    excess = (r / seen) * ((rate - seen) / scale)
    successes = half_deviance(seen, excess, (trials / seen) * (rate / scale))
    errors = stirling_error(trials) - stirling_error(r) - stirling_error(seen)
    spread = 0.5 * (np.log(r) - np.log(trials) - np.log(seen) - LOG_2PI)
    return np.asarray(np.where(y == 0, log_zero(rate, r), errors - failures - successes + spread))


def cdf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return P(Y <= y) for y >= 0."""
    return _tail(y, rate, r, upper=False)


def sf(y: Floats, rate: Floats, r: Floats) -> Floats:
    """Return P(Y > y) for y >= 0."""
    return _tail(y, rate, r, upper=True)


def _tail(y: Floats, rate: Floats, r: Floats, upper: bool) -> Floats:
    """Return one tail by the incomplete beta function at whichever of p and 1 - p is small."""
    rare, common = (betaincc, betainc) if upper else (betainc, betaincc)
    p, q = r / (r + rate), rate / (r + rate)
    return np.asarray(np.where(p < q, rare(r, y + 1.0, p), common(y + 1.0, r, q)))


def step(y: int, rate: Floats, r: Floats) -> Floats:
    """Return pmf(y + 1) / pmf(y)."""
    return (y + r) / (y + 1) * (rate / (r + rate))


def sample(rng: np.random.Generator, rate: Floats, r: Floats) -> Ints:
    """Draw one count per rate: a Poisson whose rate has a Gamma multiplier."""
    return rng.poisson(rate * rng.standard_gamma(r) / r)


def sample_positive(rng: np.random.Generator, rate: Floats, r: Floats) -> Ints:
    """Draw counts given that they are at least one.

    The count is a sum of log-series clusters that arrive in a time -ln P0. Draw the first
    arrival, given that there is one, and its cluster; what is left of the time is left of r.
    """
    time = -log_zero(rate, r)
    first = -np.log1p(rng.random(rate.shape) * np.expm1(-time))
    left = np.clip(1.0 - first / time, 1e-12, 1.0)
    chance = np.minimum(rate / (r + rate), np.nextafter(1.0, 0.0))
    return rng.logseries(chance) + sample(rng, rate * left, r * left)
