"""One fit: its scores, time and memory; a failure becomes part of the row."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from numbers import Real
from pathlib import Path
from typing import Any

import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import InterruptedWarning, ParameterError, TallyfoldError
from tallyfold.evaluation.many_fits import one_of_many
from tallyfold.evaluation.metrics import Metric, scores_of
from tallyfold.evaluation.predictions import Predictions
from tallyfold.models.base import CountModel

_STATUS = Path("/proc/self/status")
_RESET = Path("/proc/self/clear_refs")

Scores = Mapping[str, Metric | Callable[[Predictions], float | None]]
"""Scores by name: those of `METRICS`, and functions of one's own."""


def fit_whole(model: CountModel, train: CountTensor, groups: npt.ArrayLike | None = None) -> None:
    """Fit a model; Ctrl-C during the fit is a KeyboardInterrupt.

    The score of a fit that was cut short would be compared with those of whole ones.
    """
    with one_of_many(), warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedWarning)
        try:
            model.fit(train, groups=groups, verbose=False)
        except InterruptedWarning:
            raise KeyboardInterrupt from None


def fit_and_score(
    model: CountModel,
    train: CountTensor,
    test: CountTensor,
    metrics: Scores,
    groups: npt.ArrayLike | None = None,
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """Fit a model; return seconds, memory, iterations and error of the fit, and its scores."""
    row: dict[str, Any] = {"seconds": None, "iterations": None, "error": None}
    scores: dict[str, float | None] = {}
    start = time.perf_counter()
    with peak_memory() as peak:
        try:
            fit_whole(model, train, groups)
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


class Peak:
    """The peak of resident memory, in MiB; None until the work is done."""

    mib: float | None = None


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the most memory that this process had resident while the block ran.

    What was resident before counts too. Linux forgets the earlier peak when asked; elsewhere the
    figure is the peak of the whole process so far, so an upper limit.
    """
    peak = Peak()
    with suppress(OSError):  # not Linux, or not allowed: the peak so far stays in
        _RESET.write_text("5")
    try:
        yield peak
    finally:
        peak.mib = _peak_mib()


def _peak_mib() -> float:
    try:
        lines = _STATUS.read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024
    except (OSError, StopIteration):
        return _peak_of_process()


def _peak_of_process() -> float:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
