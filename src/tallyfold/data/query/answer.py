"""Addresses of databases, and their answers as Arrow batches; messages show no password."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from tallyfold.data.secrets import without_secrets
from tallyfold.errors import DataError, FormatError, ParameterError, TallyfoldError, printable

KINDS = {
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
    "sqlite": "SQLite",
    "duckdb": "DuckDB",
}
"""The beginnings of addresses, and the database each is for."""

WANTED = (
    "`connection_or_uri` must be an address (postgresql://user@host/name, sqlite:///file.db, "
    "duckdb:///file.duckdb), the path of a SQLite or DuckDB file, ':memory:' for a DuckDB whose "
    "query names files, or an open connection"
)


class Address(NamedTuple):
    """A kind of database, and where it is: a file's path, or the whole address of a server."""

    kind: str
    location: str

    def __repr__(self) -> str:
        return f"Address({self.kind!r}, {without_secrets(self.location, self.location)!r})"


def parsed_address(text: str | os.PathLike[str]) -> Address:
    """Read an address, or look into a file for what kind of database it holds.

    Examples
    --------
    >>> parsed_address("postgresql://ann:secret@db.example.org/sales")
    Address('PostgreSQL', 'postgresql://ann:***@db.example.org/sales')
    """
    location = os.fspath(text)
    if location == ":memory:":
        return Address("DuckDB", location)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", location)
    if scheme is None:
        path = os.path.expanduser(location)
        return Address(_kind_of_file(_existing(path)), path)
    if scheme[1] not in KINDS:
        raise ParameterError(f"{WANTED}; got one that begins with {scheme[0]!r}.")
    kind = KINDS[scheme[1]]
    if kind == "PostgreSQL":
        return Address(kind, location)
    path = re.sub(r"^\w+:///?", "", location)
    return Address(kind, str(_existing(os.path.expanduser(path))))


def _existing(path: str) -> Path:
    if "\0" in path or not os.path.isfile(path):
        shown = without_secrets(path, path)
        raise FileNotFoundError(f"there is no file {shown!r}. {WANTED}.")
    return Path(path)


def _kind_of_file(path: Path) -> str:
    with path.open("rb") as file:
        head = file.read(16)
    if head[8:12] == b"DUCK":
        return "DuckDB"
    if head in (b"SQLite format 3\0", b""):  # an empty file is a SQLite database without tables
        return "SQLite"
    raise FormatError(
        f"{str(path)!r} is neither a SQLite nor a DuckDB database. For tables in files use "
        "tallyfold.read_counts."
    )


ROWS_AT_A_TIME = 65_536


class Answer(NamedTuple):
    """Rows on their way out of a database.

    Attributes
    ----------
    names
        The columns, as the database calls them; one name may be there twice.
    batches
        The wanted columns, in that order, all where nobody said which; read once, and only if all
        of them are in `names`.
    """

    names: list[str]
    batches: Iterator[pa.RecordBatch]


def arrow_answer(
    schema: pa.Schema, next_batch: Callable[[], pa.RecordBatch], wanted: Sequence[str] | None
) -> Answer:
    """Return the answer that an Arrow reader gives, whose next batch is asked for by a call."""
    names = list(schema.names)

    def batches() -> Iterator[pa.RecordBatch]:
        numbers = [names.index(name) for name in (names if wanted is None else wanted)]
        while True:
            with reading_errors():
                try:
                    batch = next_batch()
                except StopIteration:
                    return
            yield batch.select(numbers)

    return Answer(names, batches())


def query_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises when a query is begun into a ParameterError."""
    text = "`sql` could not be run; the database says: {} Give one query in its own language."
    return _translated(ParameterError, text)


def reading_errors() -> AbstractContextManager[None]:
    """Turn what a driver raises while rows come in into a DataError."""
    text = "the query began to give rows and then failed; the database says: {} Mend the rows or "
    text += "the query, or try again if the connection was lost."
    return _translated(DataError, text)


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
        words = without_secrets(str(error), uri) if uri else str(error)
        error.args = (printable(words, keep="\n"),)  # it is shown as the cause
        raise kind(text.format(_sentence(error))) from error


def _sentence(error: Exception) -> str:
    """Return a driver's words as one sentence, without the query, which may be long."""
    words = re.split(r"\n\s*(?:Query was|query|LINE 1):", str(error))[0]
    words = " ".join(words.split()) or type(error).__name__
    words = words if len(words) <= 300 else words[:297] + "..."
    return words if words.endswith((".", "?", "!")) else words + "."
