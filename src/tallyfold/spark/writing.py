"""Stores written by Spark: its executors group, number, sort and write; the driver sees totals.

Rows become cells by a group-by. For each axis one task takes the labels in their order, numbers
them and writes them to a file, without holding them. Joins put positions in place of labels, and
the tasks of a last shuffle write a shard each, in the form that `tallyfold.write_store` writes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tallyfold.data.axis import listing
from tallyfold.data.cells import MAX_COUNT
from tallyfold.data.events import zeros_dropped
from tallyfold.data.locks import locked_folder
from tallyfold.data.packages import imported
from tallyfold.data.store import Store, open_store
from tallyfold.data.store.building import SHARDS, checked_shards, count_column
from tallyfold.data.store.job import begin, finished
from tallyfold.data.store.manifest import Manifest, Shard, StoredAxis, StoredFile
from tallyfold.data.store.shards import Run
from tallyfold.data.temporaries import clear_abandoned
from tallyfold.errors import CountError, DataError, LabelError, ParameterError, StorageError
from tallyfold.spark.tasks import NUMBERED, WRITTEN, number_labels, write_shards

WHOLE = ("byte", "short", "integer", "long")
LABELS = (*WHOLE, "string", "boolean", "date", "timestamp", "timestamp_ntz")
"""Types of columns that may be labels."""


def write_store(
    dataframe: Any,
    path: str | os.PathLike[str],
    axes: Sequence[str],
    value: str | None = None,
    *,
    shards: int = SHARDS,
    repeated: Literal["sum", "error"] = "sum",
) -> Store:
    """Write a Spark data frame as a store, by Spark's own operations.

    Rows are grouped, numbered, sorted and written by the executors; the driver collects totals and
    what the manifest says of each file. A call that has failed is made again from the start; one
    whose store is finished opens it.

    Parameters
    ----------
    dataframe
        Events, or counts of events. Cut times and filter by Spark's own functions before.
    path
        The folder to write, new or empty, which the driver and all executors see.
    axes
        The columns that are axes: text, whole numbers, booleans, dates or times.
    value
        The column of counts; None: each row is one event.
    shards
        How many files to cut the cells into, at most.
    repeated
        What several rows of one cell become: their ``"sum"``, or an ``"error"``.

    Examples
    --------
    >>> store = write_store(spark.table("events"), "store", axes=["user", "item"])  # doctest: +SKIP
    """
    functions = imported("pyspark.sql.functions", "tallyfold.spark", "tallyfold[spark]")
    checked_shards(shards)
    if repeated not in ("sum", "error"):
        raise ParameterError(f"`repeated` must be 'sum' or 'error'; got {repeated!r}.")
    _check_columns(dataframe, axes, value)
    folder = Path(os.path.abspath(os.path.expanduser(path)))
    request = {"axes": list(axes), "value": value, "repeated": repeated}
    with _spark_errors(folder), _Cells(functions, dataframe, axes, value) as cells:
        cells.check(repeated)
        job = {"counts": ["spark", cells.checksum], "request": request, "shards": shards}
        with locked_folder(folder, wait=0):
            if not finished(folder, job):
                clear_abandoned(folder)
                _write(cells, folder, job)
    return open_store(folder)


class _Cells:
    """The rows of a data frame grouped by their labels, kept on the executors' disks."""

    def __init__(
        self, functions: Any, dataframe: Any, axes: Sequence[str], value: str | None
    ) -> None:
        f = self.functions = functions
        self.names = list(axes)
        columns = [f.col(_quoted(name)) for name in axes]
        count = f.lit(1) if value is None else f.col(_quoted(value))
        wrong = f.when(count.isNull() | f.isnan(count.cast("double")), "missing")
        wrong = wrong.when((count < 0) | (count != f.floor(count)) | (count > MAX_COUNT), "bad")
        lacking = [f.sum(column.isNull().cast("long")) for column in columns]
        tallies = [f.sum((wrong == word).cast("long")) for word in ("missing", "bad")]
        row = dataframe.agg(*lacking, *tallies, f.count(f.lit(1))).first()
        _refuse(dict(zip([*axes, value], row[: len(axes) + 1], strict=True)), row[-2], row[-1])
        self.keys = [f"x{m}" for m in range(len(axes))]
        named = [column.alias(key) for column, key in zip(columns, self.keys, strict=True)]
        rows = dataframe.select(*named, count.cast("long").alias("n"))
        grouped = rows.groupBy(*self.keys).agg(f.sum("n").alias("n"), f.count(f.lit(1)).alias("r"))
        self.frame = _kept(grouped)

    def check(self, repeated: str) -> None:
        """Find totals; refuse what makes no tensor."""
        f = self.functions
        some = f.col("n") > 0
        hashes = f.xxhash64(*self.keys, "n").cast("decimal(38,0)")
        totals = [f.count(f.lit(1)), f.sum(some.cast("long")), f.sum("n"), f.max("n"), f.max("r")]
        found = self.frame.agg(*totals, f.sum(hashes)).first()
        self.cells, self.nnz, self.total, most, rows, hashed = found
        self.checksum = [self.cells, self.total, str(hashed)]
        if most > MAX_COUNT:
            raise CountError(f"counts must be at most 2**53 - 1; a cell has {most:,}.")
        if repeated == "error" and rows > 1:
            raise LabelError(
                f"each cell must be given once (repeated='error'); one has {rows:,} rows. "
                "repeated='sum' adds them up."
            )

    def __enter__(self) -> _Cells:
        return self

    def __exit__(self, *error: object) -> None:
        self.frame.unpersist()


def _write(cells: _Cells, folder: Path, job: dict[str, Any]) -> None:
    """Write labels, shards and the manifest."""
    f = cells.functions
    dropped = (
        [] if cells.cells == cells.nnz else [zeros_dropped(cells.cells - cells.nnz, cells.cells)]
    )
    building = begin(folder, job)
    numbered = [_numbered(cells, m, building, job["shards"]) for m in range(len(cells.names))]
    axes = [StoredAxis(**a | {"labels": StoredFile(**a["labels"])}) for a in map(_facts, numbered)]
    sizes = [axis.size for axis in axes]
    longest = sizes.index(max(sizes))
    coded = cells.frame.where("n > 0")
    for m, (key, (frame, _)) in enumerate(zip(cells.keys, numbered, strict=True)):
        own = [f.col("label").alias(key), f.col("position").alias(f"p{m}")]
        coded = coded.join(frame.select(*own, *(["shard"] if m == longest else [])), key)
    positions = [f"p{m}" for m in range(len(axes))]
    columns = [*cells.names, count_column(cells.names)]
    order = [positions[longest], *(p for p in positions if p != positions[longest])]
    tasks = coded.select("shard", *positions, "n").repartition(job["shards"], "shard")
    write = partial(write_shards, columns=columns, longest=longest, building=str(building))
    rows = tasks.sortWithinPartitions("shard", *order).mapInArrow(write, WRITTEN).collect()
    made: list[Shard] = []
    for row in sorted(rows, key=lambda row: row["shard"]):
        run = Run(len(made), row["first"], row["last"], row["rows"])
        os.replace(building / row["file"], folder / run.file)
        made.append(Shard(*run[3:], *run[1:3], StoredFile(run.file, row["bytes"], row["sha256"])))
    for axis in axes:
        os.replace(building / axis.labels.file, folder / axis.labels.file)
    Manifest(
        tuple(axes), tuple(made), axes[longest].name, columns[-1], cells.nnz, cells.total,
        tuple(dropped), None, job,
    ).write(folder)  # fmt: skip
    for frame, _ in numbered:
        frame.unpersist()
    shutil.rmtree(building, ignore_errors=True)


def _numbered(cells: _Cells, number: int, building: Path, shards: int) -> tuple[Any, Path]:
    """Let one task write the labels of an axis; return their positions, and the file of facts."""
    f, key = cells.functions, cells.keys[number]
    tallied = cells.frame.groupBy(key).agg(f.sum((f.col("n") > 0).cast("long")).alias("k"))
    in_order = tallied.repartition(1).sortWithinPartitions(key)
    facts = building / f"labels-{number:02}.json"
    given = {"name": cells.names[number], "facts": str(facts), "shards": shards, "nnz": cells.nnz}
    kind = tallied.schema[key].dataType.simpleString()
    frame = _kept(in_order.mapInArrow(partial(number_labels, **given), f"label {kind}, {NUMBERED}"))
    frame.count()
    return frame, facts


def _facts(numbered: tuple[Any, Path]) -> dict[str, Any]:
    try:
        return json.loads(numbered[1].read_bytes())  # type: ignore[no-any-return]
    except FileNotFoundError as error:
        raise StorageError(
            f"the driver does not see {str(numbered[1])!r}, which an executor wrote. The store "
            "must be in a folder that all machines see at the same path: choose another one."
        ) from error


def _kept(frame: Any) -> Any:
    """Let executors keep the rows on disk, so that later steps do not make them again."""
    from pyspark import StorageLevel

    return frame.persist(StorageLevel.DISK_ONLY)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _check_columns(dataframe: Any, axes: Sequence[str], value: str | None) -> None:
    """Refuse columns that are not there, or that cannot be labels or counts."""
    types = {field.name: field.dataType.typeName() for field in dataframe.schema}
    named = [*axes, *([] if value is None else [value])]
    unknown = [name for name in named if name not in types]
    if isinstance(axes, str) or not axes or unknown or len(set(named)) < len(named):
        raise ParameterError(
            f"`axes` and `value` must be columns of the data frame, each once; got {listing(named)}"
            f". It has {listing(list(types), 20)}."
        )
    bad = [name for name in axes if types[name] not in LABELS]
    if bad:
        raise LabelError(
            f"labels must be text, whole numbers, booleans, dates or times; column {bad[0]!r} has "
            f"values of type {types[bad[0]]}. Cast it to one of these first."
        )
    if value is not None and types[value] not in (*WHOLE, "double", "float", "decimal"):
        raise CountError(
            f"counts must be whole numbers; column {value!r} has values of type {types[value]}. "
            "Cast it to a whole number first."
        )


def _refuse(missing: dict[str | None, int | None], bad: int | None, rows: int) -> None:
    """Refuse rows that lack something or hold something bad, and a data frame without rows."""
    if rows == 0:
        raise DataError("the data frame has no rows; a tensor needs at least one event.")
    for name, number in missing.items():
        if number:
            raise LabelError(
                f"column {name!r} lacks a value in {number:,} of {rows:,} rows. Leave these rows "
                "out with dataframe.dropna(subset=[...]), or fill them in."
            )
    if bad:
        raise CountError(
            f"counts must be whole numbers from 0 to 2**53 - 1; {bad:,} of {rows:,} rows have "
            "others. Leave these rows out, or choose a unit in which they are whole."
        )


@contextmanager
def _spark_errors(folder: Path) -> Iterator[None]:
    """Turn what Spark could not do into a StorageError that says how to go on."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, OSError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise StorageError(
            f"the store {str(folder)!r} could not be written: {' / '.join(lines[-2:])[:400]}. "
            "Mend that, and make the same call again; it begins afresh."
        ) from error
