"""A cell's expected exposure and log normaliser, as in :mod:`tallyfold.kernels.likelihoods`."""

import math

from tallyfold.kernels.fused.jit import jit

SMALL = 1e-3
"""Below it, four terms of a series are exact in float64 and faster than expm1 or log1p."""


@jit
def inverse_expm1(x):  # type: ignore[no-untyped-def]
    """Return 1 / (exp(x) - 1) for x > 0."""
    if x < SMALL:
        return 1.0 / x - 0.5 + x * (1.0 / 12.0 - x * x / 720.0)
    return 1.0 / (math.exp(x) - 1.0)


@jit
def log_one_plus(x):  # type: ignore[no-untyped-def]
    """Return ln(1 + x) for x >= 0."""
    if x < SMALL:
        return x * (1.0 - x * (0.5 - x * (1.0 / 3.0 - x * (0.25 - x * (0.2 - x / 6.0)))))
    return math.log(1.0 + x)


@jit
def log_one_minus_exp(x):  # type: ignore[no-untyped-def]
    """Return ln(1 - exp(-x)) for x > 0."""
    if x < SMALL:
        return math.log(x) - x * (0.5 - x / 24.0)
    return math.log(1.0 - math.exp(-x))


@jit
def exposure(family, rate, count):  # type: ignore[no-untyped-def]
    """Return the derivative of the cell's log normaliser by the rate.

    `family` is the position in ``LIKELIHOODS`` and the dispersion. A truncated likelihood adds the
    exposure of the zeros that were not observed: about 1 / rate when the rate is small.
    """
    code, dispersion = family
    if code == 0:
        return 1.0
    if code == 1:
        return 1.0 + inverse_expm1(rate)
    unseen = 0.0
    if code == 3:
        unseen = dispersion * inverse_expm1(dispersion * log_one_plus(rate / dispersion))
    return (dispersion + count + unseen) / (dispersion + rate)


@jit
def normaliser(family, rate, count):  # type: ignore[no-untyped-def]
    """Return the part of minus the log pmf that depends on the rate, y ln(rate) aside."""
    code, dispersion = family
    if code == 0:
        return rate
    if code == 1:
        return rate + log_one_minus_exp(rate)
    stretched = log_one_plus(rate / dispersion)
    total = (dispersion + count) * stretched
    if code == 3:
        total += log_one_minus_exp(dispersion * stretched)
    return total
