"""Whether a model puts the cells that have a count before cells that have none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import axis_number
from tallyfold.data.hashing import Hashes, cell_keys
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.kernels.arrays import Floats, Ints, Mask, Positions, Whole
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.expected import checked_tensor, counts_like
from tallyfold.models.parameters import NONE, RANDOM_STATE, check_parameters, integer, one_of
from tallyfold.models.scoring import knows_zeros, ranked_axis

By = Literal["rate", "probability"]

AT_ONCE = 2**20
"""Rates that are worked out at once."""
MOST_LISTED = 20_000_000
"""Cells that lists of all labels have together, at most."""
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
    by: By = "rate",
    random_state: int | None = 0,
) -> Ranking:
    """Rank each held-out cell in a list with empty cells drawn at random.

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
    by
        Rank by the cells' ``"rate"``, or by the ``"probability"`` that there is a count, for a
        model whose zeros are observed.
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
    check_parameters({"random_state": random_state}, {"random_state": RANDOM_STATE})
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
    value_of = _values(model, by, cells)
    seen = cell_positions(model.axes_, known, "prior")  # a label the model lacks has no cell here
    filled = np.concatenate([cells, seen[(seen >= 0).all(axis=1)]])
    empty = EmptyCells(tuple(len(axis) for axis in model.axes_), filled)
    if most_cells is not None and most_cells < len(cells):
        cells = cells[np.sort(rng.choice(len(cells), most_cells, replace=False))]
    width = max(1, AT_ONCE // zeros_per_cell)
    parts = [
        _places(value_of, cells[start : start + width], empty, zeros_per_cell, axis, rng)
        for start in range(0, len(cells), width)
    ]
    above_N, tied_N = np.concatenate(parts, axis=1)
    if len(above_N) == 0:
        return Ranking(None, None, 0, len(cells))
    auc = 1 - np.mean(above_N + tied_N / 2) / zeros_per_cell
    recall = np.mean(np.clip((k - above_N) / (tied_N + 1), 0, 1))
    return Ranking(float(auc), float(recall), len(above_N), len(cells) - len(above_N))


def _values(model: CountModel, by: By, cells: Positions) -> Callable[[Positions], Floats]:
    """Return what cells are ranked by; refuse a model that has no such thing."""
    check_parameters({"by": by}, {"by": one_of("rate", "probability")})
    if by == "rate":
        return model.rate
    if not knows_zeros(model, model.predictive(cells[:1])):
        raise ParameterError(
            "`by` must be 'rate' for a model that takes empty cells as missing: it has no "
            "probability of a count. Fit it with zeros='observed', or rank by 'rate'."
        )
    return lambda positions: -model._log_zero(positions)


def _places(
    value_of: Callable[[Positions], Floats],
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
    own_N1 = value_of(cells)[:, None]
    value_NZ = value_of(rivals).reshape(len(cells), number)
    return np.stack([(value_NZ > own_N1).sum(axis=1), (value_NZ == own_N1).sum(axis=1)])


class Lists(NamedTuple):
    """How held-out cells stand among all labels of an axis.

    Attributes
    ----------
    recall
        How many of the held-out cells are among the first k of their lists, of all that could be.
        None, as the gain, where there is no list.
    ndcg
        The mean over lists of the normalised discounted cumulative gain at k.
    n_lists
        The number of lists.
    """

    recall: float | None
    ndcg: float | None
    n_lists: int


def ranked_lists(
    model: CountModel,
    test: CountTensor,
    known: CountTensor,
    *,
    k: int = 20,
    along: str | None = None,
    most_lists: int = 1500,
    by: By = "rate",
    random_state: int | None = 0,
) -> Lists:
    """Rank all labels of an axis within combinations of the other axes' labels.

    Such as all items for a user and a day, without those that the user is known to have had then.
    Ties are broken by chance, of which the scores are the expectation.

    Parameters
    ----------
    model, test, known, by, random_state
        As in `ranking`.
    k
        How many first places count.
    along
        The axis whose labels are ranked; None for that with the most labels.
    most_lists
        Take this many combinations with held-out cells at random, where there are more; fewer
        where lists are so long that they would have more than 20 million cells.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.simulate((30, 20, 10), 2, density=0.1).tensor)
    >>> model = tf.BPTF(n_components=2, max_iter=20).fit(train)
    >>> bool(ranked_lists(model, test, train, k=5).recall > 5 / 30)
    True
    """
    given = {"k": k, "most_lists": most_lists}
    check_parameters(given, dict.fromkeys(given, integer(1)))
    check_parameters({"random_state": random_state}, {"random_state": RANDOM_STATE})
    axes = model.axes_
    target = axis_number(axes, ranked_axis(axes) if along is None else along)
    cells = cell_positions(axes, counts_like(axes, test, "test"))
    if len(cells) == 0:
        return Lists(None, None, 0)
    value_of = _values(model, by, cells)
    seen = cell_positions(axes, counts_like(axes, known, "known"), "prior")
    others = [number for number in range(len(axes)) if number != target]
    sizes = [len(axes[number]) for number in others]
    keys_L, first_L = np.unique(cell_keys(cells[:, others], sizes), return_index=True)
    rng = np.random.default_rng(random_state)
    most = max(1, min(most_lists, MOST_LISTED // len(axes[target])))
    chosen = np.sort(rng.permutation(len(keys_L))[:most])
    keys_L, first_L = keys_L[chosen], first_L[chosen]
    held_out = _by_list(cells, keys_L, target, others, sizes)
    taken = _by_list(seen[(seen >= 0).all(axis=1)], keys_L, target, others, sizes)
    lines = _lines(cells[first_L], target, len(axes[target]), value_of)
    found = [_gains(*each, k) for each in zip(lines, held_out, taken, strict=True)]
    hits, gains = np.sum(found, axis=0)
    possible = sum(min(k, len(each)) for each in held_out)
    return Lists(float(hits / possible), float(gains / len(found)), len(found))


def _by_list(
    cells: Positions, keys_L: Hashes, target: int, others: list[int], sizes: list[int]
) -> list[Positions]:
    """Return, for each list, the labels that cells have in it."""
    key_N = cell_keys(cells[:, others], sizes)
    place_N = np.minimum(np.searchsorted(keys_L, key_N), len(keys_L) - 1)
    inside = np.flatnonzero(keys_L[place_N] == key_N)
    inside = inside[np.argsort(place_N[inside], kind="stable")]
    ends = np.searchsorted(place_N[inside], np.arange(1, len(keys_L)))
    return np.split(cells[inside, target], ends)


def _lines(
    cells: Positions, target: int, n_labels: int, value_of: Callable[[Positions], Floats]
) -> Iterator[Floats]:
    """Yield, for each cell, the values of all cells that differ from it on the target axis only."""
    number = max(1, AT_ONCE // n_labels)
    for start in range(0, len(cells), number):
        some = cells[start : start + number]
        lines = np.repeat(some, n_labels, axis=0)
        lines[:, target] = np.tile(np.arange(n_labels), len(some))
        yield from value_of(lines).reshape(len(some), n_labels)


def _gains(value_T: Floats, held_out: Positions, taken: Positions, k: int) -> tuple[float, float]:
    """Return how many held-out labels of a list are among its first k, and their gain."""
    value_P, value_T = value_T[held_out], value_T.copy()
    value_T[taken] = -np.inf
    value_T[held_out] = value_P
    ascending_T = np.sort(value_T)
    above_P = len(value_T) - np.searchsorted(ascending_T, value_P, "right")
    upto_P = len(value_T) - np.searchsorted(ascending_T, value_P, "left")
    tied_P = upto_P - above_P
    discount_K = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(2, k + 2)))])
    hits_P = (np.minimum(upto_P, k) - np.minimum(above_P, k)) / tied_P
    gain_P = (discount_K[np.minimum(upto_P, k)] - discount_K[np.minimum(above_P, k)]) / tied_P
    best = discount_K[min(len(held_out), k)]
    return float(hits_P.sum()), float(gain_P.sum() / best)


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

    def _empty_among(self, cells: Whole) -> Positions:
        return cells[~self._is_filled(cells)].astype(np.int32)

    def _is_filled(self, cells: Whole) -> Mask:
        key_N = self._key(cells)
        place_N = np.minimum(np.searchsorted(self._keys, key_N), len(self._keys) - 1)
        return np.asarray(self._keys[place_N] == key_N)

    @cached_property
    def _keys(self) -> Ints:
        return np.sort(self._key(self.filled))

    def _key(self, cells: Whole) -> Ints:
        """Return a number per cell; odd factors keep every axis in it even where it overflows."""
        key_N = np.zeros(len(cells), np.int64)
        for axis, size in enumerate(self.shape):
            key_N = key_N * (size | 1) + cells[:, axis]
        return key_N
