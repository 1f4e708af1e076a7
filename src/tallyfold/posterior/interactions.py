"""Gamma multipliers of combinations of axes: what factors of single entities cannot say.

A word may be frequent in one year, a user busy on one day. Each combination of labels on some axes
that was seen has a multiplier of its own, with a Gamma posterior; those never seen share one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    shape_P1: Floats
    rate_P1: Floats
    widest_P1: Floats | None = None

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
        columns: dict[str, Any] = {}
        for axis, position in zip(self.axes, self.labels_at(self.keys_P[order]), strict=True):
            columns[factors.names[axis]] = factors.labels[axis].take(position).to_pandas()
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
        } | ({} if self.widest_P1 is None else {"widest": self.widest_P1})

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
        )


def with_interactions(
    interactions: Iterable[Interaction], indices_NM: Cells, mean_N: Floats, variance_N: Floats
) -> tuple[Floats, Floats]:
    """Multiply rates of known mean and variance by independent multipliers."""
    for interaction in interactions:
        place_N = interaction.places(indices_NM)
        multiplier_N, spread_N = interaction.mean_P1[place_N], 1 / interaction.shape_P1[place_N]
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
