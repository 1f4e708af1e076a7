"""Tables of events or counts, grouped by DuckDB without being loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any, NamedTuple, Protocol

import numpy as np

from tallyfold.data.axis import Axis, listing
from tallyfold.data.events import check_columns, checked_value, tensor_from_rows
from tallyfold.data.formats.faults import find_fault, row_faults
from tallyfold.data.formats.grouping import coded_cells, group_rows, repeated_cells
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.formats.writing import Targets
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, FormatError, LabelError


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
        grouped = group_rows(connection, source, names, column, units, faults)
        if grouped.cells == 0 and known is not None:
            return CountTensor(known, np.empty((0, len(names)), np.int32), np.empty(0, np.int64))
        if grouped.cells == 0:
            raise DataError(f"{shown} has no rows; a tensor needs at least one event.")
        if grouped.faulty:
            raise find_fault(connection, form, files, names, column, units)
        if repeated == "error" and grouped.most_rows > 1:
            raise repeated_cells(connection, shown, len(names))
        axes, codes, counts = coded_cells(
            connection, names, units, is_text=form.is_text, known=known
        )
    return tensor_from_rows(axes, codes, counts)
