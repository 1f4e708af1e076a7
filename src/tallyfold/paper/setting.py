"""What an experiment of the paper is run on, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tallyfold as tf
from tallyfold.data.split import Split
from tallyfold.errors import DataError, FormatError, ParameterError
from tallyfold.evaluation.experiment import DEFAULT_SPLIT, Scores, held_out_fifth
from tallyfold.models.base import CountModel

if TYPE_CHECKING:
    import pandas as pd

QUICK_CELLS = 20_000
Tensors = Mapping[str, Callable[[], tf.CountTensor]]


@dataclass(frozen=True)
class Setting:
    """What to run an experiment on, and how.

    Attributes
    ----------
    tensors
        Functions that give the data sets, by name.
    folder
        Where finished fits are kept; a run that was stopped goes on from there.
    seeds
        Seeds of splits and fits.
    quick
        Minutes instead of hours: thinned tensors, one seed, fewer settings.
    trials
        The number of settings of each model to try on the training part; None takes fixed ones.
    announce
        Called with a line of progress.
    """

    tensors: Tensors
    folder: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    trials: int | None = None
    announce: Callable[[str], None] = field(default=lambda line: None)

    def tensor(self, name: str) -> tf.CountTensor:
        """Return a data set; in a quick run with at most 20,000 of its cells."""
        tensor = self.tensors[name]()
        if self.quick and tensor.nnz > QUICK_CELLS:
            return tf.subsample(tensor, QUICK_CELLS / tensor.nnz)
        return tensor

    def rows(
        self,
        part: str,
        models: Mapping[str, CountModel],
        metrics: list[str] | Scores,
        *,
        tensors: Any = None,
        **choices: Any,
    ) -> pd.DataFrame:
        """Run models on the data sets, and return tidy rows kept under the name of this part."""
        if tensors is None:
            tensors = {name: partial(self.tensor, name) for name in self.tensors}
        choices = {"splits": {DEFAULT_SPLIT: held_out_fifth}} | choices
        experiment = tf.Experiment(tensors, models, metrics, seeds=self.seeds, **choices)
        return experiment.run(
            self.folder / part,
            announce=lambda fit: None if fit.done else self.announce(fit.text),
        )


def fitted_share(tensor: tf.CountTensor, seed: int, share: float = 1.0) -> Split:
    """Fit a share of the cells, and score on the same cells."""
    part = tensor if share == 1.0 else tf.subsample(tensor, share, random_state=seed)
    return Split(part, part)


@dataclass(frozen=True)
class Reproduction:
    """What an experiment gave: tables by title, and what to know when reading them."""

    tables: dict[str, pd.DataFrame]
    notes: list[str]


def tensors_in(folder: Path) -> Tensors:
    """Return the tidy Parquet tensors of a folder: a column per axis, and `count`."""
    if not folder.is_dir():
        raise ParameterError(
            f"the data must be a folder of Parquet tensors; {str(folder)!r} is none."
        )
    axes = {file: _axes_of(file) for file in sorted(folder.glob("*.parquet"))}  # refused at once
    if not axes:
        raise DataError(f"{str(folder)!r} holds no .parquet file.")
    return {
        file.stem: partial(tf.read_counts, file, axes=names, value="count")
        for file, names in axes.items()
    }


def check_tensors(tensors: Tensors) -> None:
    """Read every tensor once: what cannot be fitted is found before hours of fitting."""
    for name, load in tensors.items():
        if (cells := load().nnz) < 2:
            raise DataError(
                f"{name!r} must have at least two cells with a count, to be split; it has {cells}."
            )


def built_in_tensors() -> Tensors:
    """Return the tensors that need no data: the demo's, and one simulated by the paper's recipe."""
    return {"demo": tf.load_demo, "simulated": lambda: tf.simulate.paper().tensor}


def _axes_of(file: Path) -> list[str]:
    """Return the columns that are axes; refuse a file that is no tidy tensor."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = pq.read_schema(file).names
    except pa.ArrowException as error:
        raise FormatError(f"{str(file)!r} is no Parquet file that can be read: {error}") from error
    axes = [name for name in columns if name != "count"]
    nameless = [name for name in columns if name.startswith("__index_level_")]
    if "count" not in columns:
        wrong = f"must have a column 'count' beside its axes; it has {', '.join(columns)}."
    elif nameless:
        wrong = (
            f"has a column {nameless[0]!r}: the row numbers of a pandas frame, which would be "
            "taken for an axis. Write the file again with to_parquet(..., index=False)."
        )
    elif len(axes) < 2:
        named = ", ".join(axes) or "none"
        wrong = f"must have at least two axes beside 'count'; it has {named}."
    else:
        return axes
    raise DataError(f"{str(file)!r} {wrong}")
