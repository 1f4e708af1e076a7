"""A record of what was left out on the way to a tensor, so that nothing goes silently."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dropped:
    """What one rule left out.

    Examples
    --------
    >>> print(Dropped("fewer than 5 non-zeros per user", cells=12, total=20, labels={"user": 4}))
    fewer than 5 non-zeros per user: dropped 12 cells (total count 20) and 4 user labels
    """

    reason: str
    cells: int = 0
    total: int = 0
    labels: dict[str, int] | None = None
    documents: int = 0

    def __str__(self) -> str:
        parts = []
        if self.cells or not (self.labels or self.documents):
            noun = "cell" if self.cells == 1 else "cells"
            parts.append(f"{self.cells:,} {noun} (total count {self.total:,})")
        for axis, number in (self.labels or {}).items():
            if number:
                parts.append(f"{number:,} {axis} label{'' if number == 1 else 's'}")
        if self.documents:
            parts.append(f"{self.documents:,} document{'' if self.documents == 1 else 's'}")
        return f"{self.reason}: dropped {_joined(parts)}"


def _joined(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
