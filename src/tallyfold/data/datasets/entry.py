"""What is known of one dataset: what it holds, where it comes from, how to build its tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tallyfold.data.tensor import CountTensor


@dataclass(frozen=True)
class Dataset:
    """One entry of `DATASETS`.

    ``shape`` and ``nonzeros`` are those the paper reports. ``files`` are the names, as patterns,
    of the raw files that ``build`` reads; a dataset that needs none has an empty tuple. ``build``
    is None for data that cannot be had.
    """

    title: str
    what: str
    axes: tuple[str, ...]
    shape: tuple[int, ...]
    nonzeros: int
    origin: str
    terms: str
    steps: tuple[str, ...]
    remarks: str
    files: tuple[str, ...] = ()
    build: Callable[..., CountTensor] | None = None

    @property
    def way(self) -> str:
        """How it is had: from the user's own download, at once, or not at all."""
        if self.build is None:
            return "not public"
        return "your download" if self.files else "ready"

    @property
    def options(self) -> dict[str, Any]:
        """The options of ``build`` that are its own, with their defaults."""
        if self.build is None:
            return {}
        parameters = inspect.signature(self.build).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
