"""Folders of one JSON document and its arrays, for models and checkpoints: no pickle, no torn file.

The document names its file of arrays and that file's checksum. Arrays are written first, under a
name not in use, and the document is moved into place last. Whatever moment a process dies at, the
folder holds the old pair or the new one. Of several writers one at a time has the folder's lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from tallyfold.data.locks import locked_folder
from tallyfold.data.temporaries import clear_abandoned, temporary_prefix
from tallyfold.errors import BusyError, StorageError
from tallyfold.inference.fit.large_files import Large, map_large, remove_large, write_large
from tallyfold.kernels.arrays import Array

DOCUMENT = "model.json"
ARRAYS = "arrays.safetensors"
NAMES_OF_ARRAYS = re.compile(r"arrays(-[0-9a-f]{12})?\.safetensors")
"""What a file of arrays is called; a document that names any other was not written here."""
PAUSES = (0.0, 0.001, 0.002, 0.005, *[0.01] * 20, *[0.1] * 20)
"""Seconds to wait before each look at a folder whose document changes while it is read."""
LONGEST_NUMBER = 1000
"""Characters of a number with a fraction; those that are saved have about 20."""

Arrays = dict[str, Array]


def write_folder(
    folder: str | os.PathLike[str],
    document: dict[str, Any],
    arrays: Arrays,
    large: Large | None = None,
) -> None:
    """Write a document and its arrays, replacing what the folder held before.

    `large` are arrays that get files of their own, which are mapped when they are read.
    """
    from safetensors.numpy import save

    place = Path(folder)
    refuse_foreign(place, document["format"])
    data = save({name: np.array(array, order="C") for name, array in arrays.items()})
    with locked_folder(place):
        clear_abandoned(place)
        refuse_foreign(place, document["format"])  # it may have come while we waited
        try:
            document = document | {"large": write_large(place, large)} if large else document
            _replace_pair(place, document, data)
            remove_large(place, document)
        except OSError as error:
            with contextlib.suppress(StorageError):
                remove_large(place, _parsed(place) if (place / DOCUMENT).exists() else {})
            raise StorageError(
                f"{str(place)!r} could not be written: {error.strerror or error}. What it held "
                "before is still there. Make room or choose another folder, and save again."
            ) from error


def _replace_pair(place: Path, document: dict[str, Any], data: bytes) -> None:
    """Write arrays, then the document that names them; then remove the arrays that were there."""
    before = _arrays_named_by(place)
    checksum = hashlib.sha256(data).hexdigest()
    name = ARRAYS if not (place / ARRAYS).exists() else f"arrays-{checksum[:12]}.safetensors"
    replace_file(place / name, data)
    record = document | {"arrays": {"file": name, "sha256": checksum}}
    record["checksum"] = _checksum(record)
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    try:
        replace_file(place / DOCUMENT, text.encode())
    except OSError:
        if name != before:
            (place / name).unlink(missing_ok=True)
        raise
    if before is not None and before != _arrays_named_by(place):
        (place / before).unlink(missing_ok=True)


def refuse_foreign(folder: str | os.PathLike[str], kind: str) -> None:
    """Refuse to write over a folder that holds something of another kind."""
    place = Path(folder)
    if (place / DOCUMENT).exists() and _parsed(place).get("format") != kind:
        raise StorageError(
            f"{str(place)!r} holds something else than a {kind}, which would be lost. Choose "
            "another folder."
        )


def read_folder(
    folder: str | os.PathLike[str], kind: str, newest: int, *, oldest: int = 1
) -> tuple[dict[str, Any], Arrays]:
    """Read a document of a kind and its arrays; anything wrong is a StorageError."""
    place = Path(folder)
    clear_abandoned(place)
    for pause in PAUSES:
        time.sleep(pause)
        seen = _stamp(place)
        try:
            document = _document(place, kind, newest, oldest)
            return document, _read_arrays(place, document) | map_large(place, document)
        except StorageError:
            if _stamp(place) == seen:  # else another process has saved meanwhile
                raise
    raise BusyError(
        f"{str(place)!r} is busy: it is saved again and again, faster than it can be read. Wait "
        "until that is done."
    )


def _stamp(place: Path) -> tuple[int, ...]:
    """Return what tells a document from one that took its place."""
    try:
        found = (place / DOCUMENT).stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _read_arrays(place: Path, document: dict[str, Any]) -> Arrays:
    name, checksum = _named_arrays(place, document)
    problem = f"{name!r} is not the file that was saved"
    try:
        data = _bytes_of(place / name)
        if hashlib.sha256(data).hexdigest() == checksum:
            return _loaded(place, data)
    except (OSError, MemoryError) as error:
        problem = f"its file of arrays is missing ({error})"
    raise StorageError(
        f"{str(place)!r} is damaged: {problem}. Save it again, or take it from a backup."
    )


def _named_arrays(place: Path, document: dict[str, Any]) -> tuple[str, str]:
    try:
        name, checksum = str(document["arrays"]["file"]), str(document["arrays"]["sha256"])
    except (KeyError, TypeError) as error:
        raise StorageError(f"{str(place)!r} is damaged: it names no file of arrays.") from error
    if NAMES_OF_ARRAYS.fullmatch(name) is None:  # it may lie outside, or be somebody else's
        raise StorageError(
            f"{str(place)!r} is damaged: it names a file that is not its own, {name[:200]!r}."
        )
    return name, checksum


def _arrays_named_by(place: Path) -> str | None:
    """Return the file of arrays that the document in a folder names, if there is one."""
    try:
        return _named_arrays(place, _parsed(place))[0]
    except StorageError:
        return None


def _checksum(document: dict[str, Any]) -> str:
    """Return a checksum of a document, its own checksum left out."""
    rest = {key: value for key, value in document.items() if key != "checksum"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _parsed(place: Path) -> dict[str, Any]:
    try:
        text = _bytes_of(place / DOCUMENT).decode("utf-8")
        document = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except (ValueError, OSError, RecursionError, MemoryError) as error:
        raise StorageError(f"{str(place / DOCUMENT)!r} is damaged: {error}") from error
    return document if isinstance(document, dict) else {}


def _bytes_of(file: Path) -> bytes:
    """Read a file; refuse pipes and devices, which may have no end."""
    if file.exists() and not file.is_file():
        raise OSError(f"{file.name!r} is no file")
    return file.read_bytes()


def _finite(text: str) -> float:
    """Read a number of a document: none that is saved is infinite, or NaN."""
    if len(text) > LONGEST_NUMBER or not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:20]!r} is no finite number")
    return number


def _document(place: Path, kind: str, newest: int, oldest: int) -> dict[str, Any]:
    if not (place / DOCUMENT).is_file():
        if place.is_dir():
            raise StorageError(f"{str(place)!r} has no model.json: it is not a {kind}.")
        raise StorageError(f"there is no folder {str(place)!r}.")
    document = _parsed(place)
    if document.get("format") != kind:
        raise StorageError(f"{str(place)!r} holds something else than a {kind}.")
    version = document.get("version")
    if type(version) is not int or version < 1:
        raise StorageError(f"{str(place)!r} is damaged: it has no version.")
    if version > newest:
        raise StorageError(
            f"{str(place)!r} has version {version} of the format, written by tallyfold "
            f"{document.get('tallyfold')}; this one reads up to {newest}. Upgrade tallyfold."
        )
    if version < oldest:
        raise StorageError(
            f"{str(place)!r} has version {version} of the format, written by an earlier tallyfold; "
            f"this one reads version {oldest} and later. Start again in another folder."
        )
    if document.get("checksum") != _checksum(document):
        raise StorageError(
            f"{str(place / DOCUMENT)!r} is damaged: it is not as it was saved. Save it again, or "
            "take it from a backup."
        )
    return document


def _loaded(place: Path, data: bytes) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(data))
    except (SafetensorError, ValueError, KeyError) as error:
        raise StorageError(f"{str(place)!r} is damaged: {error}") from error


def replace_file(file: Path, data: bytes) -> None:
    """Write a file under another name, make sure of it, then move it into place."""
    handle, temporary = tempfile.mkstemp(dir=file.parent, prefix=temporary_prefix())
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
