"""Inputs of the count head at training cells: margins of other folds, pulled and standardised.

The same numbers as sums out of fold (:mod:`tallyfold.kernels.margins`), made into inputs and
standardised, would give, without arrays of these sums: a nested second stage needs them for each
fold that is left out besides.
"""

from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Floats, Ints, Singles, Whole
from tallyfold.kernels.backends import announce_compilation, chosen_backend
from tallyfold.kernels.margins import SMALL_WORK, Grouping, out_of_fold_sums


class FoldedCells(NamedTuple):
    """Cells in the order of their combinations: what is looked up for each lies side by side.

    Attributes
    ----------
    order_N, indptr_P1
        As in :class:`tallyfold.kernels.margins.Grouping`.
    fold_N, row_N
        In this order: the cells' folds, and which row of values each has.
    """

    order_N: Whole
    indptr_P1: Ints
    fold_N: NDArray[np.int8]
    row_N: Whole

    @classmethod
    def of(cls, grouping: Grouping, fold_N: NDArray[np.int8], row_N: Whole) -> "FoldedCells":
        """Bring folds and rows of values into the order of combinations."""
        order_N = grouping.order_N
        return cls(order_N, grouping.indptr_P1, fold_N[order_N], row_N[order_N])


class Pull(NamedTuple):
    """How sums become inputs.

    Attributes
    ----------
    scale
        Makes up for cells left out of the sums.
    unit
        What sums but the first, which is a number of cells, are counted in.
    strength_F, mean_F
        After how many cells a combination's own mean counts as much as `mean_F`, for each function
        but the first.
    centre_F, spread_F, limit
        What inputs are standardised by, and the largest size of one.
    """

    scale: float
    unit: float
    strength_F: Floats
    mean_F: Floats
    centre_F: Singles
    spread_F: Singles
    limit: float


def write_fold_inputs(
    cells: FoldedCells,
    value_VF: Whole,
    n_folds: int,
    besides: range,
    pull: Pull,
    z_NF: Singles,
    *,
    backend: str = "auto",
) -> None:
    """Write each cell's inputs from the cells of its combination in other folds.

    Parameters
    ----------
    cells, n_folds
        The cells, and how many folds they are in.
    value_VF
        The rows of values to sum, whole numbers.
    besides
        Folds to leave out of every sum, besides the cell's own.
    pull
        What is done with the sums.
    z_NF
        Written to, in the original order of the cells.

    Examples
    --------
    >>> pull = Pull(1.0, 1.0, np.ones(1), np.ones(1), np.zeros(2, "f4"), np.ones(2, "f4"), 6.0)
    >>> both = Grouping.of(np.array([5, 5])), np.array([0, 1], np.int8), np.array([0, 1])
    >>> z_NF = np.empty((2, 2), np.float32)
    >>> value_VF = np.array([[1, 2], [1, 4]])
    >>> write_fold_inputs(FoldedCells.of(*both), value_VF, 2, range(0), pull, z_NF)
    >>> z_NF[:, 1].tolist()  # (4 + 1) / 2 and (2 + 1) / 2
    [2.5, 1.5]
    """
    if chosen_backend(backend, small=z_NF.size < SMALL_WORK) == "numba":
        announce_compilation()
        fused = import_module("tallyfold.kernels.fused.fold_inputs")
        fused.write_fold_inputs(cells, value_VF, n_folds, besides, pull, z_NF)
        return
    n_cells = len(cells.order_N)
    sorted_ = Grouping(cells.indptr_P1[:-1], np.arange(n_cells), cells.indptr_P1)
    value_NF = np.where(np.isin(cells.fold_N, besides)[:, None], 0, value_VF[cells.row_N])
    sums_NF = out_of_fold_sums(sorted_, cells.fold_N, value_NF, n_folds)
    cells_N1 = pull.scale * sums_NF[:, :1]
    mean_NF = sums_NF[:, 1:] * (pull.scale * pull.unit) + pull.strength_F * pull.mean_F
    mean_NF /= cells_N1 + pull.strength_F
    input_NF = np.hstack([np.log1p(cells_N1), mean_NF]).astype(np.float32)
    input_NF = (input_NF - pull.centre_F) / pull.spread_F
    z_NF[cells.order_N] = np.clip(input_NF, -pull.limit, pull.limit)
