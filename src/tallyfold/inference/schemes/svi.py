"""Sweeps of BPTF over a few entities at a time, drawn at random: a start for very many cells.

The entities are of the longest axis. Theirs are the only cells an iteration looks at: their own
factors are updated a few times, and the factors of the other axes take a step towards what these
cells, counted as often as there are entities for each one drawn, would make of them (stochastic
variational inference: the natural gradient is unbiased over entities). In the end all entities of
the longest axis are updated, given the other axes.

References
----------
Hoffman, Blei, Wang and Paisley, "Stochastic Variational Inference", JMLR 14, 2013.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.parts import Ints, drawn, ranges
from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.objective import with_factor
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.cavi import CAVIStep, factors_of, state_of
from tallyfold.inference.schemes.dispersion import best_dispersion, is_power_of_two
from tallyfold.probability import gamma

Floats = npt.NDArray[np.float64]

ROUNDS = 3
"""Updates of the drawn entities' own factors in an iteration."""
DELAY, FORGETTING = 50.0, 0.7
"""An iteration's step is (1 + iteration / delay) ** -forgetting: bold until components part."""


@dataclass
class SVIStep:
    """Iterations that each look at some entities; see the module's text.

    Parameters
    ----------
    sweeps
        The BPTF step whose factors these are; zeros missing.
    n_entities, most_cells
        How many entities an iteration draws, and how many cells they may have in all.
    seed
        Of the draws.
    """

    sweeps: CAVIStep
    n_entities: int
    most_cells: int
    seed: int = 0

    @property
    def axis(self) -> int:
        """The axis whose entities are drawn: the longest."""
        return int(np.argmax(self.sweeps.cells.shape))

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Return the state after one more iteration, and an estimate of the bound."""
        entities, weight = self._drawn(iteration)
        cells, _ = self.sweeps.cells.of_entities(self.axis, entities)
        now = _Factors.of(state, self.axis, entities)
        step = (1 + iteration / DELAY) ** -FORGETTING
        self._update_own(now, cells)
        for axis in range(len(now.shapes)):
            if axis != self.axis:
                shape_DK, rate_DK = self._updated(axis, now, cells, weight)
                now.replace(
                    axis,
                    (1 - step) * now.shapes[axis] + step * shape_DK,
                    (1 - step) * now.rates[axis] + step * rate_DK,
                )
            if self.sweeps.prior_rate is None:
                found = 1 / now.mean[axis].mean()
                now.prior_rate_M[axis] = (1 - step) * now.prior_rate_M[axis] + step * found
        self._learn_dispersion(now, cells, iteration)
        bound = self._bound(now, cells, weight)
        return now.with_all_rows(state, self.axis, entities), bound

    def finished(self, state: State) -> State:
        """Update every entity of the longest axis, given the other axes."""
        cells, axis = self.sweeps.cells, self.axis
        shapes, rates = factors_of(state)
        shapes[axis], rates[axis] = shapes[axis].copy(), rates[axis].copy()
        for entities in ranges(cells.cells_per_entity[axis]):
            own, _ = cells.of_entities(axis, entities)
            now = _Factors.of(state, axis, entities)
            self._update_own(now, own)
            shapes[axis][entities], rates[axis][entities] = now.shapes[axis], now.rates[axis]
        prior_rate_M = np.array(state["prior_rate"], dtype=float)
        if self.sweeps.prior_rate is None:
            prior_rate_M[axis] = 1 / (shapes[axis] / rates[axis]).mean()
        return state | state_of(shapes, rates) | {"prior_rate": prior_rate_M}

    def _drawn(self, iteration: int) -> tuple[Ints, float]:
        """Draw entities that have cells; return them, and how many each one stands for."""
        number_D = self.sweeps.cells.cells_per_entity[self.axis]
        candidates = np.flatnonzero(number_D)
        rng = np.random.default_rng([self.seed, 4, iteration])
        entities = drawn(rng, number_D, candidates, self.n_entities, self.most_cells)
        return entities, len(candidates) / len(entities)

    def _update_own(self, now: _Factors, cells: TrainingCells) -> None:
        """Update the drawn entities' factors a few times."""
        for _ in range(ROUNDS):
            now.replace(self.axis, *self._updated(self.axis, now, cells, 1.0))

    def _updated(
        self, axis: int, now: _Factors, cells: TrainingCells, weight: float
    ) -> tuple[Floats, Floats]:
        """Return the posteriors that these cells, counted so often, give an axis's entities."""
        phi_DK, exposure_DK = self._terms(cells).sums(axis, now.geo, now.mean, now.dispersion)
        a = self.sweeps.prior_shape
        return a + weight * now.geo[axis] * phi_DK, a * now.prior_rate_M[
            axis
        ] + weight * exposure_DK

    def _learn_dispersion(self, now: _Factors, cells: TrainingCells, iteration: int) -> None:
        sweeps = self.sweeps
        learns = sweeps.likelihood.dispersed and sweeps.dispersion is None
        if learns and is_power_of_two(iteration):
            now.dispersion = best_dispersion(
                cells, sweeps.likelihood, now.mean, now.dispersion, sweeps.backend
            )

    def _bound(self, now: _Factors, cells: TrainingCells, weight: float) -> float:
        total = weight * self._terms(cells).bound(now.geo, now.mean, now.dispersion)
        a = self.sweeps.prior_shape
        for axis, (shape_DK, rate_DK) in enumerate(zip(now.shapes, now.rates, strict=True)):
            kl = float(gamma.kl(shape_DK, rate_DK, a, a * now.prior_rate_M[axis]).sum())
            total -= kl * (weight if axis == self.axis else 1.0)
        return total

    def _terms(self, cells: TrainingCells) -> CellTerms:
        return CellTerms(cells, self.sweeps.likelihood, False, self.sweeps.backend)


@dataclass
class _Factors:
    """The factors of some entities of one axis, and of all of the others, with their means."""

    shapes: list[Floats]
    rates: list[Floats]
    prior_rate_M: Floats
    dispersion: float

    def __post_init__(self) -> None:
        pairs = list(zip(self.shapes, self.rates, strict=True))
        self.geo = [gamma.geometric_mean(s, r) for s, r in pairs]
        self.mean = [s / r for s, r in pairs]

    @classmethod
    def of(cls, state: State, axis: int, entities: slice | Ints) -> _Factors:
        shapes, rates = (
            with_factor(factors, axis, factors[axis][entities]) for factors in factors_of(state)
        )
        prior_rate_M = np.array(state["prior_rate"], dtype=float)
        return cls(shapes, rates, prior_rate_M, float(state["dispersion"]))

    def replace(self, axis: int, shape_DK: Floats, rate_DK: Floats) -> None:
        """Take other posteriors for an axis."""
        self.shapes[axis], self.rates[axis] = shape_DK, rate_DK
        self.geo[axis] = gamma.geometric_mean(shape_DK, rate_DK)
        self.mean[axis] = shape_DK / rate_DK

    def with_all_rows(self, state: State, axis: int, entities: Ints) -> State:
        """Return these as a state, the entities' rows among those of all."""
        whole = [factors[axis].copy() for factors in factors_of(state)]
        whole[0][entities], whole[1][entities] = self.shapes[axis], self.rates[axis]
        new = state_of(
            with_factor(self.shapes, axis, whole[0]), with_factor(self.rates, axis, whole[1])
        )
        return new | {
            "prior_rate": self.prior_rate_M,
            "dispersion": np.array(self.dispersion),
        }
