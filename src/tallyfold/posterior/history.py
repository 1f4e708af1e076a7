"""What came before: counts of combinations of labels, period by period.

Every set of the other axes has a table of the periods in which each of its combinations had cells.
What is asked of it, at a cell and a period, is made of earlier periods alone, so that the same
history answers for the next period and for any past one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tallyfold.errors import DataError
from tallyfold.kernels.arrays import Floats, Ints, Mask, Whole
from tallyfold.kernels.decayed_sums import decayed_sums
from tallyfold.posterior.derived_axis import MOST_KEYS, combination_keys
from tallyfold.posterior.named_arrays import Arrays, whole

Cells = Whole
Axes = tuple[int, ...]

MOST_IN_ALL_SETS = 4
"""With more other axes than this, sets between pairs and all of them have no table."""


@dataclass(frozen=True)
class HistoryTable:
    """The periods in which combinations of some axes had cells.

    Attributes
    ----------
    axes, sizes
        Positions among the other axes, and their numbers of labels.
    span
        More than the number of periods: places count combinations, then periods.
    place_E
        Combination and period of each entry, in ascending order.
    sums_E2
        How many cells, and the sum of ln y over them.
    """

    axes: Axes
    sizes: tuple[int, ...]
    span: int
    place_E: Ints
    sums_E2: Floats
    _decayed: dict[float, Floats] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls, axes: Axes, sizes: Sequence[int], span: int, others_NK: Cells, step_N: Ints, log_N: Any
    ) -> HistoryTable:
        """Add up cells by combination and period."""
        own = tuple(sizes[axis] for axis in axes)
        place_N = combination_keys(others_NK, axes, own) * span + step_N
        place_E, entry_N = np.unique(place_N, return_inverse=True)
        sums = [np.bincount(entry_N, weights, len(place_E)) for weights in (None, log_N)]
        return cls(axes, own, span, place_E, np.stack(sums, axis=1).astype(np.float64))

    @cached_property
    def step_E(self) -> Ints:
        """The period of each entry."""
        return self.place_E % self.span

    @cached_property
    def key_E(self) -> Ints:
        """The combination of each entry."""
        return self.place_E // self.span

    def rows(self, others_NK: Cells, step_N: Ints) -> Ints:
        """Return the last entry of each cell's combination up to a period; -1 if there is none."""
        key_N = combination_keys(others_NK, self.axes, self.sizes)
        place_N = key_N * self.span + np.minimum(step_N, self.span - 1)
        row_N = np.searchsorted(self.place_E, place_N, side="right") - 1
        if not len(self.place_E):
            return row_N
        known_N = (key_N >= 0) & (step_N >= 0) & (self.key_E[row_N] == key_N) & (row_N >= 0)
        return np.asarray(np.where(known_N, row_N, -1))

    def decayed(self, row_N: Ints, step_N: Ints, decay: float) -> Floats:
        """Return sums of all up to a period, faded until then; zeros where there is nothing."""
        if decay not in self._decayed:
            self._decayed[decay] = decayed_sums(self.key_E, self.step_E, self.sums_E2, decay)
        if not len(self.place_E):
            return np.zeros((len(row_N), 2))
        gap_N = np.where(row_N < 0, 0, step_N - self.step_E[row_N])
        sums_N2 = self._decayed[decay][row_N] * decay ** gap_N[:, None].astype(np.float64)
        sums_N2[row_N < 0] = 0.0
        return sums_N2

    def active(self, row_N: Ints) -> Floats:
        """Return in how many periods a combination had cells, up to one of its entries."""
        if not len(self.place_E):
            return np.zeros(len(row_N))
        return np.asarray(np.where(row_N < 0, 0.0, self._number_E[row_N]))

    @cached_property
    def _number_E(self) -> Floats:
        """In how many periods a combination had cells, up to each entry."""
        first_E = np.searchsorted(self.key_E, self.key_E)
        return np.asarray(np.arange(len(first_E)) - first_E + 1.0, dtype=np.float64)


class Asked(NamedTuple):
    """Cells of which something is asked, and what of the past is known then.

    Attributes
    ----------
    others_NK
        Their positions on the other axes; -1 for an unknown label.
    known_N
        The last period that is known, counted from the first; -1 for none.
    ahead_N
        How many periods later the cell is, at least one.
    """

    others_NK: Cells
    known_N: Ints
    ahead_N: Ints

    def where(self, chosen_N: Mask) -> Asked:
        """Return what is asked of some of them."""
        return Asked(self.others_NK[chosen_N], self.known_N[chosen_N], self.ahead_N[chosen_N])

    def beside(self, other: Asked) -> Asked:
        """Return what is asked of these and of others."""
        return Asked(
            np.concatenate([self.others_NK, other.others_NK]),
            np.concatenate([self.known_N, other.known_N]),
            np.concatenate([self.ahead_N, other.ahead_N]),
        )


@dataclass(frozen=True)
class History:
    """All that came before, by combination and period.

    Attributes
    ----------
    axis
        The position of the axis of time.
    step_D
        The period of each of its labels, counted from the first one that has a cell.
    n_periods
        How many periods there are up to the last that has a cell, gaps counted.
    sizes
        The numbers of labels of the other axes.
    tables
        One for each set of other axes, the empty one first and all of them last.
    """

    axis: int
    step_D: Ints
    n_periods: int
    sizes: tuple[int, ...]
    tables: tuple[HistoryTable, ...]

    @classmethod
    def of(
        cls, indices_NM: Cells, counts_N: Ints, shape: Sequence[int], axis: int, steps_D: Ints
    ) -> History:
        """Make it of a tensor's cells, given the step of each label of its axis of time."""
        step_N = steps_D[indices_NM[:, axis]]
        first, last = int(step_N.min()), int(step_N.max())
        others_NK = np.delete(indices_NM, axis, axis=1)
        sizes = tuple(size for number, size in enumerate(shape) if number != axis)
        return cls._of_sums(
            axis, steps_D - first, last - first + 1, sizes, others_NK, step_N - first,
            np.log(counts_N),
        )  # fmt: skip

    @classmethod
    def _of_sums(
        cls, axis: int, step_D: Ints, n_periods: int, sizes: tuple[int, ...],
        others_NK: Cells, step_N: Ints, log_N: Floats,
    ) -> History:  # fmt: skip
        span = n_periods + 1
        if math.prod(sizes) * span >= MOST_KEYS:
            raise DataError(
                f"there are too many combinations of labels and periods to number them: "
                f"{' x '.join(f'{size:,}' for size in (*sizes, n_periods))}. Leave out labels with "
                "few cells (filter), or take longer periods (bins)."
            )
        tables = tuple(
            HistoryTable.of(axes, sizes, span, others_NK, step_N, log_N)
            for axes in sets_of(len(sizes))
        )
        return cls(axis, step_D, n_periods, sizes, tables)

    @property
    def whole(self) -> HistoryTable:
        """The table of combinations of all other axes."""
        return self.tables[-1]

    @cached_property
    def singles(self) -> tuple[HistoryTable, ...]:
        """The tables of single axes."""
        return tuple(table for table in self.tables if len(table.axes) == 1)

    @cached_property
    def between(self) -> tuple[HistoryTable, ...]:
        """The tables of several axes, but not of all."""
        return tuple(t for t in self.tables if 1 < len(t.axes) < len(self.sizes))

    @cached_property
    def counts_E(self) -> Ints:
        """The count of each entry of the table of all other axes."""
        cells_E, logs_E = self.whole.sums_E2.T
        return np.asarray(np.rint(cells_E * np.exp(logs_E / cells_E))).astype(np.int64)

    @cached_property
    def totals(self) -> tuple[HistoryTable, ...]:
        """Tables of the totals of periods, and of each label's: the sums of y, not of ln y."""
        table = self.whole
        others_EK = np.stack(np.unravel_index(table.key_E, self.sizes), axis=1).astype(np.int32)
        return tuple(
            HistoryTable.of(axes, self.sizes, table.span, others_EK, table.step_E, self.counts_E)
            for axes in ((), *((axis,) for axis in range(len(self.sizes))))
        )

    def asked(self, indices_NM: Cells) -> Asked:
        """Return what is known of the past at cells; an unknown period is the one after the last.

        Past periods know only what came before them.
        """
        column_N = indices_NM[:, self.axis]
        step_N = np.where(column_N < 0, self.n_periods, self.step_D[column_N])
        known_N = np.clip(step_N - 1, -1, self.n_periods - 1)
        others_NK = np.delete(indices_NM, self.axis, axis=1)
        return Asked(others_NK, known_N, np.maximum(step_N - known_N, 1))

    def seen(self, asked: Asked) -> Mask:
        """Return whether each cell's combination had a count in a period that is known."""
        return self.whole.rows(asked.others_NK, asked.known_N) >= 0

    def added(
        self, indices_NM: Cells, counts_N: Ints, shape: Sequence[int], step_D: Ints
    ) -> History:
        """Return the history with further cells, on axes of these sizes.

        `step_D` are the steps of the longer axis of time, counted as those of this history.
        """
        table = self.whole
        old_EK = np.stack(np.unravel_index(table.key_E, self.sizes), axis=1)
        new_NK = np.delete(indices_NM, self.axis, axis=1)
        step = np.concatenate([table.step_E, step_D[indices_NM[:, self.axis]]])
        first, last = min(0, int(step.min())), max(self.n_periods - 1, int(step.max()))
        sizes = tuple(size for number, size in enumerate(shape) if number != self.axis)
        logs = np.concatenate([table.sums_E2[:, 1], np.log(counts_N)])
        others = np.concatenate([old_EK, new_NK]).astype(np.int32)
        return History._of_sums(
            self.axis, step_D - first, last - first + 1, sizes, others, step - first, logs
        )

    # -- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return all that is needed to build this again: the sums of the largest set alone."""
        return {
            "axis": np.array([self.axis, self.n_periods]),
            "steps": self.step_D,
            "sizes": np.array(self.sizes, dtype=np.int64),
            "places": self.whole.place_E,
            "logs": self.whole.sums_E2[:, 1],
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> History:
        """Build from what `arrays` returned."""
        axis, n_periods = whole(arrays["axis"])
        sizes, place_E = whole(arrays["sizes"]), arrays["places"]
        if place_E.dtype.kind != "i":
            raise ValueError(f"periods numbered by {place_E.dtype}")
        key_E, step_E = place_E // (n_periods + 1), place_E % (n_periods + 1)
        others_EK = np.stack(np.unravel_index(key_E, sizes), axis=1)
        return cls._of_sums(
            axis, arrays["steps"], n_periods, sizes, others_EK, step_E, arrays["logs"]
        )


def sets_of(n_axes: int) -> list[Axes]:
    """Return the sets of other axes that have tables: the empty one first, all of them last.

    Examples
    --------
    >>> sets_of(2)
    [(), (0,), (1,), (0, 1)]
    """
    small = range(n_axes) if n_axes <= MOST_IN_ALL_SETS else (0, 1, 2)
    return [each for size in (*small, n_axes) for each in combinations(range(n_axes), size)]
