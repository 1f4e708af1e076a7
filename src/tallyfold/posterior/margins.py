"""What the cells of a combination of labels say: sums of fixed functions of their counts.

An entity's word is a sum over its cells of functions of the count, as in the paper's encoders; here
the functions are fixed (one, ln y, steps y > t) and a network shared by all comes after the sums.
Every proper subset of axes has such sums: an author, a word, an author's year.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints, Singles, Whole
from tallyfold.posterior.derived_axis import (
    combination_keys,
    missing_keys,
    resized_keys,
    rows_of_keys,
)
from tallyfold.posterior.whole_sums import UNIT, WholeSums

Values = Whole

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MOST_SETS = 32
"""Sets of axes that have margins, at most."""


@dataclass(frozen=True)
class Statistics:
    """The functions of a count that are summed: one, ln y, and whether y exceeds thresholds.

    Attributes
    ----------
    thresholds_T
        The counts that are to be exceeded.
    mean_F
        The mean of each function over all cells but the first's: ln y and the steps.
    """

    thresholds_T: Ints
    mean_F: Floats

    @classmethod
    def of(cls, value_V: Ints, times_V: Ints) -> Statistics:
        """Choose thresholds at quantiles of a histogram of counts."""
        at_Q = np.searchsorted(np.cumsum(times_V) / times_V.sum(), QUANTILES)
        value_Q = value_V[np.minimum(at_Q, len(value_V) - 1)]
        found = sorted({int(value) for value in value_Q if value < value_V[-1]})
        if found and found[0] > 1:
            found.insert(0, found[0] - 1)
        thresholds_T = np.array(found, dtype=np.int64)
        value_VF = _functions(value_V, thresholds_T)[:, 1:] / UNIT
        return cls(thresholds_T, times_V @ value_VF / times_V.sum())

    def values(self, counts_N: Ints) -> Values:
        """Return the functions of each count, in whole units."""
        return _functions(counts_N, self.thresholds_T)


def _functions(counts_N: Ints, thresholds_T: Ints) -> Values:
    logs_N = np.round(np.log(counts_N) * UNIT).astype(np.int32)
    steps = [(counts_N > t) * np.int32(UNIT) for t in thresholds_T.tolist()]
    return np.stack([np.ones_like(logs_N), logs_N, *steps], axis=1)


@dataclass(frozen=True)
class MarginTable:
    """Sums over the cells of each combination of some axes.

    Attributes
    ----------
    axes, sizes, keys_P
        As in `DerivedAxis`: which axes, their sizes, and the combinations seen.
    sums
        The number of cells, then sums in units of 1 / UNIT.
    strength_F
        After how many cells a combination's own mean counts as much as that of all cells, for each
        function but the first.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    sums: WholeSums
    strength_F: Floats

    @property
    def sums_PF(self) -> Values:
        """The sums as one array."""
        return self.sums.dense()

    def rows_of(self, indices_NM: Whole) -> Ints:
        """Return the rows of cells; the number of rows for combinations never seen."""
        return rows_of_keys(combination_keys(indices_NM, self.axes, self.sizes), self.keys_P)

    def sums_at(self, row_N: Ints) -> Ints:
        """Return the sums at rows; zeros for combinations never seen."""
        if len(self.keys_P) == 0:
            return np.zeros((len(row_N), self.sums.n_columns), dtype=np.int64)
        seen_N = row_N < len(self.keys_P)
        sums_NF = self.sums.at(np.where(seen_N, row_N, 0))
        sums_NF[~seen_N] = 0
        return sums_NF

    def resized(self, shape: Sequence[int]) -> MarginTable:
        """Return the table with keys as on longer axes; the order of combinations stays."""
        sizes = tuple(shape[axis] for axis in self.axes)
        return replace(self, sizes=sizes, keys_P=resized_keys(self.keys_P, self.sizes, sizes))

    def added(self, key_N: Ints, value_NF: Values) -> MarginTable:
        """Return the table with the values of further cells in its sums."""
        new_U, row_N = np.unique(key_N, return_inverse=True)
        sums_UF = np.zeros((len(new_U), value_NF.shape[1]), dtype=np.int64)
        np.add.at(sums_UF, row_N, value_NF)
        more_U, before_U = missing_keys(new_U, self.keys_P)
        keys_P = np.insert(self.keys_P, before_U, more_U)
        row_U = rows_of_keys(new_U, keys_P)
        return replace(self, keys_P=keys_P, sums=self.sums.added(before_U, row_U, sums_UF))

    def inputs(self, sums_NF: Ints, mean_F: Floats) -> Singles:
        """Return a network's inputs: ln(1 + cells), and means pulled to those of all cells."""
        cells_N1 = sums_NF[:, :1]
        shrunk_NF = sums_NF[:, 1:] / UNIT + self.strength_F * mean_F
        shrunk_NF /= cells_N1 + self.strength_F
        return np.hstack([np.log1p(cells_N1), shrunk_NF]).astype(np.float32)


def value_moments(value_NF: Values, times_N: Ints | None = None) -> tuple[Floats, Floats]:
    """Return the variances of values but the first, and the sums of their squares.

    `times_N` says how often each row of values occurs; None: once.
    """
    number_NF = value_NF[:, 1:] / UNIT
    if times_N is None:
        return number_NF.var(axis=0) + 1e-12, (number_NF**2).sum(axis=0)
    mean_F, squares_F = times_N @ number_NF / times_N.sum(), times_N @ number_NF**2
    return times_N @ (number_NF - mean_F) ** 2 / times_N.sum() + 1e-12, squares_F


def pull_strength(
    moments: tuple[Floats, Floats], sums: WholeSums, least: float, most: float = 100.0
) -> Floats:
    """Return the variance inside of combinations over that between them, by moments.

    `moments` are those of all cells' values; see `value_moments`.
    """
    all_F, squares_F = moments
    if (sums.columns[0] > 1).sum() <= 20:
        return np.full(len(all_F), 10.0)
    lone_F, between_F, n_more = np.zeros_like(all_F), np.zeros_like(all_F), 0.0
    for sums_BF in sums.blocks():
        cells_B = sums_BF[:, 0].astype(np.float64)
        several_B = cells_B > 1
        total_BF = sums_BF[several_B, 1:] / UNIT
        lone_F += ((sums_BF[~several_B, 1:] / UNIT) ** 2).sum(axis=0)
        between_F += (total_BF**2 / cells_B[several_B, None]).sum(axis=0)
        n_more += (cells_B[several_B] - 1).sum()
    # sums of squares over combinations of several cells: all cells' less the lone ones'
    inside_F = (squares_F - lone_F - between_F) / np.maximum(n_more, 1)
    ratio_F = inside_F / np.maximum(all_F - inside_F, 0.01 * all_F)
    return np.asarray(np.clip(ratio_F, least, most))


def n_proper_subsets(n_axes: int) -> int:
    """Return how many sets of axes there are, without the empty one and that of all."""
    return (1 << n_axes) - 2


def axis_sets(n_axes: int) -> list[tuple[int, ...]]:
    """Return the sets of axes that have margins: singles, all but one, pairs; not too many.

    With five axes and more, sets between pairs and all but one are left out.
    """
    from itertools import combinations

    axes: Sequence[int] = range(n_axes)
    sizes = range(1, n_axes) if n_axes < 5 else (1, n_axes - 1, 2)
    return [each for size in sizes for each in combinations(axes, size)][:MOST_SETS]
