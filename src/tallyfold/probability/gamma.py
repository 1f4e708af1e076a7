"""The Gamma distribution by shape and rate: moments, divergence, quantiles and draws.

Safe for shapes from 1e-3 to 1e8. Values that would underflow are kept at ``TINY`` > 0.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, gammaincinv, gammaln

from tallyfold.kernels.arrays import Floats

TINY = 1e-300
LARGE_SHAPE = 100.0
"""From here on, Stirling's series replaces differences of large logarithms."""

MANY = 20_000
"""From so many on, quantiles are read off a spline through a few thousand of them."""
KNOTS = 0.01
"""Distance of the spline's knots, in logarithms of shapes: relative errors are below 1e-6."""


def mean(shape: Floats, rate: Floats) -> Floats:
    """Return E z."""
    return shape / rate


def expected_log(shape: Floats, rate: Floats) -> Floats:
    """Return E ln z."""
    return np.asarray(digamma(shape) - np.log(rate))


def geometric_mean(shape: Floats, rate: Floats) -> Floats:
    """Return exp(E ln z), at least ``TINY``."""
    return np.asarray(np.maximum(np.exp(expected_log(shape, rate)), TINY))


def kl(shape: Floats, rate: Floats, other_shape: ArrayLike, other_rate: ArrayLike) -> Floats:
    """Return KL(Gamma(shape, rate) || Gamma(other_shape, other_rate)).

    The textbook form (a - a0) ψ(a) - ln Γ(a) + ln Γ(a0) + a0 ln(b / b0) + a (b0 - b) / b, its
    terms gathered so that two distributions that are nearly equal lose few digits.
    """
    a, a0 = shape, np.asarray(other_shape, dtype=np.float64)
    x = (np.asarray(other_rate, dtype=np.float64) - rate) / rate  # b0 / b - 1
    far = x < -0.5  # where the prior's rate is far smaller, x + 1 has lost its digits
    log_ratio = np.where(far, np.log(other_rate) - np.log(rate), np.log1p(np.where(far, 0.0, x)))
    by_rate = a0 * (x - log_ratio) + (a - a0) * x
    return np.asarray(np.maximum(_shape_divergence(a, a0) + by_rate, 0.0))


def _shape_divergence(a: Floats, a0: Floats) -> Floats:
    """Return ln Γ(a0) - ln Γ(a) - (a0 - a) ψ(a), the divergence at equal rates."""
    direct = gammaln(a0) - gammaln(a) - (a0 - a) * digamma(a)
    b, b0 = np.maximum(a, LARGE_SHAPE), np.maximum(a0, LARGE_SHAPE)
    t = (b0 - b) / b
    main = (b0 - 0.5) * np.log1p(t) - (b0 - b) + 0.5 * t
    slope = -1 / (12 * b**2) + 1 / (120 * b**4) - 1 / (252 * b**6)
    series = main + _stirling_tail(b0) - _stirling_tail(b) - slope * (b0 - b)
    return np.asarray(np.where(np.minimum(a, a0) < LARGE_SHAPE, direct, series))


def _stirling_tail(a: Floats) -> Floats:
    """Return ln Γ(a) - (a - 1/2) ln a + a - ln(2 pi) / 2 for a large a."""
    return np.asarray(1 / (12 * a) - 1 / (360 * a**3) + 1 / (1260 * a**5))


def quantile(p: ArrayLike, shape: Floats, rate: Floats) -> Floats:
    """Return the value that z stays below with probability p, at least ``TINY``.

    Very many of them, of one p, have relative errors of up to 1e-6.
    """
    many = np.ndim(p) == 0 and np.size(shape) >= MANY
    of_unit_rate = unit_quantiles if many else exact_unit_quantiles
    return np.asarray(np.maximum(of_unit_rate(p, shape) / rate, TINY))


def exact_unit_quantiles(p: ArrayLike, shape: Floats) -> Floats:
    """Return quantiles at rate one, each by itself."""
    return np.asarray(gammaincinv(shape, np.asarray(p, dtype=np.float64)))


def unit_quantiles(p: ArrayLike, shape: Floats) -> Floats:
    """Return quantiles at rate one: of one p, they are a smooth function of the shape."""
    from scipy.interpolate import CubicSpline

    log_shape = np.log(shape)
    low, high = float(log_shape.min()) - KNOTS, float(log_shape.max()) + KNOTS
    n_knots = 4 + int((high - low) / KNOTS)
    if not 4 * n_knots < np.size(shape):
        return exact_unit_quantiles(p, shape)
    knots = np.linspace(low, high, n_knots)
    at_knots, exact = np.exp(knots), exact_unit_quantiles(p, np.exp(knots))
    # the first term of its series where a quantile is too small for a float
    small = (np.log(p) + gammaln(at_knots + 1)) / at_knots
    log_exact = np.where(exact > 1e-250, np.log(np.maximum(exact, TINY)), small)
    return np.asarray(np.exp(CubicSpline(knots, log_exact)(log_shape)))


def sample_log(
    rng: np.random.Generator, shape: Floats, rate: Floats, size: tuple[int, ...] = ()
) -> Floats:
    """Draw ln z; `size` draws in front of the shapes' own axes.

    A small shape is boosted: Gamma(a) is Gamma(a + 1) times U**(1 / a), taken in logarithms.
    """
    a, b = np.broadcast_arrays(np.asarray(shape, np.float64), np.asarray(rate, np.float64))
    small = a < 1.0
    full = (*size, *a.shape)
    log_z = np.log(rng.standard_gamma(np.where(small, a + 1.0, a), full))
    boost = rng.standard_exponential(full) / a
    return np.asarray(np.where(small, log_z - boost, log_z) - np.log(b))


def sample(
    rng: np.random.Generator, shape: Floats, rate: Floats, size: tuple[int, ...] = ()
) -> Floats:
    """Draw z, at least ``TINY``; see :func:`sample_log` for draws below that.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> bool(np.all(sample(rng, np.array([1e-3]), np.array([1.0]), (1000,)) > 0))
    True
    """
    return np.asarray(np.maximum(np.exp(sample_log(rng, shape, rate, size)), TINY))
