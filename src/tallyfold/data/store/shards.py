"""The table ``coded`` cut into runs of the longest axis, and each run written as a Parquet file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tallyfold.data.formats.sql import literal, quoted
from tallyfold.data.store.manifest import Shard, StoredFile

ROW_GROUP = 122_880
"""Cells that are read at a time: DuckDB's own choice."""


class Run(NamedTuple):
    """A run of labels of the longest axis: which shard, its first and last position, its cells."""

    number: int
    first: int
    last: int
    rows: int

    @property
    def file(self) -> str:
        """What the shard is called."""
        return f"part-{self.number:05}.parquet"


def runs_of(connection: Any, longest: int, shards: int) -> list[Run]:
    """Cut the longest axis into runs of nearly the same numbers of cells.

    A label with very many cells may leave fewer runs than were asked for.
    """
    query = f"""
        WITH labels AS (SELECT x{longest} AS x, count(*) AS k FROM coded GROUP BY 1),
        placed AS (SELECT x, k, sum(k) OVER (ORDER BY x) - k / 2.0 AS middle FROM labels)
        SELECT min(x), max(x), CAST(sum(k) AS BIGINT) FROM placed
        GROUP BY CAST(floor(middle * {shards} / (SELECT count(*) FROM coded)) AS INTEGER)
        ORDER BY 1
    """
    rows = connection.execute(query).fetchall()
    return [Run(number, *row) for number, row in enumerate(rows)]


def write_shard(
    connection: Any, run: Run, columns: Sequence[str], longest: int, building: Path, folder: Path
) -> Shard:
    """Write one shard, whole or not at all.

    Parameters
    ----------
    columns
        What the axes are called in the file, then the counts.
    longest
        The position of the longest axis.
    """
    target = building / run.file
    numbers = range(len(columns) - 1)
    named = ", ".join(f"x{n} AS {quoted(columns[n])}" for n in numbers)
    order = ", ".join(f"x{n}" for n in [longest, *(n for n in numbers if n != longest)])
    connection.execute(
        f"COPY (SELECT {named}, n AS {quoted(columns[-1])} FROM coded "
        f"WHERE x{longest} BETWEEN {run.first} AND {run.last} ORDER BY {order}) "
        f"TO {literal(str(target))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {ROW_GROUP})"
    )
    with target.open("rb") as stream:
        os.fsync(stream.fileno())
    data = StoredFile.of(target)
    os.replace(target, folder / run.file)
    return Shard(run.rows, run.first, run.last, data)
