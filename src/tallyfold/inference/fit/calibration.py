"""Four numbers of the predictive distribution, fitted on unseen cells.

A fit is always a little too sure of the cells it has seen, and real counts are more dispersed
than the model, or less. Scale and exponent of the rates, dispersion of the counts, and how much of
the posterior's spread to take in, fitted on cells held out of the fit, put that right. They say
nothing about which cells have large rates. Every model with a predictive distribution uses this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.probability.counts import CountLikelihood

MIN_CELLS = 20
MOST_CELLS = 20_000
"""An even sample of this many is enough."""
BOUNDS = [(-3.0, 3.0), (0.2, 3.0), (np.log(1e-3), np.log(1e6)), (0.0, 1.0)]
"""Of ln scale, exponent, ln r and spread."""
CENTRE, WIDTH = np.array([0.0, 1.0, 1.0, 1.0]), np.array([0.5, 0.2, 3.0, 1.0])
"""A Gaussian prior on the four: few cells tell too little to go far from doing nothing."""
BIAS_WIDTH = 0.1
"""And one on ln(mean prediction / mean count): with a tiny r the pmf hardly sees the mean."""
DECIMALS = 6
"""What the optimum is rounded to: the order in which cells were added up leaves no trace."""
LEAST_GAIN = 2.0
"""In nats over all cells; what gains less is noise."""

Floats = npt.NDArray[np.float64]


def calibrate(
    counts_N: npt.NDArray[np.int64],
    mean_N: Floats,
    variance_N: Floats,
    likelihood: CountLikelihood,
    dispersion: float | None,
    *,
    start: Calibration | None = None,
) -> Calibration:
    """Maximise the log pmf of unseen cells, and a weak prior, in the four numbers.

    With fewer than 20 cells nothing is changed; more than `MOST_CELLS` are more than is needed. A
    calibration to start from saves most of the time.
    """
    if len(counts_N) < MIN_CELLS:
        return Calibration()

    def loss(parameters: Floats) -> float:
        calibration = _calibration(parameters)
        cells = matched_mixture(mean_N, variance_N, likelihood, dispersion, calibration)
        bias = np.log(max(float(np.mean(cells.mean())), 1e-300) / np.mean(counts_N))
        surprise = (np.sum(((parameters - CENTRE) / WIDTH) ** 2) + (bias / BIAS_WIDTH) ** 2) / 2
        return float(surprise) / len(counts_N) - float(np.mean(cells.log_pmf(counts_N)))

    starts = [np.array([0.0, 1.0, np.log(r), s]) for r in (0.5, 5.0, 500.0) for s in (0.1, 0.9)]
    if start is not None and start.dispersion is not None:
        log_scale, log_r = np.log(start.scale), np.log(start.dispersion)
        starts = [np.array([log_scale, start.exponent, log_r, start.spread])]
    steps = 60 if len(starts) > 1 else 15
    found = minimize(
        loss,
        min(starts, key=loss),
        jac="3-point",
        method="L-BFGS-B",
        bounds=BOUNDS,
        options={"maxiter": steps, "ftol": 1e-9},
    )
    plain = matched_mixture(mean_N, variance_N, likelihood, dispersion, Calibration())
    gain = -float(np.mean(plain.log_pmf(counts_N))) - float(found.fun)
    if gain * len(counts_N) <= LEAST_GAIN:
        return Calibration()
    return _calibration(np.round(found.x, DECIMALS))


def _calibration(parameters: Floats) -> Calibration:
    log_scale, exponent, log_r, spread = parameters.tolist()
    return Calibration(float(np.exp(log_scale)), exponent, float(np.exp(log_r)), spread)
