"""Factors of whether there is a count: collapsed variational Bayes (CVB0) with a gate.

A cell has a count if a latent Poisson count is at least one. One pass over the cells divides latent
counts over components, each cell's own count taken out (`kernels.collapsed`); then for every axis

- shape_dk = a + the latent counts of d in k
- rate_dk  = a * b + the share of cells that is trained on * the closed sum over all others

to which, along an axis whose factors are linked, neighbours are added (`schemes.gamma_chain`),
and for every pair (i, j) of the gate's axes, with the prior Gamma(g, g),

- u_ij = (g + its latent counts) / (g + its closed sum of rates)

where pairs never seen share g / (g + the mean of their sums). The gate says which pairs are active
at all; without it components would. There is no bound: held-out cells say when to stop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.schemes.dispersion import is_power_of_two
from tallyfold.inference.schemes.factor_prior import FactorPrior
from tallyfold.inference.schemes.gate import FIRST_GATE_SHAPE, Axes, Gate, gate_posterior
from tallyfold.inference.schemes.guide import Guidance, Guide, replaced
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.collapsed import collapsed_sums
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable

Floats = npt.NDArray[np.float64]

START_SHAPE = 3.0
"""Factors start as draws of this shape around their mean: wide, so that components differ."""
START_COUNT = 10.0
"""The shape that the first pass takes the start to have."""


@dataclass(frozen=True)
class CollapsedState:
    """What a pass starts from.

    Attributes
    ----------
    posterior
        Gamma posteriors of all axes.
    prior_rate_M
        Of each axis's prior, in units of the prior's shape.
    correlation_M
        Of neighbouring factors of each axis; 0 where they are independent.
    gate
        Which of the step's gates is used.
    gate_table
        Gamma posteriors of its multipliers; one row without a gate.
    gate_shape
        Of the multipliers' prior.
    """

    posterior: GammaPosterior
    prior_rate_M: Floats
    correlation_M: Floats
    gate: int
    gate_table: GammaTable
    gate_shape: float


@dataclass(frozen=True)
class CollapsedStep:
    """One pass over the cells, then every axis, then the gate.

    Attributes
    ----------
    cells, share
        The training cells, and the share of all cells, zeros too, that they are.
    gates
        Pairs of axes that a state may use as its gate; None is no gate.
    gate
        The gate that a fit starts with.
    n_components, prior_shape, prior_rate
        The number of components, and the shape and rate of the factors' Gamma prior; a rate of None
        is learnt, one per axis.
    seed
        Of the random start.
    held_out
        Cells to score after each pass.
    guide
        What is known of components before the fit; None: nothing.
    """

    cells: TrainingCells
    share: float
    gates: Sequence[Axes | None]
    n_components: int
    prior_shape: float
    prior_rate: float | None = None
    gate: int = 0
    seed: int = 0
    backend: str = "auto"
    held_out: OccurrenceCells | None = None
    guide: Guide | None = None

    @cached_property
    def _gates(self) -> list[Gate]:
        return [Gate(axes, self.cells) for axes in self.gates]

    @cached_property
    def guidance(self) -> Guidance:
        """The priors of all axes, and the start."""
        return Guidance(self.guide, self.cells, self.n_components, self.prior_shape, latent=True)

    @cached_property
    def _longest(self) -> int:
        return int(np.argmax(self.cells.shape))

    def start(self, previous: object = None) -> CollapsedState:
        """Draw factors around one mean, scaled so that all rates sum to the number of cells."""
        rng = np.random.default_rng([self.seed, 0])
        cells, seen = self.cells, self.cells.seen
        n_all = math.prod(float(seen_D.sum()) for seen_D in seen) * self.share
        mean = cells.n_cells / max(n_all, 1.0) / self.n_components
        scale = mean ** (1 / cells.n_axes)
        noises = [
            np.maximum(rng.gamma(START_SHAPE, 1 / START_SHAPE, (size, self.n_components)), 1e-3)
            for size in cells.shape
        ]
        tables = [
            GammaTable(np.full_like(first_DK, START_COUNT), START_COUNT / (scale * first_DK))
            for first_DK in self.guidance.first(noises, self.gates[self.gate])
        ]
        rate = 1 / scale if self.prior_rate is None else self.prior_rate / self.prior_shape
        posterior = GammaPosterior(tuple(tables))
        state = CollapsedState(
            posterior,
            np.full(cells.n_axes, rate),
            self.guidance.correlation_M,
            self.gate,
            _ones(1),
            FIRST_GATE_SHAPE,
        )
        return self.with_gate(state, self.gate)

    def with_gate(self, state: CollapsedState, gate: int) -> CollapsedState:
        """Return a state with fresh multipliers of a gate."""
        pairs = self._gates[gate].pairs
        if pairs is None:
            return replace(state, gate=gate, gate_table=_ones(1), gate_shape=FIRST_GATE_SHAPE)
        sums = self.sums(replace(state, gate=gate, gate_table=_ones(self._gates[gate].n_rows)))
        table = self._gates[gate].first_table(sums)
        return replace(state, gate=gate, gate_table=table, gate_shape=FIRST_GATE_SHAPE)

    def gate_of(self, state: CollapsedState) -> Gate:
        """Return the pairs of the gate that a state has."""
        return self._gates[state.gate]

    def gate_keys(self, gate: int) -> npt.NDArray[np.int64]:
        """Return the pairs of a gate that were seen; none without a gate."""
        pairs = self._gates[gate].pairs
        return np.zeros(0, dtype=np.int64) if pairs is None else pairs.keys_P

    def sums(self, state: CollapsedState) -> ClosedSums:
        """Return sums over all cells at the means of a state."""
        pairs = self._gates[state.gate].pairs
        gate_P1 = None if pairs is None else state.gate_table.mean_DK[:, 0]
        means = state.posterior.means
        return ClosedSums(means, self.cells.seen, self.share, pairs, gate_P1)

    def advance(self, state: CollapsedState, iteration: int) -> tuple[CollapsedState, float]:
        """Make one pass; return also the log-likelihood per cell at the means before it."""
        cells, group, gate = self.cells, self.cells.group, self._gates[state.gate]
        means = state.posterior.means
        found = collapsed_sums(
            means,
            [1 / table.rate_DK for table in state.posterior.axes],
            cells.layouts[self._longest],
            self.prior_shape,
            gate.multipliers(state.gate_table),
            backend=self.backend,
        )
        log_seen = group.all_reduce_number(found.log_seen)
        objective = (log_seen - float(self.sums(state).total().sum())) / cells.n_cells
        for axis, sums_DK in enumerate(found.sums):
            table = self._table(axis, group.all_reduce(sums_DK), state)
            state = replace(state, posterior=state.posterior.replace(axis, table))
            state = replace(state, prior_rate_M=self.learnt_rates(state, axis, cells.seen[axis]))
        state = replace(state, correlation_M=self.guidance.learnt(state, iteration))
        if gate.pairs is not None:
            latent_P1 = np.bincount(gate.row_N, found.latent_N, minlength=gate.n_rows)
            state = self._updated_gate(state, group.all_reduce(latent_P1), iteration)
        return state, objective

    def learnt_rates(
        self,
        state: CollapsedState,
        axis: int,
        seen_D: npt.NDArray[np.bool_],
        prior: FactorPrior | None = None,
    ) -> Floats:
        """Return the rates of the priors, that of one axis learnt from the labels seen.

        `prior` is that of the rows, if these are not all there are.
        """
        if self.prior_rate is not None:
            return state.prior_rate_M
        b, correlation = float(state.prior_rate_M[axis]), float(state.correlation_M[axis])
        table, prior = state.posterior.axes[axis], prior or self.guidance.priors[axis]
        rate = prior.learnt_rate(table, b, correlation, seen_D)
        return replaced(state.prior_rate_M, axis, rate)

    def _table(self, axis: int, sums_DK: Floats, state: CollapsedState) -> GammaTable:
        """Return an axis's posteriors; labels never seen have the mean of the others."""
        b, correlation = float(state.prior_rate_M[axis]), float(state.correlation_M[axis])
        table = self.guidance.priors[axis].posterior(
            state.posterior.axes[axis], b, correlation, sums_DK, self.sums(state).exposure(axis)
        )
        return like_seen(table, self.cells.seen[axis], self.prior_shape)

    def _updated_gate(
        self, state: CollapsedState, latent_P1: Floats, iteration: int
    ) -> CollapsedState:
        """Return the state with new multipliers; their prior's shape is learnt ever more rarely."""
        learns = iteration < 5 or is_power_of_two(iteration)
        known = None if learns else state.gate_shape
        table, shape = gate_posterior(self.sums(state), latent_P1[:-1], known)
        return replace(state, gate_table=table, gate_shape=shape)

    def validation_score(self, state: CollapsedState) -> float | None:
        """Return the calibrated score of whether held-out cells have a count."""
        if self.held_out is None:
            return None
        return self.held_out.fewer.score(lambda cells: self.rates(state, cells))

    def rates(self, state: CollapsedState, positions_NM: npt.NDArray[np.int32]) -> Floats:
        """Return the rates of cells."""
        rate_N = kernels.cell_rates(state.posterior.means, positions_NM, backend=self.backend)
        gate = self._gates[state.gate]
        if gate.pairs is None:
            return rate_N
        return np.asarray(rate_N * state.gate_table.mean_DK[gate.rows(positions_NM), 0])

    def complete_posterior(self, state: CollapsedState) -> GammaPosterior:
        """Return the posterior with the gate as a derived axis, and a row for unknown labels."""
        completed = state.posterior.completed(self.cells.seen)
        derived = self._gates[state.gate].derived(state.gate_table, state.gate_shape)
        return replace(completed, derived=derived)


def like_seen(table: GammaTable, seen_D: npt.NDArray[np.bool_], prior_shape: float) -> GammaTable:
    """Return a table whose rows never seen have the mean of the others, and the prior's shape."""
    if seen_D.all():
        return table
    shape_DK, rate_DK = table.shape_DK.copy(), table.rate_DK.copy()
    mean_K = (shape_DK[seen_D] / rate_DK[seen_D]).mean(axis=0)
    shape_DK[~seen_D] = prior_shape
    rate_DK[~seen_D] = prior_shape / np.maximum(mean_K, 1e-200)
    return GammaTable(shape_DK, rate_DK)


def _ones(n_rows: int) -> GammaTable:
    return GammaTable(np.ones((n_rows, 1)), np.ones((n_rows, 1)))
