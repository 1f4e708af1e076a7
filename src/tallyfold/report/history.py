"""Which iterations of a fit can be compared by their objective."""

from __future__ import annotations

from collections.abc import Sequence

PREPARING = {"choice", "start", "sweeps", "svi"}
"""Phases that only prepare a later one, where there is one: their objective is another."""


def comparable(phases: Sequence[str]) -> list[bool]:
    """Tell which iterations have an objective that can be compared with the last one's.

    Examples
    --------
    >>> comparable(["sweeps", "sweeps", "encoders"])
    [False, False, True]
    >>> comparable(["choice", "sweeps"])
    [False, True]
    """
    later = [phase not in PREPARING for phase in phases]
    return later if any(later) else [phase == phases[-1] for phase in phases]
