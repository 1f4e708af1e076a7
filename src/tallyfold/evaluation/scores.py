"""Scores of predictions on held-out cells, one function each; `metrics` gives them their names."""

from __future__ import annotations

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.ranking import Ranking, longest_axis, ranking
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture

RANKED_CELLS = 20_000
"""Held-out cells that are ranked, drawn at random: enough for a standard error below 0.004."""


def mae_mean(said: Predictions) -> float:
    """Return the mean absolute error of the predicted means."""
    return float(np.mean(np.abs(said.mean - said.counts)))


def mae_median(said: Predictions) -> float:
    """Return the mean absolute error of the predicted medians."""
    return float(np.mean(np.abs(said.median - said.counts)))


def rmse(said: Predictions) -> float:
    """Return the root mean squared error of the predicted means."""
    return float(np.sqrt(np.mean((said.mean - said.counts) ** 2)))


def log_pmf_full(said: Predictions) -> float:
    """Return the mean log pmf, zeros possible, every constant in it."""
    return float(np.mean(said.with_zero.log_pmf(said.counts)))


def log_pmf_positive(said: Predictions) -> float:
    """Return the mean log pmf given that the count is at least one."""
    return float(np.mean(said.positive.log_pmf(said.counts)))


def log_pmf_plug_in(said: Predictions) -> float:
    """Return the mean log pmf given y >= 1 at the mean rates, without the posterior's spread."""
    fitted = said.model.fitted_
    r = fitted.calibration.dispersion or fitted.dispersion
    family = "poisson" if r is None else "negative-binomial"
    plain = CountMixture(COUNTS[family, True], said.rate[None], r)
    return float(np.mean(plain.log_pmf(said.counts)))


def paper_form(said: Predictions) -> float:
    """Return the mean of y ln(rate) - rate, the paper's log-likelihood without ln y!."""
    rate_N = np.maximum(said.rate, 1e-300)
    return float(np.mean(said.counts * np.log(rate_N) - rate_N))


def paper_form_at_mean(said: Predictions) -> float:
    """Return the mean of y ln(m) - m at the predicted means m: comparable across likelihoods."""
    mean_N = np.maximum(said.mean, 1e-300)
    return float(np.mean(said.counts * np.log(mean_N) - mean_N))


def coverage(said: Predictions, level: float) -> float:
    """Return how often counts lie in the central interval of a level, given y >= 1.

    A count's own probability spans a segment of the predictive distribution function. An interval
    of whole counts takes in all of it or nothing and so covers more than its level; here it takes
    in the part of the segment that lies inside, so that a perfect model covers its level, neither
    more nor less: the expectation of the randomised probability integral transform, without dice.
    """
    low, high = (1 - level) / 2, (1 + level) / 2
    width_N, end_N = said.segments
    inside_N = np.minimum(end_N, high) - np.maximum(end_N - width_N, low)
    # a segment without any width is far out in a tail: nothing of it is inside
    return float(np.mean(np.clip(inside_N, 0.0, width_N) / np.maximum(width_N, 1e-300)))


def auc(said: Predictions) -> float | None:
    """Return how often a held-out cell has a higher rate than an empty one drawn from all over."""
    return _ranking(said, zeros_per_cell=10).auc


def recall_10(said: Predictions) -> float | None:
    """Return how often a held-out cell is among the first 10 in a list with 100 empty cells.

    These differ from it on the axis with the most labels only; `ranking` takes any axis.
    """
    return _ranking(said, along=longest_axis(said.model)).recall


def _ranking(said: Predictions, along: str | None = None, zeros_per_cell: int = 100) -> Ranking:
    if said.train is None:
        raise ParameterError(
            "`train` must be given for scores that rank cells: the empty cells are those that are "
            "neither in it nor in the test tensor. Give the tensor the model was fitted on."
        )
    return ranking(
        said.model,
        said.test,
        said.train,
        zeros_per_cell=zeros_per_cell,
        along=along,
        most_cells=RANKED_CELLS,
    )
