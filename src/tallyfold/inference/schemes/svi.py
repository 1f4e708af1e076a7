"""Stochastic variational inference: sweeps over entities drawn at random, for very many cells.

The entities are of the longest axis. An iteration looks at their cells alone: their own factors are
updated a few times, and the factors of the other axes take a step towards what these cells, scaled
up to all entities, would make of them (the natural gradient is unbiased over entities). The last
iteration updates all entities of the longest axis, given the other axes.

References
----------
Hoffman, Blei, Wang and Paisley, "Stochastic Variational Inference", JMLR 14, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tallyfold.inference.cells.parts import ranges, sample_entities
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.inference.schemes.factor_prior import FactorPrior
from tallyfold.kernels.arrays import Ints
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable

ROUNDS = 3
"""Updates of the drawn entities' own factors in an iteration."""
DELAY, FORGETTING = 50.0, 0.7
"""The step size is (1 + iteration / delay) ** -forgetting: large until components part."""


@dataclass(frozen=True)
class SVIState:
    """The state of a sweep, and whether all entities were updated since the last draw."""

    sweep: CAVIState
    complete: bool


@dataclass(frozen=True)
class SVIStep:
    """Iterations that each look at some entities; see the module's text.

    Attributes
    ----------
    sweeps
        The BPTF step whose factors these are; zeros missing.
    n_iterations
        The number of the iteration that updates all entities in the end.
    n_entities, most_cells
        How many entities an iteration draws, and how many cells they may have together.
    seed
        Of the draws.
    """

    sweeps: CAVIStep
    n_iterations: int
    n_entities: int
    most_cells: int
    seed: int = 0

    @property
    def axis(self) -> int:
        """The axis whose entities are drawn: the longest."""
        return int(np.argmax(self.sweeps.cells.shape))

    def start(self, previous: CAVIState | None) -> SVIState:
        """Start as the sweeps do."""
        return SVIState(previous or self.sweeps.start(), complete=False)

    def advance(self, state: SVIState, iteration: int) -> tuple[SVIState, float]:
        """Return the state after one more iteration, and an estimate of the bound."""
        whole = state.sweep
        entities, weight = self._sample(iteration)
        cells, _ = self.sweeps.cells.of_entities(self.axis, entities)
        now = self._update_own(self._part(whole, entities), cells, entities)
        step_size = (1 + iteration / DELAY) ** -FORGETTING
        for axis in range(len(now.posterior.axes)):
            now = self._step_towards(now, axis, cells, entities, weight, step_size)
        correlation_M = self.sweeps.guidance.learnt(now, iteration, but=self.axis)
        now = replace(now, correlation_M=correlation_M)
        now = self.sweeps.with_dispersion(now, cells, iteration)
        bound = self._bound(now, cells, entities, weight)
        own = whole.posterior.axes[self.axis].with_rows(entities, now.posterior.axes[self.axis])
        new = replace(now, posterior=now.posterior.replace(self.axis, own))
        if iteration < self.n_iterations:
            return SVIState(new, complete=False), bound
        return SVIState(self._finished(new), complete=True), bound

    def validation_score(self, state: SVIState) -> float | None:
        """Score the validation cells once all entities are updated."""
        return self.sweeps.validation_score(state.sweep) if state.complete else None

    def _finished(self, state: CAVIState) -> CAVIState:
        """Update every entity of the longest axis, given the other axes."""
        cells, axis = self.sweeps.cells, self.axis
        parts = []
        for entities in ranges(cells.cells_per_entity[axis]):
            own, _ = cells.of_entities(axis, entities)
            now = self._update_own(self._part(state, entities), own, entities)
            parts.append(now.posterior.axes[axis])
        table = GammaTable(
            np.concatenate([part.shape_DK for part in parts]),
            np.concatenate([part.rate_DK for part in parts]),
        )
        prior_rate_M = state.prior_rate_M.copy()
        if self.sweeps.prior_rate is None:
            prior_rate_M[axis] = 1 / table.mean_DK.mean()
        posterior = state.posterior.replace(axis, table)
        return replace(state, posterior=posterior, prior_rate_M=prior_rate_M)

    def _sample(self, iteration: int) -> tuple[Ints, float]:
        """Draw entities that have cells; return them, and how many each one stands for."""
        number_D = self.sweeps.cells.cells_per_entity[self.axis]
        candidates = np.flatnonzero(number_D)
        rng = np.random.default_rng([self.seed, 4, iteration])
        entities = sample_entities(rng, number_D, candidates, self.n_entities, self.most_cells)
        return entities, len(candidates) / len(entities)

    def _part(self, state: CAVIState, entities: slice | Ints) -> CAVIState:
        """Return the state with the rows of some entities of the longest axis alone."""
        own = state.posterior.axes[self.axis].rows(entities)
        return replace(state, posterior=state.posterior.replace(self.axis, own))

    def _update_own(
        self, now: CAVIState, cells: TrainingCells, entities: slice | Ints
    ) -> CAVIState:
        """Update the drawn entities' factors a few times."""
        for _ in range(ROUNDS):
            table = self._updated(self.axis, now, cells, entities, 1.0)
            now = replace(now, posterior=now.posterior.replace(self.axis, table))
        return now

    def _step_towards(
        self,
        now: CAVIState,
        axis: int,
        cells: TrainingCells,
        entities: Ints,
        weight: float,
        step_size: float,
    ) -> CAVIState:
        """Move another axis's posterior, and the prior's rate, by a step of this size."""
        posterior, prior_rate_M = now.posterior, now.prior_rate_M.copy()
        if axis != self.axis:
            before, found = posterior.axes[axis], self._updated(axis, now, cells, entities, weight)
            table = GammaTable(
                (1 - step_size) * before.shape_DK + step_size * found.shape_DK,
                (1 - step_size) * before.rate_DK + step_size * found.rate_DK,
            )
            posterior = posterior.replace(axis, table)
        if self.sweeps.prior_rate is None:
            b, correlation = float(prior_rate_M[axis]), float(now.correlation_M[axis])
            prior = self._prior(axis, entities)
            learnt = prior.learnt_rate(posterior.axes[axis], b, correlation)
            prior_rate_M[axis] = (1 - step_size) * prior_rate_M[axis] + step_size * learnt
        return replace(now, posterior=posterior, prior_rate_M=prior_rate_M)

    def _updated(
        self,
        axis: int,
        now: CAVIState,
        cells: TrainingCells,
        entities: slice | Ints,
        weight: float,
    ) -> GammaTable:
        terms, prior = self.sweeps.terms(now, cells), self._prior(axis, entities)
        return self.sweeps.updated(axis, now, terms, weight, prior)

    def _prior(self, axis: int, entities: slice | Ints) -> FactorPrior:
        prior = self.sweeps.guidance.priors[axis]
        return prior.rows(entities) if axis == self.axis else prior

    def _bound(self, now: CAVIState, cells: TrainingCells, entities: Ints, weight: float) -> float:
        posterior: GammaPosterior = now.posterior
        terms = self.sweeps.terms(now, cells)
        geo, mean = posterior.geometric_means, posterior.means
        total = weight * terms.bound(geo, mean, now.dispersion)
        for axis, table in enumerate(posterior.axes):
            b, correlation = float(now.prior_rate_M[axis]), float(now.correlation_M[axis])
            kl = self._prior(axis, entities).divergence(table, b, correlation)
            total -= kl * (weight if axis == self.axis else 1.0)
        return total
