"""Hyper-parameter search: cross-validated trials, kept as they come, resumable, shared."""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tallyfold.data.split import Hidden
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.evaluation.many_fits import many_fits
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.search import study as stored_study
from tallyfold.evaluation.search.cross_validation import (
    CrossValidation,
    cross_validation,
    fresh_model,
    warn_interrupted,
)
from tallyfold.evaluation.search.result import STATES, Search, search_of
from tallyfold.evaluation.search.spaces import CheckedSpace, Space, space_for
from tallyfold.evaluation.search.study import SEARCH_FILE, opened_study, require_optuna
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import check_parameters, integer

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

FIRST_TRIALS, FIRST_FOLDS = 5, 1
"""No trial is pruned before `FIRST_TRIALS` are finished, nor after its first fold alone."""
MOST_REPEATS = 10
"""Proposals of TPE in a row that were tried before, after which an untried point is drawn."""
POLL = 0.5
"""Seconds between two looks at the trials of other processes."""


class SearchProgress(NamedTuple):
    """What a callback is given after each fold, and at the end of each trial.

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


@many_fits
def tune(
    model: str | type[CountModel] | CountModel,
    tensor: CountTensor,
    space: Space | str | None = None,
    folds: int = 5,
    trials: int = 20,
    *,
    metric: str | None = None,
    cells: Hidden | None = None,
    copies: str | None = None,
    storage: str | os.PathLike[str] | BaseStorage | None = SEARCH_FILE,
    study: str | None = None,
    pruner: Literal["median"] | BasePruner | None = "median",
    random_state: int | None = 0,
    callback: Callable[[SearchProgress], None] | None = None,
) -> Search:
    """Search for the parameters with which a model predicts held-out cells best.

    Every trial is a k-fold cross-validation of one setting. All share the same folds and seeds,
    so that differences between them are differences of the settings. A grid that has no more
    points than `trials` is run whole; otherwise points are proposed by Optuna's
    TPE sampler, which learns from the trials before.

    Parameters
    ----------
    model
        A name from `MODELS`, a class, or a model whose parameters are those that stay fixed.
    tensor
        The training part. Cells that are to judge the model in the end must not be in it.
    space
        Lists of choices or ranges by parameter, a name from `SPACES`, or None for the model's own.
        Ranges are ``("int", 2, 20)``, ``("log-int", 2, 50)``, ``("float", 0.1, 0.9)`` and
        ``("log", 1e-4, 1e-2)``; parameters chosen together are named with a comma in between.
    folds, trials
        Parts of the cross-validation, and how many trials there are to be in all.
    metric
        A score from `METRICS`. None is ``"log-pmf-positive"``, or ``"log-score"`` if zeros are
        observed, and ``"rmse"`` for models of means only.
    cells
        What folds are cut of: ``"nonzero"`` cells or ``"all"``, see `split`. None: all if the
        model's zeros are observed.
    copies
        An axis along which cells may be near copies: folds, and what fits hold out for themselves,
        are whole groups (`near_copies`).
    storage, study
        A file (SQLite) or the URL of a database to keep trials in; None keeps them in memory only.
        The same call goes on where it stopped, also after a crash, and several processes that make
        it at once share the work. Without a name for the study each search has one of its own, so
        that one file does for many. With one, a study of another model, space, tensor, setting
        or version of tallyfold is refused. A change in the code of a model of your own is not
        seen: name another study then.
    pruner
        Ends trials early. ``"median"``: from the second fold and the sixth trial on, those whose
        mean so far is worse than the median of others on the same folds. Or None, or a pruner of
        Optuna's, which is given losses: smaller is better.
    random_state
        Seed of the folds and of the proposals. Each fit has the model's own seed plus the number
        of the fold. None draws one: such a search cannot be gone on with.
    callback
        Called with a `SearchProgress`.

    Returns
    -------
    Search
        A setting that cannot be fitted is a failed trial, with its error. Ctrl-C ends the search
        with what is finished, and an `InterruptedWarning` says so.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> found = tune(tf.BPTF(max_iter=20), tensor, {"n_components": [1, 2]}, folds=2, storage=None)
    >>> found.best, found.model().max_iter
    ({'n_components': 2}, 20)
    """
    require_optuna()
    check_parameters({"trials": trials}, {"trials": integer(1)})
    fixed = fresh_model(model)
    chosen = space_for(fixed, space)
    validation = cross_validation(fixed, tensor, folds, metric, random_state, cells, copies)
    given = {dimension.key: dimension.given for dimension in chosen.dimensions}
    identity = validation.identity(tensor, chosen.names, given) | {
        "pruner": pruner if pruner is None or pruner == "median" else type(pruner).__name__
    }
    checksum = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    name = study or f"{fixed.name}-{checksum[:10]}"
    with opened_study(storage, name, identity, _pruner(pruner)) as opened:
        runner = TrialRunner(opened, chosen, trials, validation, callback)
        interrupted = runner.run()
        found = runner.search()
    if interrupted:
        if found.finished_best() is None and storage is None:
            raise KeyboardInterrupt
        done = int((found.trials["state"] != "running").sum())
        warn_interrupted("search", f"{done} of {runner.size} trials", storage is not None)
    return replace(found, interrupted=interrupted)


def _pruner(pruner: Any) -> BasePruner:
    import optuna

    if pruner is None:
        return optuna.pruners.NopPruner()
    if pruner == "median":
        return optuna.pruners.MedianPruner(FIRST_TRIALS, FIRST_FOLDS)
    if isinstance(pruner, optuna.pruners.BasePruner):
        return pruner
    raise ParameterError(
        f"`pruner` must be 'median', None or a pruner of Optuna's; got {pruner!r}."
    )


@dataclass
class TrialRunner:
    """Runs the open trials of a study that other processes may share."""

    study: Study
    space: CheckedSpace
    total: int
    validation: CrossValidation
    callback: Callable[[SearchProgress], None] | None
    repeats: int = 0

    @property
    def size(self) -> int:
        """How many trials there are to be: all points of a grid that has no more."""
        return int(min(self.total, self.space.size))

    def run(self) -> bool:
        """Run trials until none is open; tell whether Ctrl-C came first."""
        try:
            while self._has_open() or self._has_open_after_waiting():
                self._run_one()
        except KeyboardInterrupt:
            return True
        return False

    def search(self) -> Search:
        """Return what the trials have come to."""
        return search_of(self._counted(), self.space, self.validation)

    def _run_one(self) -> None:
        import optuna

        def ended(_: Study, trial: FrozenTrial) -> None:
            self._report(trial, STATES[trial.state.name])

        self._queue_untried_point()
        try:
            self.study.optimize(self._objective, n_trials=1, callbacks=[ended])
        except optuna.exceptions.UpdateFinishedTrialError:
            pass  # another process has ended the trial: it took it too, or took it for abandoned
        except ValueError as error:
            # Without a heartbeat for too long (a suspended machine), it is another process's now.
            if not str(error).startswith("Cannot tell"):
                raise

    def _queue_untried_point(self) -> None:
        """Queue an untried point where a grid is run whole, or TPE only repeats itself.

        It is queued whole, so that a trial that is killed has a value of every parameter.
        """
        from optuna.trial import TrialState

        wanted = self.is_grid or self.repeats >= MOST_REPEATS
        if not wanted or self.study.get_trials(False, states=(TrialState.WAITING,)):
            return
        tried = {json.dumps(trial.params, sort_keys=True) for trial in self._counted()}
        if len(tried) < self.space.size < math.inf:
            state = [self.validation.random_state, len(tried), self.repeats]
            rng = np.random.default_rng(state)
            point = self.space.draw(rng)
            while json.dumps(point, sort_keys=True) in tried:
                point = self.space.draw(rng)
            self.study.enqueue_trial(point)

    @property
    def is_grid(self) -> bool:
        """Whether every point of the space is to be tried."""
        return self.space.size <= self.total

    def _counted(self) -> list[FrozenTrial]:
        """Return the trials that count: one per point of a grid, and none that was abandoned."""
        from optuna.trial import TrialState

        counted: dict[str, FrozenTrial] = {}
        began = datetime.now() - timedelta(seconds=stored_study.GRACE)
        for trial in self.study.get_trials(deepcopy=False):
            whole = len(trial.params) == len(self.space.dimensions)
            if trial.state == TrialState.FAIL and "error" not in trial.user_attrs:
                continue  # interrupted, retried or a repeat
            start = trial.datetime_start
            if trial.state == TrialState.RUNNING and not whole and start and start < began:
                continue  # its process was killed before the first heartbeat
            point = json.dumps(trial.params, sort_keys=True)
            key = point if whole and self.space.size < math.inf else str(trial.number)
            counted.setdefault(key, trial)
        return list(counted.values())

    def _position(self, number: int) -> int | None:
        """Return the position of a trial among those that count; None for one that does not."""
        numbers = [trial.number for trial in self._counted()]
        return numbers.index(number) if number in numbers else None

    def _has_open(self) -> bool:
        from optuna.trial import TrialState

        counted = self._counted()
        return len(counted) < self.size or any(t.state == TrialState.WAITING for t in counted)

    def _has_open_after_waiting(self) -> bool:
        """Wait until the running trials of other processes end, or one grace period.

        A process that was killed has given no heartbeat by then, and its trial is open again.
        """
        import optuna

        until = time.monotonic() + stored_study.GRACE + 2
        while not self._has_open():
            running = any(t.state == optuna.trial.TrialState.RUNNING for t in self._counted())
            if not running or time.monotonic() > until:
                return False
            time.sleep(POLL)
            optuna.storages.fail_stale_trials(self.study)
        return True

    def _objective(self, trial: Trial) -> float:
        """Choose a point and return its loss; nan makes a failed trial."""
        import optuna

        self.study.sampler = self._sampler(trial.number)
        for dimension in self.space.dimensions:
            dimension.suggest(trial)
        if self._position(trial.number) is None:  # an earlier trial has this point
            self.repeats += 1
            return math.nan
        self.repeats = 0
        try:
            return self._loss_over_folds(trial)
        except (optuna.TrialPruned, optuna.exceptions.UpdateFinishedTrialError):
            raise
        except BaseException:
            self.study.enqueue_trial(trial.params)  # for whoever goes on
            raise

    def _sampler(self, number: int) -> BaseSampler:
        """Return a sampler whose proposals depend on the seed, the position and what is known.

        A search that was interrupted so takes the way it would have taken, and processes that
        share one do not propose the same.
        """
        from optuna.samplers import TPESampler

        state = [self.validation.random_state, self._position(number) or 0, self.repeats]
        seed = int(np.random.default_rng(state).integers(2**32))
        return TPESampler(seed=seed)

    def _loss_over_folds(self, trial: Trial) -> float:
        from optuna import TrialPruned

        metric, scores, loss = METRICS[self.validation.metric], [], math.nan
        parameters = self.space.parameters(trial.params)
        for fold in range(len(self.validation.folds)):
            score, error = self.validation.attempt(parameters, fold)
            if score is None:
                trial.set_user_attr("error", error)
                return math.nan
            scores.append(score)
            loss = metric.loss(float(np.mean(scores)))
            trial.set_user_attr("scores", scores)
            trial.report(loss, fold)
            self._report(trial, "running")
            if fold + 1 < len(self.validation.folds) and trial.should_prune():
                raise TrialPruned
        return loss

    def _report(self, trial: Trial | FrozenTrial, state: str) -> None:
        position = self._position(trial.number)
        if self.callback is None or position is None:
            return
        scores, folds = trial.user_attrs.get("scores", []), len(self.validation.folds)
        mean, best = float(np.mean(scores)) if scores else None, self.search().finished_best()
        shown = self.space.parameters(trial.params)
        self.callback(
            SearchProgress(position + 1, self.size, len(scores), folds, state, mean, best, shown)
        )
