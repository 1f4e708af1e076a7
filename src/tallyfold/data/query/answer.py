"""What a database answers to a query, whatever the database; and its errors in our words."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

import pyarrow as pa

from tallyfold.data.query.address import without_secrets
from tallyfold.errors import DataError, ParameterError, TallyfoldError

T = TypeVar("T")

ROWS_AT_A_TIME = 65_536
NUMERIC = {b"tallyfold:type": b"numeric"}
"""Marks text that spells decimal numbers, of a precision that no Arrow type has."""

_TYPE_KEYS = (b"tallyfold:type", b"POSTGRESQL:type", b"ADBC:postgresql:typname")


class Answer(Protocol):
    """Rows on their way out of a database."""

    names: list[str]
    """The columns, as the database calls them; one name may be there twice."""

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns, in that order; may be asked for once."""


class Database(Protocol):
    """Something that can be asked."""

    def asked(self, sql: str) -> AbstractContextManager[Answer]:
        """Run a query; leave nothing of it behind."""


class Reader(Protocol):
    """What Arrow's RecordBatchReader is, as far as it is needed."""

    schema: pa.Schema

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch; StopIteration after the last."""


class ArrowAnswer:
    """An answer that comes in Arrow batches already."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.names = list(reader.schema.names)

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of each batch."""
        numbers = [self.names.index(name) for name in wanted]
        for batch in read_batches(self._reader):
            yield batch.select(numbers)


def read_batches(reader: Reader) -> Iterator[pa.RecordBatch]:
    """Yield batches, and what goes wrong meanwhile as our own errors."""
    while True:
        batch = None
        with reading_errors(), contextlib.suppress(StopIteration):
            batch = reader.read_next_batch()
        if batch is None:
            return
        yield batch


def result_of(future: Future[T]) -> T:
    """Wait for another thread in short steps, so that Ctrl-C is seen whichever thread it wakes."""
    while not wait([future], timeout=0.1).done:
        pass
    return future.result()


def type_name(field: pa.Field) -> str:
    """Return what the database calls a column's type, where it says so; else an empty text."""
    known = field.metadata or {}
    return next((known[key].decode() for key in _TYPE_KEYS if key in known), "")


def query_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises when a query is begun into a ParameterError."""
    return _translated(
        ParameterError,
        "`sql` could not be run; the database says: {} Give one query in its own language.",
    )


def reading_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises while rows come in into a DataError."""
    return _translated(
        DataError,
        "the query began to give rows and then failed; the database says: {} Mend the rows or the "
        "query, or try again if the connection was lost.",
    )


def opening_errors(
    uri: str, kind: type[TallyfoldError], remedy: str
) -> AbstractContextManager[None]:
    """Turn what a driver raises when a database is opened; its password is taken out."""
    shown = without_secrets(uri, uri)
    return _translated(kind, f"{shown!r} could not be opened: {{}} {remedy}", uri)


@contextlib.contextmanager
def _translated(kind: type[TallyfoldError], text: str, uri: str = "") -> Iterator[None]:
    try:
        yield
    except (TallyfoldError, MemoryError):
        raise
    except Exception as error:  # drivers share no base class
        if uri:
            error.args = (without_secrets(str(error), uri),)  # it is shown as the cause
        raise kind(text.format(_said(error))) from error


def _said(error: Exception) -> str:
    """Return a driver's words as one sentence, without the query, which may be long."""
    said = re.split(r"\n\s*(?:Query was|query|LINE 1):", str(error))[0]
    said = " ".join(said.split()) or type(error).__name__
    said = said if len(said) <= 300 else said[:297] + "..."
    return said if said.endswith((".", "?", "!")) else said + "."
