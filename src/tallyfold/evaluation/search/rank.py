"""How many components: held-out scores against the number of components."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallyfold.data.locks import locked_file
from tallyfold.data.markup import frame_html
from tallyfold.data.split import Hidden
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import InferenceError, ParameterError, StorageError
from tallyfold.evaluation.many_fits import many_fits
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.row_folder import write_results
from tallyfold.evaluation.search.cross_validation import (
    cross_validation,
    first_error,
    fresh_model,
    warn_interrupted,
)
from tallyfold.evaluation.search.study import refuse_other
from tallyfold.models.base import CountModel
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.posterior.matching import Profiles, mutual_overlaps

if TYPE_CHECKING:
    import pandas as pd

Rows = dict[tuple[int, int], dict[str, Any]]
"""Scores by number of components and fold."""

FORMAT = "tallyfold-ranks"
COLUMNS = ["components", "fold", "score", "seconds", "error", "stability"]
POSITIVE = replace(integer(1), wanted="a list of positive integers")
RANKS = (1, 2, 3, 5, 8, 13, 20)


class RankProgress(NamedTuple):
    """What a callback is given after each fit: the `number`-th of `total`."""

    number: int
    total: int
    components: int
    fold: int
    score: float | None


@dataclass(frozen=True)
class RankChoice:
    """Scores of models with few and many components, and the number to choose.

    Attributes
    ----------
    metric
        The score that was compared.
    one_standard_error
        Whether `chosen` is the smallest number that is not clearly worse than the best.
    scores
        A row per number of components and fold: the score, seconds, and the error of a fit that
        failed.
    folds
        How many there are; None for as many as `scores` has.
    interrupted
        Whether Ctrl-C came before all was tried.
    stable
        Whether `chosen` is the number whose components are most stable, of those not clearly worse.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    >>> choice = select_rank(tensor, (1, 2, 3), tf.BPTF(max_iter=30), folds=3)
    >>> choice.chosen
    2
    >>> choice.table.columns.tolist()[:4]
    ['components', 'mean', 'se', 'difference']
    """

    metric: str
    one_standard_error: bool
    scores: pd.DataFrame = field(repr=False)
    folds: int | None = None
    interrupted: bool = False
    stable: bool = False

    def _repr_html_(self) -> str:
        return frame_html(f"components by {self.metric}", self.table)

    @property
    def table(self) -> pd.DataFrame:
        """A row per number of components.

        Its mean score over the folds and that mean's standard error; by how much it is worse than
        the best, and the standard error of this, taken over the same folds; how many folds were
        scored and failed; and the seconds of all fits. If stability was asked for, the mean overlap
        of the components of two folds' fits.
        """
        groups, losses = self.scores.groupby("components"), self._losses
        behind = losses if losses.empty else losses.sub(losses[self.best], axis="index")
        table = groups["score"].agg(mean="mean", se="sem")
        table["difference"], table["difference_se"] = behind.mean(), _difference_error(behind)
        table["folds"] = groups["score"].count()
        table["failed"] = groups["error"].count()
        table["seconds"] = groups["seconds"].sum()
        if self.stable:
            table["stability"] = groups["stability"].mean()
        return table.reset_index()

    @property
    def best(self) -> int:
        """The number of components with the best mean score; of equals, the smallest."""
        if self._losses.empty:
            why = first_error(self.scores)
            raise InferenceError(f"no number of components was scored in every fold.{why}")
        first: Any = self._losses.mean().idxmin()
        return int(first)

    @property
    def chosen(self) -> int:
        """The number of components to use."""
        best, losses = self.best, self._losses
        if not self.one_standard_error:
            return best
        behind = losses.sub(losses[best], axis="index")
        as_good = behind.mean() <= _difference_error(behind)
        if not self.stable:
            smallest: Any = as_good.idxmax()
            return int(smallest)
        known = self.scores.groupby("components")["stability"].mean()
        surest: Any = known[as_good.index[as_good]].idxmax()
        return int(surest)

    @property
    def at_edge(self) -> bool:
        """Whether the chosen number is the largest that was tried: more may be better still."""
        return bool(self.chosen == self.scores["components"].max())

    @property
    def _losses(self) -> pd.DataFrame:
        """A row per fold, a column per number scored in each: only they can be compared."""
        table = self.scores.pivot(index="fold", columns="components", values="score")
        if self.folds is not None:
            table = table.reindex(range(self.folds))
        return table.dropna(axis="columns").map(METRICS[self.metric].loss)


def _difference_error(difference: pd.DataFrame) -> pd.Series[float]:
    """Return the standard errors of mean differences over folds, a row each.

    The training parts of folds have cells in common, so the differences are not independent. Nadeau
    and Bengio's correction puts 1/k + (test cells / training cells) in the place of 1/k.
    """
    folds = len(difference)
    return difference.std() * float(np.sqrt(1 / folds + 1 / (folds - 1)))


@many_fits
def select_rank(
    tensor: CountTensor,
    ranks: Sequence[int] = RANKS,
    model: str | type[CountModel] | CountModel = "vae-bptf",
    folds: int = 5,
    one_standard_error: bool = True,
    *,
    stability: bool = False,
    metric: str | None = None,
    cells: Hidden | None = None,
    copies: str | None = None,
    path: str | os.PathLike[str] | None = None,
    random_state: int | None = 0,
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
    stability
        Choose, of the numbers within one standard error of the best, the one whose components are
        most alike in the fits of different folds, not the smallest.
    metric
        A score from `METRICS`; None as in `tune`.
    cells
        What folds are cut of; None as in `tune`.
    copies
        An axis along which cells may be near copies: folds, and what fits hold out for themselves,
        are whole groups (`near_copies`).
    path
        A file to keep scores in as they come. The same call goes on where it stopped; a file of
        another call or version of tallyfold is refused, and so is a second process at the same
        time (`BusyError`).
    random_state
        Seed of the folds. Each fit has the model's own seed plus the number of the fold.
        None draws one: such a choice cannot be gone on with.
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
    validation = cross_validation(fixed, tensor, folds, metric, random_state, cells, copies)
    identity = validation.identity(tensor, ["n_components"], {})
    fits = [(components, fold) for components in numbers for fold in range(folds)]
    if stability and not one_standard_error:
        raise ParameterError(
            "`stability` has no effect with one_standard_error=False, which chooses the best "
            "score. Leave one of them out."
        )
    rows: Rows = {}
    interrupted = False
    with nullcontext() if path is None else locked_file(path):
        rows |= {} if path is None else _read(Path(path), identity)
        if stability:  # fits are compared with each other, so those of a number are made together
            anew = {components for (components, _), row in rows.items() if not _is_known(row)}
            rows = {fit: row for fit, row in rows.items() if fit[0] not in anew}
        profiles: dict[int, Profiles] = {}
        try:
            for number, (components, fold) in enumerate(fits, 1):
                if (components, fold) not in rows:
                    start = time.perf_counter()
                    more = {"keep": partial(_keep, profiles, fold)} if stability else {}
                    given = {"n_components": components}
                    score, error = validation.attempt(given, fold, **more)
                    told = (components, fold, score, time.perf_counter() - start, error, None)
                    rows[components, fold] = dict(zip(COLUMNS, told, strict=True))
                    if fold == folds - 1:
                        _tell_stability(rows, components, profiles)
                        profiles = {}
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
    kinds = dict.fromkeys(("score", "seconds", "stability"), float)
    frame = pd.DataFrame(done, columns=COLUMNS).astype(kinds)
    return RankChoice(validation.metric, one_standard_error, frame, folds, interrupted, stability)


def _keep(profiles: dict[int, Profiles], fold: int, model: CountModel) -> None:
    """Keep what the components of a fold's fit say of labels."""
    profiles[fold] = Profiles.of(model.posterior_)


def _is_known(row: dict[str, Any]) -> bool:
    """Tell whether the stability of a fit is known, or cannot be."""
    return row["stability"] is not None or row["error"] is not None


def _tell_stability(rows: Rows, components: int, profiles: dict[int, Profiles]) -> None:
    """Write down how much the components of each fold's fit overlap with those of the others."""
    if len(profiles) < 2:
        return
    found = mutual_overlaps(list(profiles.values())).tolist()
    for fold, overlap in zip(profiles, found, strict=True):
        rows[components, fold]["stability"] = overlap


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
        found = {
            (row["components"], row["fold"]): {n: row[n] for n in COLUMNS[:-1]} for row in rows
        }
        for row in rows:
            found[row["components"], row["fold"]]["stability"] = row.get("stability")
        if kind != FORMAT:
            raise ValueError(f"it holds {kind!r}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise StorageError(
            f"{str(file)!r} holds no scores of a rank choice: {error!r}. Choose another file."
        ) from error
    refuse_other(known, identity, repr(str(file)), "file")
    return found
