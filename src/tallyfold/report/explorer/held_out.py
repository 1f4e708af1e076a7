"""How a model does on cells it has not seen: scores beside simple ones, and calibration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError
from tallyfold.evaluation.metrics import METRICS, coverage, scores_of
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.constant import Constant
from tallyfold.models.main_effects import MainEffects
from tallyfold.report.explorer.entities import rounded

Floats = npt.NDArray[np.float64]

SCORES = {
    "mae-mean": "MAE, mean",
    "mae-median": "MAE, median",
    "rmse": "RMSE",
    "log-pmf-positive": "log pmf",
}
"""The scores of `METRICS` that are shown, and what the page calls them."""

SIMPLE: dict[str, Callable[..., CountModel]] = {"Main effects": MainEffects, "Constant": Constant}
"""Models that any factorization must beat."""

LEVELS = [round(0.05 * step, 2) for step in range(1, 20)]
N_GROUPS = 10

MOST_CELLS = 50_000
"""Calibration is drawn from at most this many held-out cells."""


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
    rows = [_row(type(model).__name__, model, test, own=True)]
    if train is not None:
        for name, kind in SIMPLE.items():
            if kind is type(model):
                continue
            if announce is not None:
                announce(name)
            simple = kind(zeros=model.zeros_for(train)).fit(train)
            rows.append(_row(name, simple, test))
    rows.append({"model": "One for every cell", "scores": _scores_of_one(test), "own": False})
    return {
        "cells": test.nnz,
        "columns": [
            {
                "name": text,
                "larger": METRICS[name].better == "larger",
                "meaning": METRICS[name].meaning.replace(">=", "≥"),
            }
            for name, text in SCORES.items()
        ],
        "rows": rows,
        "simple": train is not None,
        "calibration": calibration_entry(model, _thinned(test)),
    }


def _row(name: str, model: CountModel, test: CountTensor, own: bool = False) -> dict[str, Any]:
    scores = scores_of(model, test, SCORES)
    return {"model": name, "scores": [rounded(scores[each]) for each in SCORES], "own": own}


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


def _groups(mean_N: Floats, counts_N: npt.NDArray[np.int64]) -> list[list[float | None]]:
    """Return, for cells in order of their predicted mean, mean predictions and mean counts."""
    n_groups = min(N_GROUPS, len(np.unique(mean_N)))
    parts = np.array_split(np.argsort(mean_N, kind="stable"), n_groups)
    return [[rounded(float(a[part].mean())) for a in (mean_N, counts_N)] for part in parts]
