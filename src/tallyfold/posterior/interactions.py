"""Gamma multipliers of combinations of axes: what factors of single entities cannot say.

A word may be frequent in one year, a user busy on one day. Each combination of labels on some axes
that was seen has a multiplier of its own, with a Gamma posterior; those never seen share one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.probability import gamma

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.posterior.factors import Factors

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.integer[Any]]

MOST_KEYS = 2**62
NUMBERS = ("multiplier", "low", "high")
"""Columns of tables of multipliers; an axis of such a name is marked as one."""


@dataclass(frozen=True)
class Interaction:
    """The multipliers of one set of axes.

    Attributes
    ----------
    axes
        Positions of the axes.
    sizes
        Their numbers of labels: keys count combinations in that radix.
    keys_P
        The combinations seen, in ascending order.
    shape_P1, rate_P1
        Of the Gamma posteriors; the last one is for combinations never seen.
    widest_P1
        Shapes that give the intervals their width: what the cells tell allows no larger ones.
    typical_2
        Mean and shape of the multiplier of a cell with a label that is not known at all. It is not
        that of combinations never seen: known labels that were never seen together are rare
        together, of an unknown label nothing is known.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    shape_P1: Floats
    rate_P1: Floats
    widest_P1: Floats | None = None
    typical_2: Floats | None = None

    @property
    def mean_P1(self) -> Floats:
        """The mean multipliers."""
        return self.shape_P1 / self.rate_P1

    @property
    def idle(self) -> bool:
        """Whether all multipliers are one: nothing was learnt."""
        return bool(np.all(self.shape_P1 == self.rate_P1))

    def places(self, indices_NM: Cells) -> Ints:
        """Return where the cells' combinations stand; the last place if never seen."""
        return places_of(combination_keys(indices_NM, self.axes, self.sizes), self.keys_P)

    def moments(self, indices_NM: Cells) -> tuple[Floats, Floats]:
        """Return the means of the cells' multipliers, and variances relative to squared means."""
        key_N = combination_keys(indices_NM, self.axes, self.sizes)
        place_N = places_of(key_N, self.keys_P)
        mean_N, relative_N = self.mean_P1[place_N], 1 / self.shape_P1[place_N]
        if self.typical_2 is not None:
            unknown_N = key_N < 0
            mean_N = np.where(unknown_N, self.typical_2[0], mean_N)
            relative_N = np.where(unknown_N, 1 / self.typical_2[1], relative_N)
        return mean_N, relative_N

    def with_typical(self, cells_P1: Floats) -> Interaction:
        """Take the multipliers, each as often as it has cells, for what is typical.

        Their geometric mean: a few large ones say little of a label that nothing is known of.
        """
        share_P1 = cells_P1 / cells_P1.sum()
        mean = float(np.exp(share_P1 @ np.log(self.mean_P1)))
        variance = float(share_P1 @ (self.mean_P1 - share_P1 @ self.mean_P1) ** 2)
        shape = mean**2 / max(variance, 1e-9)
        return replace(self, typical_2=np.array([mean, shape]))

    def labels_at(self, keys: Ints) -> list[Ints]:
        """Return the positions on each axis of some combinations."""
        return list(np.unravel_index(keys, self.sizes))

    def to_frame(self, factors: Factors, top: int, level: float) -> pd.DataFrame:
        """Return the combinations whose multiplier is surely large, strongest first."""
        import pandas as pd

        shape_P, mean_P = self.shape_P1[:-1], self.mean_P1[:-1]
        if self.widest_P1 is not None:
            shape_P = np.minimum(shape_P, self.widest_P1[:-1])
        rate_P = shape_P / mean_P
        low_P = gamma.quantile((1 - level) / 2, shape_P, rate_P)
        order = np.argsort(-low_P, kind="stable")[:top]
        order = order[mean_P[order] > 1]
        columns: dict[str, Any] = {}
        for axis, position in zip(self.axes, self.labels_at(self.keys_P[order]), strict=True):
            name = factors.names[axis]
            columns[f"{name} (axis)" if name in NUMBERS else name] = (
                factors.labels[axis].take(position).to_pandas()
            )
        columns["multiplier"] = mean_P[order]
        columns["low"] = low_P[order]
        columns["high"] = gamma.quantile((1 + level) / 2, shape_P[order], rate_P[order])
        return pd.DataFrame(columns)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that is needed to build this again, as named arrays."""
        return {
            "axes": np.array(self.axes, dtype=np.int64),
            "sizes": np.array(self.sizes, dtype=np.int64),
            "keys": self.keys_P,
            "shape": self.shape_P1,
            "rate": self.rate_P1,
        } | {
            name: array
            for name, array in (("widest", self.widest_P1), ("typical", self.typical_2))
            if array is not None
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Interaction:
        """Build from what `arrays` returned."""
        return cls(
            tuple(arrays["axes"].tolist()),
            tuple(arrays["sizes"].tolist()),
            arrays["keys"],
            arrays["shape"],
            arrays["rate"],
            arrays.get("widest"),
            arrays.get("typical"),
        )


def with_interactions(
    interactions: Iterable[Interaction], indices_NM: Cells, mean_N: Floats, variance_N: Floats
) -> tuple[Floats, Floats]:
    """Multiply rates of known mean and variance by independent multipliers."""
    for interaction in interactions:
        multiplier_N, spread_N = interaction.moments(indices_NM)
        variance_N = multiplier_N**2 * (variance_N * (1 + spread_N) + mean_N**2 * spread_N)
        mean_N = mean_N * multiplier_N
    return mean_N, variance_N


def countable(sizes: Sequence[int]) -> bool:
    """Tell whether the combinations of so many labels can be numbered."""
    return math.prod(sizes) < MOST_KEYS


def combination_keys(indices_NM: Cells, axes: Sequence[int], sizes: Sequence[int]) -> Ints:
    """Return a number for each combination; -1 where a label is unknown."""
    key_N = np.zeros(len(indices_NM), dtype=np.int64)
    unknown_N = np.zeros(len(indices_NM), dtype=bool)
    for axis, size in zip(axes, sizes, strict=True):
        key_N = key_N * size + indices_NM[:, axis]
        unknown_N |= indices_NM[:, axis] < 0
    key_N[unknown_N] = -1
    return key_N


def places_of(key_N: Ints, keys_P: Ints) -> Ints:
    """Return where keys stand in a sorted list; its length if they are not there."""
    if len(keys_P) == 0:
        return np.zeros(len(key_N), dtype=np.int64)
    place_N = np.minimum(np.searchsorted(keys_P, key_N), len(keys_P) - 1)
    return np.asarray(np.where(keys_P[place_N] == key_N, place_N, len(keys_P)))
