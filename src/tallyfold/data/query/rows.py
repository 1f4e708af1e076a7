"""Any connection that follows Python's DB-API: its rows, some at a time, into Arrow."""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from tallyfold.data.axis import UNFIT, listing
from tallyfold.data.query.answer import ROWS_AT_A_TIME, Answer, query_errors, reading_errors
from tallyfold.errors import DataError


class Kind(NamedTuple):
    """A kind of values: its Arrow type, and how a value is written in it, if not as it is."""

    name: str
    arrow: pa.DataType
    written: Callable[[Any], Any] | None = None


INTEGERS = Kind("integers", pa.int64())
FLOATS = Kind("floating-point numbers", pa.float64())
DECIMALS = Kind("decimal numbers", pa.string(), lambda number: format(number, "f"))
TIMES = Kind("times", pa.timestamp("us"))
ZONED = Kind("times with a zone", pa.timestamp("us", "UTC"))
NOTHING = Kind("nothing", pa.string())

KINDS: dict[type, Kind] = {
    str: Kind("text", pa.string()),
    bool: Kind("booleans", pa.bool_()),
    int: INTEGERS,
    float: FLOATS,
    decimal.Decimal: DECIMALS,
    dt.datetime: TIMES,
    dt.date: Kind("dates", pa.date32()),
    uuid.UUID: Kind("uuids", pa.string(), str),
    bytes: Kind("bytes", pa.binary()),
    bytearray: Kind("bytes", pa.binary(), bytes),
    memoryview: Kind("bytes", pa.binary(), bytes),
}
"""Types of Python's values in rows, and the kinds they are; subclasses are of the same kind."""


@contextlib.contextmanager
def ask_rows(connection: Any, sql: str, wanted: Sequence[str] | None) -> Iterator[Answer]:
    """Run a query through a cursor of our own; the connection stays as it is."""
    with contextlib.ExitStack() as stack:
        with query_errors():
            cursor = stack.enter_context(contextlib.closing(_cursor(connection, stack)))
            cursor.execute(sql)
            rows = cursor.fetchmany(ROWS_AT_A_TIME)
        names = [str(column[0]) for column in cursor.description or []]
        yield Answer(names, _batches(cursor, rows, names, names if wanted is None else wanted))


def _cursor(connection: Any, stack: contextlib.ExitStack) -> Any:
    """Make a cursor that gives plain rows and, in PostgreSQL, does not fetch all at once."""
    package = type(connection).__module__.partition(".")[0]
    if package == "psycopg":
        stack.enter_context(connection.transaction())  # a savepoint if one is open
        return connection.cursor(name="tallyfold")
    if package == "psycopg2":
        stack.enter_context(_transaction_kept(connection))
        return connection.cursor(name="tallyfold", withhold=connection.autocommit)
    cursor = connection.cursor()
    if package == "sqlite3":
        cursor.row_factory = None
    return cursor


@contextlib.contextmanager
def _transaction_kept(connection: Any) -> Iterator[None]:
    """Leave psycopg2's transaction as it was, even after an error; psycopg has its own way."""
    if connection.autocommit:
        yield
        return
    idle = connection.get_transaction_status() == 0
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute("SAVEPOINT tallyfold")
        try:
            yield
        except BaseException:
            cursor.execute("ROLLBACK TO SAVEPOINT tallyfold")
            raise
        finally:
            cursor.execute("RELEASE SAVEPOINT tallyfold")
            if idle:
                connection.rollback()


def _batches(
    cursor: Any, rows: Sequence[Any], names: Sequence[str], wanted: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns; the first rows decide their types."""
    kinds: dict[str, Kind] = {}
    first_row = 0
    while rows:
        if isinstance(rows[0], Mapping):
            rows = [tuple(row.values()) for row in rows]
        columns = list(zip(*rows, strict=True))
        fields, arrays = [], []
        for name in wanted:
            values = columns[names.index(name)]
            kinds[name] = kind = _kind_of(values, name, kinds.get(name), first_row)
            numeric = {"tallyfold:type": "numeric"} if kind is DECIMALS else None
            fields.append(pa.field(name, kind.arrow, metadata=numeric))
            arrays.append(_array(values, kind, name, first_row))
        yield pa.record_batch(arrays, schema=pa.schema(fields))
        first_row += len(rows)
        with reading_errors():
            rows = cursor.fetchmany(ROWS_AT_A_TIME)


def _kind_of(values: Sequence[Any], name: str, decided: Kind | None, first_row: int) -> Kind:
    """Return the kind of a column's values, which must be the one that was decided before."""
    found = {_kind_of_type(kind, name) for kind in set(map(type, values)) - {type(None)}}
    if TIMES in found and any(getattr(value, "tzinfo", None) for value in values):
        naive = any(isinstance(v, dt.datetime) and v.tzinfo is None for v in values)
        found = found - {TIMES} | {ZONED} | ({TIMES} if naive else set())
    if decided is not None:
        found.add(decided)
    if decided is not INTEGERS and found & {FLOATS, DECIMALS}:
        found.discard(INTEGERS)  # they are the same numbers there
    if len(found) > 1:
        raise DataError(
            f"column {name!r} must hold values of one type; it holds "
            f"{listing(sorted(kind.name for kind in found))} (in the rows from {first_row:,}). "
            "Turn them into one in the query with CAST."
        )
    return found.pop() if found else NOTHING


def _kind_of_type(python: type, name: str) -> Kind:
    for base in python.__mro__:
        if base in KINDS:
            return KINDS[base]
    raise DataError(
        f"column {name!r} must hold text, numbers, booleans, dates, times or uuids; it holds "
        f"values of Python's type {python.__name__}. Turn them into text in the query with CAST."
    )


def _array(values: Sequence[Any], kind: Kind, name: str, first_row: int) -> pa.Array:
    if kind.written is not None:
        values = [None if value is None else kind.written(value) for value in values]
    try:
        return pa.array(values, kind.arrow)
    except UNFIT as error:
        raise DataError(
            f"column {name!r} holds {kind.name} that do not fit their type (in the rows from "
            f"{first_row:,}): {str(error).splitlines()[0]} Turn them into text in the query with "
            "CAST."
        ) from error
