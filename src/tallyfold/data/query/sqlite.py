"""SQLite through ADBC: a column may hold values of several types, which must not be mixed up."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from tallyfold.data.formats.sql import quoted
from tallyfold.data.query.adbc import Adbc
from tallyfold.data.query.answer import ROWS_AT_A_TIME, Answer, read_batches
from tallyfold.errors import LabelError


class AdbcSqlite:
    """SQLite through ADBC, which would write numbers among texts as texts: they are looked for."""

    def __init__(self, connection: Any) -> None:
        self._adbc = Adbc(connection, "SQLite")

    @contextlib.contextmanager
    def asked(self, sql: str) -> Iterator[Answer]:
        """Ask for the columns first; the rows come when they are wanted."""
        inner = f"({sql.strip().rstrip(';')}\n)"
        with self._adbc.reader(f"SELECT * FROM {inner} LIMIT 0", {}) as reader:
            inside = list(reader.schema.names)
        with contextlib.ExitStack() as stack:
            yield SqliteAnswer(self._adbc, inner, inside, stack)


class SqliteAnswer:
    """The answer of SQLite to a query that stands between brackets."""

    def __init__(
        self, adbc: Adbc, inner: str, inside: list[str], stack: contextlib.ExitStack
    ) -> None:
        self._adbc, self._inner, self._inside, self._stack = adbc, inner, inside, stack
        self.names = _outside(inside)

    def batches(self, wanted: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of each batch; refuse texts that are none in the database."""
        columns = [quoted(self._inside[self.names.index(name)]) for name in wanted]
        kinds = [f"typeof({column}) IN ('text', 'null')" for column in columns]
        sql = f"SELECT {', '.join(columns + kinds)} FROM {self._inner}"
        options = {"adbc.sqlite.query.batch_rows": str(ROWS_AT_A_TIME)}
        reader = self._stack.enter_context(self._adbc.reader(sql, options))
        first_row = 0
        for batch in read_batches(reader):
            _check_texts(batch, wanted, first_row)
            yield batch.select(list(range(len(wanted))))
            first_row += batch.num_rows


def _outside(inside: Sequence[str]) -> list[str]:
    """Return what columns are called outside of brackets, where a second "who" is "who:1"."""
    names: list[str] = []
    for name in inside:
        plain = re.sub(r":\d+$", "", name)
        seen = plain.lower() in [before.lower() for before in names]
        names.append(plain if seen else name)
    return names


def _check_texts(batch: pa.RecordBatch, wanted: Sequence[str], first_row: int) -> None:
    for number, name in enumerate(wanted):
        if not pa.types.is_string(batch.schema.field(number).type):
            continue
        is_text = batch.column(len(wanted) + number).to_numpy(zero_copy_only=False)
        if not is_text.all():
            row = int((is_text == 0).argmax())
            raise LabelError(
                f"column {name!r} must hold values of one type; it holds text and others, such as "
                f"{batch.column(number)[row].as_py()} in row {first_row + row}. Turn them into "
                f"text in the query: CAST({name} AS text)."
            )
