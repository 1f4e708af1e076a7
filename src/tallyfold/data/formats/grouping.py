"""Rows of a table grouped by their labels inside DuckDB, and fetched as coded cells.

Labels stay in DuckDB and Arrow all the way: no row and no label becomes a Python object.
"""

from __future__ import annotations

import contextlib
import itertools
import queue
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.bad_rows import BadRows
from tallyfold.data.cells import MAX_COUNT, warn_added, whole_means
from tallyfold.data.declared_order import with_order
from tallyfold.data.events import ONE_OF_MANY, tensor_from_rows
from tallyfold.data.formats.cutting import add_cut, cut_of
from tallyfold.data.formats.faults import Fault, bad_of, lacking_of, missing_of, number_of
from tallyfold.data.formats.grouped_labels import axis_of_groups, label_joins
from tallyfold.data.formats.sql import Source
from tallyfold.data.missing import MissingRows
from tallyfold.data.request import Request
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import CountError, DataError, LabelError
from tallyfold.scales import MOST_ON_SCALE

Codes = npt.NDArray[np.int32]
T = TypeVar("T")

PASSES_MORE = 8
"""Factor by which the number of passes grows when DuckDB runs out of memory."""
MOST_PASSES = PASSES_MORE**3
WAITING = 4
"""Batches that may wait to be grouped; more would only fill memory."""


class Grouped(NamedTuple):
    """How many cells there are, how many rows the fullest has, and whether a row is at fault."""

    cells: int
    most_rows: int
    faulty: bool


AGGREGATES: dict[str | None, str] = {
    None: "sum(one)",
    "sum": "sum(one)",
    "error": "sum(one)",
    "mean": "sum(one)",
    "last": "arg_max(one, place)",
    "max": "max(one)",
}
"""What rows of the same cell become, by what is asked for; a mean is worked out in the end."""


def group_rows(
    connection: Any,
    source: Source,
    request: Request,
    faults: Sequence[Fault] = (),
    most_passes: int = MOST_PASSES,
    table: str = "TEMP TABLE",
) -> Grouped:
    """Make the table ``cells`` (x0, x1, ..., n, times, uncounted, faulty), a row per cell.

    DuckDB spills groups to disk, but only so far. Where it runs out of memory the source is read
    again in several passes, each for some of the cells. `table` says whether the table is to stay.
    """
    labels = []
    for number, name in enumerate(request.axes):
        column = request.column_of(name)
        label = source.columns[column]
        if name in request.bins:
            add_cut(connection, source, request, name)
            label = cut_of(source, request, name)
            if request.missing == "drop":  # of a row that lacks something else: bad, not missing
                held = f"CASE WHEN NOT ({missing_of(source, column)}) THEN TIMESTAMP 'epoch' END"
                label = f"coalesce({label}, {held})"
        elif request.missing != "error":
            label = f"CASE WHEN {missing_of(source, column)} THEN NULL ELSE {label} END"
        labels.append(f"{label} AS x{number}")
    faulty = " OR ".join(f"({fault.condition})" for fault in faults) or "false"
    groups = ", ".join(f"x{number}" for number in range(len(labels)))
    count, uncounted = "1", "false"
    if request.count_column is not None:
        count = f"TRY_CAST({number_of(source, request.count_column)} AS BIGINT)"
        if request.missing == "drop":
            uncounted = missing_of(source, request.count_column)
    # One select names things, the next uses the names: a column of the file never gets in between.
    named = (
        f"SELECT {', '.join(labels)}, NOT ({lacking_of(source, request)}) AND "
        f"coalesce({faulty}, true) AS fault, {uncounted} AS no_count, {count} AS one"
        f"{f', {source.place} AS place' if request.repeated == 'last' else ''} FROM {source.sql}"
    )
    grouped = (
        f"SELECT {groups}, coalesce({AGGREGATES[request.repeated]} FILTER (WHERE NOT fault AND NOT "
        "no_count), 0) AS n, count(*) FILTER (WHERE NOT no_count) AS times, count(*) FILTER (WHERE "
        f"no_count) AS uncounted, bool_or(fault) AS faulty FROM ({named})"
    )
    passes = 1
    made = f"CREATE {table} cells AS"
    while not _group_in(connection, made, grouped, groups, passes, last=passes >= most_passes):
        passes *= PASSES_MORE
    query = "SELECT count(*), max(times), bool_or(faulty) FROM cells"
    return Grouped(*connection.execute(query).fetchall()[0])


def _group_in(
    connection: Any, made: str, grouped: str, groups: str, passes: int, *, last: bool
) -> bool:
    """Make the table ``cells`` in `passes` passes over the rows; False if they were too few."""
    import duckdb

    try:
        for number in range(passes):
            head = "INSERT INTO cells" if number else made
            some = "true" if passes == 1 else f"hash({groups}) % {passes} = {number}"
            connection.execute(f"{head} {grouped} WHERE {some} GROUP BY {groups}")
    except duckdb.OutOfMemoryException:
        if last:
            raise
        connection.execute("DROP TABLE IF EXISTS cells")
        return False
    return True


def without_bad(
    connection: Any, source: Source, request: Request, faults: Sequence[Fault]
) -> tuple[Source, BadRows]:
    """Return the source without rows that hold something bad, and how many these were.

    A row that is left out because it lacks something is not bad, too.
    """
    bad, lacking, masks = BadRows(), lacking_of(source, request), bad_of(source, faults)
    if not masks:
        return source, bad
    for axis in request.bins:
        add_cut(connection, source, request, axis)
    some = " OR ".join(masks.values())
    wanted = ", ".join(f"count(*) FILTER (WHERE {mask})" for mask in (*masks.values(), some))
    query = f"SELECT {wanted} FROM {source.sql} WHERE NOT ({lacking})"
    *columns, bad.rows = connection.execute(query).fetchall()[0]
    bad.columns.update(dict(zip(masks, columns, strict=True)))
    left = f"(SELECT * FROM {source.sql} WHERE ({lacking}) OR NOT ({some}))"
    return source._replace(sql=left), bad


def without_missing(connection: Any, request: Request) -> tuple[Grouped, MissingRows]:
    """Take cells that lack a label, or whose every row lacks a count, out of the table ``cells``.

    Return what is left, and how many rows were left out.
    """
    missing, axes = MissingRows(), [f"x{number} IS NULL" for number in range(len(request.axes))]
    lacking = " OR ".join(axes)
    sums = [f"CASE WHEN {axis} THEN times + uncounted ELSE 0 END" for axis in axes]
    sums += ["uncounted", f"CASE WHEN {lacking} THEN times + uncounted ELSE uncounted END"]
    wanted = ", ".join(f"CAST(coalesce(sum({one}), 0) AS BIGINT)" for one in sums)
    *columns, missing.rows = connection.execute(f"SELECT {wanted} FROM cells").fetchall()[0]
    counts = [] if request.count_column is None else [request.count_column]
    names = [*map(request.column_of, request.axes), *counts]
    missing.columns.update(dict(zip(names, columns, strict=False)))
    connection.execute(f"DELETE FROM cells WHERE {lacking} OR times = 0")
    query = "SELECT count(*), coalesce(max(times), 0), false FROM cells"
    left = Grouped(*connection.execute(query).fetchall()[0])
    missing.check_some_left(left.cells)
    return left, missing


def group_batches(
    connection: Any, batches: Iterator[pa.RecordBatch], request: Request
) -> Grouped | None:
    """Group batches of columns k0, k1, ..., perhaps n and place, as they come; None: there is none.

    A database's connection is often tied to the thread that made it, and Ctrl-C reaches the main
    thread only: so the caller's thread reads the batches, and another one groups them.
    """
    first = next(batches, None)
    if first is None:
        return None
    waiting: queue.Queue[pa.RecordBatch | None] = queue.Queue(WAITING)
    stream = iter(waiting.get, None)
    connection.register("stream", pa.RecordBatchReader.from_batches(first.schema, stream))
    columns = {name: name for name in first.schema.names}
    source = Source("stream", dict.fromkeys(columns, "BIGINT"), columns, place="place")
    names = list(columns)[: len(request.axes)]
    request = Request(names, columns.get("n"), repeated=request.repeated)
    with ThreadPoolExecutor(1, "tallyfold-grouping") as pool:
        # what has come in is gone: there is no second pass
        grouping = pool.submit(group_rows, connection, source, request, (), 1)
        try:
            for batch in itertools.chain([first], batches, [None]):
                if not _put(waiting, batch, grouping):
                    break  # it failed: the result says how
            return result_of(grouping)
        except BaseException:
            connection.interrupt()
            raise
        finally:
            while not waiting.empty():
                waiting.get_nowait()
            waiting.put_nowait(None)


def _put(waiting: queue.Queue[Any], batch: Any, grouping: Future[Any]) -> bool:
    """Add a batch (None: the end) when there is room; False if grouping has ended instead."""
    while not grouping.done():
        with contextlib.suppress(queue.Full):
            waiting.put(batch, timeout=0.1)
            return True
    return False


def result_of(future: Future[T]) -> T:
    """Wait for another thread in short steps, so that Ctrl-C is seen whichever thread it wakes."""
    while not wait([future], timeout=0.1).done:
        pass
    return future.result()


def tensor_of_groups(
    connection: Any,
    grouped: Grouped,
    request: Request,
    shown: str,
    *,
    is_text: bool,
    known: Sequence[Axis] | None = None,
    dropped: Sequence[Dropped] = (),
) -> CountTensor:
    """Make a tensor of the table ``cells``, on the `known` axes if they are given."""
    if grouped.cells == 0 and known is not None:
        return CountTensor(known, np.empty((0, len(known)), np.int32), np.empty(0, np.int64))
    check_groups(connection, grouped, request, shown)
    axes, positions = [], []
    for number in range(len(request.axes)):
        axis, position = axis_of_groups(connection, number, request, is_text=is_text, known=known)
        axes.append(axis)
        positions.append(position)
    codes, counts = _fetch_cells(connection, positions, request)
    return with_order(tensor_from_rows(axes, codes, counts, dropped=dropped), request.ordered)


def check_groups(connection: Any, grouped: Grouped, request: Request, shown: str) -> None:
    """Refuse a table without rows, and cells of several rows where that is an error."""
    if grouped.cells == 0:
        raise DataError(f"{shown} has no rows; a tensor needs at least one event.")
    if request.repeated == "error" and grouped.most_rows > 1:
        raise _repeated_cells(connection, shown, len(request.axes))
    if request.repeated is None and request.count_column is not None and grouped.most_rows > 1:
        _say_added(connection)


def _say_added(connection: Any) -> None:
    """Say that values of one cell were added up, if those of the other cells look like ratings."""
    query = "SELECT CAST(n AS BIGINT), count(*) FROM cells WHERE times = 1 AND n > 0 AND n <= {} "
    query = query.format(MAX_COUNT) + f"GROUP BY n ORDER BY n LIMIT {MOST_ON_SCALE + 1}"
    value_V, times_V = np.array(connection.execute(query).fetchall() or [(0, 1)], np.int64).T
    repeats = "SELECT CAST(sum(times - 1) AS BIGINT) FROM cells WHERE times > 1"
    warn_added(value_V, times_V, connection.execute(repeats).fetchall()[0][0])


def _repeated_cells(connection: Any, shown: str, n_axes: int) -> LabelError:
    """Describe cells that more than one row has."""
    columns = ", ".join(f"CAST(x{m} AS VARCHAR)" for m in range(n_axes))
    query = f"SELECT times, {columns} FROM cells WHERE times > 1 ORDER BY ALL LIMIT 5"
    rows = connection.execute(query).fetchall()
    cells = ", ".join(f"({', '.join(labels)}) {times:,} times" for times, *labels in rows)
    return LabelError(
        f"each cell must be given once (repeated='error'); {shown} gives {cells}. {ONE_OF_MANY}"
    )


def _fetch_cells(
    connection: Any, positions: Sequence[Codes], request: Request
) -> tuple[list[Codes], npt.NDArray[np.int64]]:
    """Fetch each cell's positions and count, batch by batch; labels stay behind in DuckDB."""
    n_cells = count_exact_cells(connection)
    axes = range(len(positions))
    joins = label_joins(request)
    wanted = ", ".join(f"CAST(labels_{m}.code AS INTEGER)" for m in axes)
    query = f"SELECT {wanted}, CAST(n AS BIGINT), times FROM cells {joins}"
    codes = [np.empty(n_cells, np.int32) for _ in axes]
    counts = np.empty(n_cells, np.int64)
    times = np.empty(n_cells if request.repeated == "mean" else 0, np.int64)
    start = 0
    for batch in connection.sql(query).to_arrow_reader(1_000_000):
        stop = start + batch.num_rows
        for m in axes:
            codes[m][start:stop] = positions[m][batch.column(m).to_numpy()]
        counts[start:stop] = batch.column(len(positions)).to_numpy()
        if len(times):
            times[start:stop] = batch.column(len(positions) + 1).to_numpy()
        start = stop
    return codes, whole_means(counts, times) if len(times) else counts


def count_exact_cells(connection: Any) -> int:
    """Return how many cells there are; refuse counts that floating point does not have exactly."""
    query = "SELECT count(*), max(n) FROM cells"
    n_cells, largest = connection.execute(query).fetchall()[0]
    if largest > MAX_COUNT:
        raise CountError(
            "some cells have rows whose counts add up past 2**53 - 1, which is not exact in "
            "floating point. Use a coarser unit."
        )
    return int(n_cells)
