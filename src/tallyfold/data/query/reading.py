"""Counts from the answer of a database to a query."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

from tallyfold.data.axis import listing
from tallyfold.data.bins import checked_bins
from tallyfold.data.events import (
    check_columns,
    checked_axis_names,
    checked_value,
    tensor_from_rows,
)
from tallyfold.data.formats.grouping import coded_cells, repeated_cells
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.query.answer import Answer
from tallyfold.data.query.columns import coded_batches
from tallyfold.data.query.databases import opened_database
from tallyfold.data.query.feed import group_batches
from tallyfold.data.tensor import BinUnit, CountTensor, Repeated
from tallyfold.errors import DataError, LabelError, ParameterError


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
    names = checked_axis_names(axes)
    units = checked_bins(bins, names)
    if repeated not in ("sum", "error"):
        raise ParameterError(f"`repeated` must be 'sum' or 'error'; got {repeated!r}.")
    if not isinstance(sql, str) or not sql.strip():
        raise ParameterError(f"`sql` must be a query such as 'SELECT ...'; got {sql!r}.")
    with (
        opened_database(connection_or_uri, memory_limit) as database,
        database.asked(sql) as answer,
    ):
        column = _checked_columns(answer, names, value)
        tensor = _grouped(answer, names, column, units, repeated, memory_limit)
    return tensor.filter(min_nonzeros=min_nonzeros, top=top)


def _checked_columns(
    answer: Answer, names: Sequence[str], value: str | EllipsisType | None
) -> str | None:
    """Settle the column of counts; refuse columns the answer lacks or has twice."""
    if not answer.names:
        raise ParameterError("`sql` must be a query that gives rows; it gives no columns.")
    column = checked_value(value, names, answer.names)
    wanted = [*names, *([column] if column is not None else [])]
    check_columns(wanted, answer.names)
    twice = [name for name in wanted if answer.names.count(name) > 1]
    if twice:
        raise LabelError(
            f"the query must give each column a name of its own; it gives {listing(twice)} more "
            "than once. Rename them with AS."
        )
    return column


def _grouped(
    answer: Answer,
    names: Sequence[str],
    value: str | None,
    units: Mapping[str, str],
    repeated: str,
    memory_limit: str | None,
) -> CountTensor:
    shown = "the query"
    with duckdb_errors(shown), connected(memory_limit) as connection:
        batches = coded_batches(answer, names, value, units)
        grouped = group_batches(connection, batches, names, value)
        if grouped is None or grouped.cells == 0:
            raise DataError("the query gives no rows; a tensor needs at least one event.")
        if repeated == "error" and grouped.most_rows > 1:
            raise repeated_cells(connection, shown, len(names))
        axes, codes, counts = coded_cells(connection, names, units, is_text=False)
    return tensor_from_rows(axes, codes, counts)
