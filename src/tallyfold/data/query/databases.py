"""Databases that can be asked: those that are opened here, and connections of the caller."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tallyfold.data.formats.grouping import result_of
from tallyfold.data.formats.sql import connected, quoted
from tallyfold.data.packages import imported
from tallyfold.data.query.answer import (
    ROWS_AT_A_TIME,
    WANTED,
    Address,
    Answer,
    arrow_answer,
    opening_errors,
    parsed_address,
    query_errors,
)
from tallyfold.data.query.rows import ask_rows
from tallyfold.errors import FormatError, LabelError, ParameterError

BATCH_BYTES = 2 * 2**20
"""Of PostgreSQL, whose driver would gather eight times as much."""

REMEDIES = {
    "PostgreSQL": "See that the server runs and can be reached, and that user, password and name "
    "are right.",
    "SQLite": "See that it is a database and can be read.",
    "DuckDB": "If it is open elsewhere, close it there, or give the open connection instead.",
}
"""What to do if a database cannot be opened."""


@contextlib.contextmanager
def answer_to(
    sql: str, target: Any, wanted: Sequence[str] | None, memory_limit: str | None
) -> Iterator[Answer]:
    """Ask the database that an address names, closed afterwards, or a connection that is open."""
    with contextlib.ExitStack() as stack:
        connection, is_ours = target, isinstance(target, str | os.PathLike)
        if is_ours:
            address = parsed_address(target)
            error = ParameterError if address.kind == "PostgreSQL" else FormatError
            with opening_errors(address.location, error, REMEDIES[address.kind]):
                connection = stack.enter_context(_opened(address, memory_limit))
        yield stack.enter_context(_asked(connection, sql, wanted, is_ours))


def _opened(address: Address, memory_limit: str | None) -> AbstractContextManager[Any]:
    kind, location = address
    if kind == "DuckDB":
        return connected(memory_limit, location)
    module = f"adbc_driver_{kind.lower()}.dbapi"
    driver = imported(module, f"reading from {kind}", "tallyfold[sql]")
    if kind == "SQLite":
        location = Path(location).resolve().as_uri() + "?mode=ro"
    return contextlib.closing(driver.connect(location))


def _asked(
    connection: Any, sql: str, wanted: Sequence[str] | None, is_ours: bool
) -> AbstractContextManager[Answer]:
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(connection, duckdb.DuckDBPyConnection):
        return _ask_duckdb(connection, sql, wanted)
    if hasattr(connection, "adbc_get_info"):
        with query_errors():
            vendor = str(connection.adbc_get_info().get("vendor_name"))
        if vendor == "SQLite":
            return _ask_sqlite(connection, sql, wanted)
        return _ask_adbc(connection, sql, wanted, vendor, is_ours)
    if callable(getattr(connection, "cursor", None)):
        return ask_rows(connection, sql, wanted)
    raise ParameterError(
        f"{WANTED}; got {type(connection).__name__}. SQLAlchemy's engines have one: "
        "engine.raw_connection()."
    )


@contextlib.contextmanager
def _ask_duckdb(connection: Any, sql: str, wanted: Sequence[str] | None) -> Iterator[Answer]:
    with query_errors():
        relation = connection.sql(sql)
        if relation is None:
            raise ParameterError(f"`sql` must be a query that gives rows; got {sql!r}.")
        reader = relation.to_arrow_reader(ROWS_AT_A_TIME)
    with contextlib.closing(reader):
        yield arrow_answer(reader.schema, reader.read_next_batch, wanted)


@contextlib.contextmanager
def _ask_adbc(
    connection: Any, sql: str, wanted: Sequence[str] | None, vendor: str, cancel: bool
) -> Iterator[Answer]:
    options = {}
    if vendor == "PostgreSQL":
        options["adbc.postgresql.batch_size_hint_bytes"] = str(BATCH_BYTES)
        sql = sql.strip().rstrip(";") + "\n"  # the driver puts it between brackets
    with _adbc_reader(connection, sql, options, cancel=cancel) as (schema, next_batch):
        yield arrow_answer(schema, next_batch, wanted)


@contextlib.contextmanager
def _adbc_reader(
    connection: Any, sql: str, options: dict[str, str], *, cancel: bool = False
) -> Iterator[tuple[pa.Schema, Callable[[], pa.RecordBatch]]]:
    """Run a query in another thread: there the driver leaves Ctrl-C to us.

    With `cancel`, a query that is given up halfway is cancelled, else read to its end.
    """
    with contextlib.ExitStack() as stack:
        with query_errors():
            cursor = stack.enter_context(connection.cursor())
            cursor.adbc_statement.set_options(**options)
            pool = stack.enter_context(ThreadPoolExecutor(1, "tallyfold-reading"))
            _called(pool, cursor, lambda: cursor.execute(sql))
            reader = cursor.fetch_record_batch()
        stack.callback(reader.close)
        stack.callback(pool.shutdown)  # first: nobody reads any more
        try:
            yield reader.schema, lambda: _called(pool, cursor, reader.read_next_batch)
        except BaseException:
            if cancel:
                _cancel(cursor)
            raise


def _called(pool: ThreadPoolExecutor, cursor: Any, call: Callable[[], Any]) -> Any:
    try:
        return result_of(pool.submit(call))
    except KeyboardInterrupt:
        _cancel(cursor)
        raise


def _cancel(cursor: Any) -> None:
    """Ask the database to give up; some drivers cannot."""
    with contextlib.suppress(Exception):
        cursor.adbc_cancel()


@contextlib.contextmanager
def _ask_sqlite(connection: Any, sql: str, wanted: Sequence[str] | None) -> Iterator[Answer]:
    """Ask SQLite, a column of which may hold values of several types.

    The driver would write numbers among texts as texts, so it is asked for the types, too.
    """
    inner = f"({sql.strip().rstrip(';')}\n)"
    with _adbc_reader(connection, f"SELECT * FROM {inner} LIMIT 0", {}) as (schema, _):
        inside = list(schema.names)
    names = _outside(inside)
    wanted = names if wanted is None else wanted
    columns = [quoted(inside[names.index(name)]) for name in wanted if name in names]
    kinds = [f"typeof({column}) IN ('text', 'null')" for column in columns]
    query = f"SELECT {', '.join(columns + kinds) or 1} FROM {inner}"
    options = {"adbc.sqlite.query.batch_rows": str(ROWS_AT_A_TIME)}
    with _adbc_reader(connection, query, options) as (schema, next_batch):
        answer = arrow_answer(schema, next_batch, schema.names)
        yield Answer(names, _without_mixed(answer.batches, wanted))


def _outside(inside: Sequence[str]) -> list[str]:
    """Return what columns are called outside of brackets, where a second "who" is "who:1"."""
    names: list[str] = []
    for name in inside:
        plain = re.sub(r":\d+$", "", name)
        seen = plain.lower() in [before.lower() for before in names]
        names.append(plain if seen else name)
    return names


def _without_mixed(
    batches: Iterator[pa.RecordBatch], wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns, without the types; refuse texts that are none in the database."""
    first_row = 0
    for batch in batches:
        for number, name in enumerate(wanted):
            is_text = batch.column(len(wanted) + number).to_numpy(zero_copy_only=False)
            if pa.types.is_string(batch.column(number).type) and not is_text.all():
                row = int((is_text == 0).argmax())
                raise LabelError(
                    f"column {name!r} must hold values of one type; it holds text and others, such "
                    f"as {batch.column(number)[row].as_py()} in row {first_row + row}. Turn them "
                    f"into text in the query: CAST({name} AS text)."
                )
        yield batch.select(list(range(len(wanted))))
        first_row += batch.num_rows
