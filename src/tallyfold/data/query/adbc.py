"""Connections of ADBC, whose cursors give Arrow batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from tallyfold.data.query.answer import Answer, ArrowAnswer, query_errors, result_of

BATCH_BYTES = 2 * 2**20
"""Of PostgreSQL; its driver would gather eight times as much, and several batches wait."""


class Adbc:
    """A connection of ADBC, whose cursors give Arrow batches."""

    def __init__(self, connection: Any, vendor: str, *, cancel: bool = False) -> None:
        self._connection, self._vendor, self._cancel = connection, vendor, cancel

    @contextlib.contextmanager
    def asked(self, sql: str) -> Iterator[Answer]:
        """Run a query; one that is given up halfway is cancelled if the connection is our own."""
        options = {}
        if self._vendor == "PostgreSQL":
            options["adbc.postgresql.batch_size_hint_bytes"] = str(BATCH_BYTES)
            sql = sql.strip().rstrip(";") + "\n"  # the driver puts it between brackets
        with self.reader(sql, options) as reader:
            yield ArrowAnswer(reader)

    @contextlib.contextmanager
    def reader(self, sql: str, options: dict[str, str]) -> Iterator[AdbcReader]:
        """Run a query under options of its driver."""
        with contextlib.ExitStack() as stack:
            with query_errors():
                cursor = stack.enter_context(self._connection.cursor())
                cursor.adbc_statement.set_options(**options)
                reader = stack.enter_context(contextlib.closing(AdbcReader(cursor, sql)))
            try:
                yield reader
            except BaseException:
                if self._cancel:  # else what is left would be read to its end
                    reader.cancel()
                raise


class AdbcReader:
    """The batches of a cursor, read in another thread: there the driver leaves Ctrl-C to us."""

    def __init__(self, cursor: Any, sql: str) -> None:
        self._cursor = cursor
        self._pool = ThreadPoolExecutor(1, "tallyfold-reading")
        try:
            self._wait_for(lambda: cursor.execute(sql))
            self._reader = cursor.fetch_record_batch()
        except BaseException:
            self._pool.shutdown()
            raise
        self.schema: pa.Schema = self._reader.schema

    def read_next_batch(self) -> pa.RecordBatch:
        """Return the next batch; StopIteration after the last."""
        return self._wait_for(self._reader.read_next_batch)

    def cancel(self) -> None:
        """Ask the database to give up; some drivers cannot."""
        with contextlib.suppress(Exception):
            self._cursor.adbc_cancel()

    def close(self) -> None:
        """Let go of the batches and the thread."""
        self._pool.shutdown()
        self._reader.close()

    def _wait_for(self, call: Callable[[], Any]) -> Any:
        try:
            return result_of(self._pool.submit(call))
        except KeyboardInterrupt:
            self.cancel()
            raise
