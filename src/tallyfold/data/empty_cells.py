"""Empty cells, all or drawn, with weights: sums over all cells of a part that nobody can list.

Cells are drawn from a mixture of proposals: anywhere, by how often labels occur, next to cells
that have a count, or with labels that similar combinations have (such as a word that the author
has elsewhere, in another venue and year of the author). A cell's weight is one over how often the
mixture draws it (the balance heuristic), so that weighted sums are right on average whatever the
proposals are; proposals near the counts make them precise, since that is where zeros are
surprising.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.hashing import Hashes, cell_hashes, cell_keys
from tallyfold.data.tensor import CountTensor

Cells = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

MOST_LISTED = 2_000_000
"""Of tensors with at most this many cells, all empty cells are listed."""
MOST_BASE = 1_000_000
"""Proposals are made next to about this many cells at most, drawn from those with a count."""
PILOT = 20_000
MOST_DRAWS = 30
"""At most this many times as many cells are drawn as are wanted."""
DRAWN_AT_ONCE = 1 << 20


class EmptyCells(NamedTuple):
    """Empty cells of a part, and how many empty cells each stands for.

    Attributes
    ----------
    indices_ZM
        Their positions.
    weight_Z
        The sum of weight times f estimates the sum of f over all empty cells of the part.
    exact
        Whether these are all of them, each once.
    n_drawn
        How many cells were drawn, those included that are not in the part or have a count.
    """

    indices_ZM: Cells
    weight_Z: Floats
    exact: bool
    n_drawn: int


def draw_empty_cells(
    tensor: CountTensor,
    n: int = 300_000,
    seed: int = 0,
    *,
    most_listed: int = MOST_LISTED,
    base_BM: Cells | None = None,
) -> EmptyCells:
    """Return empty cells of a tensor, or of the part of a whole that it is, with weights.

    Parameters
    ----------
    tensor
        A tensor; if it is a part (`CountTensor.part`), cells of the part only.
    n
        About how many to draw.
    seed
        Another seed gives other cells.
    most_listed
        All empty cells are listed if the tensor has no more cells than this.
    base_BM
        The cells next to which to draw: those of all processes, where each knows some. None:
        `base_cells` of the tensor.

    Examples
    --------
    >>> import tallyfold as tf
    >>> train, test = tf.split(tf.load_demo(), 0.2, cells="all")
    >>> empty = draw_empty_cells(test, 1000, most_listed=0)
    >>> bool(test.part.contains(test.axes, empty.indices_ZM).all())
    True
    """
    if tensor.size <= most_listed:
        listed = np.unravel_index(np.arange(tensor.size), tensor.shape)
        cells_ZM = np.stack(listed, axis=1).astype(np.int32)
        cells_ZM = cells_ZM[_Membership.of(tensor).empty(cells_ZM)]
        return EmptyCells(cells_ZM, np.ones(len(cells_ZM)), True, len(cells_ZM))
    base_BM = thinned(base_cells(tensor), seed) if base_BM is None else base_BM
    return _Sampler.of(tensor, base_BM).draw(n, seed)


def base_cells(tensor: CountTensor) -> Cells:
    """Return the cells with a count that are known of a tensor, or of the whole it is a part of.

    Without those whose labels the part does not have.
    """
    part = tensor.part
    known_BM = None if part is None else part.known(tensor.axes)
    base_BM = tensor.indices if known_BM is None else known_BM
    inside_B = np.ones(len(base_BM), bool)
    for allowed_D, column_B in zip(_allowed(tensor), base_BM.T, strict=True):
        if not allowed_D.all():
            inside_B &= allowed_D[column_B]
    return base_BM if inside_B.all() else base_BM[inside_B]


def thinned(base_BM: Cells, seed: int, n_all: int | None = None) -> Cells:
    """Return about `MOST_BASE` of many cells, by a hash of each: they need not be in one place.

    `n_all` is how many there are in all places together; None: these are all.

    Examples
    --------
    >>> cells = np.stack(np.unravel_index(np.arange(4_000_000), (2000, 2000)), axis=1)
    >>> some = thinned(cells, 0)
    >>> parts = [thinned(part, 0, len(cells)) for part in (cells[:500], cells[500:])]
    >>> round(len(some) / MOST_BASE, 1), np.array_equal(np.concatenate(parts), some)
    (1.0, True)
    """
    share = MOST_BASE / max(len(base_BM) if n_all is None else n_all, 1)
    if share >= 1:
        return base_BM
    hash_B = cell_hashes(np.full(len(base_BM), seed, np.uint64), base_BM.T)
    return base_BM[hash_B < np.uint64(share * 2.0**64)]


def _allowed(tensor: CountTensor) -> list[npt.NDArray[np.bool_]]:
    """Return, for each axis, the labels that cells of a tensor may have."""
    if tensor.part is None:
        return [np.ones(size, bool) for size in tensor.shape]
    return tensor.part.allowed(tensor.axes)


def are_empty(tensor: CountTensor, cells_DM: Cells) -> npt.NDArray[np.bool_]:
    """Return which cells have no count and are in the part of a whole that a tensor is.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.load_demo()
    >>> bool(are_empty(tensor, tensor.indices).any())
    False
    """
    return _Membership.of(tensor).empty(cells_DM)


def weighted_sum(empty: EmptyCells, value_Z: npt.ArrayLike) -> tuple[float, float]:
    """Return the estimated sum over all empty cells of a value per cell, and its standard error.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.load_demo()
    >>> empty = draw_empty_cells(tensor, 100_000, most_listed=0)
    >>> number, error = weighted_sum(empty, np.ones(len(empty.weight_Z)))
    >>> bool(abs(number - (tensor.size - tensor.nnz)) < 4 * error)
    True
    """
    term_Z = empty.weight_Z * np.asarray(value_Z, np.float64)
    total = float(term_Z.sum())
    if empty.exact or empty.n_drawn < 2:
        return total, 0.0
    spread = float(term_Z @ term_Z) - total**2 / empty.n_drawn
    return total, float(np.sqrt(max(spread, 0.0) * empty.n_drawn / (empty.n_drawn - 1)))


@dataclass(frozen=True)
class _Membership:
    """Which cells are in a tensor's part and have no count."""

    tensor: CountTensor
    key_N: Hashes

    @classmethod
    def of(cls, tensor: CountTensor) -> _Membership:
        return cls(tensor, np.sort(cell_keys(tensor.indices, tensor.shape)))

    def empty(self, cells_DM: Cells) -> npt.NDArray[np.bool_]:
        part = self.tensor.part
        inside_D = np.ones(len(cells_DM), bool)
        if part is not None:
            inside_D = part.contains(self.tensor.axes, cells_DM)
        asked_D = cell_keys(cells_DM[inside_D], self.tensor.shape)
        inside_D[inside_D] = ~_found(asked_D, self.key_N)[1]
        return inside_D


def _found(asked_D: Hashes, key_N: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return where numbers stand in a sorted list, and whether they do."""
    if not len(key_N):
        return np.zeros(len(asked_D), np.intp), np.zeros(len(asked_D), bool)
    place_D = np.minimum(np.searchsorted(key_N, asked_D), len(key_N) - 1)
    return place_D, key_N[place_D] == asked_D


@dataclass(frozen=True)
class _Seen:
    """The combinations that some axes have in the base, and how often."""

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    key_P: Hashes
    share_P: Floats

    @classmethod
    def of(cls, base_BM: Cells, axes: tuple[int, ...], shape: tuple[int, ...]) -> _Seen:
        sizes = tuple(shape[axis] for axis in axes)
        key_P, times_P = np.unique(cell_keys(base_BM[:, axes], sizes), return_counts=True)
        return cls(axes, sizes, key_P, times_P / max(len(base_BM), 1))

    def density(self, cells_DM: Cells) -> Floats:
        place_D, known_D = _found(cell_keys(cells_DM[:, self.axes], self.sizes), self.key_P)
        if not len(self.key_P):
            return np.zeros(len(cells_DM))
        return np.where(known_D, self.share_P[place_D], 0.0)


class _Proposal(NamedTuple):
    """Takes the labels of some axes from a cell of the base, all from the same one.

    The labels of the other axes are each from another cell: from any, or one that agrees with the
    first on the axes `given`; or they are from all labels alike.
    """

    axes: tuple[int, ...] = ()
    uniform: bool = False
    given: tuple[int, ...] = ()


@dataclass(frozen=True)
class _Sampler:
    """Draws cells from the mixture of proposals."""

    tensor: CountTensor
    base_BM: Cells
    label_of: tuple[npt.NDArray[np.intp], ...]
    proposals: tuple[_Proposal, ...]

    @classmethod
    def of(cls, tensor: CountTensor, base_BM: Cells) -> _Sampler:
        proposals = [_Proposal(uniform=True)]
        if len(base_BM):
            proposals += _proposals(len(tensor.shape))
        label_of = tuple(np.flatnonzero(allowed_D) for allowed_D in _allowed(tensor))
        return cls(tensor, base_BM, label_of, tuple(proposals))

    def draw(self, n: int, seed: int) -> EmptyCells:
        """Draw so many that about `n` are in the part and empty."""
        membership = _Membership.of(self.tensor)
        if not all(map(len, self.label_of)):
            return EmptyCells(np.empty((0, len(self.label_of)), np.int32), np.empty(0), True, 0)
        rng = np.random.default_rng([seed, 2])
        pilot = float(np.mean(membership.empty(self._cells(PILOT, rng))))  # these are not used
        wanted = int(min(n / max(pilot, 1e-9), MOST_DRAWS * n))
        rng, kept, drawn = np.random.default_rng([seed, 3]), [], 0
        while drawn < wanted:
            cells_DM = self._cells(min(wanted - drawn, DRAWN_AT_ONCE), rng)
            kept.append(cells_DM[membership.empty(cells_DM)])
            drawn += len(cells_DM)
        cells_ZM = np.concatenate(kept)
        return EmptyCells(cells_ZM, 1 / (drawn * self._density(cells_ZM)), False, drawn)

    def _cells(self, n: int, rng: np.random.Generator) -> Cells:
        """Draw at least `n` cells, as many from each proposal."""
        size = -(-n // len(self.proposals))
        return np.concatenate([self._proposed(size, rng, one) for one in self.proposals])

    def _proposed(self, size: int, rng: np.random.Generator, proposal: _Proposal) -> Cells:
        cells_DM = np.empty((size, len(self.label_of)), np.int32)
        row_D = rng.integers(len(self.base_BM), size=size) if proposal.axes else None
        for axis, labels in enumerate(self.label_of):
            if axis in proposal.axes:
                cells_DM[:, axis] = self.base_BM[row_D, axis]
            elif proposal.uniform:
                cells_DM[:, axis] = labels[rng.integers(len(labels), size=size)]
            elif proposal.given:
                like_D = self._agreeing[proposal.given].drawn(row_D, rng)
                cells_DM[:, axis] = self.base_BM[like_D, axis]
            else:
                cells_DM[:, axis] = self.base_BM[rng.integers(len(self.base_BM), size=size), axis]
        return cells_DM

    @cached_property
    def _agreeing(self) -> dict[tuple[int, ...], _Agreeing]:
        given = {proposal.given for proposal in self.proposals if proposal.given}
        return {axes: _Agreeing.of(self.base_BM, axes, self.tensor.shape) for axes in given}

    def _density(self, cells_DM: Cells) -> Floats:
        """Return how likely the mixture draws each cell."""
        shape, everything = self.tensor.shape, frozenset(range(len(self.label_of)))
        shares: dict[tuple[int, ...], Floats] = {(): np.ones(len(cells_DM))}

        def share(axes: Iterable[int]) -> Floats:
            """Return how often the base has the cells' labels on some axes."""
            found = tuple(sorted(axes))
            if found not in shares:
                shares[found] = _Seen.of(self.base_BM, found, shape).density(cells_DM)
            return shares[found]

        total_D = np.zeros(len(cells_DM))
        for proposal in self.proposals:
            density_D = share(proposal.axes).copy()
            for axis in everything.difference(proposal.axes):
                if proposal.uniform:
                    density_D /= len(self.label_of[axis])
                else:
                    given_D = share(proposal.given)
                    density_D *= share({*proposal.given, axis}) / np.where(given_D > 0, given_D, 1)
            total_D += density_D
        return total_D / len(self.proposals)


@dataclass(frozen=True)
class _Agreeing:
    """Which cells of the base have the same labels on some axes."""

    order_B: npt.NDArray[np.intp]
    first_B: npt.NDArray[np.intp]
    number_B: npt.NDArray[np.intp]

    @classmethod
    def of(cls, base_BM: Cells, axes: tuple[int, ...], shape: tuple[int, ...]) -> _Agreeing:
        keys_B = cell_keys(base_BM[:, axes], tuple(shape[axis] for axis in axes))
        _, group_B, times_P = np.unique(keys_B, return_inverse=True, return_counts=True)
        first_P = np.cumsum(times_P) - times_P
        return cls(np.argsort(keys_B, kind="stable"), first_P[group_B], times_P[group_B])

    def drawn(self, row_D: Any, rng: np.random.Generator) -> npt.NDArray[np.intp]:
        """Return, for each of some cells, one that agrees with it, itself included."""
        place_D = self.first_B[row_D] + rng.integers(self.number_B[row_D])
        return np.asarray(self.order_B[place_D])


def _proposals(n_axes: int) -> list[_Proposal]:
    """Return proposals of labels that cells with a count have."""
    sizes = {1} if n_axes == 2 else {2, min(3, n_axes - 1), n_axes - 1}
    near = [axes for size in sorted(sizes) for axes in combinations(range(n_axes), size)]
    alike = [
        _Proposal(axes, given=given)
        for axes in combinations(range(n_axes), n_axes - 1)
        for size in sorted({1, n_axes - 2} - {0})
        for given in combinations(axes, size)
        if size < n_axes - 1
    ]
    return [
        _Proposal(),
        *(_Proposal(axes, uniform) for axes in near for uniform in (True, False)),
        *alike,
    ]
