"""Folders of one JSON document and its arrays, for models and checkpoints: no pickle, no torn file.

The document names its file of arrays and that file's checksum. Arrays are written first, under a
name not in use, and the document is moved into place last. Whatever moment a process dies at, the
folder holds the old pair or the new one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.errors import StorageError

DOCUMENT = "model.json"
ARRAYS = "arrays.safetensors"

Arrays = dict[str, npt.NDArray[Any]]


def write_folder(folder: str | os.PathLike[str], document: dict[str, Any], arrays: Arrays) -> None:
    """Write a document and its arrays, replacing what the folder held before."""
    from safetensors.numpy import save

    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        data = save({name: np.array(array, order="C") for name, array in arrays.items()})
        checksum = hashlib.sha256(data).hexdigest()
        name = ARRAYS if not (place / ARRAYS).exists() else f"arrays-{checksum[:12]}.safetensors"
        _replace(place / name, data)
        record = document | {"arrays": {"file": name, "sha256": checksum}}
        text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
        _replace(place / DOCUMENT, text.encode())
        for old in place.glob("arrays*.safetensors"):
            if old.name != name:
                old.unlink()
    except OSError as error:
        raise StorageError(
            f"{str(place)!r} could not be written: {error.strerror or error}. What it held before "
            "is still there."
        ) from error


def read_folder(
    folder: str | os.PathLike[str], kind: str, newest: int
) -> tuple[dict[str, Any], Arrays]:
    """Read a document of a kind and its arrays; anything wrong is a StorageError."""
    place = Path(folder)
    document = _document(place, kind, newest)
    try:
        name, checksum = document["arrays"]["file"], document["arrays"]["sha256"]
        if Path(name).name != name:
            raise StorageError(f"{str(place)!r} is damaged: it names a file outside, {name!r}.")
        data = (place / name).read_bytes()
    except (KeyError, TypeError, OSError) as error:
        raise StorageError(
            f"{str(place)!r} is damaged: its file of arrays is missing ({error})."
        ) from error
    if hashlib.sha256(data).hexdigest() != checksum:
        raise StorageError(
            f"{str(place)!r} is damaged: {name!r} is not the file that was saved. Save the model "
            "again, or take it from a backup."
        )
    return document, _loaded(place, data)


def _document(place: Path, kind: str, newest: int) -> dict[str, Any]:
    if not (place / DOCUMENT).is_file():
        what = "has no model.json" if place.is_dir() else "is no folder"
        raise StorageError(f"{str(place)!r} {what}: it is not a {kind}.")
    try:
        document = json.loads((place / DOCUMENT).read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise StorageError(f"{str(place / DOCUMENT)!r} is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != kind:
        raise StorageError(f"{str(place)!r} holds something else than a {kind}.")
    version = document.get("version")
    if not isinstance(version, int) or version < 1:
        raise StorageError(f"{str(place)!r} is damaged: it has no version.")
    if version > newest:
        raise StorageError(
            f"{str(place)!r} has version {version} of the format, written by tallyfold "
            f"{document.get('tallyfold')}; this one reads up to {newest}. Upgrade tallyfold."
        )
    return document


def _loaded(place: Path, data: bytes) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, ValueError, KeyError) as error:
        raise StorageError(f"{str(place)!r} is damaged: {error}") from error


def _replace(file: Path, data: bytes) -> None:
    """Write a file under another name, make sure of it, then move it into place."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=".writing-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, file)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
