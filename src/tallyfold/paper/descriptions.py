"""What `experiments.toml` says of each experiment."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def described(part: str = "experiments") -> dict[str, Any]:
    """Return a part of the file: the experiments, the ``"texts"`` they share, ``"stands_for"``."""
    text = files("tallyfold.paper").joinpath("experiments.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)[part]
    return found


def notes(experiment: str, **facts: Any) -> list[str]:
    """Return what to know when reading an experiment's tables, with facts of the run filled in."""
    return [note.format(**facts) for note in described()[experiment]["notes"]]
