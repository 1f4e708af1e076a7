"""Batches from the thread that reads them to the thread in which DuckDB groups them.

A database's connection is often tied to the thread that made it, and Ctrl-C reaches the main
thread only: so the caller's thread reads, and grouping goes on beside it.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from tallyfold.data.formats.grouping import Grouped, group_rows
from tallyfold.data.formats.table import Source
from tallyfold.data.query.answer import result_of

WAITING = 4
"""Batches that may wait to be grouped; more would only fill memory."""


class Feed:
    """A short queue of batches that ends when it is told so, or when nobody groups any more."""

    def __init__(self) -> None:
        self._queue: queue.Queue[pa.RecordBatch | None] = queue.Queue(WAITING)

    def put(self, batch: pa.RecordBatch | None, grouping: Future[Any]) -> bool:
        """Add a batch (None: the end) when there is room; False if grouping has ended instead."""
        while not grouping.done():
            try:
                self._queue.put(batch, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def abandon(self) -> None:
        """Forget the batches that wait, and let go whoever waits for another."""
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(None)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._queue.get()) is not None:
            yield batch


def group_batches(
    connection: Any, batches: Iterator[pa.RecordBatch], names: Sequence[str], value: str | None
) -> Grouped | None:
    """Group batches of columns k0, k1, ... and perhaps n by `group_rows`; None if there is none."""
    first = next(batches, None)
    if first is None:
        return None
    columns = {name: f"k{number}" for number, name in enumerate(names)}
    types = {} if value is None else {value: "BIGINT"}
    source = Source("stream", types, columns | ({} if value is None else {value: "n"}))
    feed = Feed()
    connection.register("stream", pa.RecordBatchReader.from_batches(first.schema, iter(feed)))
    with ThreadPoolExecutor(1, "tallyfold-grouping") as pool:
        # what has come in is gone: there is no second pass
        grouping = pool.submit(group_rows, connection, source, names, value, {}, [], 1)
        try:
            for batch in itertools.chain([first], batches, [None]):
                if not feed.put(batch, grouping):
                    break  # it failed: the result says how
            return result_of(grouping)
        except BaseException:
            connection.interrupt()
            raise
        finally:
            feed.abandon()
