"""Whether a model puts the cells that have a count before cells that have none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import axis_number
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.expected import checked_tensor
from tallyfold.models.parameters import NONE, SEED, check_parameters, integer

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

AT_ONCE = 2**20
"""Rates that are worked out at once."""
ROUNDS = 30
"""Draws that hit a filled cell are repeated this many times; then the empty cells are listed."""


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
        Take this many held-out cells at random, where there are more.
    random_state
        Seed of the draws.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.1).tensor)
    >>> ranking(tf.Constant().fit(train), test, train).auc
    0.5
    """
    given = {"zeros_per_cell": zeros_per_cell, "k": k, "most_cells": most_cells}
    check_parameters(given, dict.fromkeys(given, integer(1)) | {"most_cells": integer(1) | NONE})
    check_parameters({"random_state": random_state}, {"random_state": SEED})
    if k > zeros_per_cell:
        raise ParameterError(
            f"`k` must be at most `zeros_per_cell`, or all cells are among the first; got {k} "
            f"and {zeros_per_cell}."
        )
    axis = None if along is None else axis_number(model.axes_, along)
    rng = np.random.default_rng(random_state)
    checked_tensor(known, "known")
    if checked_tensor(test, "test").nnz == 0:
        raise DataError("the test tensor has no non-zero cell; there is nothing to rank.")
    cells = cell_positions(model.axes_, test)
    seen = cell_positions(model.axes_, known, "prior")  # a label the model lacks has no cell here
    filled = np.concatenate([cells, seen[(seen >= 0).all(axis=1)]])
    empty = EmptyCells(tuple(len(axis) for axis in model.axes_), filled)
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


def _places(
    model: CountModel,
    cells: Positions,
    empty: EmptyCells,
    number: int,
    axis: int | None,
    rng: np.random.Generator,
) -> Ints:
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


@dataclass(frozen=True)
class EmptyCells:
    """The cells of a shape that are not among those filled.

    Parameters
    ----------
    shape
        The number of labels on each axis.
    filled
        Positions of the filled cells, one row each, in any order.
    """

    shape: tuple[int, ...]
    filled: Positions

    def draw(self, number: int, rng: np.random.Generator) -> Positions:
        """Draw empty cells from all over, each as likely as any other, with replacement.

        None at all are returned where every cell is filled.
        """
        drawn = np.empty((number, len(self.shape)), np.int32)
        taken = self._drawn_into(drawn, np.arange(len(self.shape)), rng)
        if len(taken):  # only for a tensor so full that all its cells can be listed
            cells = np.arange(math.prod(self.shape))
            empty = self._empty_among(np.stack(np.unravel_index(cells, self.shape), axis=1))
            if len(empty) == 0:
                return drawn[:0]
            drawn[taken] = empty[rng.integers(len(empty), size=len(taken))]
        return drawn

    def draw_along(
        self, cells: Positions, axis: int, number: int, rng: np.random.Generator
    ) -> tuple[Positions, Mask]:
        """Draw, for each cell, empty cells that differ from it on one axis only.

        Returns
        -------
        drawn, possible
            `number` rows of positions per cell, and for which of the cells there was an empty one.
        """
        drawn = np.repeat(cells, number, axis=0)
        possible = np.ones(len(cells), bool)
        taken = self._drawn_into(drawn, np.array([axis]), rng)
        for cell in np.unique(taken // number):
            line = np.repeat(cells[cell][None], self.shape[axis], axis=0)
            line[:, axis] = np.arange(self.shape[axis])
            empty = self._empty_among(line)
            possible[cell] = len(empty) > 0
            if possible[cell]:
                rows = slice(cell * number, (cell + 1) * number)
                drawn[rows] = empty[rng.integers(len(empty), size=number)]
        return drawn, possible

    def _drawn_into(
        self, cells: Positions, axes: npt.NDArray[np.intp], rng: np.random.Generator
    ) -> npt.NDArray[np.intp]:
        """Draw positions on some axes until the cells are empty; return which still are not."""
        sizes = [self.shape[axis] for axis in axes]
        taken = np.arange(len(cells))
        for _ in range(ROUNDS):
            cells[np.ix_(taken, axes)] = rng.integers(sizes, size=(len(taken), len(axes)))
            taken = taken[self._is_filled(cells[taken])]
            if len(taken) == 0:
                break
        return taken

    def _empty_among(self, cells: npt.NDArray[np.integer]) -> Positions:
        return cells[~self._is_filled(cells)].astype(np.int32)

    def _is_filled(self, cells: npt.NDArray[np.integer]) -> Mask:
        key_N = self._key(cells)
        place_N = np.minimum(np.searchsorted(self._keys, key_N), len(self._keys) - 1)
        return np.asarray(self._keys[place_N] == key_N)

    @cached_property
    def _keys(self) -> Ints:
        return np.sort(self._key(self.filled))

    def _key(self, cells: npt.NDArray[np.integer]) -> Ints:
        """Return a number per cell; odd factors keep every axis in it even where it overflows."""
        key_N = np.zeros(len(cells), np.int64)
        for axis, size in enumerate(self.shape):
            key_N = key_N * (size | 1) + cells[:, axis]
        return key_N
