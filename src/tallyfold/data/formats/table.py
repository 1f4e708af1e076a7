"""Tables of events or counts, grouped by DuckDB without being loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, check_size, listing, plain_labels
from tallyfold.data.bins import time_labels
from tallyfold.data.counts import MAX_COUNT
from tallyfold.data.encode import sorted_order
from tallyfold.data.events import check_columns, checked_value, tensor_from_rows
from tallyfold.data.formats.faults import Fault, find_fault, number_of, row_faults, time_of
from tallyfold.data.formats.sql import connected, duckdb_errors, literal, one_row
from tallyfold.data.formats.writing import Targets
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import CountError, DataError, FormatError, LabelError

Codes = npt.NDArray[np.int32]


class Source(NamedTuple):
    """A table in DuckDB's words.

    Attributes
    ----------
    sql
        What to select from.
    types
        The type of each column, by its name in the file.
    columns
        What each column is called in `sql`; DuckDB takes ``User`` and ``user`` for the same.
    """

    sql: str
    types: dict[str, str]
    columns: dict[str, str]


class TableFormat(Protocol):
    """How one kind of table file is read and written."""

    is_text: bool
    has_axes_file: bool

    def source(self, connection: Any, files: list[str], wanted: Sequence[str]) -> Source:
        """Describe files of this kind, and their wanted columns, to DuckDB."""

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Say where in a file its so-and-so-many-th rows are, counted from 1."""

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes that `write_counts` recorded with a file, if it did."""

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write a tensor."""


def read_own_table(form: TableFormat, file: str, memory_limit: str | None) -> CountTensor:
    """Read back a file that `write_counts` made, onto the axes recorded with it."""
    known = form.axes_of(file)
    names = [axis.name for axis in known or []]
    with duckdb_errors(file), connected(memory_limit) as connection:
        columns = list(form.source(connection, [file], names).types)
    if known is None:
        raise LabelError(
            f"{file!r} has no axes recorded with it, so say which of its columns are the axes: "
            f"axes=[...]. It has the columns {listing(columns, 20)}."
        )
    check_columns(names, columns)
    values = [column for column in columns if column not in names]
    if len(values) != 1:
        raise FormatError(
            f"{file!r} must have one column besides the axes recorded with it; it has "
            f"{listing(values)}. Name the columns with axes= and value=."
        )
    return read_table(form, [file], names, values[0], {}, "error", memory_limit, known)


def read_table(
    form: TableFormat,
    files: list[str],
    names: list[str],
    value: str | EllipsisType | None,
    units: Mapping[str, str],
    repeated: str,
    memory_limit: str | None,
    known: Sequence[Axis] | None = None,
) -> CountTensor:
    """Group the rows of files by their labels; see `tallyfold.read_counts`."""
    shown = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
    with duckdb_errors(shown), connected(memory_limit) as connection:
        asked = [*names, *([value] if isinstance(value, str) else [])]
        source = form.source(connection, files, asked)
        column = checked_value(value, names, list(source.types))
        check_columns(asked, list(source.types))
        faults = row_faults(source, names, column, units, form.is_text)
        _group(connection, source, names, column, units, faults)
        n_cells, most, faulty = one_row(
            connection, "SELECT count(*), max(times), bool_or(faulty) FROM cells"
        )
        if n_cells == 0 and known is not None:
            return CountTensor(known, np.empty((0, len(names)), np.int32), np.empty(0, np.int64))
        if n_cells == 0:
            raise DataError(f"{shown} has no rows; a tensor needs at least one event.")
        if faulty:
            raise find_fault(connection, form, files, names, column, units)
        if repeated == "error" and most > 1:
            raise _repeated(connection, shown, len(names))
        axes, places = [], []
        for number, name in enumerate(names):
            labels = _distinct_labels(connection, number, name)
            if name in units:
                labels = time_labels(labels, units[name], name)
            elif form.is_text and known is None:
                labels = natural_labels(labels)
            axis, place = _axis_of(name, labels, known[number] if known else None)
            axes.append(axis)
            places.append(place)
        codes, counts = _fetch_cells(connection, len(names))
    columns = [place[code] for place, code in zip(places, codes, strict=True)]
    return tensor_from_rows(axes, columns, counts)


def _repeated(connection: Any, shown: str, n_axes: int) -> LabelError:
    columns = ", ".join(f"CAST(x{m} AS VARCHAR)" for m in range(n_axes))
    query = f"SELECT times, {columns} FROM cells WHERE times > 1 ORDER BY ALL LIMIT 5"
    rows = connection.execute(query).fetchall()
    cells = ", ".join(f"({', '.join(labels)}) {times:,} times" for times, *labels in rows)
    return LabelError(
        f"each cell must be given once (repeated='error'); {shown} gives {cells}. Use "
        "repeated='sum' to add up."
    )


def _group(
    connection: Any,
    source: Source,
    names: Sequence[str],
    value: str | None,
    units: Mapping[str, str],
    faults: Sequence[Fault],
) -> None:
    """Make the table ``cells`` (x0, x1, ..., n, times, faulty): one row per distinct cell."""
    labels = []
    for number, name in enumerate(names):
        label = source.columns[name]
        if name in units:
            label = f"date_trunc({literal(units[name])}, {time_of(source, name)})"
        labels.append(f"{label} AS x{number}")
    faulty = " OR ".join(f"({fault.condition})" for fault in faults) or "false"
    count = "1" if value is None else f"TRY_CAST({number_of(source, value)} AS BIGINT)"
    groups = ", ".join(f"x{number}" for number in range(len(names)))
    # One select names things, the next uses the names: a column of the file never gets in between.
    connection.execute(
        f"CREATE TEMP TABLE cells AS SELECT {groups}, sum(CASE WHEN fault THEN 0 ELSE one END) AS "
        f"n, count(*) AS times, bool_or(fault) AS faulty FROM (SELECT {', '.join(labels)}, "
        f"coalesce({faulty}, true) AS fault, {count} AS one FROM {source.sql}) GROUP BY {groups}"
    )


def _distinct_labels(connection: Any, number: int, name: str) -> pa.Array:
    """Give the labels of an axis codes, in a table ``labels_i`` (label, code), and return them."""
    connection.execute(
        f"CREATE TEMP TABLE labels_{number} AS SELECT label, row_number() OVER (ORDER BY label) - 1"
        f" AS code FROM (SELECT DISTINCT x{number} AS label FROM cells)"
    )
    query = f"SELECT label FROM labels_{number} ORDER BY code"
    labels = connection.sql(query).to_arrow_table().column(0)
    check_size(name, len(labels))
    return plain_labels(labels, axis=name)


def _axis_of(name: str, labels: pa.Array, known: Axis | None) -> tuple[Axis, Codes]:
    """Return the axis, and for each of DuckDB's codes the position on it."""
    if known is not None:
        return known, known.positions(_as_type(labels, known))
    order = sorted_order(labels)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return Axis.of_distinct(name, labels.take(pa.array(order))), place


def _as_type(labels: pa.Array, known: Axis) -> pa.Array:
    try:
        return labels.cast(known.labels.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FormatError(
            f"the labels of axis {known.name!r} do not fit the axes recorded with the file: "
            f"{str(error).splitlines()[0]}. Name the columns with axes= to read it as a plain "
            "table."
        ) from error


def natural_labels(texts: pa.Array) -> pa.Array:
    """Read labels as integers or dates if every one is written just as that would be written."""
    if _all_match(texts, r"^(0|-?[1-9][0-9]*)$"):
        with contextlib.suppress(pa.ArrowInvalid):  # too large for 64 bits: stays text
            return texts.cast(pa.int64())
    if _all_match(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"):
        with contextlib.suppress(pa.ArrowInvalid):  # no such day: stays text
            return texts.cast(pa.date32())
    return texts


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _fetch_cells(connection: Any, n_axes: int) -> tuple[list[Codes], npt.NDArray[np.int64]]:
    """Fetch each cell's codes and count, batch by batch; labels stay behind in DuckDB."""
    n_cells, largest = one_row(connection, "SELECT count(*), max(n) FROM cells")
    if largest > MAX_COUNT:
        raise CountError(
            "some cells have rows whose counts add up past 2**53 - 1, which is not exact in "
            "floating point. Use a coarser unit."
        )
    joins = " ".join(f"JOIN labels_{m} ON cells.x{m} = labels_{m}.label" for m in range(n_axes))
    wanted = ", ".join(f"CAST(labels_{m}.code AS INTEGER)" for m in range(n_axes))
    query = f"SELECT {wanted}, CAST(n AS BIGINT) FROM cells {joins}"
    codes = [np.empty(n_cells, np.int32) for _ in range(n_axes)]
    counts = np.empty(n_cells, np.int64)
    start = 0
    for batch in connection.sql(query).to_arrow_reader(1_000_000):
        stop = start + batch.num_rows
        for m in range(n_axes):
            codes[m][start:stop] = batch.column(m).to_numpy()
        counts[start:stop] = batch.column(n_axes).to_numpy()
        start = stop
    return codes, counts
