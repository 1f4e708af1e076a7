"""Models on data sets over several seeds: tidy rows, written as they come, resumable."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tallyfold.data.groups import CellGroups
from tallyfold.data.near_copies import groups_along
from tallyfold.data.split import Split, split
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError, StorageError
from tallyfold.evaluation.fit_and_score import Scores as Scores
from tallyfold.evaluation.fit_and_score import fit_and_score
from tallyfold.evaluation.holding_out import hidden_from, with_decided_zeros
from tallyfold.evaluation.many_fits import many_fits
from tallyfold.evaluation.metrics import METRICS, checked_metrics
from tallyfold.evaluation.row_folder import SCHEMA, Row, RowFolder
from tallyfold.inference.fit.checkpoint import fingerprint
from tallyfold.models.base import CountModel
from tallyfold.models.expected import checked_tensor
from tallyfold.models.parameters import SEED, check_parameters
from tallyfold.version import __version__

if TYPE_CHECKING:
    import pandas as pd

Tensors = Mapping[str, CountTensor | Callable[[], CountTensor]]
Splitter = Callable[[CountTensor, int], Split]

DEFAULT_SPLIT = "80-20"


class Fit(NamedTuple):
    """One fit of an experiment: the `number`-th of `total`, done before or about to be run."""

    number: int
    total: int
    dataset: str
    split: str
    model: str
    seed: int
    done: bool

    @property
    def key(self) -> tuple[str | int, ...]:
        """What tells the fit from others of its experiment."""
        return self.dataset, self.split, self.model, self.seed

    @property
    def text(self) -> str:
        """The fit in a line."""
        way = "" if self.split == DEFAULT_SPLIT else f", {self.split}"
        return f"[{self.number}/{self.total}] {self.dataset}{way}, seed {self.seed}: {self.model}"


def say(fit: Fit) -> None:
    """Print a line for a fit that is about to be run."""
    if not fit.done:
        sys.stderr.write(f"{fit.text}\n")


def held_out_fifth(tensor: CountTensor, seed: int) -> Split:
    """Hold out 20 % of the cells with a count, as the paper does."""
    return split(tensor, 0.2, random_state=seed)


class Experiment:
    """Every model on every data set, split and seed.

    Parameters
    ----------
    tensors
        Data sets by name; a function is called when its tensor is first needed.
    models
        Models by name. Each fit is of a fresh copy, with the seed as its `random_state`. The
        treatment of zeros is the model's own, and a column; models with ``zeros="auto"`` take that
        of the others if these have but one, else what the data set's counts look like.
    metrics
        Names of scores from `METRICS`; or scores by name, functions of `Predictions` of your own
        among them, which return a number or None.
    seeds
        Seeds of the splits and the models.
    splits
        Ways to split, by name: functions of a tensor and a seed. By default a random fifth of the
        cells with a count is held out; of all cells, if zeros are observed by any of the models.
    copies
        An axis along which cells may be near copies: what is held out by default, and what fits
        hold out for themselves, are whole groups (`near_copies`).

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> experiment = Experiment({"toy": tensor}, {"constant": tf.Constant()}, ["mae-mean"])
    >>> experiment.run(announce=None)[["dataset", "zeros", "model", "seed", "metric"]]
      dataset    zeros     model  seed    metric
    0     toy  missing  constant     0  mae-mean
    """

    def __init__(
        self,
        tensors: Tensors,
        models: Mapping[str, CountModel],
        metrics: Sequence[str] | Scores = tuple(METRICS),
        seeds: Sequence[int] = (0,),
        splits: Mapping[str, Splitter] | None = None,
        copies: str | None = None,
    ) -> None:
        splits = {DEFAULT_SPLIT: self._held_out_fifth} if splits is None else splits
        self.tensors = _checked(tensors, "tensors", object, "tensors or functions")
        for each in self.tensors.values():
            if not callable(each):
                checked_tensor(each, "tensors")
        self.models = _checked(models, "models", CountModel, "models of tallyfold")
        self.splits = _checked(splits, "splits", Callable, "functions of a tensor and a seed")
        self.metrics: Scores = (
            dict(metrics) if isinstance(metrics, Mapping) else checked_metrics(metrics)
        )
        if not self.metrics:
            raise ParameterError("`metrics` must name at least one; got none.")
        self.seeds, self.copies = _checked_seeds(seeds), copies
        self._last_split: tuple[tuple[Any, ...], Split, str] | None = None
        self._last_decided: tuple[CountTensor, dict[str, CountModel]] | None = None

    @many_fits
    def run(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        announce: Callable[[Fit], None] | None = say,
        retry: bool = False,
    ) -> pd.DataFrame:
        """Run the fits that are not done yet, and return all rows.

        Parameters
        ----------
        folder
            Where to keep rows as they come, as Parquet. A run that was killed goes on with the
            same call; rows of other models, parameters, data, splits or names of scores, or of
            another version of tallyfold, are refused. (A score of your own is known by its name
            alone: give it another one when you change it.) None keeps nothing.
        announce
            Called with each `Fit` before it is run, and for those found done. By default a line is
            printed for each that is run; None prints nothing.
        retry
            Run fits again that failed before.

        Returns
        -------
        pandas.DataFrame
            A row per data set, split, model, seed and metric: the value (missing where the model
            has no such score), cells, seconds and peak memory of the fit, the error of a model that
            failed, and the version of tallyfold.
        """
        import pandas as pd

        kept, rows = RowFolder(folder), []
        for fit in self._fits():
            before = self._before(kept, fit, retry)
            if announce is not None:
                announce(fit._replace(done=before is not None))
            rows += before if before is not None else self._run_one(fit, kept)
        return pd.DataFrame(rows, columns=[name for name in SCHEMA.names if name != "setting"])

    def _fits(self) -> Iterator[Fit]:
        """Yield all fits; those of one data set follow each other."""
        keys = list(itertools.product(self.tensors, self.splits, self.seeds, self.models))
        for number, (dataset, way, seed, model) in enumerate(keys, start=1):
            yield Fit(number, len(keys), dataset, way, model, seed, done=False)

    def _before(self, kept: RowFolder, fit: Fit, retry: bool) -> list[Row] | None:
        """Return the rows of a fit that was run before, if they are of this experiment."""
        rows = kept.read(fit.key)
        if rows is None or (retry and rows[0]["error"] is not None):
            return None
        made_by = rows[0]["version"]
        if made_by != __version__:
            raise StorageError(
                f"the folder has rows of {fit.model!r} on {fit.dataset!r} by tallyfold "
                f"{made_by or 'of an earlier version'}; this is {__version__}, whose numbers may "
                "differ. Take another folder, or that version."
            )
        if rows[0]["setting"] != self._setting(fit):
            raise StorageError(
                f"the folder has rows of another {fit.model!r} on {fit.dataset!r}: parameters, "
                "metrics, data or splits differ. Take another folder, another name, or the same "
                "settings."
            )
        found = {row["metric"]: row for row in rows}
        return [found[metric] for metric in self.metrics]

    def _held_out_fifth(self, tensor: CountTensor, seed: int) -> Split:
        hidden = hidden_from(self._decided(tensor).values(), tensor)
        groups = self._groups(tensor)
        return split(tensor, 0.2, cells=hidden, random_state=seed, groups=groups)

    def _groups(self, tensor: CountTensor) -> CellGroups | None:
        return groups_along(tensor, self.copies)

    def _decided(self, tensor: CountTensor) -> dict[str, CountModel]:
        """Return the models for a data set: what empty cells are is decided on the whole of it."""
        if self._last_decided is None or self._last_decided[0] is not tensor:
            self._last_decided = tensor, with_decided_zeros(self.models, tensor)
        return self._last_decided[1]

    def _tensor(self, dataset: str) -> CountTensor:
        tensor = self.tensors[dataset]
        if not isinstance(tensor, CountTensor):
            tensor = self.tensors[dataset] = checked_tensor(tensor(), "tensors")
        return tensor

    def _parameters(self, fit: Fit) -> dict[str, Any]:
        decided = self._decided(self._tensor(fit.dataset))
        return decided[fit.model].get_params()  # type: ignore[no-any-return]

    def _run_one(self, fit: Fit, kept: RowFolder) -> list[Row]:
        train, test = self._split(fit)[0]
        parameters = self._parameters(fit)
        if "random_state" in parameters:
            parameters["random_state"] = fit.seed
        model = type(self.models[fit.model])(**parameters)
        measured, scores = fit_and_score(model, train, test, self.metrics, self._groups(train))
        about = {
            **fit._asdict(),
            **measured,
            "zeros": model.zeros_for(train),
            "train_cells": train.nnz,
            "test_cells": test.nnz,
            "version": __version__,
            "setting": self._setting(fit),
        }
        rows = [about | {"metric": name, "value": scores.get(name)} for name in self.metrics]
        kept.write(fit.key, rows)
        return rows

    def _split(self, fit: Fit) -> tuple[Split, str]:
        """Return both parts of a fit's cells, and a checksum of them."""
        key = fit.dataset, fit.split, fit.seed
        if self._last_split is None or self._last_split[0] != key:  # models follow each other
            parts = self.splits[fit.split](self._tensor(fit.dataset), fit.seed)
            prints = " ".join(fingerprint(part)[:16] for part in parts)
            self._last_split = key, parts, prints
        return self._last_split[1:]

    def _setting(self, fit: Fit) -> str:
        """Return checksums of a fit's parameters and metrics, and of its cells."""
        parameters = self._parameters(fit) | {"random_state": fit.seed}
        about = [parameters, sorted(self.metrics), *([] if self.copies is None else [self.copies])]
        text = json.dumps(about, sort_keys=True, default=str)
        return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {self._split(fit)[1]}"


def _checked(given: Any, name: str, kind: Any, wanted: str) -> dict[str, Any]:
    """Refuse what is no dict by name, or holds something else than is wanted."""
    if not isinstance(given, Mapping):
        raise ParameterError(f"`{name}` must be a dict by name; got {given!r}.")
    if not given:
        raise ParameterError(f"`{name}` must name at least one; got none.")
    for key, each in given.items():
        if not isinstance(each, kind):
            raise ParameterError(f"`{name}` must hold {wanted}; got {each!r} for {key!r}.")
    return dict(given)


def _checked_seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Iterable) or isinstance(seeds, str) or not list(seeds):
        raise ParameterError(f"`seeds` must be a list of seeds; got {seeds!r}.")
    for seed in (numbers := list(seeds)):
        check_parameters({"seeds": seed}, {"seeds": SEED})
    if len(set(numbers)) < len(numbers):
        raise ParameterError(f"`seeds` must name each once; got {numbers}.")
    return numbers
