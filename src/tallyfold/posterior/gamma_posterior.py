"""Gamma posteriors of every axis: the one value that fits, fold-in and predictions share.

Factors of all axes are independent given the data. The factors of an axis are a `GammaTable`, a row
per entity; so are the multipliers of a combination of axes, a `DerivedAxis` with one component.
During a fit tables have a row per label. When it ends they are completed by a last row for entities
never seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.kernels.arrays import (
    Array,
    Floats,
    Mask,
    OverRows,
    Whole,
    all_here,
    in_file,
    rows_of,
)
from tallyfold.posterior.factors import rates_at
from tallyfold.probability import gamma

if TYPE_CHECKING:
    from tallyfold.posterior.derived_axis import DerivedAxis

Rows = slice | Array

LEAST_SHAPE, LEAST_RATE, MOST_RATE = 1e-6, 1e-200, 1e200
ROUNDED_BITS = 17
"""Of the mantissa, in tables that are `rounded`."""
MANY_ROWS = 1 << 16
"""Of an axis with so many more rows than there are cells, the cells' rows are taken first."""
NO_LIMIT = 1e300
"""The widest shape of a row without a cell: its spread is that of its axis, not its cells'."""


@dataclass(frozen=True)
class GammaTable:
    """Gamma(shape, rate) for every row and component of an axis.

    Attributes
    ----------
    shape_DK, rate_DK
        Of the Gamma distributions.
    widest_DK
        Upper bounds of the shapes that intervals are computed with: a mean-field posterior is too
        narrow, and these are what the cells' Fisher information allows. None: the shapes.
    """

    shape_DK: Floats
    rate_DK: Floats
    widest_DK: Floats | None = None

    @cached_property
    def mean_DK(self) -> Floats:
        """Arithmetic means."""
        return np.asarray(self.shape_DK / self.rate_DK)

    @cached_property
    def geometric_mean_DK(self) -> Floats:
        """Geometric means, exp E ln z."""
        return gamma.geometric_mean(self.shape_DK, self.rate_DK)

    @cached_property
    def widened(self) -> GammaTable:
        """The same means, with the spread that the cells' information allows."""
        if self.widest_DK is None:
            return self
        shape_DK = np.minimum(self.shape_DK, np.maximum(self.widest_DK, LEAST_SHAPE))
        return GammaTable(shape_DK, shape_DK * (self.rate_DK / self.shape_DK))

    def each(self, change: Callable[[Floats], Floats]) -> GammaTable:
        """Return the table with each of its arrays changed."""
        widest = None if self.widest_DK is None else change(self.widest_DK)
        return GammaTable(change(self.shape_DK), change(self.rate_DK), widest)

    def rows(self, which: Rows) -> GammaTable:
        """Return some of the rows."""
        return self.each(lambda value_DK: rows_of(value_DK, which))

    def with_rows(self, which: Rows, table: GammaTable) -> GammaTable:
        """Return a copy with other values in some rows."""
        return GammaTable(
            _written(self.shape_DK, which, table.shape_DK),
            _written(self.rate_DK, which, table.rate_DK),
            None
            if self.widest_DK is None or table.widest_DK is None
            else _written(self.widest_DK, which, table.widest_DK),
        )

    def rounded(self) -> GammaTable:
        """Return the table to about five digits: what order sums were taken in leaves no trace."""
        return GammaTable(rounded(self.shape_DK), rounded(self.rate_DK))

    def completed(self, seen_D: Mask, over_rows: OverRows = all_here) -> GammaTable:
        """Give rows never seen, and one more row, the mean and the spread of the rows seen.

        `over_rows` makes sums over all rows of those over the rows that are here.
        """
        shape_DK = np.maximum(self.shape_DK, LEAST_SHAPE)
        rate_DK = np.clip(self.rate_DK, LEAST_RATE, MOST_RATE)
        rows, number = known_rows(seen_D, over_rows)
        mean_DK = shape_DK[rows] / rate_DK[rows]
        mean_K = over_rows(mean_DK.sum(axis=0)) / number
        variance_K = over_rows(((mean_DK - mean_K) ** 2).sum(axis=0)) / number
        variance_K += over_rows((mean_DK / rate_DK[rows]).sum(axis=0)) / number
        typical_K = np.clip(mean_K**2 / np.maximum(variance_K, 1e-300), LEAST_SHAPE, 1e12)
        rate_K = np.clip(typical_K / np.maximum(mean_K, 1e-300), LEAST_RATE, MOST_RATE)
        return GammaTable(
            np.vstack([np.where(seen_D[:, None], shape_DK, typical_K), typical_K]),
            np.vstack([np.where(seen_D[:, None], rate_DK, rate_K), rate_K]),
        )


@dataclass(frozen=True)
class GammaPosterior:
    """The Gamma posteriors of every axis, and of combinations of axes.

    Attributes
    ----------
    axes
        One table per axis, all with the same components.
    derived
        Multipliers of combinations of axes; they multiply the rates that the axes give.
    """

    axes: tuple[GammaTable, ...]
    derived: tuple[DerivedAxis, ...] = ()

    @classmethod
    def of(cls, shapes: Sequence[Floats], rates: Sequence[Floats]) -> GammaPosterior:
        """Build from the shapes and rates of every axis."""
        return cls(tuple(GammaTable(*pair) for pair in zip(shapes, rates, strict=True)))

    @property
    def means(self) -> list[Floats]:
        """The arithmetic means of every axis."""
        return [table.mean_DK for table in self.axes]

    @property
    def geometric_means(self) -> list[Floats]:
        """The geometric means of every axis."""
        return [table.geometric_mean_DK for table in self.axes]

    def replace(self, axis: int, table: GammaTable) -> GammaPosterior:
        """Return the posterior with another table for one axis; the others are shared."""
        return replace(self, axes=(*self.axes[:axis], table, *self.axes[axis + 1 :]))

    def completed(
        self, seen: Sequence[Mask], over_rows: Sequence[OverRows] | None = None
    ) -> GammaPosterior:
        """Return the posterior with every axis completed, see `GammaTable.completed`."""
        rows = zip(self.axes, seen, over_rows or [all_here] * len(self.axes), strict=True)
        return replace(self, axes=tuple(t.completed(seen_D, total) for t, seen_D, total in rows))

    def rounded(self) -> GammaPosterior:
        """Return the posterior with every table rounded, see `GammaTable.rounded`."""
        derived = tuple(replace(each, table=each.table.rounded()) for each in self.derived)
        return GammaPosterior(tuple(table.rounded() for table in self.axes), derived)

    def rate_moments(self, indices_NM: Whole) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates of cells; exact, since all are independent.

        The tables must be completed; position -1 is an entity never seen.
        """
        tables, placed_NM = self.of_cells(indices_NM)
        means = [table.mean_DK for table in tables]
        squares = [mean**2 for mean in means]
        seconds = [
            square * (1 + 1 / table.shape_DK) for square, table in zip(squares, tables, strict=True)
        ]
        variance_N = rates_at(seconds, placed_NM) - rates_at(squares, placed_NM)
        mean_N, variance_N = rates_at(means, placed_NM), np.maximum(variance_N, 0.0)
        for derived in self.derived:
            multiplier_N, spread_N = derived.moments(indices_NM)
            variance_N = multiplier_N**2 * (variance_N * (1 + spread_N) + mean_N**2 * spread_N)
            mean_N = mean_N * multiplier_N
        return mean_N, variance_N

    def of_cells(self, indices_NM: Whole) -> tuple[list[GammaTable], Whole]:
        """Return tables that have the rows of some cells, and the cells' positions in these.

        Of long axes they have no others, so that few rows are read from a file.
        """
        tables, placed_NM = list(self.axes), indices_NM
        for axis, table in enumerate(self.axes):
            n_rows = len(table.shape_DK)
            if in_file(table.shape_DK) or n_rows > MANY_ROWS + len(indices_NM):
                row_N = indices_NM[:, axis]
                row_R, own_N = np.unique(
                    np.where(row_N < 0, n_rows - 1, row_N), return_inverse=True
                )
                placed_NM = np.array(placed_NM, order="F") if placed_NM is indices_NM else placed_NM
                placed_NM[:, axis] = own_N
                tables[axis] = table.rows(row_R)
        return tables, placed_NM

    def multipliers(self, indices_NM: Whole) -> Floats:
        """Return the mean multiplier of each cell, all combinations together."""
        product_N = np.ones(len(indices_NM))
        for derived in self.derived:
            product_N *= derived.moments(indices_NM)[0]
        return product_N

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Draw the factors of all axes n times, with the spread of their intervals."""
        tables = [table.widened for table in self.axes]
        for _ in range(n):
            yield [gamma.sample(rng, table.shape_DK, table.rate_DK) for table in tables]


def known_rows(seen_D: Mask, over_rows: OverRows) -> tuple[Mask, float]:
    """Return which of the rows here were seen, and how many of all; all of them if none was."""
    number = float(over_rows(np.array(float(seen_D.sum()))))
    if number:
        return seen_D, number
    return np.ones_like(seen_D), float(over_rows(np.array(float(len(seen_D)))))


def rounded(numbers: Floats) -> Floats:
    """Return numbers to about five digits: what order sums were taken in leaves no trace."""
    mantissa, exponent = np.frexp(numbers)
    return np.ldexp(np.round(mantissa * 2.0**ROUNDED_BITS) / 2.0**ROUNDED_BITS, exponent)


def _written(table: Floats, rows: Rows, values: Floats) -> Floats:
    copy = table.copy()
    copy[rows] = values
    return copy
