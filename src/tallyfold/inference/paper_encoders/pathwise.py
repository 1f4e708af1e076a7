"""Gamma draws, and how they move when their parameters do: the pathwise gradient.

A draw is z = e / rate with e ~ Gamma(shape, 1). Held at its quantile, e moves with the shape by
-(dP / dshape) / p, where P is its distribution function and p its density (the minus sign is
missing in the paper). dP / dshape is a central difference of P, or of 1 - P in the upper tail;
the relative error of the result is below 1e-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammaln

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.threads import run_chunks
from tallyfold.probability import gamma

LEAST_DRAW = 1e-8
"""Draws are kept above it; one that had to be does not move with its parameters."""

STEP = 1e-5
"""Difference in the shape, relative to the shape or to its square root if that is smaller."""

CHUNK_ROWS = 512
"""Entities that one thread takes at a time."""


class Draw(NamedTuple):
    """A draw of every factor, and its derivatives by shape and by rate."""

    z_DK: Floats
    by_shape_DK: Floats
    by_rate_DK: Floats


def draw_factors(rng: np.random.Generator, shape_DK: Floats, rate_DK: Floats) -> Floats:
    """Draw factors, at least ``LEAST_DRAW``."""
    return np.maximum(gamma.sample(rng, shape_DK, rate_DK), LEAST_DRAW)


def pathwise_draw(rng: np.random.Generator, shape_DK: Floats, rate_DK: Floats) -> Draw:
    """Draw factors with their derivatives.

    Examples
    --------
    >>> shape, rate = np.array([[2.0]]), np.array([[4.0]])
    >>> draw = pathwise_draw(np.random.default_rng(0), shape, rate)
    >>> bool(draw.by_rate_DK == -draw.z_DK / 4)
    True
    """
    z_DK = draw_factors(rng, shape_DK, rate_DK)
    moves_DK = z_DK > LEAST_DRAW
    by_shape_DK = np.where(moves_DK, shape_slope(z_DK * rate_DK, shape_DK) / rate_DK, 0.0)
    return Draw(z_DK, by_shape_DK, np.where(moves_DK, -z_DK / rate_DK, 0.0))


def shape_slope(standard_DK: Floats, shape_DK: Floats) -> Floats:
    """Return the derivative by the shape of draws from Gamma(shape, 1)."""
    slope_DK = np.empty_like(standard_DK)

    def visit(chunk: int, rows: slice) -> None:
        slope_DK[rows] = _slope_of_rows(standard_DK[rows], shape_DK[rows])

    _over_chunks(visit, len(slope_DK))
    return slope_DK


def _slope_of_rows(x_DK: Floats, shape_DK: Floats) -> Floats:
    step_DK = STEP * np.minimum(shape_DK, np.sqrt(shape_DK))
    up_DK, down_DK = shape_DK + step_DK, shape_DK - step_DK
    lower_DK = x_DK < shape_DK + 1
    rise_DK = np.empty_like(x_DK)
    for part, cdf, sign in ((lower_DK, gammainc, 1.0), (~lower_DK, gammaincc, -1.0)):
        rise = cdf(up_DK[part], x_DK[part]) - cdf(down_DK[part], x_DK[part])
        rise_DK[part] = sign * rise
    log_density_DK = (shape_DK - 1) * np.log(x_DK) - x_DK - gammaln(shape_DK)
    return np.asarray(-rise_DK / (up_DK - down_DK) * np.exp(-log_density_DK))


def kl_slopes(
    shape_DK: Floats, rate_DK: Floats, prior_shape: float, prior_rate: float
) -> tuple[Floats, Floats]:
    """Return the derivatives by shape and by rate of KL(Gamma(shape, rate) || the prior)."""
    by_shape_DK = (shape_DK - prior_shape) * trigamma(shape_DK) + prior_rate / rate_DK - 1.0
    by_rate_DK = (prior_shape - prior_rate * shape_DK / rate_DK) / rate_DK
    return by_shape_DK, by_rate_DK


def kl_total(shape_DK: Floats, rate_DK: Floats, prior_shape: float, prior_rate: float) -> float:
    """Return the sum of KL(Gamma(shape, rate) || the prior) over all factors.

    Rows go in chunks that threads share; the chunks' sums are added in their order.

    Examples
    --------
    >>> kl_total(np.full((3, 2), 1.5), np.full((3, 2), 4.0), 1.5, 4.0)
    0.0
    """
    sum_C = np.zeros(-(-len(shape_DK) // CHUNK_ROWS))

    def visit(chunk: int, rows: slice) -> None:
        parts_DK = gamma.kl(shape_DK[rows], rate_DK[rows], prior_shape, prior_rate)
        sum_C[chunk] = parts_DK.sum()

    _over_chunks(visit, len(shape_DK))
    return float(sum_C.sum())


def _over_chunks(visit: Callable[[int, slice], None], n_rows: int) -> None:
    """Call ``visit(chunk, rows)`` for every chunk of rows; threads share the chunks."""

    def visit_all(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):  # each thread has its own; the fit's loop checks the result
            for chunk in range(start, stop):
                visit(chunk, slice(chunk * CHUNK_ROWS, (chunk + 1) * CHUNK_ROWS))

    run_chunks(visit_all, -(-n_rows // CHUNK_ROWS))


def trigamma(x: Floats) -> Floats:
    """Return the second derivative of ln Gamma; scipy's, by a zeta function, is ten times slower.

    Eight steps of the recurrence, then Stirling's series: exact to 1e-11.

    Examples
    --------
    >>> float((trigamma(np.array(1.0)) - np.pi**2 / 6).round(10)) + 0.0
    0.0
    """
    steps = np.sum([1.0 / (x + i) ** 2 for i in range(8)], axis=0)
    u = 1.0 / (x + 8.0)
    v = u * u
    series = u * (1 + v * (1 / 6 - v * (1 / 30 - v * (1 / 42 - v * (1 / 30 - v * 5 / 66)))))
    return np.asarray(steps + series + 0.5 * v)
