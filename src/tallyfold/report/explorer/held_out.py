"""How a model does on cells it has not seen: scores beside simple ones, and calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError
from tallyfold.evaluation.metrics import METRICS, coverage, scores_of
from tallyfold.evaluation.predictions import Predictions
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.constant import Constant
from tallyfold.models.main_effects import MainEffects
from tallyfold.report.explorer.entities import rounded

SCORES = {
    "mae-mean": "MAE, mean",
    "mae-median": "MAE, median",
    "rmse": "RMSE",
    "log-pmf-positive": "log pmf",
}
"""The scores of `METRICS` that are shown, and what the page calls them."""

COMPLETE_SCORES = {
    "log-score": "log score",
    "occurrence": "whether",
    "amount": "how many",
    "auc-within": "AUC within",
}
"""Those of a model whose zeros are observed: errors of cells with a count alone would mislead."""

SIMPLE: dict[str, Callable[..., CountModel]] = {"Main effects": MainEffects, "Constant": Constant}
"""Models that any factorization must beat."""

LEVELS = [round(0.05 * step, 2) for step in range(1, 20)]
N_GROUPS = 10

MOST_CELLS = 50_000
"""Calibration is drawn from at most this many held-out cells."""
LEAST_IN_GROUP = 20
"""Cells of a group for the share of them that have a count to be shown."""


def held_out_entry(
    model: CountModel,
    test: CountTensor,
    train: CountTensor | None,
    announce: Callable[[str], None] | None,
) -> dict[str, Any]:
    """Return scores of a model and of simple ones on a test tensor, and its calibration."""
    unknown = (cell_positions(model.axes_, test, "prior") < 0).any(axis=1)
    if unknown.any():
        raise LabelError(
            f"{int(unknown.sum()):,} of {test.nnz:,} cells of the test tensor have a label that "
            "the model does not know. Leave them out, so that the scores are of what it knows."
        )
    shown = shown_scores(model, test, train)

    def row(name: str, model: CountModel, own: bool = False) -> dict[str, Any]:
        scores = scores_of(model, test, shown, train)
        return {"model": name, "scores": [rounded(scores[each]) for each in shown], "own": own}

    rows = [row(type(model).__name__, model, own=True)]
    if train is not None:
        for name, kind in SIMPLE.items():
            if kind is type(model):
                continue
            if announce is not None:
                announce(name)
            simple = kind(zeros=model.fitted_.parameters["zeros"]).fit(train, verbose=False)
            rows.append(row(name, simple))
    errors = shown.keys() == SCORES.keys()
    if errors:
        rows.append({"model": "One for every cell", "scores": _scores_of_one(test), "own": False})
    return {
        "cells": test.nnz,
        "zeros": "log-score" in shown,
        "errors": errors,
        "columns": [_column(name, text) for name, text in shown.items()],
        "rows": rows,
        "simple": train is not None,
        "calibration": calibration_entry(model, _thinned(test))
        | {"occurrence": occurrence_groups(Predictions(model, test))},
    }


def kept_entry(model: CountModel) -> dict[str, Any] | None:
    """Return scores that are kept with a model (`fit --holdout`, `keep_scores`), if there are any.

    They are told from those of `held_out_entry`, which are computed when the page is made.
    """
    kept = model.fitted_.record.held_out
    if kept is None or not kept.scores:
        return None
    names = list(dict.fromkeys(name for scores in kept.scores.values() for name in scores))
    return {
        "cells": kept.cells,
        "refitted": kept.refitted,
        "columns": [_column(name, name) for name in names],
        "rows": [
            {
                "model": name,
                "scores": [rounded(scores.get(each)) for each in names],
                "own": name == model.name,
            }
            for name, scores in kept.scores.items()
        ],
    }


def _column(name: str, text: str) -> dict[str, Any]:
    """Return what a score is called, which of two is better, and what it means, where known."""
    metric = METRICS.get(name)
    if metric is None:  # one of somebody's own
        return {"name": text, "larger": None, "meaning": ""}
    larger = {"larger": True, "smaller": False}.get(metric.better)
    return {"name": text, "larger": larger, "meaning": metric.meaning.replace(">=", "≥")}


def shown_scores(model: CountModel, test: CountTensor, train: CountTensor | None) -> dict[str, str]:
    """Return which scores are shown: where zeros are observed, those that can be worked out."""
    observed = model.fitted_.parameters.get("zeros") == "observed"
    if not (observed and model.fitted_.has_distribution):
        return SCORES
    known = {"part": test.part is not None, "train": train is not None}
    return {
        name: text for name, text in COMPLETE_SCORES.items() if known.get(METRICS[name].needs, True)
    }


def _scores_of_one(test: CountTensor) -> list[float | None]:
    """Return the scores of saying one for every cell; that is no distribution."""
    above_N = test.counts - 1.0
    error = float(above_N.mean())
    return [rounded(error), rounded(error), rounded(float(np.sqrt((above_N**2).mean()))), None]


def _thinned(test: CountTensor) -> CountTensor:
    """Return a tensor's cells, or enough of them, spread evenly over it."""
    if test.nnz <= MOST_CELLS:
        return test
    chosen = np.unique(np.linspace(0, test.nnz - 1, MOST_CELLS).astype(np.int64))
    return CountTensor(test.axes, test.indices[chosen], test.counts[chosen])


def calibration_entry(model: CountModel, test: CountTensor) -> dict[str, Any]:
    """Return coverages of intervals, and mean counts beside predicted ones.

    All given that a count is at least one, since a test tensor has no other cells.
    """
    predictions = Predictions(model, test)
    known = model.fitted_.likelihood is not None
    mean_N = predictions.positive.mean() if known else predictions.mean
    covered = ([level, rounded(coverage(predictions, level))] for level in LEVELS)
    return {
        "cells": test.nnz,
        "coverage": [*covered] if known else None,
        "means": _groups(mean_N, predictions.counts),
    }


def occurrence_groups(predictions: Predictions) -> list[list[float | None]] | None:
    """Return, for cells by their probability of a count, its mean, and how many have a count.

    None where nothing is known of the zeros of the test tensor, or of the model.
    """
    empty, log_zero_Z = predictions.empty, predictions.log_zero
    if empty is None or log_zero_Z is None:
        return None
    any_N = np.exp(predictions.predictive.log_at_least(1))
    any_C = np.concatenate([any_N, -np.expm1(log_zero_Z)])
    weight_C = np.concatenate([np.ones(len(any_N)), empty.weight_Z])
    counted_C = np.arange(len(any_C)) < len(any_N)
    group_C = np.minimum((any_C * N_GROUPS).astype(np.int64), N_GROUPS - 1)
    cells_G, said_G, seen_G = (
        np.bincount(group_C, part_C, N_GROUPS)
        for part_C in (weight_C, weight_C * any_C, weight_C * counted_C)
    )
    kept = np.flatnonzero(np.bincount(group_C, minlength=N_GROUPS) >= LEAST_IN_GROUP)
    return [[rounded(float(part[g] / cells_G[g])) for part in (said_G, seen_G)] for g in kept]


def _groups(mean_N: Floats, counts_N: Ints) -> list[list[float | None]]:
    """Return, for cells in order of their predicted mean, mean predictions and mean counts."""
    n_groups = min(N_GROUPS, len(np.unique(mean_N)))
    parts = np.array_split(np.argsort(mean_N, kind="stable"), n_groups)
    return [[rounded(float(a[part].mean())) for a in (mean_N, counts_N)] for part in parts]
