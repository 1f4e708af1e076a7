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
from tallyfold.data.encode import sorted_order
from tallyfold.data.events import check_columns, checked_value, tensor_from_rows
from tallyfold.data.formats.faults import Fault, find_fault, is_number, row_faults
from tallyfold.data.formats.sql import connected, duckdb_errors, literal, one_row, quoted
from tallyfold.data.formats.writing import Targets
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, FormatError, LabelError

Codes = npt.NDArray[np.int32]


class Source(NamedTuple):
    """A table in DuckDB's words: an expression to select from, and its columns with types."""

    sql: str
    columns: dict[str, str]


class TableFormat(Protocol):
    """How one kind of table file is read and written."""

    is_text: bool
    has_axes_file: bool
    first_row: int  # the line, or row, of a file's first row of data, for error messages
    row_word: str

    def source(self, connection: Any, files: list[str]) -> Source:
        """Describe files of this kind to DuckDB."""

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes that `write_counts` recorded with a file, if it did."""

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write a tensor."""


def read_own_table(form: TableFormat, file: str, memory_limit: str | None) -> CountTensor:
    """Read back a file that `write_counts` made, onto the axes recorded with it."""
    with duckdb_errors(file), connected(memory_limit) as connection:
        columns = list(form.source(connection, [file]).columns)
        known = form.axes_of(file)
    if known is None:
        raise LabelError(
            f"{file!r} has no axes recorded with it, so say which of its columns are the axes: "
            f"axes=[...]. It has the columns {listing(columns, 20)}."
        )
    names = [axis.name for axis in known]
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
        source = form.source(connection, files)
        column = checked_value(value, names, list(source.columns))
        check_columns([*names, *([column] if column else [])], list(source.columns))
        faults = row_faults(source.columns, names, column, units, form.is_text)
        _group(connection, source, names, column, units, faults)
        if one_row(connection, "SELECT count(*) FROM cells")[0] == 0:
            raise DataError(f"{shown} has no rows; a tensor needs at least one event.")
        if one_row(connection, "SELECT bool_or(faulty) FROM cells")[0]:
            raise find_fault(connection, form, files, faults)
        axes, places = [], []
        for number, name in enumerate(names):
            labels = _distinct_labels(connection, number, name)
            if name in units:
                labels = time_labels(labels, units[name])
            elif form.is_text and known is None:
                labels = natural_labels(labels)
            axis, place = _axis_of(name, labels, known[number] if known else None)
            axes.append(axis)
            places.append(place)
        codes, counts, most = _fetch_cells(connection, len(names))
    columns = [place[code] for place, code in zip(places, codes, strict=True)]
    if repeated == "error" and most > 1:
        raise LabelError(
            f"each cell must be given once (repeated='error'); {shown} gives some cell {most:,} "
            "times. Use repeated='sum' to add up."
        )
    return tensor_from_rows(axes, columns, counts)


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
        column = quoted(name)
        if name in units:
            time = f"TRY_CAST({column} AS TIMESTAMP)"
            if "WITH TIME ZONE" in source.columns[name]:
                time = f"({column} AT TIME ZONE 'UTC')"
            column = f"date_trunc({literal(units[name])}, {time})"
        labels.append(f"{column} AS x{number}")
    faulty = " OR ".join(f"({fault.condition})" for fault in faults) or "false"
    count = "1" if value is None else f"CAST({is_number(quoted(value))} AS BIGINT)"
    groups = ", ".join(f"x{number}" for number in range(len(names)))
    connection.execute(
        f"CREATE TEMP TABLE cells AS SELECT {groups}, sum(one) AS n, count(*) AS times, "
        f"bool_or(fault) AS faulty FROM (SELECT {', '.join(labels)}, coalesce({faulty}, true) AS "
        f"fault, CASE WHEN fault THEN 0 ELSE {count} END AS one FROM {source.sql}) "
        f"GROUP BY {groups}"
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


def _fetch_cells(connection: Any, n_axes: int) -> tuple[list[Codes], npt.NDArray[np.int64], int]:
    """Fetch each cell's codes and count, batch by batch; labels stay behind in DuckDB."""
    n_cells, most, largest = one_row(connection, "SELECT count(*), max(times), max(n) FROM cells")
    if largest > 2**53:
        raise DataError(
            "some cells have rows whose counts add up past 2**53, which is not exact in floating "
            "point. Use a coarser unit."
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
    return codes, counts, int(most)
