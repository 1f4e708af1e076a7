"""A few numbers of the predictive distribution, fitted on unseen cells.

A fit is always a little too sure of the cells it has seen, and real counts are more dispersed
than the model, or less. Scale and exponent of the rates, dispersion of the counts, and how much of
the posterior's spread to take in, fitted on cells held out of the fit, put that right. They say
nothing about which cells have large rates. Every model with a predictive distribution uses this.
Where empty cells are among them, a fifth number says how the dispersion goes with the rate: whether
there is a count, and how large it is, are then told apart.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from tallyfold.kernels.arrays import Array, Floats, Ints
from tallyfold.posterior.gamma_posterior import rounded
from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.probability.counts import CountLikelihood

MIN_CELLS = 20
MOST_CELLS = 20_000
"""An even sample of this many is enough."""
BOUNDS = [(-3.0, 3.0), (0.2, 3.0), (np.log(1e-3), np.log(1e6)), (0.0, 1.0), (-0.5, 1.5)]
"""Of ln scale, exponent, ln r, spread and growth."""
CENTRE, WIDTH = np.array([0.0, 1.0, 1.0, 1.0, 0.0]), np.array([0.5, 0.2, 3.0, 1.0, 0.5])
"""A Gaussian prior on them: few cells tell too little to go far from doing nothing."""
BIAS_WIDTH = 0.1
"""And one on ln(mean prediction / mean count): with a tiny r the pmf hardly sees the mean."""
KNOWN_WIDTH = 0.03
"""And the same where zeros are observed, on ln(mean prediction / mean rate): over all cells, rates
sum to the counts already, which few held-out counts cannot say as well."""
DECIMALS = 6
"""What the optimum is rounded to: the order in which cells were added up leaves no trace."""
LEAST_GAIN = 2.0
"""In nats over all cells; what gains less is noise."""


def calibrate(
    counts_N: Ints,
    mean_N: Floats,
    variance_N: Floats,
    likelihood: CountLikelihood,
    dispersion: float | None,
    *,
    weight_N: Floats | None = None,
    start: Calibration | None = None,
) -> Calibration:
    """Maximise the log pmf of unseen cells, and a weak prior, in these numbers.

    With fewer than 20 cells nothing is changed; more than `MOST_CELLS` are more than is needed. A
    calibration to start from saves most of the time. Where zeros are observed, cells without a
    count are among them, `weight_N` says how many each stands for, and means are per cell that has
    a count. Moments are rounded first: where the search ends may hang on their last digits, and
    these on the order cells were added up in.
    """
    number = len(counts_N) if weight_N is None else np.count_nonzero(counts_N)
    if number < MIN_CELLS:
        return Calibration()
    times_N = np.ones(len(counts_N)) if weight_N is None else weight_N
    mean_N, variance_N = rounded(mean_N), rounded(variance_N)

    def mean(value_N: Array) -> float:
        return float((times_N * value_N).sum() / number)

    centre, n_free, total, width = 0.0, 4, mean(counts_N), BIAS_WIDTH
    if weight_N is not None:  # with zeros among them, rates are far from one
        n_free = 5
        log_N = np.log(np.maximum(mean_N[counts_N > 0], 1e-300))
        centre = round(float(log_N.mean()), DECIMALS)
        total, width = mean(mean_N), KNOWN_WIDTH

    def loss(parameters: Floats) -> float:
        calibration = _calibration(parameters, centre)
        cells = matched_mixture(mean_N, variance_N, likelihood, dispersion, calibration)
        bias = np.log(max(mean(cells.mean()), 1e-300) / total) / width
        far = (parameters - CENTRE[:n_free]) / WIDTH[:n_free]
        surprise = (np.sum(far**2) + bias**2) / 2
        return float(surprise) / number - mean(cells.log_pmf(counts_N))

    first = [[0.0, 1.0, np.log(r), s, 0.0] for r in (0.5, 5.0, 500.0) for s in (0.1, 0.9)]
    starts = [np.array(each[:n_free]) for each in first]
    if start is not None and start.dispersion is not None:
        log_scale, log_r = np.log(start.scale), np.log(start.dispersion)
        starts = [np.array([log_scale, start.exponent, log_r, start.spread])]
    steps = 60 if len(starts) > 1 else 15
    found = minimize(
        loss,
        min(starts, key=loss),
        jac="3-point",
        method="L-BFGS-B",
        bounds=BOUNDS[:n_free],
        options={"maxiter": steps, "ftol": 1e-9},
    )
    plain = matched_mixture(mean_N, variance_N, likelihood, dispersion, Calibration())
    gain = -mean(plain.log_pmf(counts_N)) - float(found.fun)
    if gain * number <= LEAST_GAIN:
        return Calibration()
    return _calibration(np.round(found.x, DECIMALS), centre)


def _calibration(parameters: Floats, centre: float) -> Calibration:
    """Return what the numbers say; scale and r are those at a log rate of `centre`."""
    log_scale, exponent, log_r, spread, *more = parameters.tolist()
    growth = more[0] if more else 0.0
    scale = float(np.exp(log_scale + (1 - exponent) * centre))
    return Calibration(scale, exponent, float(np.exp(log_r - growth * centre)), spread, growth)
