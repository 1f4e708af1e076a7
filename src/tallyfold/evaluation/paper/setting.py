"""What an experiment of the paper is run on, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallyfold.data.demo import load_demo
from tallyfold.data.formats import read_counts
from tallyfold.data.simulate import simulate
from tallyfold.data.split import subsample
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, FormatError, ParameterError
from tallyfold.evaluation.experiment import Experiment, Fit, Scores
from tallyfold.models.base import CountModel

if TYPE_CHECKING:
    import pandas as pd

QUICK_CELLS = 20_000
Tensors = dict[str, Callable[[], CountTensor]]


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
        How many settings of each model to try on the training part; None takes fixed ones.
    announce
        Called with a line of progress.
    """

    tensors: Mapping[str, Callable[[], CountTensor]]
    folder: Path
    seeds: tuple[int, ...] = (0, 1, 2)
    quick: bool = False
    trials: int | None = None
    announce: Callable[[str], None] = field(default=lambda line: None)

    def tensor(self, name: str) -> CountTensor:
        """Return a data set; in a quick run with at most 20,000 of its cells."""
        tensor = self.tensors[name]()
        if self.quick and tensor.nnz > QUICK_CELLS:
            return subsample(tensor, QUICK_CELLS / tensor.nnz)
        return tensor

    def rows(
        self,
        part: str,
        models: Mapping[str, CountModel],
        metrics: list[str] | Scores,
        **choices: Any,
    ) -> pd.DataFrame:
        """Run models on the data sets, and return tidy rows kept under the name of this part."""
        tensors = choices.pop("tensors", None)
        if tensors is None:
            tensors = {name: partial(self.tensor, name) for name in self.tensors}
        experiment = Experiment(tensors, models, metrics, seeds=self.seeds, **choices)
        return experiment.run(self.folder / part, announce=self._say)

    def _say(self, fit: Fit) -> None:
        if not fit.done:
            self.announce(fit.text)


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
    for file in sorted(folder.glob("*.parquet")):
        _axes_of(file)  # before hours of fitting, not after them
    found: Tensors = {file.stem: partial(_read, file) for file in sorted(folder.glob("*.parquet"))}
    if not found:
        raise DataError(f"{str(folder)!r} holds no .parquet file.")
    return found


def check_tensors(tensors: Mapping[str, Callable[[], CountTensor]]) -> None:
    """Read every tensor once: what cannot be fitted is found before hours of fitting."""
    for name, load in tensors.items():
        if (cells := load().nnz) < 2:
            raise DataError(
                f"{name!r} must have at least two cells with a count, to be split; it has {cells}."
            )


def built_in_tensors() -> Tensors:
    """Return the tensors that need no data: the demo's, and one simulated by the paper's recipe."""
    return {"demo": load_demo, "simulated": lambda: simulate.paper().tensor}


def _read(file: Path) -> CountTensor:
    return read_counts(file, axes=_axes_of(file), value="count")


def _axes_of(file: Path) -> list[str]:
    """Return the columns that are axes; refuse a file that is no tidy tensor."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        columns = pq.read_schema(file).names
    except pa.ArrowException as error:
        raise FormatError(f"{str(file)!r} is no Parquet file that can be read: {error}") from error
    if "count" not in columns:
        raise DataError(
            f"{str(file)!r} must have a column 'count' beside its axes; it has "
            f"{', '.join(columns)}."
        )
    nameless = [name for name in columns if name.startswith("__index_level_")]
    if nameless:
        raise DataError(
            f"{str(file)!r} has a column {nameless[0]!r}: the row numbers of a pandas frame, which "
            "would be taken for an axis. Write the file again with to_parquet(..., index=False)."
        )
    axes = [name for name in columns if name != "count"]
    if len(axes) < 2:
        raise DataError(
            f"{str(file)!r} must have at least two axes beside 'count'; it has "
            f"{', '.join(axes) or 'none'}."
        )
    return axes
