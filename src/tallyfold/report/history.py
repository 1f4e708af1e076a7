"""Which iterations of a fit can be compared with each other."""

from __future__ import annotations

from collections.abc import Sequence

PREPARING = {"choice", "start", "sweeps", "svi", "gate", "occurrence", "all cells"}
"""Phases that only prepare a later one, where there is one: their objective is another."""

AMOUNTS = {"head", "residuals"}
"""Phases that learn how many there are; with observed zeros all others learn whether."""


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


def validated(phases: Sequence[str], complete: bool) -> dict[str, list[bool]]:
    """Tell which iterations have the same kind of validation score, by what it is of.

    In a fit of a complete log factors are scored by whether there is a count, heads by how many.

    Examples
    --------
    >>> validated(["sweeps", "head"], complete=True)
    {'whether there is a count': [True, False], 'how many': [False, True]}
    >>> validated(["sweeps", "head"], complete=False)
    {'': [True, True]}
    """
    if not complete:
        return {"": [True] * len(phases)}
    how_many = [phase in AMOUNTS for phase in phases]
    kinds = {"whether there is a count": [not each for each in how_many], "how many": how_many}
    return {name: own for name, own in kinds.items() if any(own)}
