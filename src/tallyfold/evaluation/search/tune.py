"""Hyper-parameter search: cross-validated trials, kept as they come, resumable, shared."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.evaluation.search.cross_validation import (
    cross_validation,
    fresh_model,
    warn_interrupted,
)
from tallyfold.evaluation.search.result import Search
from tallyfold.evaluation.search.spaces import Space, space_for
from tallyfold.evaluation.search.study import SEARCH_FILE, opened_study, require_optuna
from tallyfold.evaluation.search.trials import SearchProgress, TrialRunner
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import check_parameters, integer

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.storages import BaseStorage

FIRST_TRIALS, FIRST_FOLDS = 5, 1
"""No trial is pruned before `FIRST_TRIALS` are finished, nor after its first fold alone."""


def tune(
    model: str | type[CountModel] | CountModel,
    tensor: CountTensor,
    space: Space | str | None = None,
    folds: int = 5,
    trials: int = 20,
    *,
    metric: str | None = None,
    storage: str | os.PathLike[str] | BaseStorage | None = SEARCH_FILE,
    study: str | None = None,
    pruner: Literal["median"] | BasePruner | None = "median",
    random_state: int = 0,
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
        A score from `METRICS`. None is the log pmf of the held-out counts, given that they are at
        least one if zeros are missing, and ``"rmse"`` for models of means only.
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
        of the fold.
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
    validation = cross_validation(fixed, tensor, folds, metric, random_state)
    given = {dimension.key: dimension.given for dimension in chosen.dimensions}
    identity = validation.identity(tensor, chosen.names, given) | {
        "pruner": pruner if pruner is None or pruner == "median" else type(pruner).__name__
    }
    name = study or f"{fixed.name}-{_checksum(identity)}"
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


def _checksum(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]


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
