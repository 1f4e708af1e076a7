"""The rows of a query as they are, with all columns, some at a time."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from typing import Any

import pyarrow as pa

from tallyfold.data.axis import Axis, listing
from tallyfold.data.labels import columns_for
from tallyfold.data.query.databases import answer_to
from tallyfold.data.request import check_columns
from tallyfold.errors import DataError, LabelError


def query_rows(
    connection_or_uri: str | os.PathLike[str] | Any, sql: str, columns: Sequence[str | Axis]
) -> Generator[pa.Table, None, None]:
    """Yield the rows that a database answers to a query, in their order, as Arrow tables.

    Close it if it is not read to its end: the query is open until then.

    Parameters
    ----------
    connection_or_uri, sql
        As in `read_query`.
    columns
        Columns that must be there; all others are kept, too. An axis stands for the column that
        its times were cut from, or its own.

    Examples
    --------
    >>> import sqlite3
    >>> connection = sqlite3.connect(":memory:")
    >>> sql = "SELECT 'ann' AS who, 'call' AS what, 3 AS note"
    >>> [table.to_pydict() for table in query_rows(connection, sql, ["who", "what"])]
    [{'who': ['ann'], 'what': ['call'], 'note': [3]}]
    >>> connection.close()
    """
    with answer_to(sql, connection_or_uri, None, None) as answer:
        names, empty = list(answer.names), True
        check_columns(columns_for(columns, names), names)
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise LabelError(
                f"the query must give each column a name of its own; it gives {listing(twice)} "
                "more than once. Rename them with AS."
            )
        for batch in answer.batches:
            empty = False
            yield pa.Table.from_batches([batch]).rename_columns(names)
        if empty:
            raise DataError("the query gives no rows; there is nothing to predict.")
