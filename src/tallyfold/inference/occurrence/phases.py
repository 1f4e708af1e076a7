"""How a fit of complete logs goes: the gate, the factors, what combinations add, all cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.occurrence.step import (
    LAST_PASSES,
    OCCURRENCE_STEPS,
    GateChoice,
    LastPasses,
    OccurrenceState,
    OccurrenceStep,
)
from tallyfold.inference.schemes.collapsed import Axes, CollapsedState, CollapsedStep
from tallyfold.posterior.derived_axis import countable

CHOICE_COMPONENTS, CHOICE_PASSES = 5, 8
"""Of the small models that gates are compared by."""
LEAST_HELD_OUT = 50
"""With fewer held-out cells that have a count, combinations add nothing: weights stay plain."""


@dataclass(frozen=True)
class Settings:
    """What a user may set.

    Attributes
    ----------
    n_components, prior_shape, prior_rate
        Of the factors.
    gates
        The pairs of axes to choose from, None for no gate; one alone is taken.
    stopping
        When passes end.
    seed, backend
        Of the start, and what computes.
    """

    n_components: int
    prior_shape: float
    prior_rate: float | None
    gates: Sequence[Axes | None]
    stopping: StoppingRules
    seed: int
    backend: str


def gate_candidates(shape: Sequence[int]) -> list[Axes | None]:
    """Return the gates to choose from: none, and every pair of three axes or more."""
    if len(shape) < 3:
        return [None]
    pairs = combinations(range(len(shape)), 2)
    return [None, *(pair for pair in pairs if countable([shape[m] for m in pair]))]


def occurrence_phases(
    tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None, settings: Settings
) -> list[Phase]:
    """Return the phases of a fit to `cells`, a part of a tensor whose other cells are held out."""
    looked_at = None
    if held_out is not None:
        looked_at = OccurrenceCells.of(held_out, cells.group, settings.seed)
    sweeps = CollapsedStep(
        cells=cells,
        share=cells.share,
        gates=settings.gates,
        n_components=settings.n_components,
        prior_shape=settings.prior_shape,
        prior_rate=settings.prior_rate,
        seed=settings.seed,
        backend=settings.backend,
        held_out=looked_at,
    )
    phases = []
    begin: Callable[[Any], CollapsedState] = sweeps.start
    if len(settings.gates) > 1 and looked_at is not None:
        small = replace(sweeps, n_components=min(CHOICE_COMPONENTS, settings.n_components))
        choice = GateChoice(
            tuple(replace(small, gate=number) for number in range(len(settings.gates)))
        )
        rules = StoppingRules(CHOICE_PASSES, scheduled=True)
        phases.append(Phase("gate", choice, choice.start, rules))
        begin = lambda states: replace(sweeps, gate=choice.chosen(states)).start()  # noqa: E731
    phases.append(Phase("sweeps", sweeps, begin, settings.stopping))
    everything = cells if held_out is None else TrainingCells(tensor)
    whole = replace(sweeps, cells=everything, share=everything.share, held_out=None)
    last = LastPasses(whole, tensor.axes)
    weights = OccurrenceStep(sweeps, tensor.axes, looked_at, settings.seed)
    once = StoppingRules(1, patience=None, scheduled=True)
    taught = looked_at is not None and len(looked_at) >= LEAST_HELD_OUT
    if taught:
        rules = replace(once, max_iter=OCCURRENCE_STEPS)
        phases.append(Phase("occurrence", weights, weights.start, rules, anew=True))
    rules = once if held_out is None else replace(once, max_iter=LAST_PASSES)

    def begin_last(state: Any) -> OccurrenceState:
        return last.start(state if taught else weights.start(state), sweeps)

    phases.append(Phase("all cells", last, begin_last, rules, anew=True))
    return phases
