"""The axes that encoders are trained for: of entities, and derived ones of combinations.

An encoder is trained on the cells of all rows or, if there are very many cells or `batch_entities`
says so, of some rows drawn at random. Given the other axes, what the cells tell separates over the
rows, so there is no bias. Posteriors of all rows are then computed a part of the cells at a time:
no array has an entry for each cell except where the fit is small enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.parts import LARGEST_PART, ranges, sample_entities
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.evidence import (
    AxisEvidence,
    AxisPrior,
    AxisRows,
    DerivedRows,
    with_factor,
)
from tallyfold.inference.encoders.objective import AxisObjective
from tallyfold.kernels.arrays import Array, Floats, Ints, Mask
from tallyfold.kernels.evidence import network_inputs
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.posterior.point_factors import mean_over_seen

if TYPE_CHECKING:
    from tallyfold.inference.encoders.trainer import EncoderTrainer

Which = slice | Array

ALL = slice(None)
GOLDEN = 0.6180339887498949
"""The fractional parts of its multiples are spread evenly."""


@dataclass
class EntityAxis:
    """An axis of the tensor."""

    trainer: EncoderTrainer
    axis: int

    @property
    def encoder(self) -> int:
        """The number of its encoder."""
        return self.axis

    @property
    def prior(self) -> AxisPrior:
        """The prior of its entities."""
        return AxisPrior(float(self.trainer.prior_rate_M[self.axis]))

    def objective(self) -> AxisObjective:
        """Return what to train the encoder on: the cells of all entities, or of some."""
        trainer, axis = self.trainer, self.axis
        held: HeldOutCells = trainer.held_out
        held_cells: Which = ALL
        if isinstance(self._entities, slice):
            evidence, seen_D = self._whole
        else:
            held, held_cells = held.of_entities(axis, self._entities)
            evidence, seen_D = self._evidence(self._entities)
        assert isinstance(evidence.rows, AxisRows)
        rows = AxisRows(
            held.layouts[axis], held.indices_NM, (), evidence.rows.mean, trainer.backend
        )
        return AxisObjective(
            evidence,
            self.prior,
            rows,
            trainer.held_multiplier_V[held_cells],
            trainer.target.of_some(held_cells),
            seen_D,
            trainer.cells.group,
        )

    def posterior(self, params: Floats) -> GammaTable:
        """Return the posteriors of all entities, a range at a time if they are many."""
        group = self.trainer.cells.group
        if isinstance(self._entities, slice):
            return self.prior.posterior(params, self._whole[0].sums(params), group)
        found = [
            self.prior.posterior(params, self._evidence(entities)[0].sums(params), group)
            for entities in ranges(self.trainer.cells.cells_per_entity[self.axis])
        ]
        return GammaTable(
            np.concatenate([table.shape_DK for table in found]),
            np.concatenate([table.rate_DK for table in found]),
        )

    def held_rates(self, table: GammaTable) -> Floats:
        """Return the rates of all held-out cells if the axis had this posterior."""
        trainer = self.trainer
        known_DK = mean_over_seen(table.mean_DK, trainer.cells.seen[self.axis])
        factors = with_factor(trainer.mean, self.axis, known_DK)
        return trainer.rates(factors, trainer.held_out.indices_NM) * trainer.held_multiplier_V

    def adopt(self, table: GammaTable) -> None:
        """Take this posterior for the axis."""
        self.trainer.set_axis(self.axis, table)

    @cached_property
    def _entities(self) -> Which:
        """All entities or, if that is too much, some that have held-out cells."""
        trainer = self.trainer
        candidates = np.flatnonzero(trainer.held_out.seen[self.axis])
        most_entities, most_cells = trainer.step.most_at_once
        if len(candidates) <= most_entities and trainer.cells.n_cells <= most_cells:
            return ALL
        number_D = trainer.cells.cells_per_entity[self.axis]
        rng = trainer.rng(self.encoder)
        return sample_entities(rng, number_D, candidates, most_entities, most_cells)

    @cached_property
    def _whole(self) -> tuple[AxisEvidence, Mask]:
        return self._evidence(ALL)

    def _evidence(self, entities: Which) -> tuple[AxisEvidence, Mask]:
        """Return what the cells of some entities tell, and which of them have any."""
        trainer, axis = self.trainer, self.axis
        cells: TrainingCells = trainer.cells
        where: Which = ALL
        if entities is not ALL:
            cells, where = trainer.cells.of_entities(axis, entities)
        geo, mean = (
            with_factor(factors, axis, factors[axis][entities])
            for factors in (trainer.posterior.geometric_means, trainer.mean)
        )
        rows = AxisRows(cells.layouts[axis], cells.indices_NM, geo, mean, trainer.backend)
        multiplier_N = trainer.multipliers(where)
        rate_N = trainer.rates(mean, cells.indices_NM) * multiplier_N
        exposure_N = trainer.exposure(rate_N, cells.counts_N) * multiplier_N
        evidence = AxisEvidence.of_axis(rows, cells.counts_N, rate_N, exposure_N)
        return evidence, cells.seen[axis]


@dataclass
class CombinationAxis:
    """A derived axis: the multipliers of combinations of axes."""

    trainer: EncoderTrainer
    number: int
    prior = AxisPrior(None)

    @property
    def encoder(self) -> int:
        """The number of its encoder."""
        return self.trainer.cells.n_axes + self.number

    def objective(self) -> AxisObjective:
        """Return what to train the encoder on: cells of all combinations, or of some."""
        each, trainer = self._combinations, self.trainer
        n_rows, held_row_V = each.n_rows, each.held_row_V
        held: Which = ALL
        if isinstance(self._rows, slice):
            rows = DerivedRows(each.row_N[each.used_N], n_rows)
            evidence = self._whole.take(rows, each.used_N)
        else:
            n_rows = len(self._rows) + 1
            cells, held, row_N, held_row_V = _chosen(each, self._rows, trainer.held_out.first)
            evidence = self._evidence(cells, DerivedRows(row_N, n_rows))
        return AxisObjective(
            evidence,
            self.prior,
            DerivedRows(held_row_V, n_rows),
            self._held_others_V[held],
            trainer.target.of_some(held),
            np.ones(n_rows, dtype=bool),
            trainer.cells.group,
        )

    def posterior(self, params: Floats) -> GammaTable:
        """Return the posteriors of all combinations, taking some cells at a time."""
        each, cells = self._combinations, self.trainer.cells
        if isinstance(self._rows, slice):
            return self.prior.posterior(params, self._whole.sums(params), cells.group)
        counted_P1, exposed_P1 = np.zeros((2, each.n_rows, 1))
        for start in range(0, len(cells), LARGEST_PART):
            part = slice(start, start + LARGEST_PART)
            rows = DerivedRows(each.row_N[part], each.n_rows)
            counted, exposed = self._evidence(part, rows).sums(params)
            counted_P1 += counted
            exposed_P1 += exposed
        return self.prior.posterior(params, (counted_P1, exposed_P1), cells.group)

    def held_rates(self, table: GammaTable) -> Floats:
        """Return the rates of all held-out cells if the axis had this posterior."""
        own_V = table.mean_DK[self._combinations.held_row_V, 0]
        return np.asarray(self._held_others_V * own_V)

    def adopt(self, table: GammaTable) -> None:
        """Take this posterior for the axis."""
        self.trainer.set_derived(self.number, table)

    @cached_property
    def _combinations(self) -> Combinations:
        return self.trainer.step.combinations[self.number]

    @cached_property
    def _held_others_V(self) -> Floats:
        """The held-out cells' rates without this axis's multipliers."""
        own_V = self.trainer.posterior.derived[self.number].mean_P1[self._combinations.held_row_V]
        return self.trainer.held_rate_V * self.trainer.held_multiplier_V / own_V

    @cached_property
    def _rows(self) -> Which:
        """All combinations or, if these are too many, some that have held-out cells."""
        each, trainer = self._combinations, self.trainer
        group = trainer.cells.group
        most_rows, most_cells = trainer.step.most_at_once
        hit_P = group.all_reduce(np.bincount(each.held_row_V, minlength=each.n_rows))[:-1]
        candidates = np.flatnonzero(hit_P)
        if len(candidates) <= most_rows and trainer.cells.n_cells <= most_cells:
            return ALL
        cells_P = group.all_reduce(np.bincount(each.row_N, minlength=each.n_rows))
        rng, number_P = trainer.rng(self.encoder), cells_P.astype(np.int64)
        return sample_entities(rng, number_P, candidates, most_rows, most_cells)

    @cached_property
    def _whole(self) -> AxisEvidence:
        each = self._combinations
        return self._evidence(ALL, DerivedRows(each.row_N, each.n_rows))

    def _evidence(self, cells: Which, rows: DerivedRows) -> AxisEvidence:
        """Return what some cells tell of the combinations."""
        trainer = self.trainer
        indices_NM = np.asfortranarray(trainer.cells.indices_NM[cells])
        counts_N = trainer.cells.counts_N[cells]
        rate_N = trainer.rates(trainer.mean, indices_NM) * trainer.multipliers(cells)
        own_P1 = trainer.posterior.derived[self.number].mean_P1
        others_N = rate_N / own_P1[self._combinations.row_N[cells]]
        exposure_N = trainer.exposure(rate_N, counts_N) * others_N
        inputs_2N = network_inputs(counts_N, others_N)
        return AxisEvidence(rows, counts_N, exposure_N, inputs_2N, trainer.backend)


TrainedAxis = EntityAxis | CombinationAxis


def _chosen(each: Combinations, rows: Ints, first_held_out: int) -> tuple[Ints, Mask, Ints, Ints]:
    """Return the training cells and held-out cells of some combinations, renumbered from 0.

    Of the held-out cells whose combination was never seen the same share is taken, by their
    position among all, so that it does not matter which process has them.
    """
    local_P1 = np.full(each.n_rows, -1, dtype=np.int64)
    local_P1[rows] = np.arange(len(rows))
    cells = np.flatnonzero(local_P1[each.row_N] >= 0)
    position_V = first_held_out + np.arange(len(each.held_row_V))
    share = len(rows) / max(each.n_rows - 1, 1)
    lucky_V = position_V * GOLDEN % 1.0 < share
    never_V = each.held_row_V == each.n_rows - 1
    held_V = np.where(never_V, lucky_V, local_P1[each.held_row_V] >= 0)
    local_P1[-1] = len(rows)
    return cells, held_V, local_P1[each.row_N[cells]], local_P1[each.held_row_V[held_V]]
