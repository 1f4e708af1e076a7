"""Groups of cells that stay together in a split, empty cells included."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.hashing import Hashes, mixed

if TYPE_CHECKING:
    from tallyfold.data.axis import Axis

Cells = npt.NDArray[np.integer[Any]]


def hash_of_labels(
    axes: Sequence[Axis], indices_NM: Cells, first_N: Hashes, without: str | None = None
) -> Hashes:
    """Return a hash per cell of its labels, axis by axis in the order of their names."""
    hash_N = mixed(first_N)
    for number in sorted(range(len(axes)), key=lambda number: axes[number].name):
        if axes[number].name != without:
            hash_N = mixed(hash_N ^ axes[number].hashes[indices_NM[:, number]])
    return hash_N


def _at(hash_N: Hashes, hash_F: Hashes) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return where hashes stand in a sorted list, and whether they do."""
    if not len(hash_F):
        return np.zeros(len(hash_N), np.intp), np.zeros(len(hash_N), bool)
    place_N = np.minimum(np.searchsorted(hash_F, hash_N), len(hash_F) - 1)
    return place_N, hash_F[place_N] == hash_N


@dataclass(frozen=True, eq=False)
class FibreGroups:
    """Which fibres, cells that differ on one axis only, are copies of each other.

    Attributes
    ----------
    axis
        The name of that axis.
    hash_F
        A hash of the other labels of each fibre, ascending.
    leader_F
        The smallest hash of its group; fibres with the same leader are copies.
    """

    axis: str
    hash_F: Hashes
    leader_F: Hashes

    def fibres(self, axes: Sequence[Axis], indices_NM: Cells) -> Hashes:
        """Return the hash of each cell's fibre."""
        return hash_of_labels(axes, indices_NM, np.zeros(len(indices_NM), np.uint64), self.axis)

    def hashes(self, axes: Sequence[Axis], indices_NM: Cells, seed: np.uint64) -> Hashes:
        """Return a hash per cell of its group and its label on the axis.

        A fibre that is not known is a group of its own.
        """
        hash_N = self.fibres(axes, indices_NM)
        place_N, known_N = _at(hash_N, self.hash_F)
        hash_N[known_N] = self.leader_F[place_N[known_N]]
        number = [axis.name for axis in axes].index(self.axis)
        return mixed(mixed(hash_N ^ seed) ^ axes[number].hashes[indices_NM[:, number]])

    def document(self) -> dict[str, str]:
        """Return what JSON can keep."""
        arrays = {"hashes": self.hash_F, "leaders": self.leader_F}
        texts = {n: base64.b64encode(a.astype("<u8").tobytes()).decode() for n, a in arrays.items()}
        return {"axis": self.axis} | texts

    @classmethod
    def of_document(cls, document: dict[str, str]) -> FibreGroups:
        """Build from what `document` returned."""
        hash_F, leader_F = (
            np.frombuffer(base64.b64decode(document[name]), "<u8").astype(np.uint64)
            for name in ("hashes", "leaders")
        )
        if hash_F.shape != leader_F.shape:
            raise ValueError("fibres and their groups differ in number")
        return cls(str(document["axis"]), hash_F, leader_F)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FibreGroups):
            return NotImplemented
        return (
            self.axis == other.axis
            and np.array_equal(self.hash_F, other.hash_F)
            and np.array_equal(self.leader_F, other.leader_F)
        )

    def __hash__(self) -> int:
        return hash((self.axis, len(self.hash_F)))


class CellGroups:
    """A group for each cell: copies of one cell have the same number. `near_copies` makes them.

    As an array (``np.asarray(groups)``) it has a number for each non-zero cell of the tensor that
    it was made of; `of` gives that of any cell.

    Parameters
    ----------
    axes
        The axes of the tensor.
    indices_NM
        Its non-zero cells.
    axis
        The name of the axis along which copies agree.
    group_N
        For each non-zero cell, the group of its fibre: 0, 1, 2, ...
    """

    def __init__(
        self, axes: Sequence[Axis], indices_NM: Cells, axis: str, group_N: npt.NDArray[np.int64]
    ) -> None:
        self._axes, self._number = tuple(axes), [one.name for one in axes].index(axis)
        nothing = np.empty(0, np.uint64)
        fibre_N = FibreGroups(axis, nothing, nothing).fibres(axes, indices_NM)
        hash_F, first_F = np.unique(fibre_N, return_index=True)
        self._group_F = group_N[first_F]
        leader_G = np.full(int(group_N.max(initial=-1)) + 1, np.uint64(2**64 - 1))
        np.minimum.at(leader_G, self._group_F, hash_F)
        self.fibres = FibreGroups(axis, hash_F, leader_G[self._group_F])
        size = len(axes[self._number])
        self._group_N = group_N.astype(np.int64) * size + indices_NM[:, self._number]

    @property
    def axis(self) -> str:
        """The axis along which copies agree."""
        return self.fibres.axis

    def of(self, indices_NM: Cells) -> npt.NDArray[np.int64]:
        """Return the group of any cells, by their positions on the tensor's axes.

        A cell whose fibre has no non-zero cell is in a group of its own, whose number is negative.
        """
        indices_NM = np.asarray(indices_NM)
        hash_N = self.fibres.fibres(self._axes, indices_NM)
        place_N, known_N = _at(hash_N, self.fibres.hash_F)
        label_N = indices_NM[:, self._number]
        own_N = -1 - (mixed(hash_N ^ label_N.astype(np.uint64)) >> np.uint64(1)).astype(np.int64)
        if not len(self._group_F):
            return own_N
        shared_N = self._group_F[place_N] * len(self._axes[self._number]) + label_N
        return np.where(known_N, shared_N, own_N)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array(self._group_N, dtype=dtype)

    def __len__(self) -> int:
        return len(self._group_N)

    def __repr__(self) -> str:
        number = len(np.unique(self.fibres.leader_F))
        return (
            f"CellGroups({len(self):,} cells in {len(self.fibres.hash_F):,} fibres along "
            f"{self.axis!r}, {number:,} of them different)"
        )
