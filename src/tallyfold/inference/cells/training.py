"""Training cells as kernels want them: indices, counts, and one layout per axis.

In a group of several processes these are the cells of this one; what is summed over them becomes
a sum over all by `TrainingCells.group`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self, overload

import numpy as np

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup, current_group
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import (
    Array,
    Floats,
    Ints,
    Mask,
    OverRows,
    Positions,
    Whole,
    all_here,
)
from tallyfold.kernels.layout import AxisLayout, axis_layout

MOST_COUNTED = 1 << 20
"""Counts below this are counted without sorting them."""


class TrainingCells:
    """The non-zero cells of a tensor, sorted along each axis once, when first needed.

    Attributes
    ----------
    shape, indices_NM, counts_N
        The axes' sizes, and this process's cells.
    group, first
        The processes that the cells are spread over, and the position of the first of this
        process's cells among all.
    share
        The share of all cells, zeros too, that were not hidden: sums over all cells are meant for
        these.
    covered
        For each axis, which labels these cells have: all but those that a split took away whole,
        such as the days to come.
    own_rows
        The labels of an axis that live in this process, which then has no others; None: every
        process has all labels of all axes.
    """

    group: ProcessGroup = ALONE
    first: int = 0
    share: float = 1.0
    own_rows: OwnRows | None = None

    def __init__(self, tensor: CountTensor, own_rows: OwnRows | None = None) -> None:
        self.own_rows = own_rows
        tensor = tensor if own_rows is None else own_rows.tensor(tensor)
        self.share = 1.0 if tensor.part is None else tensor.part.share
        self.shape = tensor.shape
        allowed = None if tensor.part is None else tensor.part.allowed(tensor.axes)
        self.covered = _all_labels(self.shape) if allowed is None else tuple(allowed)
        self.indices_NM = tensor.indices
        self.counts_N = tensor.counts
        self._join(current_group())

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        indices_NM: Positions,
        counts_N: Ints,
        group: ProcessGroup = ALONE,
    ) -> Self:
        """Take cells that belong to no tensor."""
        cells = cls.__new__(cls)
        cells.shape, cells.indices_NM, cells.counts_N = shape, indices_NM, counts_N
        cells.covered = _all_labels(shape)
        cells._join(group)
        return cells

    def _join(self, group: ProcessGroup) -> None:
        self.group = group
        if group.size > 1:
            before = group.all_gather(np.array([len(self.counts_N)]))[: group.rank]
            self.first = int(before.sum())

    def __len__(self) -> int:
        """Return the number of this process's cells."""
        return len(self.counts_N)

    @cached_property
    def n_cells(self) -> int:
        """The number of cells in all processes."""
        return int(self.group.all_reduce_number(len(self.counts_N)))

    @cached_property
    def total_count(self) -> float:
        """The sum of the counts of all cells."""
        return self.group.all_reduce_number(float(self.counts_N.sum(dtype=np.float64)))

    @cached_property
    def histogram(self) -> tuple[Ints, Ints]:
        """The distinct counts of all cells, and how often each occurs."""
        if self.counts_N.max(initial=0) < MOST_COUNTED:
            times_C = np.bincount(self.counts_N)
            value_V = np.flatnonzero(times_C)
            times_V = times_C[value_V]
        else:
            value_V, times_V = np.unique(self.counts_N, return_counts=True)
        if self.group.size == 1:
            return value_V, times_V
        value_U, place_V = np.unique(self.group.all_gather(value_V), return_inverse=True)
        times_U = np.bincount(place_V, self.group.all_gather(times_V), minlength=len(value_U))
        return value_U, times_U.astype(np.int64)

    def every(self, step: int) -> slice:
        """Return this process's part of an even sample of all cells: every `step`-th."""
        return slice(-self.first % step, None, step)

    def axis_sums(
        self, factors: Sequence[Floats], axis: int, weight_N: Floats, backend: str
    ) -> Floats:
        """Return, per entity, the sum over all cells of weight times the others' product."""
        layout = self.layouts[axis]
        return self.total(axis, kernels.axis_sums(factors, layout, weight_N, backend=backend))

    def is_own(self, axis: int) -> bool:
        """Whether this process has some of an axis's entities only, with all their cells."""
        return self.own_rows is not None and self.own_rows.axis == axis

    def total(self, axis: int, sums: Array) -> Floats:
        """Return sums over all cells, given for each entity of an axis those over its own cells."""
        return np.asarray(sums) if self.is_own(axis) else self.group.all_reduce(sums)

    def over_rows(self, axis: int) -> OverRows:
        """Return what makes sums over all entities of an axis of those over its own."""
        return self.group.all_reduce if self.is_own(axis) else all_here

    @property
    def over_all_rows(self) -> list[OverRows]:
        """The same for every axis."""
        return [self.over_rows(axis) for axis in range(self.n_axes)]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of entities of each axis in all processes."""
        own = self.own_rows
        return tuple(
            own.size if own is not None and own.axis == axis else size
            for axis, size in enumerate(self.shape)
        )

    @property
    def rows(self) -> list[slice]:
        """Which of these entities, a run of each axis, are in this process."""
        own = self.own_rows
        return [
            own.rows if own is not None and own.axis == axis else slice(0, size)
            for axis, size in enumerate(self.shape)
        ]

    @cached_property
    def layouts(self) -> Sequence[AxisLayout]:
        """The cells sorted along each axis."""
        return _Layouts(self.shape, self.indices_NM, self.counts_N)

    def forget_layouts(self) -> None:
        """Give the memory of the layouts back; they are made again when they are needed."""
        self.__dict__.pop("layouts", None)

    @cached_property
    def cells_per_entity(self) -> tuple[Ints, ...]:
        """For each axis, how many cells the entities have in all processes."""
        return tuple(
            self.total(axis, np.bincount(self.indices_NM[:, axis], minlength=size)).astype(np.int64)
            for axis, size in enumerate(self.shape)
        )

    @cached_property
    def seen(self) -> tuple[Mask, ...]:
        """For each axis, which entities have a cell."""
        return tuple(cells_D > 0 for cells_D in self.cells_per_entity)

    def of_entities(self, axis: int, entities: slice | Array) -> tuple[Self, Whole]:
        """Return the cells of some entities of an axis, and where they stand among these cells.

        The entities are numbered from 0 in the order they are given in.
        """
        layout = self.layouts[axis]
        first_E, after_E = layout.indptr_D1[:-1][entities], layout.indptr_D1[1:][entities]
        number_E = after_E - first_E
        own_C = np.repeat(np.arange(len(number_E)), number_E)
        begin_E = np.cumsum(number_E) - number_E
        cell_C = np.arange(len(own_C)) + (first_E - begin_E)[own_C]
        columns = [layout.others_NJ[:, j][cell_C] for j in range(len(self.shape) - 1)]
        columns.insert(axis, own_C.astype(np.int32))
        indices_CM = np.empty((len(own_C), len(columns)), dtype=np.int32, order="F")
        for m, column_C in enumerate(columns):
            indices_CM[:, m] = column_C
        shape = tuple(len(number_E) if m == axis else n for m, n in enumerate(self.shape))
        counts_C = layout.counts_N[cell_C].astype(np.int64)
        return type(self).of(shape, indices_CM, counts_C, self.group), layout.order_N[cell_C]

    @property
    def n_axes(self) -> int:
        """The number of axes."""
        return len(self.shape)


def touched_cells(indices_NM: Positions, counts_N: Ints) -> tuple[list[Ints], TrainingCells]:
    """Return the entities of each axis that have one of some cells, and the cells among them."""
    rows, local_NM = [], np.empty_like(indices_NM, order="F")
    for axis, column_N in enumerate(indices_NM.T):
        seen_D = np.bincount(column_N) > 0
        rows.append(np.flatnonzero(seen_D))
        local_NM[:, axis] = (np.cumsum(seen_D) - 1)[column_N]
    shape = tuple(len(each) for each in rows)
    return rows, TrainingCells.of(shape, local_NM, counts_N)


def _all_labels(shape: Sequence[int]) -> tuple[Mask, ...]:
    return tuple(np.ones(size, dtype=bool) for size in shape)


class _Layouts(Sequence[AxisLayout]):
    """The layouts of some cells, each made when it is first asked for."""

    def __init__(self, shape: tuple[int, ...], indices_NM: Positions, counts_N: Ints) -> None:
        self.shape, self.indices_NM, self.counts_N = shape, indices_NM, counts_N
        self.made: dict[int, AxisLayout] = {}

    def __len__(self) -> int:
        return len(self.shape)

    @overload
    def __getitem__(self, axis: int) -> AxisLayout: ...
    @overload
    def __getitem__(self, axis: slice) -> Sequence[AxisLayout]: ...
    def __getitem__(self, axis: int | slice) -> AxisLayout | Sequence[AxisLayout]:
        if isinstance(axis, slice):
            return [self[each] for each in range(*axis.indices(len(self)))]
        if not 0 <= axis < len(self):
            raise IndexError(axis)
        if axis not in self.made:
            size = self.shape[axis]
            self.made[axis] = axis_layout(self.indices_NM, self.counts_N, axis, size)
        return self.made[axis]
