"""Which iterations of a fit can be compared with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tallyfold.inference.fit.loop import Iteration

PREPARING = {"choice", "start", "sweeps", "svi", "gate"}
"""Phases that only prepare a later one, where there is one: their objective is another."""

COMPLETING = {"occurrence", "all cells"}
"""Phases of a few iterations that complete what sweeps over a complete log have found."""

AMOUNTS = {"head", "residuals"}
"""Phases that train a count head; their objective is their score."""


def comparable(phases: Sequence[str]) -> list[bool]:
    """Tell which iterations have an objective that can be drawn as one line: that of the factors.

    Examples
    --------
    >>> comparable(["sweeps", "sweeps", "encoders"])
    [False, False, True]
    >>> comparable(["choice", "sweeps", "head"])
    [False, True, False]
    """
    later = [phase for phase in phases if phase not in PREPARING | COMPLETING | AMOUNTS]
    if later:
        return [phase in later for phase in phases]
    swept = [phase for phase in phases if phase in PREPARING] or list(phases)
    return [phase == swept[-1] for phase in phases]


def validated(phases: Sequence[str], complete: bool) -> dict[str, list[bool]]:
    """Tell which iterations have the same kind of validation score, by what it is of.

    A count head is scored by how many there are, given any; factors by the whole count or, in a
    fit of a complete log, by whether there is one.

    Examples
    --------
    >>> validated(["sweeps", "head"], complete=True)
    {'whether there is a count': [True, False], 'how many': [False, True]}
    >>> validated(["sweeps", "head"], complete=False)
    {'factors': [True, False], 'count head': [False, True]}
    >>> validated(["sweeps", "encoders"], complete=False)
    {'': [True, True]}
    """
    by_head = [phase in AMOUNTS for phase in phases]
    if not complete and len(set(by_head)) < 2:
        return {"": [True] * len(phases)}
    names = ("whether there is a count", "how many") if complete else ("factors", "count head")
    kinds = dict(zip(names, ([not each for each in by_head], by_head), strict=True))
    return {name: own for name, own in kinds.items() if any(own)}


class Run(NamedTuple):
    """Iterations from `start` up to `stop` that share a phase."""

    phase: str
    start: int
    stop: int


def objective_runs(history: Sequence[Iteration]) -> list[Run]:
    """Return the runs of iterations whose objectives are one line: those of one phase.

    The objective of a head is its score, which is drawn as that.

    Examples
    --------
    >>> bound = [Iteration(n, -9.0 / n, 0.1, -1.0, "sweeps") for n in (1, 2, 3)]
    >>> head = [Iteration(n, -1.0 / n, 0.1, -1.0 / n, "head") for n in (4, 5)]
    >>> objective_runs(bound + head)
    [Run(phase='sweeps', start=0, stop=3)]
    """
    runs: list[Run] = []
    for place, each in enumerate(history):
        if runs and runs[-1].phase == each.phase:
            runs[-1] = runs[-1]._replace(stop=place + 1)
        else:
            runs.append(Run(each.phase, place, place + 1))
    return [
        run
        for run in runs
        if any(each.objective != each.validation for each in history[run.start : run.stop])
    ]
