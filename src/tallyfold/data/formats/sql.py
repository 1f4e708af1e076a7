"""DuckDB: a private connection, its errors in our words, and quoting."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

from tallyfold.errors import FormatError


@contextlib.contextmanager
def connected(memory_limit: str | None = None) -> Iterator[Any]:
    """Open a private DuckDB that spills to a folder of its own and fetches no extensions."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="tallyfold-") as folder:
        config: dict[str, Any] = {"temp_directory": folder, "autoinstall_known_extensions": "false"}
        if memory_limit is not None:
            config["memory_limit"] = memory_limit
        connection = duckdb.connect(config=config)
        try:
            yield connection
        finally:
            connection.close()


@contextlib.contextmanager
def duckdb_errors(shown: str) -> Iterator[None]:
    """Turn DuckDB's complaints about a file into a FormatError that names it."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = " ".join(line for line in lines[:3] if not line.startswith(("LINE 1", "^")))
        raise FormatError(f"{shown!r} could not be read: {said}") from error


def one_row(connection: Any, query: str) -> tuple[Any, ...]:
    """Return the only row of a query."""
    row: tuple[Any, ...] = connection.execute(query).fetchall()[0]
    return row


def quoted(name: str) -> str:
    """Quote a column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"
