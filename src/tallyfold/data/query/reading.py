"""Counts from the answer of a database to a query."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, listing, plain_type
from tallyfold.data.axis_order import Ordered
from tallyfold.data.bad_rows import BadRows
from tallyfold.data.bins import bin_starts
from tallyfold.data.cells import whole_counts
from tallyfold.data.formats.grouping import group_batches, tensor_of_groups
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.missing import MissingRows, check_present
from tallyfold.data.problems import Problems, RowNumbers
from tallyfold.data.query.databases import answer_to
from tallyfold.data.request import Request
from tallyfold.data.tensor import Bad, CountTensor, Missing, Repeated
from tallyfold.data.time_units import Bins
from tallyfold.errors import CountError, DataError, LabelError, ParameterError

_TYPE_KEYS = (b"tallyfold:type", b"POSTGRESQL:type", b"ADBC:postgresql:typname")


def read_query(
    connection_or_uri: str | os.PathLike[str] | Any,
    sql: str,
    axes: Sequence[str | Axis],
    value: str | EllipsisType | None = ...,
    *,
    repeated: Repeated | None = None,
    missing: Missing = "error",
    bad: Bad = "error",
    bins: Bins | None = None,
    tz: str | None = None,
    ordered: Ordered | None = None,
    min_nonzeros: Mapping[str, int] | None = None,
    top: Mapping[str, int] | None = None,
    memory_limit: str | None = None,
) -> CountTensor:
    """Read counts, or count events, from what a database answers to a query.

    The answer is grouped while it comes in, so only the counts have to fit in memory, not the
    rows. PostgreSQL and SQLite need ``pip install tallyfold[sql]``.

    Parameters
    ----------
    connection_or_uri
        ``postgresql://user@host/name``, ``sqlite:///file.db``, ``duckdb:///file.duckdb``, the path
        of a SQLite or DuckDB file, ``":memory:"`` for a DuckDB that reads the files which the query
        names (``FROM 'ratings.csv'``), or an open connection: of DuckDB, of ADBC, or any other that
        follows Python's DB-API. A connection of yours stays open, its transaction yours; one that
        was opened here changes nothing in the database and is closed.
    sql
        One query, such as ``"SELECT who, what FROM events"``.
    axes, value, repeated, missing, bad, bins, tz, ordered, min_nonzeros, top
        As in `read_counts`; columns are those of the answer. The last row is the last that the
        database gives: its order is decided by ``ORDER BY`` only.
    memory_limit
        How much memory grouping may use before it spills to disk, such as ``"2GB"``.

    Examples
    --------
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> _ = connection.execute("CREATE TABLE events (who TEXT, what TEXT)")
    >>> rows = [("ann", "call"), ("bob", "mail"), ("ann", "call")]
    >>> _ = connection.executemany("INSERT INTO events VALUES (?, ?)", rows)
    >>> read_query(connection, "SELECT * FROM events", axes=["who", "what"]).total
    3
    >>> connection.close()
    """
    request = Request.checked(axes, value, bins, repeated, missing, bad, tz, ordered)
    if not isinstance(sql, str) or not sql.strip():
        raise ParameterError(f"`sql` must be a query such as 'SELECT ...'; got {sql!r}.")
    with answer_to(sql, connection_or_uri, request.columns, memory_limit) as answer:
        request = _checked_columns(answer.names, request)
        with duckdb_errors("the query"), connected(memory_limit) as connection:
            left_out = MissingRows(), BadRows()
            batches = checked_batches(answer.batches, request, *left_out)
            grouped = group_batches(connection, batches, request)
            if grouped is None:
                raise DataError("the query gives no rows; a tensor needs at least one event.")
            for each in left_out:
                each.check_some_left(grouped.cells)
            dropped = [record for each in left_out for record in each.records()]
            tensor = tensor_of_groups(
                connection, grouped, request, "the query", is_text=False, dropped=dropped
            )
    return tensor.filter(min_nonzeros=min_nonzeros, top=top)


def _checked_columns(names: Sequence[str], request: Request) -> Request:
    """Decide on the column of counts; refuse columns the answer lacks or has twice."""
    if not names:
        raise ParameterError("`sql` must be a query that gives rows; it gives no columns.")
    request = request.of_table(names, own=False)
    twice = [name for name in request.columns if names.count(name) > 1]
    if twice:
        raise LabelError(
            f"the query must give each column a name of its own; it gives {listing(twice)} more "
            "than once. Rename them with AS."
        )
    return request


def checked_batches(
    batches: Iterator[pa.RecordBatch], request: Request, missing: MissingRows, bad: BadRows
) -> Iterator[pa.RecordBatch]:
    """Yield batches of columns k0, k1, ... (labels) and n (counts, if there is a column of them).

    Rows that lack something, if they are to be dropped, are counted in `missing`, those that hold
    something bad in `bad`. With ``repeated="last"`` there is a column place, too: the numbers of
    the rows.

    Raises
    ------
    DataError
        At the end, if any row cannot be used; rows are counted from 0.
    """
    first_row, problems = 0, Problems()
    for whole in batches:
        batch, rows = whole, RowNumbers(first_row)
        if request.missing == "drop":
            kept = missing.kept(zip(request.columns, whole.columns, strict=True))
            batch, rows = whole.filter(pa.array(kept)), RowNumbers(first_row, np.flatnonzero(kept))
        if request.bad == "drop":
            fine = _fine_rows(batch, request, bad)
            rows = RowNumbers(0, rows.of(np.flatnonzero(fine)))
            batch = batch.filter(pa.array(fine))
        checked = _checked_batch(batch, request, rows, problems)
        if not problems:
            yield checked
        first_row += whole.num_rows
    problems.raise_all()


def _fine_rows(batch: pa.RecordBatch, request: Request, bad: BadRows) -> npt.NDArray[np.bool_]:
    """Note the rows with bad times or counts; return the others, as a mask."""
    columns, spelled = [], False
    for name, field, values in zip(request.columns, batch.schema, batch.columns, strict=True):
        if name == request.count_column:
            values, spelled = _numbers(field, values, name)
        columns.append((name, values))
    return bad.kept(columns, request, spelled)


def _checked_batch(
    batch: pa.RecordBatch, request: Request, rows: RowNumbers, problems: Problems
) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for number, axis in enumerate(request.axes):
        place = request.columns.index(request.column_of(axis))
        given = batch.schema.field(place), batch.column(place)
        columns[f"k{number}"] = _labels(*given, axis, request, rows, problems)
    if (name := request.count_column) is not None:
        counts = _counts(batch.schema.field(-1), batch.column(-1), name, rows, problems)
        columns["n"] = pa.array(counts)
    if problems:
        return batch
    if request.repeated == "last":
        columns["place"] = pa.array(rows.of(np.arange(batch.num_rows)))
    return pa.record_batch(columns)


def _labels(
    field: pa.Field,
    values: pa.Array,
    axis: str,
    request: Request,
    rows: RowNumbers,
    problems: Problems,
) -> pa.Array:
    name = request.column_of(axis)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind, extension = _type_name(field), _extension(field)
    if extension == "arrow.json":
        values = values.storage if isinstance(values, pa.ExtensionArray) else values
    elif extension != "arrow.uuid":  # which DuckDB knows
        try:
            if extension or kind in ("numeric", "money"):
                raise LabelError(kind)
            plain_type(values.type, name)
        except LabelError:
            raise LabelError(
                f"labels of axis {name!r} must be text, numbers, booleans, dates or times; the "
                f"query gives values of type {kind or values.type}. Turn them into one of these in "
                f"the query, for example CAST({name} AS text)."
            ) from None
    if request.missing != "label":
        check_present(values, name, "row", rows, problems)
    elif pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    order = request.bins.get(axis)
    return values if order is None else bin_starts(values, order, name, rows, problems)


def _counts(
    field: pa.Field, values: pa.Array, name: str, rows: RowNumbers, problems: Problems
) -> npt.NDArray[np.int64]:
    numbers, spelled = _numbers(field, values, name)
    return whole_counts(numbers, name=repr(name), rows=rows, spelled=spelled, problems=problems)


def _numbers(field: pa.Field, values: pa.Array, name: str) -> tuple[pa.Array, bool]:
    """Return the column of counts, and whether it is texts that spell numbers."""
    kind, spelled = _type_name(field), False
    if kind == "numeric" and not pa.types.is_decimal(values.type):
        values = values.storage if isinstance(values, pa.ExtensionArray) else values
        spelled = True
    if kind == "money" or isinstance(values, pa.ExtensionArray):
        raise CountError(
            f"{name!r} must be numbers; the query gives values of type {kind or values.type} "
            "there. Turn them into numbers in the query, for example "
            f"CAST({name} AS numeric), or use value=None to count rows."
        )
    return values, spelled


def _extension(field: pa.Field) -> str:
    """Return the name of an Arrow extension type, of which older versions know some as metadata."""
    known = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return str(getattr(field.type, "extension_name", known))


def _type_name(field: pa.Field) -> str:
    """Return what the database calls a column's type, where it says so; else an empty text."""
    known = field.metadata or {}
    return next((known[key].decode() for key in _TYPE_KEYS if key in known), "")
