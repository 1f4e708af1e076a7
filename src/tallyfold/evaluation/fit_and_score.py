"""One fit and its scores; a failure becomes part of the row."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import InterruptedWarning, ParameterError, TallyfoldError
from tallyfold.evaluation.memory import peak_memory
from tallyfold.evaluation.metrics import Metric, scores_of
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel

Scores = Mapping[str, Metric | Callable[[Predictions], float | None]]
"""Scores by name: those of `METRICS`, and functions of one's own."""


def fit_whole(model: CountModel, train: CountTensor) -> None:
    """Fit a model; Ctrl-C during the fit is a KeyboardInterrupt.

    The score of a fit that was cut short would be compared with those of whole ones.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedWarning)
        try:
            model.fit(train)
        except InterruptedWarning:
            raise KeyboardInterrupt from None


def fit_and_score(
    model: CountModel, train: CountTensor, test: CountTensor, metrics: Scores
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Fit a model; return seconds, memory, iterations and error of the fit, and its scores."""
    row: dict[str, Any] = {"seconds": None, "iterations": None, "error": None}
    scores: dict[str, float | None] = {}
    start = time.perf_counter()
    with peak_memory() as peak:
        try:
            fit_whole(model, train)
            row |= {"seconds": time.perf_counter() - start, "iterations": model.n_iter_}
            scores = _scores(model, test, train, metrics)
        except TallyfoldError as problem:
            row["error"] = str(problem)
        except Exception as problem:  # whatever it is, it belongs in the table
            row["error"] = f"{type(problem).__name__}: {problem}"
    if row["seconds"] is None:
        row["seconds"] = time.perf_counter() - start
    return row | {"peak_mib": peak.mib}, scores


def _scores(
    model: CountModel, test: CountTensor, train: CountTensor, metrics: Scores
) -> dict[str, float | None]:
    ours = [name for name, score in metrics.items() if isinstance(score, Metric)]
    predictions = Predictions(model, test, train)
    own = {
        name: _number(name, score(predictions))
        for name, score in metrics.items()
        if not isinstance(score, Metric)
    }
    return scores_of(model, test, ours, train=train) | own


def _number(name: str, value: Any) -> float | None:
    """Return the value of a score of the user's own; one that is not finite is missing."""
    if value is None:
        return None
    if not isinstance(value, Real):
        raise ParameterError(f"the score {name!r} must return a number or None; got {value!r}.")
    return float(value) if math.isfinite(value) else None
