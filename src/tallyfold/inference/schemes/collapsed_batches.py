"""Collapsed variational Bayes over entities drawn at random, for very many cells (stochastic CVB0).

The entities are of the longest axis. An iteration passes over their cells alone, twice: their own
factors, and the multipliers of their pairs if the gate is of their axis, become what these cells
say. The factors of the other axes, and whatever else of the gate there is, take a step towards what
the drawn cells would make of them if they were all: sums over cells are scaled by how many entities
each drawn one stands for, and so is the drawn entities' part of the closed sums. The last iteration
updates all entities of the longest axis, given the other axes.

References
----------
Foulds, Boyles, DuBois, Smyth and Welling, "Stochastic Collapsed Variational Bayesian Inference for
Latent Dirichlet Allocation", KDD 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.parts import ranges, sample_entities
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.collapsed import CollapsedState, CollapsedStep, like_seen
from tallyfold.inference.schemes.factor_prior import FactorPrior
from tallyfold.inference.schemes.gate import Gate, gate_posterior
from tallyfold.inference.schemes.svi import DELAY, FORGETTING
from tallyfold.kernels.collapsed import CollapsedSums, collapsed_sums
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.posterior.derived_axis import rows_of_keys
from tallyfold.posterior.gamma_posterior import GammaTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROUNDS = 2
"""Passes over the drawn entities' cells in an iteration."""


@dataclass(frozen=True)
class BatchState:
    """The state of a pass, and whether all entities were updated since the last draw."""

    factors: CollapsedState
    complete: bool


@dataclass(frozen=True)
class Drawn:
    """Some entities of the longest axis, and what belongs to them alone.

    Attributes
    ----------
    entities, weight
        Their positions, and how many entities each stands for.
    cells, seen
        Their cells, the entities numbered from 0, and which labels are in the sums over all cells.
    gate, rows_P1
        The gate's pairs that matter to them, and where these stand in the table of all.
    """

    entities: Ints
    weight: float
    cells: TrainingCells
    seen: tuple[npt.NDArray[np.bool_], ...]
    gate: Gate
    rows_P1: Ints


@dataclass(frozen=True)
class BatchStep:
    """Iterations that each look at some entities; see the module's text.

    Attributes
    ----------
    sweeps
        The passes over all cells whose factors these are.
    n_iterations
        The number of the iteration that updates all entities in the end.
    n_entities, most_cells
        How many entities an iteration draws, and how many cells they may have together.
    seed
        Of the draws.
    """

    sweeps: CollapsedStep
    n_iterations: int
    n_entities: int
    most_cells: int
    seed: int = 0

    @property
    def axis(self) -> int:
        """The axis whose entities are drawn: the longest."""
        return int(np.argmax(self.sweeps.cells.shape))

    def start(self, previous: CollapsedState | None = None) -> BatchState:
        """Start as the passes over all cells do."""
        return BatchState(previous or self.sweeps.start(), complete=False)

    def advance(self, state: BatchState, iteration: int) -> tuple[BatchState, float]:
        """Return the state after one more iteration, and an estimate of the objective."""
        whole = state.factors
        drawn = self._drawn(whole, *self._sample(iteration))
        now = self._rows(whole, drawn)
        for _ in range(ROUNDS):
            before, found = now, self._pass(now, drawn)
            now = self._own_updated(now, drawn, found)
        objective = self._objective(before, drawn, found)
        step_size = (1 + iteration / DELAY) ** -FORGETTING
        new = self._step_towards(now, drawn, found, step_size)
        correlation_M = self.sweeps.guidance.learnt(new, iteration, but=self.axis)
        new = replace(new, correlation_M=correlation_M)
        new = self._written(whole, drawn, new)
        if iteration < self.n_iterations:
            return BatchState(new, complete=False), objective
        return BatchState(self._finished(new), complete=True), objective

    def validation_score(self, state: BatchState) -> float | None:
        """Score held-out cells once all entities are updated."""
        return self.sweeps.validation_score(state.factors) if state.complete else None

    def _sample(self, iteration: int) -> tuple[Ints, float]:
        """Draw entities that have cells; return them, and how many each one stands for."""
        number_D = self.sweeps.cells.cells_per_entity[self.axis]
        candidates = np.flatnonzero(number_D)
        rng = np.random.default_rng([self.seed, 4, iteration])
        entities = sample_entities(rng, number_D, candidates, self.n_entities, self.most_cells)
        return entities, len(candidates) / len(entities)

    def _drawn(self, state: CollapsedState, entities: Ints, weight: float) -> Drawn:
        axis, sweeps = self.axis, self.sweeps
        cells, _ = sweeps.cells.of_entities(axis, entities)
        own_seen = sweeps.cells.seen
        seen = tuple(s[entities] if m == axis else s for m, s in enumerate(own_seen))
        whole, axes = sweeps.gate_of(state), sweeps.gates[state.gate]
        inside = axes is not None and axis in axes
        gate = Gate(axes, cells, None if inside else whole.pairs)
        rows_P1 = np.arange(whole.n_rows)
        if inside and gate.pairs is not None and whole.pairs is not None and axes is not None:
            pairs_P2 = gate.pairs.pairs_P2.astype(np.int64)
            pairs_P2[:, axes.index(axis)] = entities[pairs_P2[:, axes.index(axis)]]
            key_P = pairs_P2[:, 0] * whole.sizes[1] + pairs_P2[:, 1]
            rows_P1 = np.append(rows_of_keys(key_P, whole.pairs.keys_P), whole.n_rows - 1)
        return Drawn(entities, weight, cells, seen, gate, rows_P1)

    def _has_own_pairs(self, state: CollapsedState) -> bool:
        """Return whether the gate is of the axis whose entities are drawn."""
        return self.axis in (self.sweeps.gates[state.gate] or ())

    def _rows(self, state: CollapsedState, drawn: Drawn) -> CollapsedState:
        """Return the state with the rows of the drawn entities, and their pairs, alone."""
        own = state.posterior.axes[self.axis].rows(drawn.entities)
        posterior = state.posterior.replace(self.axis, own)
        return replace(state, posterior=posterior, gate_table=state.gate_table.rows(drawn.rows_P1))

    def _written(self, whole: CollapsedState, drawn: Drawn, now: CollapsedState) -> CollapsedState:
        """Return the whole state with what the drawn entities have become."""
        own = whole.posterior.axes[self.axis].with_rows(
            drawn.entities, now.posterior.axes[self.axis]
        )
        gate_table = now.gate_table
        if self._has_own_pairs(whole):
            gate_table = whole.gate_table.with_rows(drawn.rows_P1, now.gate_table)
        return replace(now, posterior=now.posterior.replace(self.axis, own), gate_table=gate_table)

    def _sums(self, now: CollapsedState, drawn: Drawn, weight: float = 1.0) -> ClosedSums:
        """Return sums over all cells; those over drawn entities count `weight` times."""
        pairs = drawn.gate.pairs
        gate_P1 = None if pairs is None else now.gate_table.mean_DK[:, 0]
        share = self.sweeps.share * weight
        return ClosedSums(now.posterior.means, drawn.seen, share, pairs, gate_P1)

    def _pass(self, now: CollapsedState, drawn: Drawn) -> CollapsedSums:
        """Divide the latent counts of the drawn cells, of all processes, over components."""
        group = drawn.cells.group
        found = collapsed_sums(
            now.posterior.means,
            [1 / table.rate_DK for table in now.posterior.axes],
            drawn.cells.layouts[self.axis],
            self.sweeps.prior_shape,
            drawn.gate.multipliers(now.gate_table),
            backend=self.sweeps.backend,
        )
        sums = [group.all_reduce(sums_DK) for sums_DK in found.sums]
        return CollapsedSums(sums, found.latent_N, group.all_reduce_number(found.log_seen))

    def _own_updated(
        self, now: CollapsedState, drawn: Drawn, found: CollapsedSums
    ) -> CollapsedState:
        """Return the drawn entities' factors and, if they are theirs, multipliers of pairs."""
        table = self._table(self.axis, now, drawn, found, 1.0)
        now = replace(now, posterior=now.posterior.replace(self.axis, table))
        if not self._has_own_pairs(now):
            return now
        gate_table, _ = self._gate(now, drawn, found, now.gate_shape)
        last = np.array([len(drawn.rows_P1) - 1])
        kept = gate_table.with_rows(last, now.gate_table.rows(last))
        return replace(now, gate_table=kept)

    def _prior(self, axis: int, drawn: Drawn) -> FactorPrior:
        prior = self.sweeps.guidance.priors[axis]
        return prior.rows(drawn.entities) if axis == self.axis else prior

    def _table(
        self, axis: int, now: CollapsedState, drawn: Drawn, found: CollapsedSums, weight: float
    ) -> GammaTable:
        """Return what the drawn cells, each counted `weight` times, make of an axis."""
        prior = self._prior(axis, drawn)
        b, correlation = float(now.prior_rate_M[axis]), float(now.correlation_M[axis])
        exposure_DK = self._sums(now, drawn, weight).exposure(axis)
        counts_DK = weight * found.sums[axis]
        return prior.posterior(now.posterior.axes[axis], b, correlation, counts_DK, exposure_DK)

    def _gate(
        self,
        now: CollapsedState,
        drawn: Drawn,
        found: CollapsedSums,
        shape: float | None,
        weight: float = 1.0,
    ) -> tuple[GammaTable, float]:
        """Return multipliers given the drawn cells, and their prior's shape; None learns it."""
        n_rows = drawn.gate.n_rows
        latent_P1 = np.bincount(drawn.gate.row_N, found.latent_N, minlength=n_rows)
        latent_P = weight * drawn.cells.group.all_reduce(latent_P1)[:-1]
        return gate_posterior(self._sums(now, drawn, weight), latent_P, shape)

    def _step_towards(
        self, now: CollapsedState, drawn: Drawn, found: CollapsedSums, step_size: float
    ) -> CollapsedState:
        """Move the other axes, the priors' rates and what all share of the gate by a step."""
        stepped = now
        for axis, before in enumerate(now.posterior.axes):
            if axis != self.axis:
                new = like_seen(
                    self._table(axis, now, drawn, found, drawn.weight),
                    drawn.seen[axis],
                    self.sweeps.prior_shape,
                )
                moved = _between(before, new, step_size)
                stepped = replace(stepped, posterior=stepped.posterior.replace(axis, moved))
            prior = self._prior(axis, drawn)
            learnt_M = self.sweeps.learnt_rates(stepped, axis, drawn.seen[axis], prior)
            moved_M = stepped.prior_rate_M + step_size * (learnt_M - stepped.prior_rate_M)
            stepped = replace(stepped, prior_rate_M=moved_M)
        if drawn.gate.pairs is None:
            return stepped
        own = self._has_own_pairs(now)
        table, shape = self._gate(now, drawn, found, None, 1.0 if own else drawn.weight)
        rows = np.array([len(drawn.rows_P1) - 1]) if own else slice(None)
        moved = _between(now.gate_table.rows(rows), table.rows(rows), step_size)
        shape = now.gate_shape + step_size * (shape - now.gate_shape)
        return replace(stepped, gate_table=now.gate_table.with_rows(rows, moved), gate_shape=shape)

    def _objective(self, now: CollapsedState, drawn: Drawn, found: CollapsedSums) -> float:
        """Return an estimate of the log-likelihood per cell."""
        total = float(self._sums(now, drawn, drawn.weight).total().sum())
        return (drawn.weight * found.log_seen - total) / self.sweeps.cells.n_cells

    def _finished(self, state: CollapsedState) -> CollapsedState:
        """Update every entity of the longest axis, given the other axes."""
        cells, axis = self.sweeps.cells, self.axis
        for part in ranges(cells.cells_per_entity[axis]):
            drawn = self._drawn(state, np.arange(part.start, part.stop), 1.0)
            now = self._rows(state, drawn)
            for _ in range(ROUNDS):
                now = self._own_updated(now, drawn, self._pass(now, drawn))
            state = self._written(state, drawn, now)
        table = like_seen(state.posterior.axes[axis], cells.seen[axis], self.sweeps.prior_shape)
        state = replace(state, posterior=state.posterior.replace(axis, table))
        return replace(state, prior_rate_M=self.sweeps.learnt_rates(state, axis, cells.seen[axis]))


def _between(old: GammaTable, new: GammaTable, step_size: float) -> GammaTable:
    return GammaTable(
        (1 - step_size) * old.shape_DK + step_size * new.shape_DK,
        (1 - step_size) * old.rate_DK + step_size * new.rate_DK,
    )
