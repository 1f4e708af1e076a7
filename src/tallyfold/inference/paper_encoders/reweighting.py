"""How much a cell weighs in an encoder's sums.

The paper's weight of a count y is 1 / (1 + eta exp(-theta (y - typical)^2)): little for the most
frequent count, nearly one far from it. Another choice weighs the cells that were predicted badly.
Weights are divided by their mean, so that a choice of theta and eta changes which cells are heard,
not how loud all of them are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tallyfold.kernels.arrays import Floats, Whole
from tallyfold.probability.counts import CountLikelihood

ERROR_RANGE = (0.2, 5.0)
"""Bounds of a cell's weight by error, as a multiple of the mean."""

ERROR_MEMORY = 0.9
"""How much of the running average of errors an iteration keeps."""


def most_frequent(value_V: Whole, times_V: Whole) -> int:
    """Return the most frequent count, the smaller of two that are equally frequent.

    Examples
    --------
    >>> most_frequent(np.array([1, 4, 5]), np.array([2, 1, 2]))
    1
    """
    return int(value_V[np.argmax(times_V)])


def distance_weights(counts_N: Whole, typical: int, theta: float, eta: float) -> Floats:
    """Return the paper's weights, as they are in the paper.

    Examples
    --------
    >>> distance_weights(np.array([1, 2, 9]), typical=1, theta=5.0, eta=10.0).round(3)
    array([0.091, 0.937, 1.   ])
    """
    distance_N = np.asarray(counts_N, dtype=np.float64) - typical
    return np.asarray(1.0 / (1.0 + eta * np.exp(-theta * distance_N**2)))


def pearson_errors(counts_N: Whole, rate_N: Floats, likelihood: CountLikelihood) -> Floats:
    """Return |y - mean| / sqrt(mean), the mean being the likelihood's."""
    mean_N = likelihood.mean(rate_N)
    return np.asarray(np.abs(counts_N - mean_N) / np.sqrt(np.maximum(mean_N, 1e-12)))


def error_weights(error_N: Floats, mean: Callable[[Floats], float] = np.mean) -> Floats:
    """Return weights that grow with the errors, within ``ERROR_RANGE`` and about one on average."""
    relative_N = np.clip(error_N / max(float(mean(error_N)), 1e-12), *ERROR_RANGE)
    return np.asarray(np.clip(relative_N / mean(relative_N), *ERROR_RANGE))
