"""Labels in folder names, such as ``year=2020/part.parquet``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tallyfold.data.axis import listing
from tallyfold.errors import FormatError


def hive_columns(files: Sequence[str], wanted: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Return the wanted columns that are no columns of the files but keys of all their folders."""
    keys = [_keys(file) for file in files]
    shared = set.intersection(*keys) if keys else set()
    found = [name for name in wanted if name not in columns and name in shared]
    clash = [name for name in wanted if name in columns and any(name in k for k in keys)]
    if found and clash:
        raise FormatError(
            f"column {listing(clash)} is both in the files and in the names of their folders; "
            "rename one of them."
        )
    return found


def hive_option(found: Sequence[str]) -> str:
    """Write the option that makes DuckDB read keys of folders, as text, or leave them alone."""
    if not found:
        return "hive_partitioning = false"
    return "hive_partitioning = true, hive_types_autocast = false"


def _keys(file: str) -> set[str]:
    return {part.partition("=")[0] for part in Path(file).parent.parts if "=" in part}
