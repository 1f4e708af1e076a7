"""A tensor in words: the one-line repr, and the histogram behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tallyfold.data.tensor import CountTensor

BANDS = ((1, 1), (2, 2), (3, 5), (6, 10), (11, 100), (101, None))
"""Ranges of counts, both ends included; the last is open."""


def one_line(tensor: CountTensor) -> str:
    """Write axes, sizes, density and the spread of counts in one line."""
    axes = " x ".join(f"{axis.name} {len(axis):,}" for axis in tensor.axes)
    parts = [f"{tensor.nnz:,} non-zeros, density {percent(tensor.density)}, total {tensor.total:,}"]
    shares = [f"{band}: {percent(share)}" for band, share in count_bands(tensor) if share]
    if shares:
        parts.append("counts " + ", ".join(shares))
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
