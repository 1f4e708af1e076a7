"""Every score of a fitted model by its name: what it needs, what is better, what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, NamedTuple

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.evaluation import scores
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel

Needs = Literal["rates", "distribution", "train"]


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
        counts; or the ``"train"`` tensor, to know which cells are empty.
    target
        The value that a perfect model has, for scores of which the nearest is better.
    """

    of: Callable[[Predictions], float | None]
    better: Literal["larger", "smaller", "nearest"]
    meaning: str
    needs: Needs = "distribution"
    target: float | None = None

    def compute(
        self, model: CountModel, test: CountTensor, train: CountTensor | None = None
    ) -> float | None:
        """Score a fitted model on held-out cells; None where there is nothing to score."""
        return self.of(Predictions(model, test, train))

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

    Returns
    -------
    dict
        The value of each score; None where the model has no distribution of counts, or where no
        cell is empty and the score needs some.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.3).tensor)
    >>> sorted(scores_of(tf.Constant().fit(train), test, ["rmse", "coverage-80"]))
    ['coverage-80', 'rmse']
    """
    chosen = checked_metrics(metrics)
    said = Predictions(model, test, train)
    without = model.fitted_.likelihood is None
    return {
        name: None if without and metric.needs == "distribution" else metric.of(said)
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


def _coverage(level: float) -> Metric:
    meaning = f"share of counts in their {level:.0%} interval, given y >= 1"
    return Metric(partial(scores.coverage, level=level), "nearest", meaning, target=level)


METRICS: dict[str, Metric] = {
    "mae-mean": Metric(scores.mae_mean, "smaller", "absolute error of the predicted mean", "rates"),
    "mae-median": Metric(scores.mae_median, "smaller", "absolute error of the predicted median"),
    "rmse": Metric(
        scores.rmse, "smaller", "root mean squared error of the predicted mean", "rates"
    ),
    "log-pmf-positive": Metric(scores.log_pmf_positive, "larger", "log pmf given y >= 1"),
    "log-pmf-plug-in": Metric(
        scores.log_pmf_plug_in,
        "larger",
        "log pmf given y >= 1 at the mean rate, without posterior spread",
    ),
    "log-pmf": Metric(scores.log_pmf_full, "larger", "log pmf, zeros possible"),
    "paper-form": Metric(
        scores.paper_form, "larger", "y ln(rate) - rate, as the paper reports", "rates"
    ),
    "paper-form-at-mean": Metric(
        scores.paper_form_at_mean, "larger", "y ln(m) - m at the predicted mean m", "rates"
    ),
    "coverage-50": _coverage(0.5),
    "coverage-80": _coverage(0.8),
    "coverage-95": _coverage(0.95),
    "auc": Metric(scores.auc, "larger", "held-out cells above empty ones", "train"),
    "recall-10": Metric(
        scores.recall_10, "larger", "held-out cells in the first 10, with 100 empty ones", "train"
    ),
}
"""Every score by its name."""
