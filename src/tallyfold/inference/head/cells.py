"""The cells that a count head is trained on, and their margins out of fold.

A margin that a cell is part of tells the cell's count: in training, the sums at a cell leave out
the cells of its fold. Which fold a cell is in depends on its positions alone, so any number of
processes makes the same head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.data.hashing import cell_hashes, mixed
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.head.rest import RestOfCells
from tallyfold.kernels.fold_inputs import FoldedCells, Pull, write_fold_inputs
from tallyfold.kernels.margins import Grouping, sums_by_fold
from tallyfold.posterior.count_head import (
    INPUT_LIMIT,
    N_RESIDUALS,
    CountHead,
    HeadStage,
    histogram_head,
)
from tallyfold.posterior.derived_axis import combination_keys, countable, rows_of_keys
from tallyfold.posterior.margins import (
    MarginTable,
    Values,
    axis_sets,
    pull_strength,
    value_moments,
)
from tallyfold.posterior.whole_sums import UNIT, WholeSums

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

N_FOLDS = 10
N_PARTS = 5
"""Of the folds: a nested sum leaves out a part of them, besides a cell's own fold."""
FOLDS_PER_PART = N_FOLDS // N_PARTS
MOST_CELLS = 4_000_000
"""More cells than these are not trained on: some are drawn, and margins are of the others."""
SELDOM = 0.001
"""Of cells: networks that see fewer labels without others do not know what these say."""
LEAST_STRENGTH, LEAST_RESIDUAL_STRENGTH = 0.3, 1.0


@dataclass(frozen=True)
class HeadCells:
    """Cells, and an order drawn by their hashes; the same in every process.

    Attributes
    ----------
    indices_NM, counts_N, fold_N
        The cells that are trained on, sorted by position, and their folds.
    hash_N, order_N
        Their hashes, and the order they are trained in.
    n_first
        How many stand first in that order: cells that another fit has not seen. The first member's
        held-out cells are these.
    shape
        The sizes of the axes.
    rest
        This process's cells that only the margins see, if there are too many to train on all.
    histogram
        The distinct counts of all cells, and how often each occurs.
    scale
        As in `CountBins.of`.
    seed
        Of the hashes.
    """

    indices_NM: npt.NDArray[np.int32]
    counts_N: Ints
    fold_N: npt.NDArray[np.int8]
    hash_N: npt.NDArray[np.uint64]
    order_N: Ints
    n_first: int
    shape: tuple[int, ...]
    histogram: tuple[Ints, Ints]
    rest: RestOfCells | None
    scale: tuple[int, int] | str | None
    seed: int

    @classmethod
    def of(
        cls,
        cells: TrainingCells,
        scale: tuple[int, int] | str | None,
        seed: int,
        held_out: TrainingCells | None = None,
        groups_N: Ints | None = None,
    ) -> HeadCells:
        """Draw an order, folds, and the cells to train on if there are too many.

        `held_out` are those of the cells that stand first: what another fit has not seen. Cells of
        a group, if groups are given, are in the same fold.
        """
        if cells.n_cells > MOST_CELLS:
            below = np.uint64(int(MOST_CELLS / cells.n_cells * 2.0**64))
            chosen_N, rest = RestOfCells.drawn(cells, lambda part: _hashes(part, seed) < below)
        else:
            chosen_N, rest = np.ones(len(cells), dtype=bool), None
        gather = cells.group.all_gather
        indices_NM = np.asfortranarray(gather(np.ascontiguousarray(cells.indices_NM[chosen_N])))
        counts_N, hash_N = gather(cells.counts_N[chosen_N]), _hashes(indices_NM, seed)
        drawn_N = hash_N
        if groups_N is not None:
            drawn_N = cell_hashes(np.full(len(hash_N), seed, np.uint64), [groups_N[chosen_N]])
        fold_N = (mixed(drawn_N) % np.uint64(N_FOLDS)).astype(np.int8)
        later_N = np.ones(len(hash_N), dtype=bool)
        if held_out is not None:
            first_F = np.sort(gather(_hashes(held_out.indices_NM, seed)))
            later_N = rows_of_keys(hash_N, first_F) == len(first_F)
        order_N = np.lexsort((hash_N, later_N))
        return cls(
            indices_NM, counts_N, fold_N, hash_N, order_N, int(np.sum(~later_N)), cells.shape,
            cells.histogram, rest, scale, seed,
        )  # fmt: skip

    def rows_of(self, indices_NM: npt.NDArray[np.int32]) -> Ints:
        """Return where cells stand among the first of the drawn order; -1 if they do not."""
        hash_N = _hashes(indices_NM, self.seed)
        first_F = self.hash_N[self.order_N[: self.n_first]]
        if len(first_F) == 0:
            return np.full(len(hash_N), -1)
        row_N = np.minimum(np.searchsorted(first_F, hash_N), len(first_F) - 1)
        return np.where(first_F[row_N] == hash_N, row_N, -1)

    def __len__(self) -> int:
        """Return the number of cells that are trained on."""
        return len(self.counts_N)

    @cached_property
    def constant(self) -> CountHead:
        """The head that predicts the histogram of all counts."""
        return histogram_head(*self.histogram, self.scale)

    @cached_property
    def drawn_counts_N(self) -> Ints:
        """The cells' counts, in the drawn order."""
        return self.counts_N[self.order_N]

    @cached_property
    def drawn_bin_N(self) -> Ints:
        """The bins of the cells' counts, in the drawn order."""
        return self.constant.bins.bin_of(self.drawn_counts_N)

    @cached_property
    def value_NF(self) -> Values:
        """The functions of each cell's count."""
        return self.constant.statistics.values(self.counts_N)

    @cached_property
    def axis_sets(self) -> list[tuple[int, ...]]:
        """The sets of axes that have margins."""
        sets = axis_sets(len(self.shape))
        return [axes for axes in sets if countable([self.shape[axis] for axis in axes])]

    @cached_property
    def groupings(self) -> list[Grouping]:
        """The cells by combination, for every set of axes."""
        sizes = [[self.shape[axis] for axis in axes] for axes in self.axis_sets]
        pairs = zip(self.axis_sets, sizes, strict=True)
        return [Grouping.of(combination_keys(self.indices_NM, *pair)) for pair in pairs]

    # -- margins ----------------------------------------------------------------------------------

    @cached_property
    def head(self) -> CountHead:
        """A head that predicts the histogram of all counts, with the margins that training has."""
        if self.rest is not None:
            tables = self.rest.tables(self.axis_sets, self.constant.statistics, LEAST_STRENGTH)
            return replace(self.constant, tables=tables, averaged=self._known(tables))
        moments, made = value_moments(self.value_NF), []
        for axes, grouping in zip(self.axis_sets, self.groupings, strict=True):
            sums = WholeSums.of([grouping.sums(self.value_NF)])
            strength_F = pull_strength(moments, sums, LEAST_STRENGTH)
            sizes = tuple(self.shape[axis] for axis in axes)
            made.append(MarginTable(axes, sizes, grouping.keys_P, sums, strength_F))
        return replace(self.constant, tables=tuple(made), averaged=self._known(made))

    def _known(self, tables: Sequence[MarginTable]) -> tuple[int, ...]:
        """Return the axes of which hardly any cell is the only one of its label."""
        found = []
        for axis, size in enumerate(self.shape):
            cells_D = np.bincount(self.indices_NM[:, axis], minlength=size)
            if self.rest is None:
                alone = np.sum(cells_D == 1)
            else:
                [table] = [table for table in tables if table.axes == (axis,)]
                cells_D[table.keys_P] = 0
                alone = cells_D.sum()
            if alone < SELDOM * len(self):
                found.append(axis)
        return tuple(found)

    def all_tables(self) -> tuple[MarginTable, ...]:
        """Return the margins of all cells.

        If those that are trained on were kept out of them, the margins without are let go one by
        one: there is no room for all tables twice where there are very many cells.
        """
        tables, made = list(self.head.tables), []
        if self.rest is None:
            return tuple(tables)
        del self.__dict__["head"]  # made again if it is ever asked for
        while tables:
            table = tables.pop(0)
            key_N = combination_keys(self.indices_NM, table.axes, table.sizes)
            made.append(table.added(key_N, self.value_NF))
        return tuple(made)

    def inputs_by_table(self) -> Iterator[Singles]:
        """Yield the inputs of all cells that come from each table: from the cells of other folds.

        Tables come one by one, so that those of one alone are in memory.
        """
        if self.rest is not None:
            tables = self.head.tables
            sums = (table.sums_at(table.rows_of(self.indices_NM)) for table in tables)
            return self.head.inputs_by_table(sums)
        return (self._written(number) for number in range(len(self.groupings)))

    def inputs_besides(self, part: int, stage: HeadStage) -> Singles:
        """Return what `inputs_by_table` does, as a stage wants it, a table (T) after the other.

        They leave out a part of the folds besides each cell's own fold; -1: none.
        """
        width = self.head.n_functions
        centre_TF, spread_TF = (
            each.reshape(-1, width).astype(np.float32) for each in (stage.centre_D, stage.spread_D)
        )
        z_TNF = np.empty((len(self.groupings), len(self), width), dtype=np.float32)
        for number, z_NF in enumerate(z_TNF):
            standard = centre_TF[number], spread_TF[number]
            self._write(number, part, standard, INPUT_LIMIT, z_NF)
        return z_TNF

    def _written(self, number: int) -> Singles:
        """Return the inputs that come from a table, as they are."""
        width = self.head.n_functions
        x_NF = np.empty((len(self), width), dtype=np.float32)
        zero_F, one_F = np.zeros(width, np.float32), np.ones(width, np.float32)
        self._write(number, -1, (zero_F, one_F), np.inf, x_NF)
        return x_NF

    def _write(
        self, number: int, part: int, standard: tuple[Singles, Singles], limit: float, z_NF: Singles
    ) -> None:
        first = max(part, 0) * FOLDS_PER_PART
        besides = range(first, first + FOLDS_PER_PART if part >= 0 else first)
        cells, value_VF = self._folded
        pulled = self.head.tables[number].strength_F, self.constant.statistics.mean_F
        scale = N_FOLDS / (N_FOLDS - 1 - len(besides))
        pull = Pull(scale, 1 / UNIT, *pulled, *standard, limit)
        write_fold_inputs(cells[number], value_VF, N_FOLDS, besides, pull, z_NF)

    @cached_property
    def _folded(self) -> tuple[list[FoldedCells], Values]:
        """The cells in the order of every grouping, and the values of distinct counts."""
        value_V, row_N = np.unique(self.counts_N, return_inverse=True)
        short: type[np.integer] = np.int16 if len(value_V) < 2**15 else np.int32
        row_N = row_N.astype(short)
        cells = [FoldedCells.of(grouping, self.fold_N, row_N) for grouping in self.groupings]
        return cells, self.constant.statistics.values(value_V)

    # -- residuals --------------------------------------------------------------------------------

    def with_residuals(self, residual_N2: Values) -> CountHead:
        """Return the head with sums of residuals in its tables."""
        cells_N1 = np.ones((len(self), 1), dtype=residual_N2.dtype)
        value_N3, tables = np.hstack([cells_N1, residual_N2]), []
        moments = value_moments(value_N3)
        for table, grouping in zip(self.head.tables, self.groupings, strict=True):
            sums_P3 = grouping.sums(value_N3)
            strength_2 = pull_strength(moments, WholeSums.of([sums_P3]), LEAST_RESIDUAL_STRENGTH)
            tables.append(
                replace(
                    table,
                    sums=table.sums.beside(WholeSums.of([sums_P3[:, 1:]])),
                    strength_F=np.append(table.strength_F, strength_2),
                )
            )
        return replace(self.head, tables=tuple(tables))

    def residual_sums(self, value_NK3: Values) -> Iterator[Ints]:
        """Yield sums of residuals at each cell, those that know nothing of the cell's fold.

        The k-th values of a cell are one, and residuals of predictions that leave the k-th part of
        the folds out.
        """
        part_N = self.fold_N // np.int8(FOLDS_PER_PART)
        for grouping in self.groupings:
            yield sums_by_fold(grouping, part_N, value_NK3)

    def residual_inputs(self, head: CountHead, value_NK3: Values) -> Iterator[Singles]:
        """Yield the inputs that come from each table's residuals."""
        scale = N_PARTS / (N_PARTS - 1)
        for table, sums_N3 in zip(head.tables, self.residual_sums(value_NK3), strict=True):
            cells_N1 = scale * sums_N3[:, :1] + table.strength_F[-N_RESIDUALS:]
            yield (sums_N3[:, 1:] * (scale / UNIT) / cells_N1).astype(np.float32)


def _hashes(indices_NM: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.uint64]:
    return cell_hashes(np.full(len(indices_NM), seed, dtype=np.uint64), indices_NM.T)
