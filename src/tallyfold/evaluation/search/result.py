"""What a search comes to."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.markup import frame_html
from tallyfold.errors import InferenceError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.row_folder import write_results
from tallyfold.evaluation.search.cross_validation import CrossValidation, first_error
from tallyfold.evaluation.search.spaces import CheckedSpace
from tallyfold.models.base import CountModel

if TYPE_CHECKING:
    import pandas as pd
    from optuna.trial import FrozenTrial

STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "running"}


@dataclass(frozen=True)
class Search:
    """The trials of a search, and the best of them.

    Attributes
    ----------
    metric, folds
        The score that was compared, and over how many folds.
    trials
        A row per trial: its number, state, parameters, the score of each fold, their mean and its
        standard error, seconds, and the error of one that failed.
    interrupted
        Whether Ctrl-C came before all were run.

    Examples
    --------
    >>> import tallyfold as tf
    >>> from tallyfold.evaluation.search.tune import tune
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> found = tune("constant", tensor, folds=2, storage=None)
    >>> found.trials.columns.tolist()
    ['number', 'state', 'likelihood', 'fold_1', 'fold_2', 'mean', 'se', 'seconds', 'error']
    """

    metric: str
    folds: int
    trials: pd.DataFrame = field(repr=False)
    _fixed: CountModel = field(repr=False)
    _parameters: tuple[dict[str, Any], ...] = field(repr=False)
    interrupted: bool = False

    def _repr_html_(self) -> str:
        return frame_html(f"{self._fixed.name}: {self.metric}, {self.folds} folds", self.trials)

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best finished trial; of equals, the first."""
        return dict(self._parameters[self._best_row()])

    @property
    def best_score(self) -> float:
        """Its mean score over the folds. As the best of many it is a little too good."""
        return float(self.trials["mean"][self._best_row()])

    @property
    def standard_error(self) -> float:
        """The standard error of that mean, from the spread over the folds."""
        return float(self.trials["se"][self._best_row()])

    def model(self) -> CountModel:
        """Return a model with the best parameters, not fitted yet."""
        return type(self._fixed)(**(self._fixed.get_params() | self.best))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the best parameters as JSON, whole or not at all.

        ``MODELS[document["model"]](**document["parameters"])`` makes the model again.
        """
        text = json.dumps(self.document(), indent=2, ensure_ascii=False)
        write_results(Path(path), f"{text}\n".encode())

    def document(self) -> dict[str, Any]:
        """Return what `save` writes: parameters that are not a default, zeros, the score."""
        plain, defaults = self.model()._plain_parameters(), type(self._fixed)().get_params()
        named = {"zeros", *self.best}  # without the word, the command line decides on zeros anew
        changed = {n: v for n, v in plain.items() if n in named or v != defaults[n]}
        states = self.trials["state"].value_counts()
        return {
            "model": self._fixed.name,
            "parameters": changed,
            "metric": self.metric,
            "score": self.best_score,
            "standard_error": self.standard_error,
            "folds": self.folds,
            "trials": {state: int(states.get(state, 0)) for state in STATES.values()},
        }

    def finished_best(self) -> float | None:
        """Return the best mean score, or None if no trial is complete yet."""
        return self.best_score if (self.trials["state"] == "complete").any() else None

    def _best_row(self) -> int:
        complete = self.trials.loc[self.trials["state"] == "complete", "mean"]
        if complete.empty:
            why = first_error(self.trials)
            raise InferenceError(f"no trial of the search is complete, so there is no best.{why}")
        first: Any = complete.map(METRICS[self.metric].loss).idxmin()
        return int(first)


def search_of(
    trials: Sequence[FrozenTrial], space: CheckedSpace, validation: CrossValidation
) -> Search:
    """Return what the trials of a study have come to; those still queued are not shown."""
    import pandas as pd

    begun = [trial for trial in trials if trial.state.name in STATES]
    rows = [
        {"number": n} | space.parameters(trial.params) | _scores(trial)
        for n, trial in enumerate(begun)
    ]
    folds = [f"fold_{fold + 1}" for fold in range(len(validation.folds))]
    columns = ["number", "state", *space.names, *folds, "mean", "se", "seconds", "error"]
    table = pd.DataFrame(rows, columns=columns)
    parameters = tuple(space.parameters(trial.params) for trial in begun)
    return Search(validation.metric, len(folds), table, validation.model, parameters)


def _scores(trial: FrozenTrial) -> dict[str, Any]:
    scores = trial.user_attrs.get("scores", [])
    return {
        "state": STATES[trial.state.name],
        **{f"fold_{fold + 1}": score for fold, score in enumerate(scores)},
        "mean": float(np.mean(scores)) if scores else None,
        "se": float(np.std(scores, ddof=1) / len(scores) ** 0.5) if len(scores) > 1 else None,
        "seconds": None if trial.duration is None else trial.duration.total_seconds(),
        "error": trial.user_attrs.get("error"),
    }
