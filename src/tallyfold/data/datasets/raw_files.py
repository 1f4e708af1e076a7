"""From a folder, a pattern or file names to the raw files of a dataset."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from tallyfold.data.axis import listing
from tallyfold.errors import ParameterError

PathLike = str | os.PathLike[str]


def raw_files(source: PathLike | Sequence[PathLike] | None, patterns: Sequence[str]) -> list[Path]:
    """Return the files meant, sorted; in a folder, those whose names fit one of the patterns.

    A file that is named is taken whatever it is called.
    """
    asked = (
        list(source) if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    )
    if not asked or not all(isinstance(one, str | os.PathLike) for one in asked):
        raise ParameterError(
            f"`files` must be the folder of your download, a file, a pattern or a list of these; "
            f"got {source!r}. Wanted are {' or '.join(patterns)}."
        )
    files: dict[str, Path] = {}
    for one in asked:
        for file in _files_of(os.path.expanduser(os.fspath(one)), patterns):  # type: ignore[arg-type]
            files[os.path.realpath(file)] = file
    return sorted(files.values())


def one_file(files: Sequence[Path], what: str) -> Path:
    """Return the only file there is; refuse to choose among several."""
    if len(files) != 1:
        raise ParameterError(
            f"`files` must mean one file of {what}; got {listing([str(file) for file in files])}. "
            "Name the one you want."
        )
    return files[0]


def _files_of(path: str, patterns: Sequence[str]) -> list[Path]:
    if os.path.isdir(path):
        inside = sorted(file for file in Path(path).iterdir() if file.is_file())
        found = [f for f in inside if any(fnmatch(f.name.lower(), p.lower()) for p in patterns)]
        if not found:
            raise FileNotFoundError(_nothing(path, [file.name for file in inside], patterns))
        return found
    if os.path.exists(path):
        return [Path(path)]
    matching = [Path(file) for file in sorted(glob.glob(path, recursive=True))]
    files = [file for file in matching if file.is_file()]
    if not files:
        pattern = any(sign in path for sign in "*?[")
        raise FileNotFoundError(
            f"no file matches {path!r}." if pattern else f"there is no file or folder {path!r}."
        )
    return files


def _nothing(folder: str, names: list[str], patterns: Sequence[str]) -> str:
    packed = [name for name in names if name.lower().endswith((".zip", ".tar", ".7z"))]
    hint = f"Unpack {listing(packed)} first." if packed else "Name the file if it is called other."
    held = f"it holds {listing(names)}" if names else "it is empty"
    return f"folder {folder!r} has no file called {' or '.join(patterns)}; {held}. {hint}"
