"""Scores of a fitted model on held-out cells, larger or smaller is better as each says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture


class Metric(NamedTuple):
    """A score: how it is computed, whether larger is better, and what it says."""

    compute: Callable[[CountModel, CountTensor], float]
    larger_is_better: bool
    meaning: str


def mae_mean(model: CountModel, test: CountTensor) -> float:
    """Return the mean absolute error of the predicted means."""
    return float(np.mean(np.abs(model.predict(test, "mean") - test.counts)))


def mae_median(model: CountModel, test: CountTensor) -> float:
    """Return the mean absolute error of the predicted medians."""
    return float(np.mean(np.abs(model.predict(test, "median") - test.counts)))


def rmse(model: CountModel, test: CountTensor) -> float:
    """Return the root mean squared error of the predicted means."""
    return float(np.sqrt(np.mean((model.predict(test, "mean") - test.counts) ** 2)))


def log_pmf_full(model: CountModel, test: CountTensor) -> float:
    """Return the mean log pmf, zeros possible, every constant in it."""
    return _mean_log_pmf(model.predictive(test), test, truncated=False)


def log_pmf_positive(model: CountModel, test: CountTensor) -> float:
    """Return the mean log pmf given that the count is at least one."""
    return _mean_log_pmf(model.predictive(test), test, truncated=True)


def log_pmf_plug_in(model: CountModel, test: CountTensor) -> float:
    """Return the mean log pmf given y >= 1 at the mean rates, without the posterior's spread."""
    fitted = model.fitted_
    r = fitted.calibration.dispersion or fitted.dispersion
    family = "poisson" if r is None else "negative-binomial"
    plain = CountMixture(COUNTS[family, True], model.rate(test)[None], r)
    return _mean_log_pmf(plain, test, truncated=True)


def paper_form(model: CountModel, test: CountTensor) -> float:
    """Return the mean of y ln(rate) - rate, the paper's log-likelihood without ln y!."""
    rate_N = np.maximum(model.rate(test), 1e-300)
    return float(np.mean(test.counts * np.log(rate_N) - rate_N))


def _mean_log_pmf(predictive: CountMixture, test: CountTensor, *, truncated: bool) -> float:
    likelihood = COUNTS[predictive.likelihood.family, truncated]
    return float(np.mean(replace(predictive, likelihood=likelihood).log_pmf(test.counts)))


METRICS: dict[str, Metric] = {
    "mae-mean": Metric(mae_mean, False, "absolute error of the predicted mean"),
    "mae-median": Metric(mae_median, False, "absolute error of the predicted median"),
    "rmse": Metric(rmse, False, "root mean squared error of the predicted mean"),
    "log-pmf-positive": Metric(log_pmf_positive, True, "log pmf given y >= 1"),
    "log-pmf-plug-in": Metric(
        log_pmf_plug_in, True, "log pmf given y >= 1 at the mean rate, without posterior spread"
    ),
    "log-pmf": Metric(log_pmf_full, True, "log pmf, zeros possible"),
    "paper-form": Metric(paper_form, True, "y ln(rate) - rate, as the paper reports"),
}
"""Every score by its name."""
