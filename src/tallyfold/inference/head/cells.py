"""The cells that a count head is trained on, and their margins out of fold.

A margin that a cell is part of tells the cell's count: in training, the sums at a cell leave out
the cells of its fold. Which fold a cell is in depends on its positions alone, so any number of
processes makes the same head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.hashing import cell_hashes, mixed
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels.margins import Grouping, out_of_fold_sums, sums_by_fold
from tallyfold.posterior.count_head import CountHead, histogram_head
from tallyfold.posterior.derived_axis import combination_keys, countable
from tallyfold.posterior.margins import MarginTable, axis_sets, compact, pull_strength

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

N_FOLDS = 10
MOST_CELLS = 4_000_000
"""More cells than these are not trained on: some are drawn, and margins are of the others."""
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
    rest: TrainingCells | None
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
        hash_N = _hashes(cells.indices_NM, seed)
        chosen_N = np.ones(len(cells), dtype=bool)
        rest = None
        if cells.n_cells > MOST_CELLS:
            share = MOST_CELLS / cells.n_cells
            chosen_N = hash_N < np.uint64(int(share * 2.0**64))
            kept = ~chosen_N
            rest = TrainingCells.of(
                cells.shape,
                np.asfortranarray(cells.indices_NM[kept]),
                cells.counts_N[kept],
                cells.group,
            )
        gather = cells.group.all_gather
        indices_NM = np.asfortranarray(gather(np.ascontiguousarray(cells.indices_NM[chosen_N])))
        counts_N, hash_N = gather(cells.counts_N[chosen_N]), gather(hash_N[chosen_N])
        drawn_N = hash_N
        if groups_N is not None:
            drawn_N = cell_hashes(np.full(len(hash_N), seed, np.uint64), [groups_N[chosen_N]])
        fold_N = (mixed(drawn_N) % np.uint64(N_FOLDS)).astype(np.int8)
        later_N = np.ones(len(hash_N), dtype=bool)
        if held_out is not None:
            later_N = ~np.isin(hash_N, gather(_hashes(held_out.indices_NM, seed)))
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
    def value_NF(self) -> Ints:
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
        return [Grouping.of(self._keys(axes, self.indices_NM)) for axes in self.axis_sets]

    def _keys(self, axes: tuple[int, ...], indices_NM: npt.NDArray[Any]) -> Ints:
        return combination_keys(indices_NM, axes, [self.shape[axis] for axis in axes])

    # -- margins ----------------------------------------------------------------------------------

    @cached_property
    def head(self) -> CountHead:
        """A head that predicts the histogram of all counts, with the margins that training has."""
        tables = []
        for number, axes in enumerate(self.axis_sets):
            if self.rest is None:
                keys_P = self.groupings[number].keys_P
                sums_PF = self.groupings[number].sums(self.value_NF)
                strength_F = pull_strength(self.value_NF, sums_PF, LEAST_STRENGTH)
            else:
                keys_P, sums_PF = self._sums_of_rest(axes, self.rest)
                value_V, times_V = self.rest.histogram  # of all processes
                values = self.constant.statistics.values(value_V)
                strength_F = pull_strength(values, sums_PF, LEAST_STRENGTH, times_N=times_V)
            sizes = tuple(self.shape[axis] for axis in axes)
            tables.append(MarginTable(axes, sizes, keys_P, compact(sums_PF), strength_F))
        return replace(self.constant, tables=tuple(tables))

    def _sums_of_rest(self, axes: tuple[int, ...], rest: TrainingCells) -> tuple[Ints, Ints]:
        """Sum over the cells that are not trained on, of all processes."""
        values = self.constant.statistics.values(rest.counts_N)
        own = Grouping.of(self._keys(axes, rest.indices_NM))
        keys_P, sums_PF = own.keys_P, own.sums(values)
        if rest.group.size > 1:
            all_ = Grouping.of(rest.group.all_gather(keys_P))
            keys_P, sums_PF = all_.keys_P, all_.sums(rest.group.all_gather(sums_PF))
        return keys_P, sums_PF

    def inputs(self) -> Singles:
        """Return the inputs of all cells, from the cells of other folds."""
        if self.rest is not None:
            tables = self.head.tables
            return self.head.inputs([t.sums_at(t.rows_of(self.indices_NM)) for t in tables])
        return self.inputs_besides(-1)

    def inputs_besides(self, fold: int) -> Singles:
        """Return inputs that leave out one more fold than each cell's own; -1: none."""
        n_left = N_FOLDS - 1 - (fold >= 0)
        return self.head.inputs(self.out_of_fold(fold), N_FOLDS / n_left)

    def out_of_fold(self, besides: int = -1) -> list[Ints]:
        """Return sums at each cell over the cells of other folds, for every set of axes."""
        return [
            out_of_fold_sums(grouping, self.fold_N, self.value_NF, N_FOLDS, besides)
            for grouping in self.groupings
        ]

    # -- residuals --------------------------------------------------------------------------------

    def with_residuals(self, residual_N2: Ints) -> CountHead:
        """Return the head with sums of residuals in its tables."""
        tables = []
        for table, grouping in zip(self.head.tables, self.groupings, strict=True):
            cells_N1 = np.ones((len(self), 1), dtype=np.int64)
            value_N3 = np.hstack([cells_N1, residual_N2])
            sums_P3 = grouping.sums(value_N3)
            strength_2 = pull_strength(value_N3, sums_P3, LEAST_RESIDUAL_STRENGTH)
            tables.append(
                MarginTable(
                    table.axes, table.sizes, table.keys_P,
                    compact(np.hstack([table.sums_PF, sums_P3[:, 1:]])),
                    np.append(table.strength_F, strength_2),
                )
            )  # fmt: skip
        return replace(self.head, tables=tuple(tables))

    def residual_sums(self, residuals: list[Ints]) -> list[Ints]:
        """Return sums of residuals at each cell, those that know nothing of the cell's fold.

        The k-th of `residuals` are those of predictions that leave fold k out.
        """
        residual_NKF = np.ascontiguousarray(np.stack(residuals, axis=1))
        return [sums_by_fold(grouping, self.fold_N, residual_NKF) for grouping in self.groupings]


def _hashes(indices_NM: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.uint64]:
    return cell_hashes(np.full(len(indices_NM), seed, dtype=np.uint64), indices_NM.T)
