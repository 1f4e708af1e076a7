"""Whether a model puts the cells that have a count before cells that have none."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import axis_number
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.empty_cells import EmptyCells
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.parameters import NONE, SEED, check_parameters, integer

Floats = npt.NDArray[np.float64]

AT_ONCE = 2**20
"""Rates that are worked out at once."""


class Ranking(NamedTuple):
    """How held-out cells stand among empty ones.

    Attributes
    ----------
    auc
        How often a held-out cell has a higher rate than an empty one; ties count half. None, as
        the recall, where no cell could be ranked.
    recall
        How often a held-out cell is among the first k of its list; ties are broken by chance, of
        which this is the expectation.
    n_cells
        The number of held-out cells that were ranked.
    left_out
        The number of those that had no empty cell to be ranked against.
    """

    auc: float | None
    recall: float | None
    n_cells: int
    left_out: int


def ranking(
    model: CountModel,
    test: CountTensor,
    known: CountTensor,
    *,
    zeros_per_cell: int = 100,
    k: int = 10,
    along: str | None = None,
    most_cells: int | None = None,
    random_state: int = 0,
) -> Ranking:
    """Rank each held-out cell, by its rate, in a list with empty cells drawn at random.

    An empty cell has a count neither in `test` nor in `known`. With ``zeros="observed"`` this is
    what a model is fitted for. With ``zeros="missing"`` it has seen no empty cell: its rates are
    those of a count that is seen, and the ranking tells whether these are also the cells that are.

    Parameters
    ----------
    model
        A fitted model, of any kind.
    test
        The held-out cells.
    known
        The cells the model was fitted on.
    zeros_per_cell
        How many empty cells a held-out cell is ranked against; drawn with replacement.
    k
        How many first places count for the recall.
    along
        The axis on which the empty cells of a list differ from its held-out cell: with ``"item"``,
        the items are ranked for the cell's own user and day. None draws from all cells, which
        mostly asks how busy a cell's entities are.
    most_cells
        Take so many held-out cells at random, where there are more.
    random_state
        Seed of the draws.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.1).tensor)
    >>> ranking(tf.Constant().fit(train), test, train).auc
    0.5
    """
    numbers = {"zeros_per_cell": zeros_per_cell, "k": k}
    check_parameters(numbers, dict.fromkeys(numbers, integer(1)))
    check_parameters({"most_cells": most_cells}, {"most_cells": integer(1) | NONE})
    check_parameters({"random_state": random_state}, {"random_state": SEED})
    if k > zeros_per_cell:
        raise ParameterError(
            f"`k` must be at most `zeros_per_cell`, or all cells are among the first; got {k} "
            f"and {zeros_per_cell}."
        )
    axis = None if along is None else axis_number(model.axes_, along)
    rng = np.random.default_rng(random_state)
    cells, empty = _cells_of(model, test, known)
    if most_cells is not None and most_cells < len(cells):
        cells = cells[np.sort(rng.choice(len(cells), most_cells, replace=False))]
    width = max(1, AT_ONCE // zeros_per_cell)
    parts = [
        _places(model, cells[start : start + width], empty, zeros_per_cell, axis, rng)
        for start in range(0, len(cells), width)
    ]
    above_N, tied_N = np.concatenate(parts, axis=1)
    if len(above_N) == 0:
        return Ranking(None, None, 0, len(cells))
    auc = 1 - np.mean(above_N + tied_N / 2) / zeros_per_cell
    recall = np.mean(np.clip((k - above_N) / (tied_N + 1), 0, 1))
    return Ranking(float(auc), float(recall), len(above_N), len(cells) - len(above_N))


def longest_axis(model: CountModel) -> str:
    """Return the name of the axis with the most labels, the first of these."""
    return max(model.axes_, key=len).name


def _cells_of(
    model: CountModel, test: CountTensor, known: CountTensor
) -> tuple[npt.NDArray[np.int32], EmptyCells]:
    """Return the held-out cells, and the empty ones, as positions on the model's axes."""
    for name, tensor in (("test", test), ("known", known)):
        if not isinstance(tensor, CountTensor):
            raise ParameterError(f"`{name}` must be a CountTensor; got {type(tensor).__name__}.")
    if test.nnz == 0:
        raise DataError("the test tensor has no non-zero cell; there is nothing to rank.")
    held_out = cell_positions(model.axes_, test)
    seen = cell_positions(model.axes_, known, "prior")  # a label the model lacks has no cell here
    seen = seen[(seen >= 0).all(axis=1)]
    shape = tuple(len(axis) for axis in model.axes_)
    return held_out, EmptyCells(shape, np.concatenate([held_out, seen]))


def _places(
    model: CountModel,
    cells: npt.NDArray[np.int32],
    empty: EmptyCells,
    number: int,
    axis: int | None,
    rng: np.random.Generator,
) -> npt.NDArray[np.int64]:
    """Return, per held-out cell, how many empty cells stand above it and how many beside it."""
    if axis is None:
        rivals = empty.draw(len(cells) * number, rng)
        cells = cells[: len(rivals)]
    else:
        rivals, possible = empty.draw_along(cells, axis, number, rng)
        cells, rivals = cells[possible], rivals[np.repeat(possible, number)]
    own_N1 = model.rate(cells)[:, None]
    rate_NZ = model.rate(rivals).reshape(len(cells), number)
    return np.stack([(rate_NZ > own_N1).sum(axis=1), (rate_NZ == own_N1).sum(axis=1)])
