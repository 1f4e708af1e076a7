"""Stores written out of core by DuckDB, in stages that a job which was killed need not repeat."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import EllipsisType
from typing import Any, NamedTuple

from tallyfold.data.axis import Axis, listing
from tallyfold.data.axis_order import Ordered
from tallyfold.data.formats import sql
from tallyfold.data.formats.files import PathLike
from tallyfold.data.locks import locked_folder
from tallyfold.data.store.job import JOB, begin, finished, job_of
from tallyfold.data.store.label_files import write_labels
from tallyfold.data.store.manifest import Manifest, Shard, StoredAxis, StoredFile
from tallyfold.data.store.reading import Store, open_store
from tallyfold.data.store.shards import Run, runs_of, write_shard
from tallyfold.data.store.sources import Counts, TensorCounts, Unwritten, counts_of_files
from tallyfold.data.summary import Dropped
from tallyfold.data.temporaries import clear_abandoned
from tallyfold.data.tensor import Bad, CountTensor, Missing, Repeated
from tallyfold.data.time_units import Bins
from tallyfold.errors import DataError, ParameterError, StorageError, TallyfoldError

SHARDS = 16
MOST_SHARDS = 100_000
DATABASE = "cells.duckdb"
TORN = ("could not read", "not a valid", "corrupt", "checksum", "failed to load")
"""Words of DuckDB's complaints about a database that was not written whole."""


class StoreProgress(NamedTuple):
    """How far the writing of a store has come: steps done, of how many, and the last in words."""

    done: int
    total: int
    words: str


Tell = Callable[[StoreProgress], None]


def write_store(
    source: CountTensor | PathLike | Sequence[PathLike],
    path: str | os.PathLike[str],
    axes: Sequence[str | Axis] | None = None,
    value: str | EllipsisType | None = ...,
    *,
    shards: int = SHARDS,
    repeated: Repeated | None = None,
    missing: Missing = "error",
    bad: Bad = "error",
    bins: Bins | None = None,
    tz: str | None = None,
    ordered: Ordered | None = None,
    min_nonzeros: Mapping[str, int] | None = None,
    top: Mapping[str, int] | None = None,
    delimiter: str | None = None,
    memory_limit: str | None = None,
    progress: Tell | None = None,
) -> Store:
    r"""Write counts as a store: a folder of Parquet files, label tables and a manifest.

    Tables of events are grouped, coded, sorted and written by DuckDB, which spills to the folder:
    counts need not fit in memory, only the labels of one axis at a time. A call that was
    interrupted or killed goes on where it was if it is made again; if its store is finished, it is
    opened. Several processes read a store in ranges: see `tallyfold.scatter`.

    Parameters
    ----------
    source
        A tensor; or files, a folder, a pattern or a list of these, as in `read_counts`. Files that
        hold a whole tensor (``.npz``, ``.tns``, or no `axes` given) are read into memory.
    path
        The folder to write; what else it holds is not touched, so it must be new or empty.
    axes, value, repeated, missing, bad, bins, tz, ordered, min_nonzeros, top, delimiter
        As in `read_counts`.
    shards
        How many files to cut the cells into: runs of the longest axis, of nearly equal numbers of
        cells. A label with very many cells may leave fewer.
    memory_limit
        How much memory DuckDB may use before it spills to disk, such as ``"2GB"``.
    progress
        Called with a `StoreProgress` when a step is done.

    Returns
    -------
    Store
        As `open_store` returns it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "events.csv").write_text("who,what\nann,call\nbob,mail\nann,call\n")
    >>> store = write_store(folder / "events.csv", folder / "store", axes=["who", "what"], shards=2)
    >>> store.shape, store.nnz, len(store.shards)
    ((2, 2), 2, 2)
    """
    checked_shards(shards)
    reading = {
        "axes": axes, "value": value, "repeated": repeated, "missing": missing, "bad": bad,
        "bins": bins, "tz": tz, "ordered": ordered, "min_nonzeros": min_nonzeros, "top": top,
        "delimiter": delimiter,
    }  # fmt: skip
    folder = Path(os.path.expanduser(path))
    if isinstance(source, CountTensor):
        usual = {"value": ..., "repeated": None, "missing": "error", "bad": "error"}
        odd = [name for name, given in reading.items() if given not in (None, usual.get(name))]
        if odd:
            raise ParameterError(
                f"`{odd[0]}` says how to read files; a tensor is read already. Leave it out, or "
                "give it where the tensor is made."
            )
        counts: Counts = TensorCounts(source)
        job = job_of(source, {}, shards)
    else:
        counts = counts_of_files(source, reading)
        job = job_of(counts.files, reading | {"repeated": repeated or "sum"}, shards)
    if folder.exists() and not folder.is_dir():
        raise StorageError(f"{str(folder)!r} is a file; a store is a folder. Choose another name.")
    with locked_folder(folder, wait=0), _storage_errors(folder):
        if not finished(folder, job):
            clear_abandoned(folder)
            _Building(folder, counts, job, memory_limit, progress).run(shards)
    return open_store(folder)


class _Building:
    """A store on its way: each stage is noted in a database inside, and not done twice."""

    def __init__(
        self,
        folder: Path,
        counts: Counts,
        job: Mapping[str, Any],
        memory_limit: str | None,
        tell: Tell | None,
    ) -> None:
        self.folder, self.counts, self.job = folder, counts, dict(job)
        self.memory_limit, self.tell = memory_limit, tell
        self.building = begin(folder, job)
        self.done, self.total = 0, 2 + job["shards"]

    def run(self, shards: int) -> None:
        """Do what is not done yet."""
        spill = self.building / "spill"
        shutil.rmtree(spill, ignore_errors=True)
        spill.mkdir()
        database = self._sound_database()
        try:
            with sql.connected(self.memory_limit, database, str(spill)) as self.connection:
                self.connection.execute(
                    "CREATE TABLE IF NOT EXISTS stages (name VARCHAR, facts VARCHAR)"
                )
                try:
                    manifest = self._stages(shards)
                except TallyfoldError as error:
                    if self._is_hopeless(error):
                        (self.building / JOB).unlink()
                    raise
            self._finish(manifest)
        finally:
            if not (self.building / JOB).exists():
                shutil.rmtree(self.building, ignore_errors=True)

    def _sound_database(self) -> str:
        """Return the database to go on with; one that a full disk has torn is begun afresh."""
        import duckdb

        database = self.building / DATABASE
        try:
            duckdb.connect(str(database)).close()
        except duckdb.Error as error:
            if not any(word in str(error).lower() for word in TORN):
                raise
            for file in self.building.glob(f"{DATABASE}*"):
                file.unlink()
        return str(database)

    def _is_hopeless(self, error: TallyfoldError) -> bool:
        """Tell whether the same call would fail again, or would find nothing to go on with."""
        if isinstance(error, DataError | ParameterError):
            return True
        return not isinstance(error, StorageError) and self._known("grouped") is None

    def _stages(self, shards: int) -> Manifest:
        grouped = self._stage("grouped", self._group, "rows grouped")
        coded = self._stage("coded", lambda: self._code(shards), "labels written")
        axes = [StoredAxis(**a | {"labels": StoredFile(**a["labels"])}) for a in coded["axes"]]
        sizes = [axis.size for axis in axes]
        longest = sizes.index(max(sizes))
        columns = [*(axis.name for axis in axes), coded["count_column"]]
        runs = [Run(*run) for run in coded["runs"]]
        self.total = 2 + len(runs)
        made = []
        for run in runs:
            write = partial(self._shard, run, columns, longest)
            words = f"shard {run.number + 1} of {len(runs)}"
            facts = self._stage(run.file, write, f"{words}: {run.rows:,} cells")
            made.append(Shard(**facts | {"data": StoredFile(**facts["data"])}))
        dropped = [Dropped(**each) for each in (*grouped["dropped"], *coded["dropped"])]
        return Manifest(
            tuple(axes), tuple(made), axes[longest].name, columns[-1], coded["nnz"],
            coded["total"], tuple(dropped), coded["part"], self.job,
        )  # fmt: skip

    def _stage(self, name: str, work: Callable[[], dict[str, Any]], words: str) -> dict[str, Any]:
        """Return the facts of a stage, which is done if it was not."""
        known = self._known(name)
        facts: dict[str, Any] = known if known is not None else json.loads(json.dumps(work()))
        if known is None:
            self.connection.execute("INSERT INTO stages VALUES (?, ?)", [name, json.dumps(facts)])
        self.done += 1
        if self.tell is not None:
            self.tell(StoreProgress(self.done, self.total, words))
        return facts

    def _known(self, name: str) -> dict[str, Any] | None:
        query = "SELECT facts FROM stages WHERE name = ?"
        row = self.connection.execute(query, [name]).fetchone()
        return None if row is None else json.loads(row[0])

    def _group(self) -> dict[str, Any]:
        return {"dropped": [asdict(each) for each in self.counts.group(self.connection)]}

    def _code(self, shards: int) -> dict[str, Any]:
        axes, dropped, part = self.counts.code(self.connection, self.building)
        names = [axis.name for axis in axes]
        counted = count_column(names)
        sizes = [len(axis) for axis in axes]
        query = "SELECT count(*), CAST(coalesce(sum(n), 0) AS BIGINT) FROM coded"
        nnz, total = self.connection.execute(query).fetchone()
        return {
            "axes": [self._stored(number, axis) for number, axis in enumerate(axes)],
            "count_column": counted,
            "runs": runs_of(self.connection, sizes.index(max(sizes)), shards),
            "nnz": nnz,
            "total": total,
            "dropped": [asdict(each) for each in dropped],
            "part": part,
        }

    def _shard(self, run: Run, columns: list[str], longest: int) -> dict[str, Any]:
        places = (self.building, self.folder)
        return asdict(write_shard(self.connection, run, columns, longest, *places))

    def _stored(self, number: int, axis: Axis) -> dict[str, Any]:
        """Put the label file of an axis into the store."""
        file = self.building / f"labels-{number:02}.arrow"
        stored = asdict(write_labels(axis, file))
        os.replace(file, self.folder / file.name)
        return stored

    def _finish(self, manifest: Manifest) -> None:
        """Write the manifest: now it is a store."""
        manifest.write(self.folder)
        shutil.rmtree(self.building, ignore_errors=True)


def checked_shards(shards: object) -> None:
    """Refuse what is no number of shards."""
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise ParameterError(
            f"`shards` must be a whole number from 1 to {MOST_SHARDS:,}; got {shards!r}."
        )


def count_column(names: Sequence[str]) -> str:
    """Return what shards call the counts: ``count``, unless an axis is called so.

    Examples
    --------
    >>> count_column(["user", "item"]), count_column(["user", "Count"])
    ('count', 'count_')
    """
    lowered = [name.lower() for name in names]
    if len(set(lowered)) < len(lowered):
        raise ParameterError(
            "the axes of a store must differ not only in case, since they are columns of its "
            f"files; got {listing(list(names), 20)}. Rename one of the columns."
        )
    column = "count"
    while column in lowered:
        column += "_"
    return column


@contextlib.contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Turn what could not be written into a StorageError that says how to go on."""
    import duckdb

    try:
        yield
    except (OSError, duckdb.Error, Unwritten) as error:
        if isinstance(error, OSError) and error.errno is None:
            raise
        said = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())[:300]
        remedy = "Make room, or choose another folder"
        if isinstance(error, duckdb.OutOfMemoryException):
            remedy = "Allow more with memory_limit=, or leave it out"
        raise StorageError(
            f"the store {str(folder)!r} could not be written: {said}. {remedy}; the same call, or "
            "the same command, goes on where it was."
        ) from error
