"""Tidy rows kept as they come: a folder of small Parquet files, one for each fit.

A Parquet file cannot be added to, so each fit writes one of its own, whole or not at all. The
folder reads as one table: ``pandas.read_parquet(folder)``. Several processes may write to it.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tallyfold.data.temporaries import clear_abandoned
from tallyfold.errors import StorageError
from tallyfold.inference.fit.folder import replace_file

SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("split", pa.string()),
        ("zeros", pa.string()),
        ("model", pa.string()),
        ("seed", pa.int64()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("train_cells", pa.int64()),
        ("test_cells", pa.int64()),
        ("seconds", pa.float64()),
        ("peak_mib", pa.float64()),
        ("iterations", pa.int64()),
        ("error", pa.string()),
        ("version", pa.string()),
        ("setting", pa.string()),
    ]
)
"""The columns of the rows; `setting` is a checksum of what decides a fit's scores, but for the
`version` of tallyfold."""

Row = dict[str, Any]


class RowFolder:
    """The rows of an experiment in a folder; without one, nothing is kept."""

    def __init__(self, folder: str | os.PathLike[str] | None, schema: pa.Schema = SCHEMA) -> None:
        self._folder = None if folder is None else Path(folder)
        self._schema = schema
        if self._folder is None:
            return
        try:  # before any work is done whose rows could not be kept
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._folder):
                pass
        except OSError as error:
            raise StorageError(
                f"{str(self._folder)!r} cannot be a folder to keep rows in: "
                f"{error.strerror or error}. Choose another place."
            ) from error

    def read(self, key: Sequence[Any]) -> list[Row] | None:
        """Return the rows kept under a key; None if there are none yet."""
        if self._folder is None or not (file := self._folder / _name(key)).exists():
            return None
        try:
            rows: list[Row] = pq.read_table(file, schema=self._schema).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise StorageError(
                f"{str(file)!r} is damaged: {error} Delete it; the fit is then run again."
            ) from error
        return rows

    def write(self, key: Sequence[Any], rows: list[Row]) -> None:
        """Keep rows under a key, in the place of any that were there."""
        if self._folder is None:
            return
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows, schema=self._schema), buffer)
        write_results(self._folder / _name(key), buffer.getvalue())


def write_results(file: Path, data: bytes) -> None:
    """Write a file of results, whole or not at all; what the system refuses is a StorageError."""
    clear_abandoned(file.parent)
    try:
        replace_file(file, data)
    except OSError as error:
        raise StorageError(
            f"{str(file)!r} could not be written: {error.strerror or error}. Earlier results of "
            "finished fits are still there. Make room, and run the same again to go on."
        ) from error


def _name(key: Sequence[Any]) -> str:
    """Return a file name that tells people what is in it, and is no other key's."""
    text = "\0".join(map(str, key))
    plain = "-".join("".join(c if c.isalnum() else "_" for c in str(part)) for part in key)
    return f"{plain[:80]}-{hashlib.sha256(text.encode()).hexdigest()[:10]}.parquet"
