"""How many components: held-out scores against the number of components."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tallyfold.data.split import Split, k_folds
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import InterruptedWarning, ParameterError, TallyfoldError
from tallyfold.evaluation.search.cross_validation import fold_score, fresh_model, metric_for
from tallyfold.evaluation.search.kept_rows import KeptRows
from tallyfold.evaluation.search.rank_choice import RankChoice
from tallyfold.inference.fit.checkpoint import fingerprint
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import SEED, check_parameters, integer
from tallyfold.version import __version__

POSITIVE = replace(integer(1), wanted="a list of positive integers")
RANKS = (1, 2, 3, 5, 8, 13, 20)


class RankProgress(NamedTuple):
    """What a callback is told after each fit: the `number`-th of `total`."""

    number: int
    total: int
    components: int
    fold: int
    score: float | None


def select_rank(
    tensor: CountTensor,
    ranks: Sequence[int] = RANKS,
    model: str | type[CountModel] | CountModel = "vae-bptf",
    folds: int = 5,
    one_standard_error: bool = True,
    *,
    metric: str | None = None,
    path: str | os.PathLike[str] | None = None,
    random_state: int = 0,
    callback: Callable[[RankProgress], None] | None = None,
) -> RankChoice:
    """Choose the number of components by the score of cells that were held out.

    Parameters
    ----------
    tensor
        The training part. Cells that are to judge the model in the end must not be in it.
    ranks
        The numbers of components to try.
    model
        A name from `MODELS`, a class, or a model whose other parameters are used.
    folds
        Parts of the cross-validation; all numbers of components share them, and their seeds.
    one_standard_error
        Choose the smallest number whose mean is within one standard error of the best; False
        chooses the best.
    metric
        A score from `METRICS`; None as in `tune`.
    path
        A file to keep scores in as they come. The same call goes on where it stopped; a file of
        another call or version of tallyfold is refused.
    random_state
        Seed of the folds. Each fit has the model's own seed plus the number of the fold.
    callback
        Called with a `RankProgress`.

    Notes
    -----
    The standard error is that of the *difference* to the best, fold by fold. Folds differ in how
    hard they are, for all numbers of components alike; that has no say in which is better, but
    makes the standard error of a mean large, and a choice by it too small. The training parts of
    two folds have cells in common, so differences are not independent: the variance is
    multiplied by 1/k + 1/(k-1) in the place of 1/k (Nadeau and Bengio, "Inference for the
    Generalization Error", Machine Learning 52, 2003).

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> select_rank(tensor, (1, 2, 3), tf.BPTF(max_iter=30), folds=3).chosen
    2
    """
    fixed = fresh_model(model)
    numbers = _checked_ranks(ranks, fixed)
    check_parameters(
        {"folds": folds, "random_state": random_state},
        {"folds": integer(2), "random_state": SEED},
    )
    if not isinstance(tensor, CountTensor):
        raise ParameterError(f"`tensor` must be a CountTensor; got {type(tensor).__name__}.")
    score = metric_for(fixed, metric)
    parts = k_folds(tensor, folds, random_state=random_state)
    others = {n: v for n, v in fixed._plain_parameters().items() if n != "n_components"}
    identity = {
        "tallyfold": __version__,
        "model": fixed.name,
        "parameters": others,
        "tensor": fingerprint(tensor),
        "folds": folds,
        "metric": score,
        "random_state": random_state,
    }
    kept = KeptRows(path, identity)
    fits = [(components, fold) for components in numbers for fold in range(folds)]
    try:
        for number, (components, fold) in enumerate(fits, 1):
            row = kept.get(components, fold)
            if row is None:
                row = _scored(fixed, components, parts[fold], fold, score)
                kept.add(row)
            if callback is not None:
                callback(RankProgress(number, len(fits), components, fold, row["score"]))
    except KeyboardInterrupt:
        frame = kept.frame(numbers)
        _say_interrupted(len(frame), len(fits), folds, path is not None)
        return RankChoice(score, one_standard_error, frame, folds, interrupted=True)
    return RankChoice(score, one_standard_error, kept.frame(numbers), folds)


def _scored(
    model: CountModel, components: int, parts: Split, fold: int, metric: str
) -> dict[str, Any]:
    start = time.perf_counter()
    score, problem = None, None
    try:
        score = fold_score(model, {"n_components": components}, parts, fold, metric)
    except (TallyfoldError, MemoryError) as error:
        problem = str(error) or type(error).__name__
    seconds = time.perf_counter() - start
    row = {"components": components, "fold": fold, "score": score, "seconds": seconds}
    return row | {"error": problem}


def _checked_ranks(ranks: Sequence[int], model: CountModel) -> list[int]:
    if "n_components" not in model.get_params():
        raise ParameterError(f"{model.name} has no components, so there is no number to choose.")
    numbers: list[Any] = list(ranks) if np.iterable(ranks) else [ranks]
    if not numbers:
        raise ParameterError("`ranks` must have one number of components or more; got none.")
    for number in numbers:
        check_parameters({"ranks": number}, {"ranks": POSITIVE})
    return sorted({int(number) for number in numbers})


def _say_interrupted(done: int, total: int, folds: int, kept: bool) -> None:
    """Warn that not all was tried; if nothing is left to choose from, let the interrupt go on."""
    if done < folds and not kept:
        raise KeyboardInterrupt
    how = " Make the same call to go on." if kept else ""
    warnings.warn(
        f"the choice was interrupted after {done} of {total} fits.{how}",
        InterruptedWarning,
        stacklevel=3,
    )
