"""What a store says of itself: its axes, shards, totals, and how it was read."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tallyfold.data.summary import Dropped
from tallyfold.data.temporaries import temporary_prefix
from tallyfold.errors import FormatError
from tallyfold.version import __version__

MANIFEST = "manifest.json"
BUILDING = ".building"
"""Where an unfinished store keeps what it is made from."""
KIND, VERSION = "tallyfold-store", 1
BLOCK = 1 << 20


@dataclass(frozen=True)
class StoredFile:
    """A file of a store, and what tells whether it is the one that was written.

    Attributes
    ----------
    file
        Its name inside the store.
    bytes, sha256
        Its size and checksum.
    """

    file: str
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> StoredFile:
        """Describe a file that was just written."""
        return cls(path.name, path.stat().st_size, checksum_of(path))


@dataclass(frozen=True)
class StoredAxis:
    """An axis: its name, its number of labels, their type and order, and the file that has them."""

    name: str
    size: int
    type: str
    order: str | None
    labels: StoredFile


@dataclass(frozen=True)
class Shard:
    """A run of labels of the longest axis: a Parquet file of their cells.

    Attributes
    ----------
    rows
        How many cells.
    first, last
        The first and the last position on the longest axis.
    data
        The file.
    """

    rows: int
    first: int
    last: int
    data: StoredFile


@dataclass(frozen=True)
class Manifest:
    """All that is known of a store without reading its cells.

    Attributes
    ----------
    axes, shards
        In order.
    sorted_by
        The longest axis: cells are sorted by it, then by the others in order.
    count_column
        What the shards call the counts.
    nnz, total
        The number of cells and the sum of their counts.
    dropped
        What was left out when the counts were read.
    part
        Which of all cells these are, as `Part.to_text` writes it; None: all.
    job
        What it was made from, and how: files, and the choices that were made.
    """

    axes: tuple[StoredAxis, ...]
    shards: tuple[Shard, ...]
    sorted_by: str
    count_column: str
    nnz: int
    total: int
    dropped: tuple[Dropped, ...]
    part: str | None
    job: dict[str, Any]

    @property
    def longest(self) -> int:
        """The position of the longest axis."""
        return [axis.name for axis in self.axes].index(self.sorted_by)

    def write(self, folder: Path) -> None:
        """Write the manifest, whole or not at all: with it a folder is a store."""
        document = {"format": KIND, "version": VERSION, "tallyfold": __version__} | asdict(self)
        document["checksum"] = _checksum(document)
        handle, name = tempfile.mkstemp(dir=folder, prefix=temporary_prefix())
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(document, stream, indent=1, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, 0o644)
            os.replace(name, folder / MANIFEST)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def read(cls, folder: Path) -> tuple[Manifest, str]:
        """Read the manifest of a store, and what tells it from another one."""
        file = folder / MANIFEST
        try:
            document = json.loads(file.read_bytes())
            kind, version = document["format"], document["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(file, repr(error)) from error
        if kind != KIND:
            raise FormatError(
                f"{str(folder)!r} is not a store: its {MANIFEST} is of format {kind!r}; a store's "
                f"is {KIND!r}. Make one with tallyfold.write_store, or name another folder."
            )
        if version != VERSION:
            raise FormatError(
                f"the store {str(folder)!r} is of version {version!r}; this tallyfold "
                f"({__version__}) reads version {VERSION}. Write the store again, or read it with "
                f"the version that wrote it ({document.get('tallyfold', 'unknown')})."
            )
        known = document.pop("checksum", None)
        if known != _checksum(document):
            raise _damaged(file, "it was changed after it was written")
        try:
            return _restored(document), str(known)
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(file, repr(error)) from error


def checksum_of(path: Path) -> str:
    """Return the SHA-256 of a file, read in small blocks."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def is_store(path: object) -> bool:
    """Tell whether a path is the folder of a store, finished or not."""
    if not isinstance(path, str | os.PathLike):
        return False
    folder = Path(os.path.expanduser(path))
    return (folder / MANIFEST).is_file() or (folder / BUILDING).is_dir()


def _damaged(file: Path, said: str) -> FormatError:
    return FormatError(
        f"{str(file)!r} is damaged: {said}. Take it from a backup, or remove the folder and write "
        "the store again."
    )


def _checksum(document: dict[str, Any]) -> str:
    plain = {name: value for name, value in document.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _restored(document: dict[str, Any]) -> Manifest:
    axes = [
        StoredAxis(**axis | {"labels": StoredFile(**axis["labels"])}) for axis in document["axes"]
    ]
    shards = [
        Shard(**shard | {"data": StoredFile(**shard["data"])}) for shard in document["shards"]
    ]
    return Manifest(
        tuple(axes),
        tuple(shards),
        document["sorted_by"],
        document["count_column"],
        document["nnz"],
        document["total"],
        tuple(Dropped(**each) for each in document["dropped"]),
        document["part"],
        document["job"],
    )
