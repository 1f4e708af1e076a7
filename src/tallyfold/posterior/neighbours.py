"""What else is in the basket: labels of one axis that go together speak for each other.

The cells of a combination of all other axes, such as all a household bought on a day or all the
words of a text, are a basket of labels. The weight with which one label in it speaks for another is
that of a ridge regression of each label on all others over all baskets (Steck, "Embarrassingly
shallow autoencoders for sparse data", WWW 2019); only the strongest are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.kernels.arrays import Array, Floats, Ints, Positions
from tallyfold.kernels.neighbours import basket_sums
from tallyfold.posterior.derived_axis import combination_keys, resized_keys, rows_of_keys
from tallyfold.posterior.named_arrays import whole


@dataclass(frozen=True)
class Neighbours:
    """Baskets of labels of an axis, and the weights of labels for each other.

    Attributes
    ----------
    axis, sizes
        The axis, and the numbers of labels of all axes.
    share
        The share of all cells that the baskets are of: sums are divided by it.
    keys_P, indptr_P1, labels_E
        The baskets: combinations of all other axes, and their labels in ascending order.
    near_DL, weight_DL
        The neighbours of each label, in ascending order, and their weights.
    """

    axis: int
    sizes: tuple[int, ...]
    share: float
    keys_P: Ints
    indptr_P1: Ints
    labels_E: Positions
    near_DL: Positions
    weight_DL: Floats

    @property
    def others(self) -> tuple[int, ...]:
        """The axes whose combinations have a basket."""
        return tuple(m for m in range(len(self.sizes)) if m != self.axis)

    def at(self, positions_NM: Positions) -> Floats:
        """Return how much the other labels of each cell's basket speak for a count in it."""
        row_N = rows_of_keys(self._keys(positions_NM, self.sizes), self.keys_P)
        row_N = np.where(row_N < len(self.keys_P), row_N, -1)
        label_N = np.ascontiguousarray(positions_NM[:, self.axis])
        lists = self.indptr_P1, self.labels_E, self.near_DL, self.weight_DL
        return basket_sums(row_N, label_N, *lists) / self.share

    def filled(self, indices_NM: Positions, share: float) -> Neighbours:
        """Return the same weights with the baskets of other cells, `share` of all."""
        key_N = self._keys(indices_NM, self.sizes)
        return self._with_cells(key_N, indices_NM[:, self.axis], share)

    def added(self, indices_NM: Positions, shape: Sequence[int], share: float) -> Neighbours:
        """Return baskets with further cells, on axes that may have become longer."""
        longer = replace(self, sizes=tuple(shape))
        sizes = [[each[m] for m in self.others] for each in (self.sizes, shape)]
        old_P = resized_keys(self.keys_P, *sizes)
        key_N = np.concatenate(
            [np.repeat(old_P, np.diff(self.indptr_P1)), self._keys(indices_NM, longer.sizes)]
        )
        label_N = np.concatenate([self.labels_E, indices_NM[:, self.axis]])
        return longer._with_cells(key_N, label_N, share)

    def _keys(self, positions_NM: Positions, sizes: Sequence[int]) -> Ints:
        return combination_keys(positions_NM, self.others, [sizes[m] for m in self.others])

    def _with_cells(self, key_N: Ints, label_N: Positions, share: float) -> Neighbours:
        order_N = np.lexsort((label_N, key_N))
        key_N, labels_E = key_N[order_N], np.ascontiguousarray(label_N[order_N], dtype=np.int32)
        again_N = np.zeros(len(key_N), dtype=bool)
        again_N[1:] = (key_N[1:] == key_N[:-1]) & (labels_E[1:] == labels_E[:-1])
        key_N, labels_E = key_N[~again_N], labels_E[~again_N]
        keys_P, start_P = np.unique(key_N, return_index=True)
        indptr_P1 = np.append(start_P, len(key_N)).astype(np.int64)
        return replace(self, keys_P=keys_P, indptr_P1=indptr_P1, labels_E=labels_E, share=share)

    # -- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> dict[str, Array]:
        """Return all that is needed to build this again, as named arrays."""
        return {
            "axis": np.array([self.axis], dtype=np.int64),
            "sizes": np.array(self.sizes, dtype=np.int64),
            "share": np.array([self.share]),
            "keys": self.keys_P,
            "indptr": self.indptr_P1,
            "labels": self.labels_E,
            "near": self.near_DL,
            "weight": self.weight_DL,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> Neighbours | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        axis, sizes = int(arrays["axis"][0]), whole(arrays["sizes"])
        rest = (arrays[name] for name in ("keys", "indptr", "labels", "near", "weight"))
        return cls(axis, sizes, float(arrays["share"][0]), *rest)
