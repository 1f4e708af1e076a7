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
    Counted,
    LastPasses,
    OccurrenceState,
    OccurrenceStep,
)
from tallyfold.inference.occurrence.training import LEAST_FOR_NETWORK
from tallyfold.inference.schemes.collapsed import CollapsedState, CollapsedStep
from tallyfold.inference.schemes.gate import Axes, gate_choice, possible_gates, validation_score
from tallyfold.posterior.derived_axis import countable
from tallyfold.posterior.named_arrays import Arrays

LEAST_HELD_OUT = 50
"""With fewer held-out cells that have a count, combinations add nothing: weights stay plain."""

FACTORS_WEIGHT = 0.1
"""Of what factors and gate predict by themselves when a gate is chosen. Combinations of labels can
make up for a gate that is missing, but components then would say when labels are active."""


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


def _gate_in(arrays: Arrays, n_gates: int) -> int:
    """Return the number of the gate that a saved state has, wherever in it the factors are."""
    found = [array for name, array in arrays.items() if name.split("/")[-1] == "gate"]
    if len(found) != 1 or found[0].ndim or found[0] not in range(n_gates):
        raise ValueError("the number of the gate")
    return int(found[0])


def occurrence_phases(
    tensor: CountTensor, cells: TrainingCells, held_out: CountTensor | None, settings: Settings
) -> list[Phase]:
    """Return the phases of a fit to `cells`, a part of a tensor whose other cells are held out."""
    looked_at = None
    if held_out is not None:
        looked_at = OccurrenceCells.of(held_out, cells.group, settings.seed)
    gates = settings.gates if looked_at is None else possible_gates(settings.gates, cells)
    sweeps = CollapsedStep(
        cells=cells,
        share=cells.share,
        gates=gates,
        n_components=settings.n_components,
        prior_shape=settings.prior_shape,
        prior_rate=settings.prior_rate,
        seed=settings.seed,
        backend=settings.backend,
        held_out=looked_at,
    )
    counted = Counted(cells, tensor.axes, cells.share)
    phases = []
    begin: Callable[[Any], CollapsedState] = sweeps.start
    if len(gates) > 1 and looked_at is not None:
        fewer = looked_at.fewer

        def score(step: CollapsedStep, state: CollapsedState) -> float:
            learner = OccurrenceStep(step, counted, fewer, settings.seed)
            own = validation_score(step, state)
            return learner.with_multipliers(state)[1] + FACTORS_WEIGHT * own

        choice, begin = gate_choice(sweeps, score)
        phases.append(choice)

    def begin_like(_: Any, arrays: Arrays) -> CollapsedState:
        return replace(sweeps, gate=_gate_in(arrays, len(gates))).start()

    phases.append(Phase("sweeps", sweeps, begin, settings.stopping, begin_like=begin_like))
    everything = cells if held_out is None else TrainingCells(tensor)
    whole = replace(sweeps, cells=everything, share=everything.share, held_out=None)
    near = looked_at is not None and len(looked_at) >= LEAST_FOR_NETWORK
    weights = OccurrenceStep(sweeps, counted, looked_at, settings.seed, near)
    last = LastPasses(whole, tensor.axes, weights)
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
