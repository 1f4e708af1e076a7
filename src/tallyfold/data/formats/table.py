"""Tables of events or counts, grouped by DuckDB without being loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tallyfold.data.axis import Axis, listing
from tallyfold.data.formats.faults import find_fault, row_faults
from tallyfold.data.formats.grouping import group_rows, tensor_of_groups
from tallyfold.data.formats.sql import Source, connected, duckdb_errors
from tallyfold.data.formats.writing import (
    Targets,
    label_tables,
    read_axes_file,
    write_axes_file,
    write_tables,
)
from tallyfold.data.request import Request, check_columns
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError, LabelError


class TableFormat:
    """How one kind of table file is read and written.

    Unless a kind says otherwise, it is text: its cells plain, and the axes in a file beside them.
    """

    ending: str
    is_text = True
    has_axes_file = True

    def source(self, connection: Any, files: list[str], wanted: Sequence[str]) -> Source:
        """Describe files of this kind, and their wanted columns, to DuckDB."""
        raise NotImplementedError

    def places(self, file: str, rows: list[int]) -> list[str]:
        """Say where in a file rows are that are numbered from 1."""
        raise NotImplementedError

    def axes_of(self, file: str) -> list[Axis] | None:
        """Read the axes that `write_counts` recorded with a file, if it did."""
        return read_axes_file(file)

    def write(self, tensor: CountTensor, targets: Targets, value: str) -> None:
        """Write the cells; as text, integer labels as numbers, all others as text."""
        write_tables(label_tables(tensor, value, as_text=True), targets.file, self.ending)
        write_axes_file(tensor.axes, targets)


def named_lines(rows: list[int], lines: Mapping[int, int]) -> list[str]:
    """Name the lines of rows, and rows whose line is not known by their number."""
    return [f"line {lines[row]}" if row in lines else f"row {row}" for row in rows]


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
    return read_table(form, [file], Request(names, values[0], {}, "error"), memory_limit, known)


def read_table(
    form: TableFormat,
    files: list[str],
    request: Request,
    memory_limit: str | None,
    known: Sequence[Axis] | None = None,
) -> CountTensor:
    """Group the rows of files by their labels; see `tallyfold.read_counts`."""
    shown = shown_files(files)
    with duckdb_errors(shown), connected(memory_limit) as connection:
        source = form.source(connection, files, request.columns)
        request = request.of_table(list(source.types))
        faults = row_faults(source, request, form.is_text)
        grouped = group_rows(connection, source, request, faults)
        if grouped.faulty:
            raise find_fault(connection, form, files, request)
        return tensor_of_groups(
            connection, grouped, request, shown, is_text=form.is_text, known=known
        )


def shown_files(files: Sequence[str]) -> str:
    """Name files in a message: the first, and how many more there are."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
