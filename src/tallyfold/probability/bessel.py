"""The Bessel distribution of a whole number, p(l) proportional to x^l / (l! Gamma(a + l)).

It is that of a Poisson count which was seen before a Gamma variable, given the variables on both
sides (`inference/schemes/gamma_chain.py`). With m(a) its mean,

    m(a) = x / (a + m(a + 1)),    0F1(a; x) = 0F1(a + 1; x) * (1 + m(a + 1) / a)

so both come from one recurrence downwards. At its beginning a is large, and expansions for large
orders of the modified Bessel function hold.

References
----------
Yuan and Kalbfleisch, "On the Bessel Distribution and Related Problems", Annals of the Institute of
Statistical Mathematics 52, 2000. NIST Digital Library of Mathematical Functions, 10.41.3.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEPS, MORE = 14, 8
"""Of the recurrence: sums begin at an order of at least `STEPS`, means at `MORE` above it, since
what they are wrong by at first shrinks with every step."""


def mean(a: float, x: Floats) -> Floats:
    """Return the means.

    Examples
    --------
    >>> mean(1.0, np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.6978]
    """
    return _mean_and_factor(a, x)[0]


def log_sum(a: float, x: Floats) -> Floats:
    """Return the logarithms of the sums over l of Gamma(a) x^l / (l! Gamma(a + l)), 0F1(a; x).

    Examples
    --------
    >>> log_sum(1.0, np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.824]
    """
    return np.asarray(np.log(_mean_and_factor(a, x)[1]) + _log_sum_above(a + STEPS - 1, x))


def _mean_and_factor(a: float, x: Floats) -> tuple[Floats, Floats]:
    """Return the mean, and 0F1(a; x) over 0F1(a + STEPS; x)."""
    mean_ = _mean_above(a + STEPS + MORE, x)
    for order in range(STEPS + MORE - 1, STEPS - 1, -1):
        mean_ = x / (a + order + mean_)
    factor = np.ones_like(mean_)
    for order in range(STEPS - 1, -1, -1):
        factor *= 1 + mean_ / (a + order)
        mean_ = x / (a + order + mean_)
    return mean_, factor


def _mean_above(a: float, x: Floats) -> Floats:
    """Return the mean for a large a: m^2 + (a - 1) m + dm / d ln x = x, solved twice over."""
    c = a - 1
    root = np.sqrt(c * c + 4 * x)
    slope = x / root
    inner = c * c + 4 * (x - slope)
    slope = (x - slope + 2 * slope * (x / root**2)) / np.sqrt(inner)
    left = x - slope
    return np.asarray(2 * left / (c + np.sqrt(c * c + 4 * left)))


def _log_sum_above(order: float, x: Floats) -> Floats:
    """Return log 0F1(order + 1; x) for a large order."""
    root = np.sqrt(order * order + 4 * x)
    p = order / root
    q = p * p
    u1 = p * (3 - 5 * q) / 24
    u2 = q * (81 + q * (385 * q - 462)) / 1152
    u3 = p * q * (30375 + q * (-369603 + q * (765765 - 425425 * q))) / 414720
    u4 = 4465125 + q * (-94121676 + q * (349922430 + q * (185910725 * q - 446185740)))
    u4 *= q * q / 39813120
    series = 1 + (u1 + (u2 + (u3 + u4 / order) / order) / order) / order
    known = math.lgamma(order + 1) + order * math.log(2) - math.log(2 * math.pi) / 2
    return np.asarray(
        known + root - order * np.log(order + root) - np.log(root) / 2 + np.log(series)
    )
