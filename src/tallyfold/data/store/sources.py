"""What stores are made of: a tensor, a file that holds one, or tables that DuckDB groups."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.formats import sql
from tallyfold.data.formats.files import form_of, read_counts, resolved_files
from tallyfold.data.formats.grouping import check_groups
from tallyfold.data.formats.packed import check_packed
from tallyfold.data.formats.table import (
    TableFormat,
    grouped_rows,
    line_too_long,
    shown_files,
)
from tallyfold.data.request import Request
from tallyfold.data.store.coding import code_cells, filter_cells, written_axis
from tallyfold.data.store.manifest import MANIFEST, is_store
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError

Coded = tuple[list[Axis], list[Dropped], str | None]
WRITING = ("no space", "too large", "quota", "could not write", "failed to write", "fsync")
"""Words of DuckDB's complaints that it could not write."""


class Counts:
    """What a store is made of: puts the table ``coded`` into a database."""

    files: Sequence[str] = ()
    shown = ""

    def group(self, connection: Any) -> list[Dropped]:
        """Group rows; return what was left out."""
        return []

    def code(self, connection: Any, building: Path) -> Coded:
        """Make ``coded``, and label files; return axes, what was left out, and the part."""
        raise NotImplementedError


class TensorCounts(Counts):
    """A tensor."""

    def __init__(self, tensor: CountTensor) -> None:
        self.tensor = tensor

    def code(self, connection: Any, building: Path) -> Coded:
        """Make ``coded``, and label files; return axes, what was left out, and the part."""
        tensor = self.tensor
        columns = {f"x{m}": tensor.indices[:, m] for m in range(len(tensor.axes))}
        connection.register("own", pa.table(columns | {"n": tensor.counts}))
        connection.execute("CREATE OR REPLACE TABLE coded AS SELECT * FROM own")
        connection.unregister("own")
        axes = [written_axis(axis, building, m) for m, axis in enumerate(tensor.axes)]
        part = None if tensor.part is None else tensor.part.to_text()
        return axes, list(tensor.dropped), part


class WholeFile(Counts):
    """A file, or a store, that holds a tensor: it is read when it is needed."""

    def __init__(self, files: Sequence[str], source: Any, reading: Mapping[str, Any]) -> None:
        self.files, self.source, self.reading = files, source, reading

    def code(self, connection: Any, building: Path) -> Coded:
        """Make ``coded``, and label files; return axes, what was left out, and the part."""
        tensor = read_counts(self.source, **self.reading)
        return TensorCounts(tensor).code(connection, building)


class Tables(Counts):
    """Files of events or counts, grouped by DuckDB."""

    def __init__(self, form: TableFormat, files: list[str], reading: Mapping[str, Any]) -> None:
        self.form, self.files, self.shown = form, files, shown_files(files)
        names = ("axes", "value", "bins", "repeated", "missing", "bad", "tz", "ordered")
        self.request = Request.checked(*(reading[name] for name in names))
        self.filters = {name: reading[name] or {} for name in ("min_nonzeros", "top")}

    def group(self, connection: Any) -> list[Dropped]:
        """Group rows; return what was left out."""
        check_packed(self.files)
        try:
            return self._group(connection)
        except FormatError as error:
            if not line_too_long(self.form, error):
                raise
        self.form = self.form.with_longer_lines()
        return self._group(connection)

    def _group(self, connection: Any) -> list[Dropped]:
        connection.execute("DROP TABLE IF EXISTS cells")
        with sql.duckdb_errors(self.shown), writing_errors():
            source = self.form.source(connection, list(self.files), self.request.wanted)
            request = self.request.of_table([*source.types])
            made = (connection, self.form, list(self.files), source, request, "TABLE")
            grouped, dropped = grouped_rows(*made)
            check_groups(connection, grouped, request, self.shown)
        return dropped

    def code(self, connection: Any, building: Path) -> Coded:
        """Make ``coded``, and label files; return axes, what was left out, and the part."""
        with sql.duckdb_errors(self.shown), writing_errors():
            source = self.form.source(connection, list(self.files), self.request.wanted)
        request = self.request.of_table([*source.types])
        axes, dropped = code_cells(connection, request, building, is_text=self.form.is_text)
        if any(self.filters.values()):
            axes, more = filter_cells(connection, axes, building, **self.filters)
            dropped += more
        connection.execute("DROP TABLE cells")
        return axes, dropped, None


def counts_of_files(source: Any, reading: Mapping[str, Any]) -> Counts:
    """Tell tables, which DuckDB groups, from files that hold a tensor."""
    if is_store(source):
        return WholeFile([os.path.join(source, MANIFEST)], source, reading)
    files, _ = resolved_files(source)
    form = form_of(files, reading["delimiter"])
    if isinstance(form, TableFormat) and reading["axes"] is not None:
        return Tables(form, files, reading)
    return WholeFile(files, files, reading)


@contextlib.contextmanager
def writing_errors() -> Iterator[None]:
    """Let what DuckDB could not write through as it is, past what names the files that are read."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        if any(word in str(error).lower() for word in WRITING):
            raise Unwritten(str(error)) from error
        raise


class Unwritten(Exception):
    """DuckDB could not write."""
