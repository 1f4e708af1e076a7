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
from tallyfold.data.query.answer import (
    NUMERIC,
    ROWS_AT_A_TIME,
    Answer,
    query_errors,
    reading_errors,
)
from tallyfold.errors import DataError


class Kind(NamedTuple):
    """A kind of values: its Arrow type, and how a value is written in it, if not as it is."""

    name: str
    arrow: pa.DataType
    written: Callable[[Any], Any] | None = None


TIME = Kind("times", pa.timestamp("us"))
ZONED = Kind("times with a zone", pa.timestamp("us", "UTC"))
NUMBERS = Kind("decimal numbers", pa.string(), lambda number: format(number, "f"))
NOTHING = Kind("nothing", pa.string())

KINDS: dict[type, Kind] = {
    str: Kind("text", pa.string()),
    bool: Kind("booleans", pa.bool_()),
    int: Kind("integers", pa.int64()),
    float: Kind("floating-point numbers", pa.float64()),
    decimal.Decimal: NUMBERS,
    dt.datetime: TIME,
    dt.date: Kind("dates", pa.date32()),
    uuid.UUID: Kind("uuids", pa.string(), str),
    bytes: Kind("bytes", pa.binary()),
    bytearray: Kind("bytes", pa.binary(), bytes),
    memoryview: Kind("bytes", pa.binary(), bytes),
}
"""Types of Python's values in rows, and the kinds they are; subclasses are of the same kind."""


class DbApi:
    """A connection of the caller: it is asked through a cursor of our own, and stays as it is."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextlib.contextmanager
    def asked(self, sql: str) -> Iterator[Answer]:
        """Run a query and close the cursor."""
        with contextlib.ExitStack() as stack:
            with query_errors():
                cursor = stack.enter_context(contextlib.closing(self._cursor(stack)))
                cursor.execute(sql)
                rows = cursor.fetchmany(ROWS_AT_A_TIME)
            yield RowAnswer(cursor, rows)

    def _cursor(self, stack: contextlib.ExitStack) -> Any:
        """Make a cursor that gives plain rows and, in PostgreSQL, does not fetch all at once."""
        connection = self._connection
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


class RowAnswer:
    """An answer in rows of Python's values; the first rows decide the types of the columns."""

    def __init__(self, cursor: Any, rows: Sequence[Any]) -> None:
        self._cursor, self._rows = cursor, rows
        self.names = [str(column[0]) for column in cursor.description or []]

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, so many rows at a time."""
        numbers = [self.names.index(name) for name in wanted]
        kinds: list[Kind | None] = [None] * len(wanted)
        rows, first_row = self._rows, 0
        while rows:
            columns = _columns(rows)
            arrays, fields = [], []
            for place, (number, name) in enumerate(zip(numbers, wanted, strict=True)):
                values = columns[number]
                kinds[place] = kind = _kind_of(values, name, kinds[place], first_row)
                fields.append(_field(name, kind))
                arrays.append(_array(values, kind, name, first_row))
            yield pa.record_batch(arrays, schema=pa.schema(fields))
            first_row += len(rows)
            with reading_errors():
                rows = self._cursor.fetchmany(ROWS_AT_A_TIME)


def _columns(rows: Sequence[Any]) -> list[tuple[Any, ...]]:
    if isinstance(rows[0], Mapping):
        rows = [tuple(row.values()) for row in rows]
    return list(zip(*rows, strict=True))


def _field(name: str, kind: Kind) -> pa.Field:
    return pa.field(name, kind.arrow, metadata=NUMERIC if kind is NUMBERS else None)


def _kind_of(values: Sequence[Any], name: str, decided: Kind | None, first_row: int) -> Kind:
    """Return the kind of a column's values, which must be the one that was decided before."""
    found = {_kind_of_type(kind, name) for kind in set(map(type, values)) - {type(None)}}
    if TIME in found:
        zones = {value.tzinfo is not None for value in values if value is not None}
        found = (found - {TIME}) | {ZONED if zoned else TIME for zoned in zones}
    if {kind.arrow for kind in found} == {pa.int64(), pa.float64()} and decided is None:
        found = {KINDS[float]}
    if decided is not None and found <= {decided, *_also_as(decided)}:
        return decided
    if len(found) > 1 or decided is not None:
        raise DataError(
            f"column {name!r} must hold values of one type; it holds "
            f"{listing(sorted({kind.name for kind in found | ({decided} if decided else set())}))} "
            f"(in the rows from {first_row:,}). Turn them into one in the query with CAST."
        )
    return found.pop() if found else NOTHING


def _also_as(decided: Kind) -> tuple[Kind, ...]:
    """Return the kinds that may stand among values of another without being changed."""
    return (KINDS[int],) if decided in (KINDS[float], NUMBERS) else ()


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
