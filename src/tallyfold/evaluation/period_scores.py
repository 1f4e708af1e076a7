"""How well the cells and the total of a period were foretold, zeros included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.period_cells import PeriodCells
from tallyfold.kernels.arrays import Ints
from tallyfold.models.fitted_model import FittedModel
from tallyfold.posterior.forecaster import NO_SPREAD, Forecaster
from tallyfold.posterior.past_totals import PastTotals, labels_asked
from tallyfold.probability.distribution import CountDistribution

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DRAWS = 2_000
"""Totals drawn of a period, for its interval and its CRPS."""
DRAWS_OF_LABELS = 200
LEVEL = 0.8
"""The share of totals that intervals should cover."""
COMBINATIONS = ("all", "seen", "new")
"""Sets of cells that are scored: all of labels known by then; of these the ones whose combination
of labels had a count before, and the ones whose had none."""


class Score(NamedTuple):
    """One number about the cells of a period.

    Attributes
    ----------
    combinations, metric, value
        Which cells, which score, and what it came to; None: there is nothing to score.
    cells
        How many cells with a count there are.
    """

    combinations: str
    metric: str
    value: float | None
    cells: float


class Total(NamedTuple):
    """What was expected of a period's total, and what came.

    Attributes
    ----------
    actual, mean
        What came, and the mean of what was expected.
    low, high
        Between them 80 % of the totals expected.
    crps
        The continuous ranked probability score, in counts: smaller is better.
    """

    actual: float
    mean: float
    low: float
    high: float
    crps: float


def period_scores(model: FittedModel, cells: PeriodCells, ahead: int) -> Iterator[Score]:
    """Yield the scores of a period's cells: log scores are per cell that has a count.

    Parameters
    ----------
    model
        A model that has a distribution for them, zeros included.
    cells
        The cells, by their positions on the model's axes.
    ahead
        How many periods after the last one the model knows.
    """
    predictive = model._predictive(cells.indices_CM)
    filled_C = cells.filled_C
    log_zero_C = predictive.log_pmf(np.zeros(len(filled_C), np.int64))
    told_C = np.where(filled_C, _log_some(log_zero_C), log_zero_C)
    amount_C = np.zeros(len(filled_C))
    if filled_C.any():
        some = model._predictive(cells.indices_CM[filled_C]).given_positive()
        amount_C[filled_C] = some.log_pmf(cells.counts_C[filled_C])
    chosen = {"all": np.ones(len(filled_C), bool), "seen": cells.seen_C, "new": ~cells.seen_C}
    for name, chosen_C in chosen.items():
        weight_C = np.where(chosen_C, cells.weight_C, 0.0)
        n_filled = float(weight_C @ filled_C)
        parts = (weight_C @ told_C, weight_C @ amount_C)
        values = {"occurrence": parts[0], "amount": parts[1], "total": sum(parts)}
        for metric, value in values.items():
            yield Score(name, metric, float(value) / n_filled if n_filled else None, n_filled)
    total = period_total(model, predictive, cells, ahead)
    off = abs(total.actual - total.mean)
    inside = float(total.low <= total.actual <= total.high)
    found = {**total._asdict(), "absolute error": off, "inside": inside}
    for metric, value in found.items():
        yield Score("all", f"period {metric}", float(value), float(cells.n_filled))


def label_scores(
    forecaster: Forecaster, totals: Sequence[PastTotals], names: Sequence[str],
    actual: Sequence[Floats], ahead: int,
) -> Iterator[Score]:  # fmt: skip
    """Yield the scores of the totals of labels: one set of labels for each axis but that of time.

    Parameters
    ----------
    forecaster, totals
        What tells totals, by axis.
    names, actual
        The names of those axes, and what their labels had in the period, by position.
    ahead
        How many periods after the last one the model knows.
    """
    history = forecaster.history
    for past, name, actual_D in zip(totals, names, actual, strict=True):
        label_L = np.unique(history.totals[1 + past.axis].key_E)
        asked = labels_asked(history, past.axis, label_L, history.n_periods - 1, ahead)
        told, actual_L = past.distribution(history, asked), actual_D[label_L]
        draws_RL = np.sort(told.sample(np.random.default_rng(ahead), DRAWS_OF_LABELS), axis=0)
        values = {
            "absolute error": float(np.abs(actual_L - told.quantile(0.5)).mean()),
            "crps": crps_of(draws_RL, actual_L),
            "inside": share_inside(*told.below(actual_L)),
        }
        for metric, value in values.items():
            yield Score(name, f"label {metric}", value, float(np.sum(actual_L > 0)))


def crps_of(draws_RL: Floats | Ints, actual_L: Floats) -> float:
    """Return the mean continuous ranked probability score of sorted draws, unbiased."""
    n = len(draws_RL)
    apart_L = (2 * np.arange(n) - n + 1) @ draws_RL / (n * (n - 1))
    return float(np.mean(np.abs(draws_RL - actual_L).mean(axis=0) - apart_L))


def share_inside(less_L: Floats, upto_L: Floats) -> float:
    """Return the share of whole numbers inside of intervals, where such can have no exact level.

    A number on the edge, of which a part of the probability is inside, counts that part: of numbers
    that come as they are told, `LEVEL` are inside.

    Examples
    --------
    >>> share_inside(np.array([0.0, 0.5, 0.95]), np.array([0.2, 0.6, 1.0])).__round__(6)
    0.5
    """
    low, high = (1 - LEVEL) / 2, (1 + LEVEL) / 2
    inside_L = np.clip(np.minimum(upto_L, high) - np.maximum(less_L, low), 0, None)
    return float(np.mean(inside_L / np.maximum(upto_L - less_L, 1e-12)))


def _log_some(log_zero_C: Floats) -> Floats:
    return np.log(np.maximum(-np.expm1(log_zero_C), 1e-300))


def period_total(
    model: FittedModel, predictive: CountDistribution, cells: PeriodCells, ahead: int
) -> Total:
    """Return a period's total as it was expected: cells by themselves, and a level they share."""
    rng = np.random.default_rng(ahead)
    mean_C = predictive.mean()
    some_C = np.maximum(-np.expm1(predictive.log_pmf(np.zeros(len(mean_C), np.int64))), 1e-300)
    # given that there is a count, its variance is at least that of a geometric one of its mean
    given_C = mean_C / some_C
    square_C = some_C * (given_C**2 + np.maximum(given_C - 1, 0) * given_C)
    mean = float(cells.weight_C @ mean_C)
    variance = float(cells.weight_C @ np.maximum(square_C - mean_C**2, 0.0))
    forecaster = model.fitted_.forecaster
    spread = NO_SPREAD if forecaster is None else forecaster.spread
    level_R = spread.levels(ahead, rng, DRAWS)
    total_R = level_R * mean + np.sqrt(variance) * rng.standard_normal(DRAWS)
    total_R = np.sort(np.maximum(total_R, 0.0))
    actual = float(cells.weight_C @ cells.counts_C)
    low, high = np.quantile(total_R, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Total(actual, mean, float(low), float(high), crps(total_R, actual))


def crps(draws_R: Floats, actual: float) -> float:
    """Return the continuous ranked probability score of sorted draws.

    Examples
    --------
    >>> crps(np.array([1.0, 3.0]), 2.0)
    0.5
    """
    n = len(draws_R)
    apart = float(np.sum((2 * np.arange(n) - n + 1) * draws_R)) / n**2
    return float(np.abs(draws_R - actual).mean()) - apart
