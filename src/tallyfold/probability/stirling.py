"""Log pmfs without cancellation: Stirling's error and the deviance, after Loader.

Catherine Loader, *Fast and accurate computation of binomial probabilities* (2000): the pmf of a
Poisson, binomial or negative binomial is a Gaussian-like factor times corrections that stay small,
so a rate of 1e8 costs no digits.
"""

import numpy as np
from scipy.special import gammaln

from tallyfold.kernels.arrays import Floats

LOG_2PI = float(np.log(2 * np.pi))
SERIES_FROM = 15.0


def stirling_error(x: Floats) -> Floats:
    """Return ln Γ(x + 1) - (x + 1/2) ln x + x - ln(2 pi) / 2 for x > 0."""
    large = np.maximum(x, SERIES_FROM)
    inverse = 1.0 / (large * large)
    series = 1 / 1260 - inverse * (1 / 1680 - inverse * (1 / 1188 - inverse * 691 / 360360))
    series = (1 / 12 - inverse * (1 / 360 - inverse * series)) / large
    small = np.minimum(x, SERIES_FROM)
    direct = gammaln(small + 1.0) - (small + 0.5) * np.log(small) + small - 0.5 * LOG_2PI
    return np.asarray(np.where(x < SERIES_FROM, direct, series))


def half_deviance(x: Floats, excess: Floats, ratio: Floats) -> Floats:
    """Return x ln(x / m) + m - x, given ``excess = (m - x) / x`` and ``ratio = m / x``.

    The caller knows a form of the excess that loses no digits when m is close to x.
    """
    close = excess > -0.5
    log_ratio = np.where(close, np.log1p(np.where(close, excess, 0.0)), np.log(ratio))
    return np.asarray(x * (excess - log_ratio))
