"""Cells and factors on the device, and sums of what cells give per entity of an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.errors import ShapeError
from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.fused.pack import cell_weights, check_factors
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.on_device.tensors import (
    chunks,
    floats,
    int32,
    int64,
    kept,
    kept_if_fixed,
)

if TYPE_CHECKING:
    from torch import Tensor


class SortedCells(NamedTuple):
    """A layout's cells on the device.

    Attributes
    ----------
    axis, n_entities
        The axis they are sorted by, and its size.
    columns
        Their positions on each axis.
    order_N
        Where they stand in the original order.
    counts_N
        Their counts.
    """

    axis: int
    n_entities: int
    columns: tuple[Tensor, ...]
    order_N: Tensor
    counts_N: Tensor


def sorted_cells(layout: AxisLayout) -> SortedCells:
    """Return a layout's cells on the device, copied there once."""
    columns = list(kept(layout.others_NJ, _columns))
    columns.insert(layout.axis, kept(layout.indptr_D1, _entities))
    return SortedCells(
        layout.axis,
        len(layout.indptr_D1) - 1,
        tuple(columns),
        kept(layout.order_N, int64),
        kept(layout.counts_N, floats),
    )


def cell_columns(indices_NM: Positions, *sets: Factors) -> tuple[Tensor, ...]:
    """Return cells' positions on each axis; refuse factors that do not cover them."""
    columns, reach_M = kept_if_fixed(indices_NM, _columns_and_reach)
    for factors in sets:
        check_factors([factors], reach_M)
    return columns


def tables(factors: Factors, layout: AxisLayout | None = None) -> list[Tensor]:
    """Return factors on the device; refuse those that do not cover a layout's cells."""
    if layout is not None:
        check_factors([factors], layout.reach_M)
    return [floats(factor_DK) for factor_DK in factors]


def weights(weight_N: Floats | None, n_cells: int) -> Tensor | None:
    """Return a weight per cell, in the original order, on the device; None for all ones."""
    checked = cell_weights(weight_N, n_cells)
    return None if weight_N is None else floats(checked)


def sums_by_entity(
    cells: SortedCells, n_components: int, terms: Callable[[slice], Tensor]
) -> Tensor:
    """Add up the (cells, components) terms that are given for ranges of cells.

    One cell after the other on the CPU, so that the ranges do not matter; in any order on CUDA.
    """
    sums_DK = cells.counts_N.new_zeros((cells.n_entities, n_components))
    entity_N = cells.columns[cells.axis]
    for part in chunks(len(cells.counts_N), n_components):
        sums_DK.index_add_(0, entity_N[part], terms(part))
    return sums_DK


def _columns(positions_NM: NDArray[Any]) -> tuple[Tensor, ...]:
    return tuple(int32(position_N) for position_N in positions_NM.T)


def _columns_and_reach(indices_NM: NDArray[Any]) -> tuple[tuple[Tensor, ...], list[int]]:
    """Return positions on each axis, and how many rows a factor must have for them."""
    if len(indices_NM) and indices_NM.min() < 0:
        raise ShapeError("`indices_NM` must hold positions of 0 or more.")
    reach_M = (indices_NM.max(axis=0, initial=-1) + 1).tolist()
    return _columns(indices_NM), reach_M


def _entities(indptr_D1: Ints) -> Tensor:
    """Return each cell's entity."""
    return int64(np.repeat(np.arange(len(indptr_D1) - 1), np.diff(indptr_D1)))
