"""Arrays too large to be read whole, in files of their own that are mapped into memory.

A row is read when it is asked for. A file is named by its content, written under another name and
moved into place, and named with its size and checksum by the document of its folder. Files are
checked when a folder is opened, some at a time, so that this takes no memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tallyfold.data.store.manifest import checksum_of
from tallyfold.data.temporaries import temporary_prefix
from tallyfold.errors import StorageError
from tallyfold.inference.distributed.own_ranges import all_or_none
from tallyfold.inference.distributed.process_group import ProcessGroup
from tallyfold.kernels.arrays import Array, row_blocks

NAMES = re.compile(r"large-[0-9a-f]{12}\.(npy|arrow)")
PATTERN = "large-*"
LARGE = 1 << 24
"""Bytes of an array from which it is kept in a file of its own."""
Write = Callable[[BinaryIO], None]
Large = Mapping[str, Write]
"""What writes the files, by the names of the arrays; those of labels end in ``.arrow``."""


def rows_writer(array: Array) -> Write:
    """Return what writes an array as NumPy's format, some rows at a time."""

    def write(stream: BinaryIO) -> None:
        write_header(stream, array.shape, array.dtype)
        for (block,) in row_blocks(array):
            stream.write(np.ascontiguousarray(block).data)

    return write


def write_header(stream: BinaryIO, shape: tuple[int, ...], dtype: Any) -> None:
    """Begin a file of NumPy's format."""
    facts = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, facts)


def write_large(place: Path, large: Large) -> dict[str, dict[str, Any]]:
    """Write files and return what the document says of them."""
    found = {}
    for name, write in large.items():
        handle, temporary = tempfile.mkstemp(dir=place, prefix=temporary_prefix())
        try:
            with os.fdopen(handle, "wb") as stream:
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o644)
            checksum = checksum_of(Path(temporary))
            ending = "arrow" if name.endswith(".arrow") else "npy"
            file = f"large-{checksum[:12]}.{ending}"
            size = os.path.getsize(temporary)
            os.replace(temporary, place / file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        found[name] = {"file": file, "bytes": size, "sha256": checksum}
    return found


def rows_of_all(place: Path, rows: Array, size: int, group: ProcessGroup) -> Array:
    """Return an array of which each process has some rows, in order of rank: mapped from a file.

    Processes append their rows in turn, so that no two machines write to it at a time.
    """
    path = place / f"large-{group.broadcast(lambda: secrets.token_hex(6))}.npy"

    def append() -> None:
        try:
            with path.open("ab") as stream:
                if group.first:
                    write_header(stream, (size, *rows.shape[1:]), rows.dtype)
                stream.write(np.ascontiguousarray(rows).data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError as error:
            raise StorageError(
                f"{str(path)!r}, for the factors of all processes, could not be written by process "
                f"{group.rank + 1} of {group.size}: {error.strerror or error}. Make room and "
                "resume the fit, whose checkpoint is there."
            ) from error

    try:
        for turn in range(group.size):
            all_or_none(group, append if turn == group.rank else lambda: None)
        return all_or_none(group, lambda: mapped(path))
    except BaseException:
        with contextlib.suppress(OSError):
            path.unlink()
        raise


def seen_by_all(place: Path, group: ProcessGroup) -> bool:
    """Tell whether what the first process writes in a folder is seen by the others."""
    if group.size == 1:
        return False
    prefix = temporary_prefix()
    with contextlib.ExitStack() as stack:

        def make() -> str:
            try:
                file = tempfile.NamedTemporaryFile(dir=place, prefix=prefix)  # noqa: SIM115
            except OSError:  # what is written there next says why
                return ""
            return stack.enter_context(file).name

        seen = os.path.exists(group.broadcast(make))
        return group.all_reduce_number(float(seen)) == group.size


def remove_large(place: Path, document: Mapping[str, Any]) -> None:
    """Remove files that a document does not name."""
    found = document.get("large")
    named = {each["file"] for each in found.values()} if isinstance(found, dict) else set()
    for file in place.glob(PATTERN):
        if NAMES.fullmatch(file.name) and file.name not in named:
            with contextlib.suppress(OSError):
                file.unlink()


def map_large(place: Path, document: Mapping[str, Any]) -> dict[str, Array]:
    """Map the files that a document names, each seen to be the one that was written."""
    try:
        return {name: _mapped(place, **facts) for name, facts in document.get("large", {}).items()}
    except (TypeError, AttributeError) as error:
        raise StorageError(f"{str(place)!r} is damaged: its files of rows: {error!r}") from error


def _mapped(place: Path, file: str, bytes: int, sha256: str) -> Array:
    if NAMES.fullmatch(file) is None:
        raise StorageError(
            f"{str(place)!r} is damaged: it names a file that is not its own, {file[:200]!r}."
        )
    path = place / file
    try:
        if path.stat().st_size != bytes or checksum_of(path) != sha256:
            raise ValueError("it is not the file that was saved")
        return mapped(path)
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{str(place)!r} is damaged: {file!r}, {bytes:,} bytes of it: {error}. Save it again, "
            "or take it from a backup."
        ) from error


def mapped(path: Path) -> Array:
    """Return the array of a file, or the bytes of labels, mapped into memory."""
    if path.suffix == ".npy":
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    return np.memmap(path, np.uint8, mode="r")
