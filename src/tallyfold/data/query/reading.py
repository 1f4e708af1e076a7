"""Counts from the answer of a database to a query."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import check_present, listing, plain_type
from tallyfold.data.bins import floor_times
from tallyfold.data.cells import whole_counts
from tallyfold.data.formats.grouping import group_batches, tensor_of_groups
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.query.databases import answer_to
from tallyfold.data.request import Request
from tallyfold.data.tensor import BinUnit, CountTensor, Repeated
from tallyfold.errors import CountError, DataError, LabelError, ParameterError

_TYPE_KEYS = (b"tallyfold:type", b"POSTGRESQL:type", b"ADBC:postgresql:typname")


def read_query(
    connection_or_uri: str | os.PathLike[str] | Any,
    sql: str,
    axes: Sequence[str],
    value: str | EllipsisType | None = ...,
    *,
    repeated: Repeated = "sum",
    bins: Mapping[str, BinUnit] | None = None,
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
        of a SQLite or DuckDB file, or an open connection: of DuckDB, of ADBC, or any other that
        follows Python's DB-API. A connection of yours stays open, its transaction yours; one that
        was opened here changes nothing in the database and is closed.
    sql
        One query, such as ``"SELECT who, what FROM events"``.
    axes, value, repeated, bins, min_nonzeros, top
        As in `read_counts`; columns are those of the answer.
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
    request = Request.checked(axes, value, bins, repeated)
    if not isinstance(sql, str) or not sql.strip():
        raise ParameterError(f"`sql` must be a query such as 'SELECT ...'; got {sql!r}.")
    with answer_to(sql, connection_or_uri, request.columns, memory_limit) as answer:
        request = _checked_columns(answer.names, request)
        with duckdb_errors("the query"), connected(memory_limit) as connection:
            batches = checked_batches(answer.batches, request)
            grouped = group_batches(connection, batches, len(request.axes))
            if grouped is None:
                raise DataError("the query gives no rows; a tensor needs at least one event.")
            tensor = tensor_of_groups(connection, grouped, request, "the query", is_text=False)
    return tensor.filter(min_nonzeros=min_nonzeros, top=top)


def _checked_columns(names: Sequence[str], request: Request) -> Request:
    """Decide on the column of counts; refuse columns the answer lacks or has twice."""
    if not names:
        raise ParameterError("`sql` must be a query that gives rows; it gives no columns.")
    request = request.of_table(names)
    twice = [name for name in request.columns if names.count(name) > 1]
    if twice:
        raise LabelError(
            f"the query must give each column a name of its own; it gives {listing(twice)} more "
            "than once. Rename them with AS."
        )
    return request


def checked_batches(
    batches: Iterator[pa.RecordBatch], request: Request
) -> Iterator[pa.RecordBatch]:
    """Yield batches of columns k0, k1, ... (labels) and n (counts, if there is a column of them).

    Raises
    ------
    LabelError, CountError
        At the first batch with a row that cannot be used; rows are counted from 0. If it is not
        the last, the message says how many rows were looked at.
    """
    first_row = 0
    for batch in batches:
        try:
            checked = _checked_batch(batch, request, first_row)
        except (LabelError, CountError) as error:
            if next(batches, None) is None:  # what was counted is all there is
                raise
            seen = f"{first_row + batch.num_rows:,}"
            raise type(error)(
                f"{error} (Seen in the first {seen} rows; none was read after them.)"
            ) from None
        yield checked
        first_row += batch.num_rows


def _checked_batch(batch: pa.RecordBatch, request: Request, first_row: int) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for number, name in enumerate(request.columns):
        field, values = batch.schema.field(number), batch.column(number)
        if name == request.count_column:
            columns["n"] = pa.array(_counts(field, values, name, first_row))
        else:
            unit = request.bins.get(name)
            columns[f"k{number}"] = _labels(field, values, name, unit, first_row)
    return pa.record_batch(columns)


def _labels(
    field: pa.Field, values: pa.Array, name: str, unit: str | None, first_row: int
) -> pa.Array:
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
    check_present(values, name, "row", first_row)
    return values if unit is None else floor_times(values, unit, name, first_row)


def _counts(field: pa.Field, values: pa.Array, name: str, first_row: int) -> npt.NDArray[np.int64]:
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
    return whole_counts(values, name=repr(name), first_row=first_row, spelled=spelled)


def _extension(field: pa.Field) -> str:
    """Return the name of an Arrow extension type, of which older versions know some as metadata."""
    known = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return str(getattr(field.type, "extension_name", known))


def _type_name(field: pa.Field) -> str:
    """Return what the database calls a column's type, where it says so; else an empty text."""
    known = field.metadata or {}
    return next((known[key].decode() for key in _TYPE_KEYS if key in known), "")
