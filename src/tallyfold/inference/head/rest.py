"""The cells that a head is not trained on: margins are of these, where there are very many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels.margins import LARGEST_KEY, Grouping, coded_sums
from tallyfold.posterior.derived_axis import combination_keys
from tallyfold.posterior.margins import (
    MarginTable,
    Statistics,
    Values,
    pull_strength,
    value_moments,
)
from tallyfold.posterior.whole_sums import WholeSums

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CELLS_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class RestOfCells:
    """Some of a process's cells: a mask, not a copy.

    Attributes
    ----------
    cells
        All cells.
    kept_N
        Which of them these are.
    """

    cells: TrainingCells
    kept_N: Mask

    @classmethod
    def drawn(
        cls, cells: TrainingCells, chosen: Callable[[npt.NDArray[np.int32]], Mask]
    ) -> tuple[Mask, RestOfCells]:
        """Return which cells are chosen, by a function of some cells' positions, and the others."""
        chosen_N = np.empty(len(cells), dtype=bool)
        for part in _parts(len(cells)):
            chosen_N[part] = chosen(cells.indices_NM[part])
        return chosen_N, cls(cells, ~chosen_N)

    def __len__(self) -> int:
        """Return the number of this process's cells."""
        return int(self.kept_N.sum())

    @cached_property
    def histogram(self) -> tuple[Ints, Ints]:
        """The distinct counts of the cells of all processes, and how often each occurs."""
        value_V, times_V = self.cells.histogram
        other_V = np.zeros_like(times_V)
        for part in _parts(len(self.cells)):
            left_C = self.cells.counts_N[part][~self.kept_N[part]]
            other_V += np.bincount(np.searchsorted(value_V, left_C), minlength=len(value_V))
        times_V = times_V - self.cells.group.all_reduce(other_V * 1.0).astype(np.int64)
        return value_V[times_V > 0], times_V[times_V > 0]

    def tables(
        self, sets: Sequence[tuple[int, ...]], statistics: Statistics, least: float
    ) -> tuple[MarginTable, ...]:
        """Return the margins of sets of axes, pulled to the mean with at least some strength."""
        value_V, times_V = self.histogram
        value_VF = statistics.values(value_V)
        moments, tables = value_moments(value_VF, times_V), []
        for axes in sets:
            sizes = tuple(self.cells.shape[axis] for axis in axes)
            keys_P, sums = self._sums(axes, sizes, value_VF)
            tables.append(
                MarginTable(axes, sizes, keys_P, sums, pull_strength(moments, sums, least))
            )
        return tuple(tables)

    def _sums(
        self, axes: Sequence[int], sizes: Sequence[int], value_VF: Values
    ) -> tuple[Ints, WholeSums]:
        """Sum the functions of counts over the cells of each combination, of all processes."""
        number_V, group = self.histogram[0], self.cells.group
        if float(np.prod(sizes, dtype=float)) * len(number_V) < LARGEST_KEY:
            code_N, at = np.empty(len(self), dtype=np.int64), 0
            for indices_CM, counts_C in self._blocks():
                own = code_N[at : at + len(counts_C)]
                np.multiply(combination_keys(indices_CM, axes, sizes), len(number_V), out=own)
                own += np.searchsorted(number_V, counts_C)
                at += len(counts_C)
            keys: list[Ints] = []
            sums = WholeSums.of(_noting(keys, coded_sums(code_N, value_VF)))
            del code_N
            keys_P = np.concatenate(keys)
        else:  # cells cannot be numbered together with their counts
            key_N = combination_keys(self.cells.indices_NM[self.kept_N], axes, sizes)
            row_N = np.searchsorted(number_V, self.cells.counts_N[self.kept_N])
            own_ = Grouping.of(key_N)
            keys_P, sums = own_.keys_P, WholeSums.of([own_.sums(value_VF[row_N])])
        if group.size > 1:
            all_ = Grouping.of(group.all_gather(keys_P))
            together_PF = all_.sums(group.all_gather(sums.at(slice(None))))
            keys_P, sums = all_.keys_P, WholeSums.of([together_PF])
        return keys_P, sums

    def _blocks(self) -> Iterator[tuple[npt.NDArray[np.int32], Ints]]:
        """Yield positions and counts, some cells at a time."""
        for part in _parts(len(self.cells)):
            kept_C = self.kept_N[part]
            yield self.cells.indices_NM[part][kept_C], self.cells.counts_N[part][kept_C]


def _noting(keys: list[Ints], parts: Iterable[tuple[Ints, Values]]) -> Iterator[Values]:
    """Yield the sums of parts; their combinations are added to a list."""
    for keys_P, sums_PF in parts:
        keys.append(keys_P)
        yield sums_PF


def _parts(n_cells: int) -> Iterator[slice]:
    for start in range(0, n_cells, CELLS_AT_ONCE):
        yield slice(start, start + CELLS_AT_ONCE)
