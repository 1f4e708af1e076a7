"""What a store is made from and how: it tells a job that was interrupted from another one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tallyfold.data.axis import Axis, listing
from tallyfold.data.store.manifest import BUILDING, MANIFEST, Manifest
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import StorageError

JOB = "job.json"
OURS = (".lock", BUILDING, MANIFEST)
TEMPORARY = ".writing-"


def job_of(
    source: CountTensor | Sequence[str], request: Mapping[str, Any], shards: int
) -> dict[str, Any]:
    """Describe a job: its files with their sizes and times, or its tensor, and the choices made."""
    if isinstance(source, CountTensor):
        counted: Any = source.fingerprint()
    else:
        facts = [(os.path.realpath(file), os.stat(file)) for file in source]
        counted = [[name, stat.st_size, stat.st_mtime_ns] for name, stat in facts]
    job = {"counts": counted, "request": dict(request), "shards": shards}
    return json.loads(json.dumps(job, default=_plain))  # type: ignore[no-any-return]


def _plain(value: object) -> Any:
    """Return what JSON can keep of a choice."""
    if isinstance(value, Axis):
        return [value.name, None if value.order is None else value.order.to_text()]
    return "..." if value is ... else str(value)


def finished(folder: Path, job: Mapping[str, Any]) -> bool:
    """Tell whether a folder holds the store that a job makes; refuse anything but its remains."""
    if (folder / MANIFEST).exists():
        made = Manifest.read(folder)[0].job
        if made != job:
            raise StorageError(
                f"{str(folder)!r} holds a finished store of another job: {_difference(made, job)}."
                " Choose another folder, or remove that store first."
            )
        shutil.rmtree(folder / BUILDING, ignore_errors=True)
        return True
    known = _job_in(folder / BUILDING)
    if known is None:
        others = [one.name for one in folder.iterdir() if not _is_ours(one.name)]
        if others:
            raise StorageError(
                f"{str(folder)!r} holds something else than a store, such as "
                f"{listing(sorted(others), 1)}. Choose another folder."
            )
    elif known != job:
        raise StorageError(
            f"{str(folder)!r} holds the remains of another job that was not finished: "
            f"{_difference(known, job)}. Choose another folder, or remove that one and try again."
        )
    return False


def begin(folder: Path, job: Mapping[str, Any]) -> Path:
    """Return the folder in which a job keeps what it has made so far."""
    building = folder / BUILDING
    if _job_in(building) is None:
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir()
        target = building / "job.new"
        target.write_text(json.dumps(job), encoding="utf-8")
        os.replace(target, building / JOB)
    return building


def _job_in(building: Path) -> dict[str, Any] | None:
    """Return the job whose remains a folder holds; None if it had made nothing."""
    try:
        return json.loads((building / JOB).read_bytes())  # type: ignore[no-any-return]
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None


def _is_ours(name: str) -> bool:
    return name in OURS or name.startswith(TEMPORARY)


def _difference(known: Mapping[str, Any], job: Mapping[str, Any]) -> str:
    """Say in what a job differs."""
    if known.get("shards") != job["shards"]:
        return f"it has {known.get('shards')} shards asked for, this one {job['shards']}"
    before, now = known.get("request", {}), job["request"]
    for name in now:
        if before.get(name) != now[name]:
            return f"it has {name}={before.get(name)!r}, this one {name}={now[name]!r}"
    return "it was made from other counts, or its files have changed since"
