"""A gate: multipliers of the pairs of two axes, which say what is active at all.

A pair (i, j) has a multiplier u_ij ~ Gamma(g, g) of the rates of its cells. Given the counts of its
cells and the closed sum of their rates it is

- u_ij ~ Gamma(g + its counts, g + its closed sum)

and pairs never seen share Gamma(g, g + the mean of their sums). g is the one under which the counts
of all pairs are most likely. Which two axes have a gate, if any, is chosen by held-out cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.kernels.margins import key_counts
from tallyfold.posterior.closed_sums import ClosedSums, GatePairs
from tallyfold.posterior.derived_axis import DerivedAxis, combination_keys, rows_of_keys
from tallyfold.posterior.gamma_posterior import GammaTable

Axes = tuple[int, int]
S = TypeVar("S")

FIRST_GATE_SHAPE = 0.05
GATE_SHAPES = 1e-4, 20.0
"""Between which the gate's shape is sought."""
CHOICE_COMPONENTS, CHOICE_PASSES = 5, 8
"""Of the small models that gates are compared by."""
LEAST_CELLS = 2.0
"""Of a pair, on average, for a gate to be chosen: one cell alone says nothing of activity."""


class Gate:
    """The pairs of two axes among training cells, or no gate; made when first needed.

    `pairs` may be given: those of more cells than these.
    """

    def __init__(
        self, axes: Axes | None, cells: TrainingCells, pairs: GatePairs | None = None
    ) -> None:
        self.axes, self.cells, self._given = axes, cells, pairs

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of labels on both axes."""
        return tuple(self.cells.shape[axis] for axis in self.axes or ())

    @cached_property
    def pairs(self) -> GatePairs | None:
        """The pairs that were seen in any process."""
        if self.axes is None or self._given is not None:
            return self._given
        return GatePairs.of(self.axes, self.sizes, self._keys_P)

    @cached_property
    def _keys_P(self) -> Ints:
        assert self.axes is not None
        keys_P, _ = key_counts(combination_keys(self.cells.indices_NM, self.axes, self.sizes))
        if self.cells.group.size > 1:
            keys_P = np.unique(self.cells.group.all_gather(keys_P))
        return keys_P

    @cached_property
    def row_N(self) -> Positions:
        """The pair of each of this process's cells; the last row for those without any."""
        return self.rows(self.cells.indices_NM).astype(np.int32)

    @cached_property
    def counts_P(self) -> Floats:
        """The sum of the counts of each pair seen, in all processes."""
        counts_P1 = np.bincount(self.row_N, self.cells.counts_N, minlength=self.n_rows)
        return self.cells.group.all_reduce(counts_P1)[:-1]

    @property
    def n_rows(self) -> int:
        """The pairs seen, and one for all others."""
        if self.axes is None:
            return 1
        return len(self._keys_P if self._given is None else self._given.keys_P) + 1

    def multipliers(self, table: GammaTable) -> Floats:
        """Return the mean multiplier of each of this process's cells."""
        if self.axes is None:
            return np.full(len(self.cells), table.mean_DK[0, 0])
        return np.asarray(table.mean_DK[self.row_N, 0])

    def rows(self, positions_NM: Positions) -> Ints:
        """Return the pair of each cell; the last row for those without any."""
        if self.pairs is None or self.axes is None:
            return np.zeros(len(positions_NM), dtype=np.int64)
        key_N = combination_keys(positions_NM, self.axes, self.sizes)
        return rows_of_keys(key_N, self.pairs.keys_P)

    def first_table(self, sums: ClosedSums) -> GammaTable:
        """Return multipliers to begin with: most of what there is goes to pairs seen."""
        n_seen = self.n_rows - 1
        mean_P1 = np.append(np.full(n_seen, 0.9 * sums.n_combinations / n_seen), 0.1)
        return GammaTable(mean_P1[:, None], np.ones((n_seen + 1, 1)))

    def derived(self, table: GammaTable, shape: float) -> tuple[DerivedAxis, ...]:
        """Return the multipliers as a derived axis; none without a gate."""
        if self.pairs is None or self.axes is None:
            return ()
        typical_2 = np.array([1.0, shape])
        return (DerivedAxis(self.axes, self.sizes, self.pairs.keys_P, table, typical_2),)


def gate_posterior(
    sums: ClosedSums, counts_P: Floats, shape: float | None
) -> tuple[GammaTable, float]:
    """Return the multipliers given the pairs' counts, and their prior's shape; None learns it."""
    exposure_P, rest = sums.gate_exposure()
    if shape is None:
        n_rest = sums.n_combinations - len(counts_P)
        shape = _best_gate_shape(counts_P, exposure_P, rest, n_rest)
    table = GammaTable(
        np.append(shape + counts_P, shape)[:, None],
        np.append(shape + exposure_P, shape + rest)[:, None],
    )
    return table, shape


def _best_gate_shape(counts_P: Floats, exposure_P: Floats, rest: float, n_rest: float) -> float:
    """Return the prior shape under which the pairs' counts are most likely.

    They are negative binomial; pairs never seen have a count of zero.
    """

    def loss(log_shape: float) -> float:
        g = float(np.exp(log_shape))
        seen_P = gammaln(g + counts_P) - gammaln(g) - (g + counts_P) * np.log1p(exposure_P / g)
        return float(n_rest * g * np.log1p(rest / g) - (seen_P - counts_P * log_shape).sum())

    low, high = np.log(GATE_SHAPES)
    return float(np.exp(minimize_scalar(loss, bounds=(low, high), method="bounded").x))


def possible_gates(
    gates: Sequence[Axes | None],
    cells: TrainingCells,
    n_pairs: Callable[[Axes], int] | None = None,
) -> tuple[Axes | None, ...]:
    """Return the gates to choose from without those whose pairs have hardly more than one cell.

    A gate that a user named is not chosen: it stays. `n_pairs` says how many pairs two axes have,
    where that is known already.
    """
    if len(gates) < 2:
        return tuple(gates)

    def counted(axes: Axes) -> int:
        return Gate(axes, cells).n_rows - 1

    number = n_pairs or counted
    return tuple(a for a in gates if a is None or cells.n_cells >= LEAST_CELLS * number(a))


@dataclass(frozen=True)
class GateState:
    """A gate on its way.

    Attributes
    ----------
    number
        Which of the step's gates.
    table
        Gamma posteriors of the multipliers; no row before the first sweep, or without a gate.
    shape
        Of their prior.
    """

    number: int
    table: GammaTable
    shape: float = FIRST_GATE_SHAPE

    @classmethod
    def first(cls, number: int) -> GateState:
        """Return a gate before the first sweep."""
        return cls(number, GammaTable(np.empty((0, 1)), np.empty((0, 1))))


class GatedStep(Protocol[S]):
    """A step, also a dataclass with `gate` and `guide`, that begins by itself."""

    @property
    def gates(self) -> Sequence[Axes | None]:
        """The gates that it may have."""

    @property
    def n_components(self) -> int:
        """The number of components."""

    def start(self, previous: object = None) -> S:
        """Begin with its `gate`."""

    def advance(self, state: S, iteration: int) -> tuple[S, float]:
        """Make a pass."""

    def validation_score(self, state: S) -> float | None:
        """Score held-out cells."""


@dataclass(frozen=True)
class GateChoice(Generic[S]):
    """Passes of small models, one for each gate, side by side; the best predicts held-out cells.

    Attributes
    ----------
    steps
        A step for each candidate.
    score
        How well a candidate predicts.
    """

    steps: tuple[GatedStep[S], ...]
    score: Callable[[Any, S], float]

    def start(self, previous: object = None) -> tuple[S, ...]:
        """Start all candidates."""
        return tuple(step.start() for step in self.steps)

    def advance(self, states: tuple[S, ...], iteration: int) -> tuple[tuple[S, ...], float]:
        """Make a pass with each; return the best objective."""
        pairs = zip(self.steps, states, strict=True)
        found = [step.advance(state, iteration) for step, state in pairs]
        return tuple(state for state, _ in found), max(objective for _, objective in found)

    def validation_score(self, states: object) -> None:
        """Return None: no state of this phase is a result."""
        return

    def chosen(self, states: tuple[S, ...]) -> int:
        """Return which candidate predicts held-out cells best."""
        pairs = zip(self.steps, states, strict=True)
        return int(np.argmax([self.score(step, state) for step, state in pairs]))


def validation_score(step: GatedStep[S], state: S) -> float:
    """Return how well a step's state predicts held-out cells."""
    found = step.validation_score(state)
    return -np.inf if found is None else found


def gate_choice(
    sweeps: GatedStep[S],
    score: Callable[[Any, Any], float] = validation_score,
    each: Callable[[Any], Any] = lambda step: step,
    n_passes: int = CHOICE_PASSES,
) -> tuple[Phase, Callable[[Any], S]]:
    """Return a phase that chooses one of a step's gates, and what begins the step after it.

    Where combinations of labels add something, too, `score` must have it in: a gate of pairs with
    hardly more than one cell each would win alone, and leave nothing to the components. `each`
    makes of the step for a gate what is advanced `n_passes` times in its place.
    """
    like: Any = sweeps
    few = min(CHOICE_COMPONENTS, sweeps.n_components)
    small = replace(like, n_components=few, guide=None)
    steps = tuple(each(replace(small, gate=number)) for number in range(len(sweeps.gates)))
    choice = GateChoice[Any](steps, score)
    phase = Phase("gate", choice, choice.start, StoppingRules(n_passes, scheduled=True))

    def begin(states: tuple[Any, ...]) -> S:
        started: S = replace(like, gate=choice.chosen(states)).start()
        return started

    return phase, begin
