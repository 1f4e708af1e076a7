"""What each of several processes saves of a run: its own cells' and labels' arrays, in a file.

A name that ends in ``_N`` is that of an array with an entry for each cell, ``axes/0/..._DK`` that
of one with a row for each label of axis 0. Parts are written under names not in use; the document
that is moved into place afterwards names them, with their checksums. So a folder has the old run or
the new one. Any number of processes reads them back: each what it needs of those that have it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tallyfold.data.store.manifest import checksum_of
from tallyfold.errors import StorageError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.own_ranges import all_or_none, gathered
from tallyfold.inference.fit.folder import replace_file
from tallyfold.kernels.arrays import Array
from tallyfold.posterior.named_arrays import Arrays

PATTERN = "part-*.safetensors"
NAME = re.compile(r"part-[0-9a-f]{12}-[0-9]+\.safetensors")
ROWS = re.compile(r"(?:^|/)axes/([0-9]+)/[a-z]+_DK$")


class Part(NamedTuple):
    """A process's file, its checksum, and which of all cells and labels it has: from, to."""

    file: str
    sha256: str
    cells: tuple[int, int]
    rows: tuple[int, int]


def is_own(name: str, cells: TrainingCells) -> bool:
    """Tell whether an array has entries of this process's cells or labels alone."""
    axis = ROWS.search(name)
    return name.endswith("_N") or (axis is not None and cells.is_own(int(axis[1])))


def own_entries(name: str, array: Array, cells: TrainingCells) -> Array:
    """Return this process's entries of an array of all cells or labels; others as they are."""
    axis = ROWS.search(name)
    if axis is not None:
        return array[cells.rows[int(axis[1])]]
    return array[_own_cells(cells)] if name.endswith("_N") else array


def _own_cells(cells: TrainingCells) -> slice:
    return slice(cells.first, cells.first + len(cells))


def write_parts(
    place: Path, stamp: str, arrays: Mapping[str, Array], cells: TrainingCells
) -> list[Part]:
    """Let each process write its arrays; return all parts, or fail in all processes."""
    group, own = cells.group, cells.own_rows
    rows = (0, 0) if own is None else (own.first, own.after)

    def write() -> Part:
        from safetensors.numpy import save

        file = f"part-{stamp}-{group.rank}.safetensors"
        try:
            replace_file(
                place / file, save({n: np.ascontiguousarray(a) for n, a in arrays.items()})
            )
        except OSError as error:
            raise StorageError(
                f"{str(place)!r} could not be written by process {group.rank + 1} of {group.size}: "
                f"{error.strerror or error}. What it held before is still there. Make room or "
                "choose another folder, and save again."
            ) from error
        number = (cells.first, cells.first + len(cells))
        return Part(file, checksum_of(place / file), number, rows)

    try:
        return gathered(group, all_or_none(group, write))
    except BaseException:
        remove_parts(place, stamp)
        raise


def remove_parts(place: Path, stamp: str | None = None, keep: frozenset[str] = frozenset()) -> None:
    """Remove the parts of one run, or all but some."""
    for file in place.glob(PATTERN if stamp is None else f"part-{stamp}-*.safetensors"):
        if NAME.fullmatch(file.name) and file.name not in keep:
            with contextlib.suppress(OSError):
                file.unlink()


def read_parts(place: Path, document: dict[str, Any], cells: TrainingCells) -> Arrays:
    """Read what this process needs of the parts that a document names."""
    parts = [Part(*part) for part in document.get("parts", ())]
    found: dict[str, list[Array]] = {}
    for part in parts:
        if NAME.fullmatch(part.file) is None:
            raise StorageError(
                f"{str(place)!r} is damaged: it names a file that is not its own, "
                f"{part.file[:200]!r}."
            )
        wanted = {"cells": _own_cells(cells)}
        if document["parts_axis"] is not None:
            wanted["rows"] = cells.rows[document["parts_axis"]]
        if any(_overlap(getattr(part, what), own) for what, own in wanted.items()):
            for name, array in _read(place, part, wanted).items():
                found.setdefault(name, []).append(array)
    return {name: np.concatenate(arrays) for name, arrays in found.items()}


def _read(place: Path, part: Part, wanted: Mapping[str, slice]) -> Arrays:
    """Read the wanted cells and rows of a part that is seen to be the one that was saved."""
    from safetensors import SafetensorError, safe_open

    path = place / part.file
    try:
        if checksum_of(path) != part.sha256:
            raise StorageError(
                f"{str(place)!r} is damaged: {part.file!r} is not the file that was saved. Start "
                "again, or take it from a backup."
            )
        found = {}
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118  # it is no dict
                what = "cells" if name.endswith("_N") else "rows"
                start, stop = _overlap(getattr(part, what), wanted[what]) or (0, 0)
                found[name] = file.get_slice(name)[start:stop]
        return found
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise StorageError(
            f"{str(place)!r} is damaged, or not all of it is seen from here: {part.file!r}, what a "
            f"process saved of the run, could not be read ({error}). Every machine must see the "
            "folder at the same path."
        ) from error


def _overlap(has: tuple[int, int], wanted: slice) -> tuple[int, int] | None:
    """Return which of a part's entries are wanted, counted from its first."""
    start, stop = max(has[0], wanted.start), min(has[1], wanted.stop)
    return (start - has[0], stop - has[0]) if start < stop else None
