"""DuckDB: a private connection, its errors as those of tallyfold, its tables, and quoting."""

from __future__ import annotations

import contextlib
import glob
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tallyfold.data.axis import listing
from tallyfold.data.temporaries import temporary_folder
from tallyfold.errors import FormatError, ParameterError, printable

REMEDIES = {
    "utf-8": " Save the file as UTF-8.",
    "unicode": " Save the file as UTF-8.",
    "state machine": " A quote may be open, or lines may end in different ways: write the file "
    "anew.",
    "out of memory": " Allow more with memory_limit=, or leave it out.",
    "permission denied": " Ask for the right to read it.",
}
"""What to do, by a word of DuckDB's complaint."""


INTEGERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT",
}  # fmt: skip
"""What DuckDB calls whole numbers."""


INTERRUPTED = "Query interrupted"
"""What DuckDB says after a Ctrl-C."""


class Source(NamedTuple):
    """A table as DuckDB reads it.

    Attributes
    ----------
    sql
        What to select from.
    types
        The type of each column, by its name in the file.
    columns
        What each column that is needed is called in `sql`; DuckDB takes ``User`` and ``user`` for
        the same.
    place
        Where a row stands among all.
    """

    sql: str
    types: dict[str, str]
    columns: dict[str, str]
    place: str = "row_number() OVER ()"


@contextlib.contextmanager
def connected(
    memory_limit: str | None = None, file: str | None = None, spill: str | None = None
) -> Iterator[Any]:
    """Open a private DuckDB that spills to a folder of its own and fetches no extensions.

    With a `file` it reads that database, and changes nothing in it, unless it is told where to
    `spill`. Times without a zone are those of UTC, whatever the machine's zone.
    """
    import duckdb

    with contextlib.nullcontext(spill) if spill else temporary_folder() as folder:
        config: dict[str, Any] = {
            "temp_directory": folder,
            "autoinstall_known_extensions": "false",
        }
        only_read = file not in (None, ":memory:") and spill is None
        connection = duckdb.connect(file or ":memory:", read_only=only_read, config=config)
        try:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_progress_bar = false")  # it would go to stdout
            if memory_limit is not None:
                try:
                    connection.execute(f"SET memory_limit = {literal(str(memory_limit))}")
                except duckdb.Error as error:
                    raise ParameterError(
                        "`memory_limit` must be an amount such as '2GB' or '500MB'; got "
                        f"{memory_limit!r}."
                    ) from error
            yield connection
        except RuntimeError as error:
            if str(error) != INTERRUPTED:
                raise
            raise KeyboardInterrupt from None
        finally:
            connection.close()


@contextlib.contextmanager
def duckdb_errors(shown: str) -> Iterator[None]:
    """Turn DuckDB's complaints about a file into a FormatError that names it."""
    import duckdb

    try:
        yield
    except (duckdb.Error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # not DuckDB's: what goes wrong while Arrow fetches its rows has no number
        words = re.split("Possible (?:fixes|solutions)", str(error))[0]
        lines = [line.strip() for line in words.splitlines()]
        said = " ".join(line for line in lines if line and not line.startswith(("LINE 1", "^")))
        remedies = (remedy for word, remedy in REMEDIES.items() if word in said.lower())
        remedy = next(remedies, "")
        error.args = (printable(error),)  # it is shown as the cause
        raise FormatError(f"{shown!r} could not be read: {said[:400]}{remedy}") from error


def quoted(name: str) -> str:
    """Quote a column's name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def file_list(files: list[str]) -> str:
    """Write files as a list for DuckDB, which would otherwise take ``*?[`` for patterns."""
    return "[" + ", ".join(literal(glob.escape(file)) for file in files) + "]"


def literal(text: str) -> str:
    """Quote a text for SQL."""
    return "'" + text.replace("'", "''") + "'"


def folder_keys(files: Sequence[str], wanted: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return wanted columns that no file has, but all their folders: ``year=2020/x.parquet``."""
    keys = [
        {part.partition("=")[0] for part in Path(file).parent.parts if "=" in part}
        for file in files
    ]
    shared = set.intersection(*keys)
    found = [name for name in wanted if name not in columns and name in shared]
    clash = [name for name in wanted if name in columns and any(name in k for k in keys)]
    if found and clash:
        raise FormatError(
            f"column {listing(clash)} is both in the files and in the names of their folders; "
            "rename one of them."
        )
    return found


def folder_option(keys: Sequence[str]) -> str:
    """Write the option that makes DuckDB read keys of folders, as text, or leave them alone."""
    if not keys:
        return "hive_partitioning = false"
    return "hive_partitioning = true, hive_types_autocast = false"
