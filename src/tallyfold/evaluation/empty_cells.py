"""Empty cells, drawn at random: rivals of the cells that were held out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

ROUNDS = 30
"""Draws that hit a filled cell are repeated so often; then the empty cells are listed."""


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
