"""A tensor in words: the one-line repr, and the record of what was left out on the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor

BANDS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 100), (101, None))
"""Ranges of counts, both ends included; the last is open."""


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
    rows: int = 0

    def __str__(self) -> str:
        parts = []
        if self.cells or not (self.labels or self.documents or self.rows):
            noun = "cell" if self.cells == 1 else "cells"
            parts.append(f"{self.cells:,} {noun} (total count {self.total:,})")
        for axis, number in (self.labels or {}).items():
            if number:
                parts.append(f"{number:,} {axis} label{'' if number == 1 else 's'}")
        for number, noun in ((self.documents, "document"), (self.rows, "row")):
            if number:
                parts.append(f"{number:,} {noun}{'' if number == 1 else 's'}")
        *most, last = parts
        first = ", ".join(most) + " and " if most else ""
        return f"{self.reason}: dropped {first}{last}"


def one_line(tensor: CountTensor) -> str:
    """Write axes, sizes, density and the spread of counts in one line."""
    axes = " x ".join(f"{axis.name} {len(axis):,}" for axis in tensor.axes)
    parts = [f"{tensor.nnz:,} non-zeros, density {percent(tensor.density)}, total {tensor.total:,}"]
    shares = [f"{band}: {percent(share)}" for band, share in count_bands(tensor) if share]
    if shares:
        parts.append("counts " + ", ".join(shares))
    if tensor.part is not None:
        parts.append(tensor.part.words())
    if tensor.dropped:
        parts.append("dropped: see .dropped")
    return f"CountTensor({axes}; {'; '.join(parts)})"


def count_bands(tensor: CountTensor) -> list[tuple[str, float]]:
    """Return ranges of counts and the share of non-zero cells in each."""
    counts = tensor.counts
    bands = []
    for low, high in BANDS:
        inside = counts >= low if high is None else (counts >= low) & (counts <= high)
        name = f"{low}+" if high is None else f"{low}" if low == high else f"{low}-{high}"
        bands.append((name, float(np.mean(inside)) if len(counts) else 0.0))
    return bands


def percent(share: float) -> str:
    """Write a share as a percentage with two significant digits."""
    value = 100 * share
    if value == 0 or value >= 99.5:
        return f"{value:.0f} %"
    digits = max(0, 1 - int(np.floor(np.log10(value))))
    return f"{value:.{digits}f} %"
