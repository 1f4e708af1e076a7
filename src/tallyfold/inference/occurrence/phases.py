"""How a fit of complete logs goes: the gate, the factors, what combinations add, all cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.step import MOST_CELLS
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
from tallyfold.inference.schemes.collapsed_batches import BatchState, BatchStep
from tallyfold.inference.schemes.gate import Axes, gate_choice, possible_gates, validation_score
from tallyfold.inference.schemes.guide import Guide
from tallyfold.posterior.derived_axis import countable
from tallyfold.posterior.named_arrays import Arrays

LEAST_HELD_OUT = 50
"""With fewer held-out cells that have a count, combinations add nothing: weights stay plain."""

CHOICE_BATCHES = 20
"""Batches of the small models that gates are compared by, if passes are over some entities."""

PASSES_AFTER_BATCHES = 2
"""Passes over all cells at the end: batches are for those who cannot wait for many."""

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
    batch_entities
        How many entities of the longest axis a pass looks at; None: all.
    guide
        What is known of components before the fit; None: nothing.
    """

    n_components: int
    prior_shape: float
    prior_rate: float | None
    gates: Sequence[Axes | None]
    stopping: StoppingRules
    seed: int
    backend: str
    batch_entities: int | None = None
    guide: Guide | None = None

    @property
    def n_passes(self) -> int:
        """At most how many passes, or batches, there are."""
        assert self.stopping.max_iter is not None
        return self.stopping.max_iter

    def batches(self, sweeps: CollapsedStep, n_iterations: int) -> BatchStep:
        """Return iterations that each look at some entities."""
        assert self.batch_entities is not None
        return BatchStep(sweeps, n_iterations, self.batch_entities, MOST_CELLS, self.seed)


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
    counted, gates = Counted(cells, tensor.axes, cells.share), settings.gates
    if looked_at is not None:
        gates = possible_gates(gates, cells, counted.n_combinations)
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
        guide=settings.guide,
    )
    phases = []
    begin: Callable[[Any], CollapsedState] = sweeps.start
    if len(gates) > 1 and looked_at is not None:
        fewer = looked_at.fewer

        def score(step: CollapsedStep, state: CollapsedState) -> float:
            learner = OccurrenceStep(step, counted, fewer, settings.seed)
            own = validation_score(step, state)
            return learner.with_multipliers(state)[1] + FACTORS_WEIGHT * own

        if settings.batch_entities is None:
            choice, begin = gate_choice(sweeps, score)
        else:
            choice, begin = gate_choice(
                sweeps,
                lambda step, state: score(step.sweeps, state.factors),
                lambda step: settings.batches(step, CHOICE_BATCHES),
                CHOICE_BATCHES,
            )
        phases.append(choice)

    def begin_like(_: Any, arrays: Arrays) -> CollapsedState:
        return replace(sweeps, gate=_gate_in(arrays, len(gates))).start()

    if settings.batch_entities is None:
        phases.append(Phase("sweeps", sweeps, begin, settings.stopping, begin_like=begin_like))
    else:
        batches = settings.batches(sweeps, settings.n_passes)
        rules = StoppingRules(settings.n_passes, scheduled=True)
        phases.append(
            Phase(
                "svi",
                batches,
                lambda state: batches.start(begin(state)),
                rules,
                begin_like=lambda *given: batches.start(begin_like(*given)),
            )
        )
    everything = cells if held_out is None else TrainingCells(tensor)
    whole = replace(sweeps, cells=everything, share=everything.share, held_out=None)
    near = looked_at is not None and len(looked_at) >= LEAST_FOR_NETWORK
    weights = OccurrenceStep(sweeps, counted, looked_at, settings.seed, near)
    last = LastPasses(whole, tensor.axes, weights, held_out)
    once = StoppingRules(1, patience=None, scheduled=True)
    n_last = LAST_PASSES if settings.batch_entities is None else PASSES_AFTER_BATCHES

    def begin_weights(state: CollapsedState | BatchState) -> OccurrenceState:
        return weights.start(state.factors if isinstance(state, BatchState) else state)

    taught = looked_at is not None and len(looked_at) >= LEAST_HELD_OUT
    if taught:
        rules = replace(once, max_iter=OCCURRENCE_STEPS)
        phases.append(Phase("occurrence", weights, begin_weights, rules, anew=True))
    if held_out is None and settings.batch_entities is None:
        n_last = 1
    rules = replace(once, max_iter=n_last)

    def begin_last(state: Any) -> OccurrenceState:
        return last.start(state if taught else begin_weights(state), sweeps)

    phases.append(Phase("all cells", last, begin_last, rules, anew=True))
    return phases
