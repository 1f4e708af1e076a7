"""A store that is open: labels mapped, cells read when they are asked for, whole or in ranges."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, axis_number
from tallyfold.data.cells import merge_cells
from tallyfold.data.part import Part
from tallyfold.data.store.label_files import mapped_axis
from tallyfold.data.store.manifest import (
    BUILDING,
    MANIFEST,
    Manifest,
    Shard,
    StoredFile,
    checksum_of,
)
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import FormatError, ParameterError

Cells = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]
RESTORE = "Take it from a backup, or remove the folder and write the store again."


def open_store(path: str | os.PathLike[str]) -> Store:
    """Open a store of counts: its labels stay on disk, and its cells until they are asked for.

    Parameters
    ----------
    path
        The folder that `write_store` made.

    Examples
    --------
    >>> import tempfile
    >>> import tallyfold as tf
    >>> place = tempfile.mkdtemp() + "/store"
    >>> store = tf.write_store(tf.load_demo(), place, shards=4)
    >>> open_store(place).tensor() == tf.load_demo()
    True
    """
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"`path` must be the folder of a store; got {path!r}.")
    folder = Path(os.path.expanduser(path))
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {str(folder)!r}.")
    if not (folder / MANIFEST).is_file():
        if (folder / BUILDING).is_dir():
            raise FormatError(
                f"the store {str(folder)!r} is not finished: its writing was interrupted, or still "
                "goes on. The same call of tallyfold.write_store, or the same command, goes on "
                "with it."
            )
        raise FormatError(
            f"{str(folder)!r} is not a store: it has no {MANIFEST}. Make one with "
            "tallyfold.write_store, or read files of counts with tallyfold.read_counts."
        )
    return Store(folder)


LOOKED_AT = 100_000
"""About how many cells are some."""


class Store:
    """Counts on disk: shards of cells sorted by the longest axis, and label tables.

    Nothing but the manifest is read until it is asked for. Each file is checked, by its size and
    checksum, the first time that it is read.

    Parameters
    ----------
    folder
        The folder of a finished store.

    Examples
    --------
    >>> import tempfile
    >>> import tallyfold as tf
    >>> store = tf.write_store(tf.load_demo(), tempfile.mkdtemp() + "/store", shards=4)
    >>> parts = [store.part(rank, 3) for rank in range(3)]
    >>> sum(part.nnz for part in parts) == store.nnz == tf.load_demo().nnz
    True
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest, self.checksum = Manifest.read(folder)
        self._checked: set[str] = set()
        self._axes: tuple[Axis, ...] | None = None
        for stored in [axis.labels for axis in self.manifest.axes]:
            self._size_checked(stored)
        for shard in self.manifest.shards:
            self._size_checked(shard.data)

    # -- what it is -------------------------------------------------------------------------------

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes, in order; their labels are mapped from disk."""
        if self._axes is None:
            self._axes = tuple(
                mapped_axis(axis, self._path(axis.labels)) for axis in self.manifest.axes
            )
        return self._axes

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the axes, in order."""
        return tuple(axis.name for axis in self.manifest.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of labels on each axis."""
        return tuple(axis.size for axis in self.manifest.axes)

    @property
    def nnz(self) -> int:
        """The number of non-zero cells."""
        return self.manifest.nnz

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return self.manifest.total

    @property
    def shards(self) -> tuple[Shard, ...]:
        """The files of cells, and which run of the longest axis each has."""
        return self.manifest.shards

    @property
    def dropped(self) -> tuple[Dropped, ...]:
        """What was left out when the counts were read."""
        return self.manifest.dropped

    @property
    def cells_part(self) -> Part | None:
        """Which of all cells, zeros included, are here, the rest being hidden; None: all are."""
        text = self.manifest.part
        return None if text is None else Part.from_text(text)

    def axis(self, name: str) -> Axis:
        """Return the axis with this name."""
        return self.axes[axis_number(self.axes, name)]

    def __repr__(self) -> str:
        axes = " x ".join(
            f"{name} {size:,}" for name, size in zip(self.names, self.shape, strict=True)
        )
        size = math.prod(self.shape)
        told = [f"{self.nnz:,} non-zeros", f"total {self.total:,}"]
        if size:
            told[0] += f" of {size:,} cells"
        number = len(self.shards)
        told.append(f"{number:,} shard{'' if number == 1 else 's'} by {self.manifest.sorted_by}")
        told.append(f"{sum(shard.data.bytes for shard in self.shards) / 2**20:,.1f} MiB")
        if self.manifest.part is not None:
            told.append("part of all cells")
        if self.dropped:
            told.append("dropped: see .dropped")
        return f"Store({str(self.folder)!r}: {axes}; {'; '.join(told)})"

    # -- its cells --------------------------------------------------------------------------------

    def tensor(self) -> CountTensor:
        """Read all cells."""
        return self._tensor(0, self.nnz, self.dropped)

    def part(self, rank: int, size: int) -> CountTensor:
        """Read the cells of one process of several: a run of the longest axis, on the whole axes.

        All cells of a label of the longest axis are in one part. Parts have about equal numbers of
        cells, as far as labels allow.

        Parameters
        ----------
        rank, size
            Which process, counted from 0, of how many.
        """
        whole = all(isinstance(n, int) and not isinstance(n, bool) for n in (rank, size))
        if not whole or not 0 <= rank < size:
            raise ParameterError(
                "`rank` and `size` must be whole numbers, 0 <= rank < size: which part, of how "
                f"many; got {rank!r} and {size!r}."
            )
        start, stop = (self._label_start(self.nnz * n // size) for n in (rank, rank + 1))
        return self._tensor(start, stop)

    def first_cells(self) -> CountTensor:
        """Read some cells, to see by them what all are like."""
        return self.part(0, max(1, self.nnz // LOOKED_AT))

    def _tensor(self, start: int, stop: int, dropped: tuple[Dropped, ...] = ()) -> CountTensor:
        """Read cells by their numbers, and put them in the order of tensors."""
        indices_NM, counts_N = self._cells(start, stop)
        self._refuse_replaced()
        if self.manifest.longest > 0:
            indices_NM, counts_N, _ = merge_cells([*indices_NM.T], counts_N, self.shape)
        return CountTensor.of_canonical(self.axes, indices_NM, counts_N, dropped, self.cells_part)

    def _cells(self, start: int, stop: int) -> Cells:
        """Read cells by their numbers, a row group at a time."""
        indices_NM = np.empty((max(stop - start, 0), len(self.names)), np.int32, order="F")
        counts_N = np.empty(len(indices_NM), np.int64)
        columns = [*self.names, self.manifest.count_column]
        for at, batch in self._row_groups(start, stop, columns):
            first, last = max(start, at), min(stop, at + len(batch))
            own = slice(first - start, last - start)
            for number, name in enumerate(columns):
                values = batch.column(name).to_numpy()[first - at : last - at]
                target = counts_N if number == len(self.names) else indices_NM[:, number]
                target[own] = values
        return indices_NM, counts_N

    def _label_start(self, row: int) -> int:
        """Return the first cell from `row` on with which a label of the longest axis begins."""
        start = next((s for s, _ in self._shard_rows() if s <= row < s + _.rows), None)
        if start is None or start == row:
            return row
        stop = next(s + shard.rows for s, shard in self._shard_rows() if s == start)
        before = None
        for at, batch in self._row_groups(row - 1, stop, [self.manifest.sorted_by]):
            labels = batch.column(0).to_numpy()
            if before is None:
                before, skipped = labels[row - 1 - at], row - at
            else:
                skipped = 0
            others = np.flatnonzero(labels[skipped:] != before)
            if len(others):
                return at + skipped + int(others[0])
        return stop

    def _shard_rows(self) -> Iterator[tuple[int, Shard]]:
        """Yield each shard with the number of its first cell among all."""
        starts = accumulate((shard.rows for shard in self.shards), initial=0)
        yield from zip(starts, self.shards, strict=False)

    def _row_groups(self, start: int, stop: int, columns: list[str]) -> Iterator[tuple[int, Any]]:
        """Yield the row groups that have some of these cells, and the number of their first."""
        import pyarrow.parquet as pq

        for at, shard in self._shard_rows():
            if stop <= at or at + shard.rows <= start:
                continue
            path = self._path(shard.data)
            try:
                with pq.ParquetFile(path) as file:
                    if file.metadata.num_rows != shard.rows:
                        raise ValueError(f"it has {file.metadata.num_rows:,} rows")
                    for number in range(file.num_row_groups):
                        rows = file.metadata.row_group(number).num_rows
                        if at < stop and start < at + rows:
                            yield at, file.read_row_group(number, columns, use_threads=False)
                        at += rows
            except (pa.ArrowException, ValueError, KeyError) as error:
                raise FormatError(
                    f"{str(path)!r}, a shard of a store, could not be read: "
                    f"{str(error).splitlines()[0]}; it should have {shard.rows:,} cells. {RESTORE}"
                ) from error

    # -- its files --------------------------------------------------------------------------------

    def _path(self, stored: StoredFile) -> Path:
        """Return the path of a file that was seen to be the one that was written."""
        path = self._size_checked(stored)
        if stored.file not in self._checked:
            try:
                found = checksum_of(path)
            except PermissionError as error:
                raise FormatError(
                    f"{str(path)!r}, which the store needs, could not be read: permission denied. "
                    "Ask for the right to read it."
                ) from error
            if found != stored.sha256:
                self._refuse_replaced()
                raise FormatError(
                    f"{str(path)!r} was changed after the store was written: its checksum is "
                    f"{found[:12]}..., and was {stored.sha256[:12]}.... {RESTORE}"
                )
            self._checked.add(stored.file)
        return path

    def _size_checked(self, stored: StoredFile) -> Path:
        path = self.folder / stored.file
        if Path(stored.file).name != stored.file:
            raise FormatError(
                f"the store {str(self.folder)!r} is damaged: it names a file that is not its own, "
                f"{stored.file[:200]!r}. {RESTORE}"
            )
        try:
            size = path.stat().st_size
        except FileNotFoundError as error:
            self._refuse_replaced()
            raise FormatError(
                f"the store {str(self.folder)!r} lacks its file {stored.file!r}, of "
                f"{stored.bytes:,} bytes. {RESTORE}"
            ) from error
        if size != stored.bytes:
            self._refuse_replaced()
            raise FormatError(
                f"{str(path)!r} is not the file that was written: it has {size:,} bytes, and had "
                f"{stored.bytes:,}. {RESTORE}"
            )
        return path

    def _refuse_replaced(self) -> None:
        """Refuse to go on with a store that another one has taken the place of."""
        try:
            checksum = Manifest.read(self.folder)[1]
        except FileNotFoundError:
            checksum = ""
        if checksum != self.checksum:
            raise FormatError(
                f"the store {str(self.folder)!r} was written anew, moved or removed since it was "
                "opened, so its cells would not belong together. Open it again, and begin what "
                "was computed from it afresh."
            )
