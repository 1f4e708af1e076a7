"""How many components: held-out scores against the number of components."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError, StorageError
from tallyfold.evaluation.row_folder import write_results
from tallyfold.evaluation.search.cross_validation import (
    cross_validation,
    fresh_model,
    warn_interrupted,
)
from tallyfold.evaluation.search.rank_choice import RankChoice
from tallyfold.evaluation.search.study import refuse_other
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import check_parameters, integer

Rows = dict[tuple[int, int], dict[str, Any]]
"""Scores by number of components and fold."""

FORMAT = "tallyfold-ranks"
COLUMNS = ["components", "fold", "score", "seconds", "error"]
POSITIVE = replace(integer(1), wanted="a list of positive integers")
RANKS = (1, 2, 3, 5, 8, 13, 20)


class RankProgress(NamedTuple):
    """What a callback is given after each fit: the `number`-th of `total`."""

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
    import pandas as pd

    fixed = fresh_model(model)
    numbers = _checked_ranks(ranks, fixed)
    validation = cross_validation(fixed, tensor, folds, metric, random_state)
    identity = validation.identity(tensor, ["n_components"], {})
    rows: Rows = {} if path is None else _read(Path(path), identity)
    fits = [(components, fold) for components in numbers for fold in range(folds)]
    interrupted = False
    try:
        for number, (components, fold) in enumerate(fits, 1):
            if (components, fold) not in rows:
                start = time.perf_counter()
                score, error = validation.attempt({"n_components": components}, fold)
                found = (components, fold, score, time.perf_counter() - start, error)
                rows[components, fold] = dict(zip(COLUMNS, found, strict=True))
                if path is not None:
                    document = {"format": FORMAT, "of": identity, "rows": list(rows.values())}
                    write_results(Path(path), json.dumps(document, indent=1).encode())
            if callback is not None:
                score = rows[components, fold]["score"]
                callback(RankProgress(number, len(fits), components, fold, score))
    except KeyboardInterrupt:
        interrupted = True
    done = [rows[fit] for fit in fits if fit in rows]
    if interrupted:
        if len(done) < folds and path is None:
            raise KeyboardInterrupt
        warn_interrupted("choice", f"{len(done)} of {len(fits)} fits", path is not None)
    frame = pd.DataFrame(done, columns=COLUMNS).astype({"score": float, "seconds": float})
    return RankChoice(validation.metric, one_standard_error, frame, folds, interrupted)


def _checked_ranks(ranks: Sequence[int], model: CountModel) -> list[int]:
    if "n_components" not in model.get_params():
        raise ParameterError(f"{model.name} has no components, so there is no number to choose.")
    numbers: list[Any] = list(ranks) if np.iterable(ranks) else [ranks]
    if not numbers:
        raise ParameterError("`ranks` must have one number of components or more; got none.")
    for number in numbers:
        check_parameters({"ranks": number}, {"ranks": POSITIVE})
    return sorted({int(number) for number in numbers})


def _read(file: Path, identity: dict[str, Any]) -> Rows:
    """Return the scores in a file; refuse those of another call."""
    if not file.exists():
        return {}
    try:
        document = json.loads(file.read_text("utf-8"))
        kind, known, rows = document["format"], document["of"], document["rows"]
        found = {(row["components"], row["fold"]): {n: row[n] for n in COLUMNS} for row in rows}
        if kind != FORMAT:
            raise ValueError(f"it holds {kind!r}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StorageError(
            f"{str(file)!r} holds no scores of a rank choice: {error!r}. Choose another file."
        ) from error
    refuse_other(known, identity, repr(str(file)), "file")
    return found
