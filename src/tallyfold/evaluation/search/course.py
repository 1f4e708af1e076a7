"""The trials of a search that this process runs, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallyfold.data.split import Split
from tallyfold.errors import TallyfoldError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.search import workers
from tallyfold.evaluation.search.claims import Claims
from tallyfold.evaluation.search.cross_validation import fold_score
from tallyfold.evaluation.search.result import search_of
from tallyfold.evaluation.search.storage import patiently
from tallyfold.models.base import CountModel

if TYPE_CHECKING:
    from optuna import Trial


class SearchProgress(NamedTuple):
    """What a callback is told after each fold, and at the end of each trial.

    Attributes
    ----------
    trial, trials
        The trial's number, from 1 on, and how many there are to be.
    fold, folds
        How many of its folds are done.
    state
        ``"running"``, ``"complete"``, ``"pruned"`` or ``"failed"``.
    score, best
        Its mean score so far, and that of the best finished trial; None if there is none yet.
    parameters
        What it tries.
    """

    trial: int
    trials: int
    fold: int
    folds: int
    state: str
    score: float | None
    best: float | None
    parameters: Mapping[str, Any]


@dataclass
class Course:
    """A search under way in this process."""

    claims: Claims
    model: CountModel
    parts: Sequence[Split]
    metric: str
    callback: Callable[[SearchProgress], None] | None
    shared: bool

    def run(self) -> bool:
        """Run trials until no place is free; tell whether Ctrl-C came first."""
        try:
            while (trial := self.claims.claim()) is not None:
                self._run_trial(trial)
        except KeyboardInterrupt:
            return True
        return False

    def _run_trial(self, trial: Trial) -> None:
        from optuna.exceptions import UpdateFinishedTrialError

        try:
            # Taken for dead by another process, the trial is not ours any more: leave it.
            with suppress(UpdateFinishedTrialError), self._signs_of_life(trial):
                self._run_folds(trial)
        except BaseException:
            self.claims.give_up(trial, "interrupted")
            raise
        workers.ends(trial.user_attrs["token"])

    def _run_folds(self, trial: Trial) -> None:
        from optuna.trial import TrialState

        parameters = self.claims.space.parameters(trial.params)
        scores: list[float] = []
        said: dict[str, Any] = {"scores": scores}
        start = time.perf_counter()
        state = TrialState.COMPLETE
        for fold, parts in enumerate(self.parts):
            try:
                scores.append(fold_score(self.model, parameters, parts, fold, self.metric))
            except (TallyfoldError, MemoryError) as error:
                said["error"] = str(error) or type(error).__name__
                state = TrialState.FAIL
                break
            self._say(trial, said | {"seconds": time.perf_counter() - start})
            patiently(lambda f=fold: trial.report(self._loss(scores), f))  # type: ignore[misc]
            self._tell_callback(trial, parameters, scores, "running")
            if fold + 1 < len(self.parts) and patiently(trial.should_prune):
                state = TrialState.PRUNED
                break
        if state != TrialState.COMPLETE:
            self._say(trial, said | {"seconds": time.perf_counter() - start})
        value = self._loss(scores) if state == TrialState.COMPLETE else None
        patiently(lambda: self.claims.study.tell(trial, value, state))
        words = {TrialState.FAIL: "failed", TrialState.PRUNED: "pruned"}
        self._tell_callback(trial, parameters, scores, words.get(state, "complete"))

    def _loss(self, scores: Sequence[float]) -> float:
        return METRICS[self.metric].loss(float(np.mean(scores)))

    def _say(self, trial: Trial, said: dict[str, Any]) -> None:
        patiently(lambda: trial.set_user_attr("course", said))

    def _signs_of_life(self, trial: Trial) -> AbstractContextManager[None]:
        def give() -> None:
            with suppress(Exception):  # the next sign may get through; the fit must go on
                trial.set_user_attr("sign of life", time.time())

        return workers.signs_of_life(give) if self.shared else nullcontext()

    def _tell_callback(
        self, trial: Trial, parameters: Mapping[str, Any], scores: Sequence[float], state: str
    ) -> None:
        if self.callback is None:
            return
        best = search_of(self.claims, self.model, self.metric, len(self.parts)).finished_best()
        self.callback(
            SearchProgress(
                trial.user_attrs["place"] + 1,
                self.claims.places,
                len(scores),
                len(self.parts),
                state,
                float(np.mean(scores)) if scores else None,
                best,
                parameters,
            )
        )
