"""Combinations of axes as axes of their own: what factors of single entities cannot say.

A word may be frequent in one year, a user busy on one day. Word-year is an axis derived from two:
each combination of labels that was seen is a row with one component, a Gamma multiplier of the
cells' rates. Combinations never seen share the last row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Array, Floats, Ints, Whole
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.probability import gamma

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.posterior.factors import Factors

from tallyfold.posterior.named_arrays import whole

Cells = Whole
Keys = Whole

MOST_KEYS = 2**62
NUMBERS = ("multiplier", "low", "high")
"""Columns of tables of multipliers; an axis of such a name is marked as one."""


@dataclass(frozen=True)
class DerivedAxis:
    """The combinations of some axes, and their multipliers.

    Attributes
    ----------
    axes
        Positions of the axes that are combined.
    sizes
        Their numbers of labels: keys count combinations in that radix.
    keys_P
        The combinations seen, in ascending order.
    table
        Gamma posteriors of the multipliers, a row per key and a last one for all other
        combinations; one component.
    typical_2
        Mean and shape of the multiplier of a cell with an unknown label. It is not that of
        combinations never seen: known labels that were never seen together are rare together, of
        an unknown label nothing is known.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    table: GammaTable
    typical_2: Floats | None = None

    @property
    def mean_P1(self) -> Floats:
        """The mean multipliers."""
        return self.table.mean_DK[:, 0]

    @property
    def idle(self) -> bool:
        """Whether all multipliers are one: nothing was learnt."""
        return bool(np.all(self.table.shape_DK == self.table.rate_DK))

    def rows_of(self, indices_NM: Cells) -> Ints:
        """Return the rows of cells; the last one for combinations never seen."""
        return rows_of_keys(combination_keys(indices_NM, self.axes, self.sizes), self.keys_P)

    def moments(self, indices_NM: Cells) -> tuple[Floats, Floats]:
        """Return the means of the cells' multipliers, and variances relative to squared means."""
        key_N = combination_keys(indices_NM, self.axes, self.sizes)
        row_N = rows_of_keys(key_N, self.keys_P)
        mean_N, relative_N = self.mean_P1[row_N], 1 / self.table.shape_DK[row_N, 0]
        if self.typical_2 is not None:
            unknown_N = key_N < 0
            mean_N = np.where(unknown_N, self.typical_2[0], mean_N)
            relative_N = np.where(unknown_N, 1 / self.typical_2[1], relative_N)
        return mean_N, relative_N

    def with_typical(self, cells_P1: Floats) -> DerivedAxis:
        """Set the typical multiplier, each row counted as often as it has cells.

        The geometric mean: a few large ones say little of a label that nothing is known of.
        """
        share_P1 = cells_P1 / cells_P1.sum()
        mean = float(np.exp(share_P1 @ np.log(self.mean_P1)))
        variance = float(share_P1 @ (self.mean_P1 - share_P1 @ self.mean_P1) ** 2)
        shape = mean**2 / max(variance, 1e-9)
        return replace(self, typical_2=np.array([mean, shape]))

    def resized(self, shape: Sequence[int]) -> DerivedAxis:
        """Return the axis with keys as on longer axes; the order of combinations stays."""
        sizes = tuple(shape[axis] for axis in self.axes)
        return replace(self, sizes=sizes, keys_P=resized_keys(self.keys_P, self.sizes, sizes))

    def with_keys(self, keys_U: Ints) -> DerivedAxis:
        """Add rows for those of some sorted keys that have none, each a copy of the last row."""
        last = len(self.keys_P)
        new_U, before_U = missing_keys(keys_U, self.keys_P)
        rows_P1 = np.insert(np.arange(last + 1), before_U, last)
        keys_P = np.insert(self.keys_P, before_U, new_U)
        return replace(self, keys_P=keys_P, table=self.table.rows(rows_P1))

    def to_frame(self, factors: Factors, top: int, level: float) -> pd.DataFrame:
        """Return the combinations whose multiplier is surely large, strongest first."""
        import pandas as pd

        mean_P, wide = self.mean_P1[:-1], self.table.widened.shape_DK[:-1, 0]
        rate_P = wide / mean_P
        low_P = gamma.quantile((1 - level) / 2, wide, rate_P)
        order = np.argsort(-low_P, kind="stable")[:top]
        order = order[mean_P[order] > 1]
        positions = np.unravel_index(self.keys_P[order], self.sizes)
        columns: dict[str, Any] = {}
        for axis, position in zip(self.axes, positions, strict=True):
            name = factors.names[axis]
            columns[f"{name} (axis)" if name in NUMBERS else name] = (
                factors.labels[axis].take(position).to_pandas()
            )
        columns["multiplier"] = mean_P[order]
        columns["low"] = low_P[order]
        columns["high"] = gamma.quantile((1 + level) / 2, wide[order], rate_P[order])
        return pd.DataFrame(columns)

    def arrays(self) -> dict[str, Array]:
        """Return all that is needed to build this again, as named arrays."""
        return {
            "axes": np.array(self.axes, dtype=np.int64),
            "sizes": np.array(self.sizes, dtype=np.int64),
            "keys": self.keys_P,
            "shape": self.table.shape_DK,
            "rate": self.table.rate_DK,
        } | {
            name: array
            for name, array in (("widest", self.table.widest_DK), ("typical", self.typical_2))
            if array is not None
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> DerivedAxis:
        """Build from what `arrays` returned."""
        return cls(
            whole(arrays["axes"]),
            whole(arrays["sizes"]),
            arrays["keys"],
            GammaTable(arrays["shape"], arrays["rate"], arrays.get("widest")),
            arrays.get("typical"),
        )


def countable(sizes: Sequence[int]) -> bool:
    """Return whether the combinations of axes of these sizes can be numbered."""
    return math.prod(sizes) < MOST_KEYS


def combination_keys(indices_NM: Cells, axes: Sequence[int], sizes: Sequence[int]) -> Ints:
    """Return a number for each cell's combination; -1 where a label is unknown."""
    key_N = np.zeros(len(indices_NM), dtype=np.int64)
    unknown_N = np.zeros(len(indices_NM), dtype=bool)
    for axis, size in zip(axes, sizes, strict=True):
        key_N *= size
        key_N += indices_NM[:, axis]
        unknown_N |= indices_NM[:, axis] < 0
    key_N[unknown_N] = -1
    return key_N


def resized_keys(keys_P: Ints, before: Sequence[int], after: Sequence[int]) -> Ints:
    """Return the keys of the same combinations on longer axes."""
    below = 1  # how many combinations the axes after this one have
    for old, new in zip(before[:0:-1], after[:0:-1], strict=True):
        if new != old:
            keys_P = keys_P + keys_P // (old * below) * ((new - old) * below)
        below *= new
    return keys_P


def rows_of_keys(key_N: Keys, keys_P: Keys) -> Ints:
    """Return the positions of keys in a sorted list; its length if they are not in it."""
    if len(keys_P) == 0:
        return np.zeros(len(key_N), dtype=np.int64)
    row_N = np.minimum(np.searchsorted(keys_P, key_N), len(keys_P) - 1)
    return np.asarray(np.where(keys_P[row_N] == key_N, row_N, len(keys_P)))


def missing_keys(keys_U: Ints, keys_P: Ints) -> tuple[Ints, Ints]:
    """Return those of some sorted keys that a sorted list does not have, and what they go before.

    Examples
    --------
    >>> keys_P = np.array([2, 5, 9])
    >>> new_U, before_U = missing_keys(np.array([1, 5, 7]), keys_P)
    >>> np.insert(keys_P, before_U, new_U).tolist()
    [1, 2, 5, 7, 9]
    """
    new_U = keys_U[rows_of_keys(keys_U, keys_P) == len(keys_P)]
    return new_U, np.searchsorted(keys_P, new_U)
