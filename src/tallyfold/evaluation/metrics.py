"""Every score of a fitted model: a function, and by its name what it needs and what is better."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.ranking import Ranking, ranking
from tallyfold.kernels.arrays import Floats
from tallyfold.models.base import CountModel
from tallyfold.models.expected import counts_like
from tallyfold.models.scoring import ranked_axis
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture

Needs = Literal["rates", "distribution", "part", "train"]

DISTRIBUTION = ("distribution", "part")
"""What only models with a distribution of counts can give."""
RANKED_CELLS = 20_000
"""Held-out cells that are ranked, drawn at random: enough for a standard error below 0.004."""


class Metric(NamedTuple):
    """A score.

    Attributes
    ----------
    of
        How it is computed.
    better
        Whether ``"larger"`` or ``"smaller"`` values are better, or the ``"nearest"`` to `target`.
    meaning
        What it says, in words.
    needs
        What it cannot do without: ``"rates"``, which all models have; a ``"distribution"`` of
        counts; one with zeros, and a test tensor that is a ``"part"`` of all cells; or the
        ``"train"`` tensor, to know which cells are empty.
    target
        The value that a perfect model has, for scores of which the nearest is better.
    """

    of: Callable[[Predictions], float | None]
    better: Literal["larger", "smaller", "nearest"]
    meaning: str
    needs: Needs = "distribution"
    target: float | None = None

    def compute(
        self,
        model: CountModel,
        test: CountTensor,
        train: CountTensor | None = None,
        along: str | None = None,
    ) -> float | None:
        """Score a fitted model on held-out cells; None where there is nothing to score."""
        return self.of(Predictions(model, test, train, along))

    def loss(self, value: float) -> float:
        """Return a number that is smaller for better values, whatever the score."""
        if self.better == "nearest":
            return abs(value - (self.target or 0.0))
        return value if self.better == "smaller" else -value


def scores_of(
    model: CountModel,
    test: CountTensor,
    metrics: Iterable[str],
    train: CountTensor | None = None,
    along: str | None = None,
) -> dict[str, float | None]:
    """Score a fitted model on held-out cells, working its predictions out once for all scores.

    Parameters
    ----------
    model
        A fitted model.
    test
        The cells it has not seen.
    metrics
        Names of scores from `METRICS`.
    train
        The cells it was fitted on, for scores that need to know which cells are empty.
    along
        The axis whose labels are ranked by scores that do so (``auc-within``, ``recall-10``,
        ``recall-20``, ``ndcg-20``); None for that with the most labels.

    Returns
    -------
    dict
        The value of each score; None where the model has no distribution of counts, where no
        cell is empty and the score needs some, and for scores of zeros where these are missing or
        `test` is no part of all cells, such as ``split(cells="all")`` makes.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> sorted(scores_of(tf.Constant().fit(train), test, ["rmse", "coverage-80"]))
    ['coverage-80', 'rmse']
    """
    chosen = checked_metrics(metrics)
    test = counts_like(model.axes_, test, "test")
    train = None if train is None else counts_like(model.axes_, train, "train")
    predictions = Predictions(model, test, train, along)
    without = not model.fitted_.has_distribution
    return {
        name: None if without and metric.needs in DISTRIBUTION else metric.of(predictions)
        for name, metric in chosen.items()
    }


def checked_metrics(names: Iterable[str]) -> dict[str, Metric]:
    """Return scores by their names; refuse a name that is none."""
    if isinstance(names, str):
        raise ParameterError(f"`metrics` must be a list of names; got the text {names!r}.")
    names = list(names)
    unknown = [name for name in names if name not in METRICS]
    if unknown:
        raise ParameterError(f"`metrics` must be among {', '.join(METRICS)}; got {unknown[0]!r}.")
    return {name: METRICS[name] for name in names}


def mae_mean(predictions: Predictions) -> float:
    """Return the mean absolute error of the predicted means."""
    return float(np.mean(np.abs(predictions.mean - predictions.counts)))


def mae_median(predictions: Predictions) -> float:
    """Return the mean absolute error of the predicted medians."""
    return float(np.mean(np.abs(predictions.median - predictions.counts)))


def rmse(predictions: Predictions) -> float:
    """Return the root mean squared error of the predicted means."""
    return float(np.sqrt(np.mean((predictions.mean - predictions.counts) ** 2)))


def log_pmf_full(predictions: Predictions) -> float | None:
    """Return the mean log pmf, zeros possible, every constant in it.

    None for a model that says nothing of zeros.
    """
    distribution = predictions.with_zeros
    return (
        None if distribution is None else float(np.mean(distribution.log_pmf(predictions.counts)))
    )


def log_pmf_positive(predictions: Predictions) -> float:
    """Return the mean log pmf given that the count is at least one."""
    return float(np.mean(predictions.positive.log_pmf(predictions.counts)))


def log_pmf_plug_in(predictions: Predictions) -> float:
    """Return the mean log pmf given y >= 1 at the mean rates, without the posterior's spread."""
    fitted = predictions.model.fitted_
    r: float | Floats | None = fitted.calibration.dispersion or fitted.dispersion
    family = "poisson" if r is None else "negative-binomial"
    if r is not None and fitted.calibration.growth:
        r = (r * predictions.rate**fitted.calibration.growth)[None]
    plain = CountMixture(COUNTS[family, True], predictions.rate[None], r)
    return float(np.mean(plain.log_pmf(predictions.counts)))


def paper_form(predictions: Predictions) -> float:
    """Return the mean of y ln(rate) - rate, the paper's log-likelihood without ln y!."""
    rate_N = np.maximum(predictions.rate, 1e-300)
    return float(np.mean(predictions.counts * np.log(rate_N) - rate_N))


def paper_form_at_mean(predictions: Predictions) -> float:
    """Return the mean of y ln(m) - m at the predicted means m: comparable across likelihoods."""
    mean_N = np.maximum(predictions.mean, 1e-300)
    return float(np.mean(predictions.counts * np.log(mean_N) - mean_N))


def coverage(predictions: Predictions, level: float) -> float:
    """Return how often counts lie in the central interval of a level, given y >= 1.

    A count's own probability spans a segment of the predictive distribution function. An interval
    of whole counts takes in all of it or nothing and so covers more than its level; here it takes
    in the part of the segment that lies inside, so that a perfect model covers its level, neither
    more nor less: the expectation of the randomised probability integral transform, without dice.
    """
    low, high = (1 - level) / 2, (1 + level) / 2
    width_N, end_N = predictions.segments
    inside_N = np.minimum(end_N, high) - np.maximum(end_N - width_N, low)
    # a segment without any width is far out in a tail: nothing of it is inside
    return float(np.mean(np.clip(inside_N, 0.0, width_N) / np.maximum(width_N, 1e-300)))


def log_score(predictions: Predictions) -> float | None:
    """Return the log pmf of all cells of a part, zeros included, per cell that has a count."""
    scores = predictions.over_all_cells
    return None if scores is None else scores.total


def occurrence(predictions: Predictions) -> float | None:
    """Return the part of the log score that says whether there is a count."""
    scores = predictions.over_all_cells
    return None if scores is None else scores.occurrence


def amount(predictions: Predictions) -> float:
    """Return the part of the log score that says how many, given that there is at least one."""
    scores = predictions.over_all_cells
    return log_pmf_positive(predictions) if scores is None else scores.amount


def zeros_error(predictions: Predictions) -> float | None:
    """Return the standard error of the log score that comes from drawing empty cells."""
    scores = predictions.over_all_cells
    return None if scores is None else scores.error


def auc(predictions: Predictions) -> float | None:
    """Return how often a held-out cell stands above an empty one drawn from all over."""
    return _ranking(predictions, zeros_per_cell=10).auc


def auc_within(predictions: Predictions) -> float | None:
    """Return how often a held-out cell stands above an empty one that differs on one axis only."""
    return _ranking(predictions, _target(predictions), zeros_per_cell=10).auc


def recall_10(predictions: Predictions) -> float | None:
    """Return how often a held-out cell is among the first 10 in a list with 100 empty cells.

    These differ from it on one axis only, by default that with the most labels.
    """
    return _ranking(predictions, _target(predictions)).recall


def recall_20(predictions: Predictions) -> float | None:
    """Return how many held-out cells are among the first 20 of all labels not known to be there."""
    return predictions.lists.recall


def ndcg_20(predictions: Predictions) -> float | None:
    """Return the mean normalised discounted cumulative gain of these first 20."""
    return predictions.lists.ndcg


def _target(predictions: Predictions) -> str:
    """Return the axis whose labels are ranked."""
    return predictions.along or ranked_axis(predictions.model.axes_)


def _ranking(
    predictions: Predictions, along: str | None = None, zeros_per_cell: int = 100
) -> Ranking:
    by_part = predictions.test.part is not None and predictions.knows_zeros
    return ranking(
        predictions.model,
        predictions.test,
        predictions.known,
        zeros_per_cell=zeros_per_cell,
        along=along,
        most_cells=RANKED_CELLS,
        by="probability" if by_part else "rate",
    )


def _coverage(level: float) -> Metric:
    meaning = f"share of counts in their {level:.0%} interval, given y >= 1"
    return Metric(partial(coverage, level=level), "nearest", meaning, target=level)


METRICS: dict[str, Metric] = {
    "mae-mean": Metric(mae_mean, "smaller", "absolute error of the predicted mean", "rates"),
    "mae-median": Metric(mae_median, "smaller", "absolute error of the predicted median"),
    "rmse": Metric(rmse, "smaller", "root mean squared error of the predicted mean", "rates"),
    "log-pmf-positive": Metric(log_pmf_positive, "larger", "log pmf given y >= 1"),
    "log-pmf-plug-in": Metric(
        log_pmf_plug_in,
        "larger",
        "log pmf given y >= 1 at the mean rate, without posterior spread",
    ),
    "log-pmf": Metric(log_pmf_full, "larger", "log pmf, zeros possible"),
    "paper-form": Metric(paper_form, "larger", "y ln(rate) - rate, as the paper reports", "rates"),
    "paper-form-at-mean": Metric(
        paper_form_at_mean, "larger", "y ln(m) - m at the predicted mean m", "rates"
    ),
    "coverage-50": _coverage(0.5),
    "coverage-80": _coverage(0.8),
    "coverage-95": _coverage(0.95),
    "log-score": Metric(
        log_score, "larger", "log pmf of all held-out cells, zeros too, per non-zero", "part"
    ),
    "occurrence": Metric(
        occurrence, "larger", "its part that says whether there is a count", "part"
    ),
    "amount": Metric(amount, "larger", "its part that says how many, given any"),
    "zeros-error": Metric(
        zeros_error, "smaller", "standard error of the log score, from drawing empty cells", "part"
    ),
    "auc": Metric(auc, "larger", "held-out cells above empty ones", "train"),
    "auc-within": Metric(
        auc_within,
        "larger",
        "held-out cells above empty ones that differ on one axis only",
        "train",
    ),
    "recall-10": Metric(
        recall_10, "larger", "held-out cells in the first 10, with 100 empty ones", "train"
    ),
    "recall-20": Metric(
        recall_20, "larger", "held-out cells in the first 20 of all labels", "train"
    ),
    "ndcg-20": Metric(ndcg_20, "larger", "gain of the first 20 of all labels, by place", "train"),
}
"""Every score by its name."""
