"""Grouped cells whose labels become positions inside DuckDB, and filters of them.

The table ``cells`` (labels) becomes the table ``coded`` (x0, x1, ..., n): positions and counts. No
cell passes through Python; labels do so one axis at a time, in Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, check_size, plain_labels
from tallyfold.data.cells import warn_rounded
from tallyfold.data.declared_order import ordered_axis
from tallyfold.data.events import zeros_dropped
from tallyfold.data.formats.grouped_labels import (
    axis_of_groups,
    in_own_order,
    label_batches,
    label_joins,
    number_labels,
)
from tallyfold.data.formats.grouping import count_exact_cells
from tallyfold.data.request import Request
from tallyfold.data.select import checked_limits, refuse_none_left
from tallyfold.data.store.label_files import ENDING, LabelWriter, mapped_axis, write_labels
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor

Places = npt.NDArray[np.integer[Any]]


def code_cells(
    connection: Any, request: Request, folder: Path, *, is_text: bool
) -> tuple[list[Axis], list[Dropped]]:
    """Make the table ``coded``; return the axes, mapped from files, and what was left out."""
    n_cells = count_exact_cells(connection)
    axes = []
    for number, name in enumerate(request.axes):
        if streamed := streamed_axis(connection, number, request, folder, is_text=is_text):
            axes.append(streamed)
            continue
        axis, position = axis_of_groups(connection, number, request, is_text=is_text)
        if name in request.ordered:
            axis, place = ordered_axis(axis, request.ordered[name])
            position = position if place is None else place[position]
        axes.append(written_axis(axis, folder, number))
        if np.any(position[1:] < position[:-1]):
            moved = pa.table({"old": np.arange(len(position)), "new": position.astype(np.int64)})
            connection.register("moved", moved)
            table = f"labels_{number}"
            connection.execute(f"UPDATE {table} SET code = new FROM moved WHERE code = old")
            connection.unregister("moved")
    columns = ", ".join(f"CAST(labels_{m}.code AS INTEGER) AS x{m}" for m in range(len(axes)))
    count = _mean(connection) if request.repeated == "mean" else "n"
    connection.execute(
        f"CREATE OR REPLACE TABLE coded AS SELECT {columns}, CAST({count} AS BIGINT) AS n "
        f"FROM cells {label_joins(request)}"
    )
    (zeros,) = connection.execute("SELECT count(*) FROM coded WHERE n = 0").fetchone()
    if not zeros:
        return axes, []
    dropped = zeros_dropped(zeros, n_cells)
    connection.execute("DELETE FROM coded WHERE n = 0")
    return axes, [dropped]


def streamed_axis(
    connection: Any, number: int, request: Request, folder: Path, *, is_text: bool
) -> Axis | None:
    """Write the labels of an axis as DuckDB gives them; None if their order may be another."""
    name = request.axes[number]
    if name in request.bins or name in request.ordered or request.missing == "label":
        return None
    number_labels(connection, number)
    if not in_own_order(connection, number, is_text=is_text):
        return None
    file = folder / f"labels-{number:02}{ENDING}"
    with LabelWriter(name, file) as writer:
        for batch in label_batches(connection, number):
            writer.add(plain_labels(batch.column(0), axis=name))
            check_size(name, writer.size)
        return mapped_axis(writer.finish(), file)


def written_axis(axis: Axis, folder: Path, number: int) -> Axis:
    """Write the labels of an axis, and return it with these in place of those in memory."""
    file = folder / f"labels-{number:02}{ENDING}"
    return mapped_axis(write_labels(axis, file), file)


def _mean(connection: Any) -> str:
    """Write the rounded mean of a cell's rows, halves up; say how many were not whole."""
    query = "SELECT count(*) FILTER (n % times > 0), count(*) FILTER (times > 1) FROM cells"
    fractions, several = connection.execute(query).fetchone()
    warn_rounded(fractions, several)
    return "n // times + CASE WHEN 2 * (n % times) >= times THEN 1 ELSE 0 END"


def filter_cells(
    connection: Any,
    axes: Sequence[Axis],
    folder: Path,
    *,
    min_nonzeros: Mapping[str, int],
    top: Mapping[str, int],
) -> tuple[list[Axis], list[Dropped]]:
    """Do what `CountTensor.filter` does, to the table ``coded``; return the axes that are left."""
    names = [axis.name for axis in axes]
    none = np.empty((0, len(axes)), np.int32), np.empty(0, np.int64)
    frame = CountTensor.of_canonical(axes, *none)
    most, least = (
        checked_limits(frame, top, "top"),
        checked_limits(frame, min_nonzeros, "min_nonzeros"),
    )
    table = _CodedTable(connection, names)
    dropped: list[Dropped] = []
    before = table.labels()
    empty = {n: len(axis) - before[n] for n, axis in zip(names, axes, strict=True)}
    for name, limit in most.items():  # of all cells, before any is taken away
        column = table.column(name)
        connection.execute(
            f"CREATE OR REPLACE TEMP TABLE top_{column} AS SELECT {column} AS x FROM coded "
            f"GROUP BY 1 ORDER BY sum(n) DESC, 1 LIMIT {limit}"
        )
    for name, limit in most.items():
        column = table.column(name)
        outside = f"{column} NOT IN (SELECT x FROM top_{column})"
        dropped += table.without([outside], f"beyond the top {limit:,} of {name}")
    if least:
        rare = [
            f"{c} IN (SELECT {c} FROM coded GROUP BY 1 HAVING count(*) < {limit})"
            for c, limit in ((table.column(name), limit) for name, limit in least.items())
        ]
        rule = ", ".join(f"{limit:,} per {name}" for name, limit in least.items())
        dropped += table.without(rare, f"fewer non-zeros than {rule}")
    refuse_none_left(table.cells()[0], dropped)
    if any(empty.values()):
        dropped.append(Dropped("without a cell", labels=empty))
    return [table.compacted(n, axis, folder) for n, axis in enumerate(axes)], dropped


class _CodedTable:
    """The table ``coded``, from which cells and labels are taken away."""

    def __init__(self, connection: Any, names: Sequence[str]) -> None:
        self.connection, self.names = connection, list(names)

    def column(self, name: str) -> str:
        return f"x{self.names.index(name)}"

    def cells(self) -> tuple[int, int]:
        """Return how many cells there are, and their sum."""
        query = "SELECT count(*), CAST(coalesce(sum(n), 0) AS BIGINT) FROM coded"
        return self.connection.execute(query).fetchone()  # type: ignore[no-any-return]

    def labels(self) -> dict[str, int]:
        """Return how many labels of each axis have a cell."""
        counts = ", ".join(f"count(DISTINCT {self.column(name)})" for name in self.names)
        found = self.connection.execute(f"SELECT {counts} FROM coded").fetchone()
        return dict(zip(self.names, found, strict=True))

    def without(self, conditions: Sequence[str], reason: str) -> list[Dropped]:
        """Take cells away, in turns, until no condition holds for any; return the record."""
        (cells, total), labels = self.cells(), self.labels()
        left = -1
        while left != (now := self.cells()[0]):
            left = now
            for condition in conditions:
                self.connection.execute(f"DELETE FROM coded WHERE {condition}")
        after, after_total = self.cells()
        if after == cells:
            return []
        gone = {name: labels[name] - number for name, number in self.labels().items()}
        return [Dropped(reason, cells - after, total - after_total, gone)]

    def compacted(self, number: int, axis: Axis, folder: Path) -> Axis:
        """Take labels without a cell from an axis, and number the others anew."""
        query = f"SELECT DISTINCT x{number} AS x FROM coded ORDER BY 1"
        kept = self.connection.execute(query).fetchnumpy()["x"]
        if len(kept) == len(axis):
            return axis
        moved = pa.table({"old": kept, "new": np.arange(len(kept), dtype=np.int32)})
        self.connection.register("moved", moved)
        self.connection.execute(
            f"UPDATE coded SET x{number} = new FROM moved WHERE x{number} = old"
        )
        self.connection.unregister("moved")
        taken = axis.take(kept)
        return written_axis(taken, folder, number)
