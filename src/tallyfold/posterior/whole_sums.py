"""Whole numbers in columns, each column in as few bytes as hold it.

A large table of margins has nearly as many rows as the tensor has cells, and most rows are of a
cell or two: their numbers fit in a byte, or two, where they are counts of cells, in any unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tallyfold.kernels.arrays import Ints, Whole
from tallyfold.kernels.margins import compact

UNIT = 2**16
"""Numbers that are no whole ones are summed in units of 1 / UNIT: sums are exact in any order."""
ROWS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class WholeSums:
    """A table of whole numbers, P rows of F columns.

    Attributes
    ----------
    columns
        The numbers of each column, divided by its unit.
    units
        1, or `UNIT` where all numbers of a column are multiples of it.

    Examples
    --------
    >>> sums = WholeSums.of([np.array([[1, 5], [300, -5]]), np.array([[2, 70_000]])])
    >>> [str(column_P.dtype) for column_P in sums.columns]
    ['int16', 'int32']
    >>> sums.at(np.array([1, 2])).tolist()
    [[300, -5], [2, 70000]]
    """

    columns: tuple[Whole, ...]
    units: tuple[int, ...]

    @classmethod
    def of(cls, parts: Iterable[Whole]) -> WholeSums:
        """Put parts one below the other; a part is in memory as it came only while it is read."""
        narrow = [_narrow_columns(part) for part in parts]
        columns, units = [], []
        for found in zip(*narrow, strict=True):
            unit = min(unit for _, unit in found)
            each = [_narrowest(column_P, own // unit) for column_P, own in found]
            columns.append(np.concatenate(each) if len(each) > 1 else each[0])
            units.append(unit)
        return cls(tuple(columns), tuple(units))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.columns[0])

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.columns)

    @cached_property
    def _types(self) -> Whole:
        return np.array(self.units, dtype=np.int64)

    def at(self, row_N: Ints | slice) -> Ints:
        """Return some rows, as 64-bit integers."""
        found = np.stack([column_P[row_N] for column_P in self.columns], axis=1, dtype=np.int64)
        found *= self._types
        return found

    def blocks(self) -> Iterator[Ints]:
        """Yield all rows, some at a time."""
        for start in range(0, max(len(self), 1), ROWS_AT_ONCE):
            yield self.at(slice(start, start + ROWS_AT_ONCE))

    def dense(self) -> Whole:
        """Return all rows, as 32-bit integers if they fit."""
        parts = [compact(block) for block in self.blocks()]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def added(self, before_U: Ints, row_U: Ints, sums_UF: Ints) -> WholeSums:
        """Return the table with new rows of zeros before some, and numbers added to some rows.

        `row_U` are rows of the new table, each once.
        """
        columns, units = [], []
        for column_P, unit, added_U in zip(self.columns, self.units, sums_UF.T, strict=True):
            longer_P = np.insert(column_P, before_U, 0) if len(before_U) else column_P.copy()
            new_U = longer_P[row_U].astype(np.int64) * unit + added_U
            if unit > 1 and np.any(new_U % unit):
                longer_P, unit = _narrowest(longer_P, unit), 1
            new_U //= unit
            wide = np.promote_types(longer_P.dtype, _narrowest(new_U).dtype)
            longer_P = longer_P.astype(wide, copy=False)
            longer_P[row_U] = new_U
            columns.append(longer_P)
            units.append(unit)
        return WholeSums(tuple(columns), tuple(units))

    def beside(self, other: WholeSums) -> WholeSums:
        """Return the table with the columns of another one of as many rows."""
        return WholeSums(self.columns + other.columns, self.units + other.units)


def _narrow_columns(sums_PF: Whole) -> list[tuple[Whole, int]]:
    """Return each column in its unit, and the unit."""
    if sums_PF.ndim != 2 or sums_PF.dtype.kind != "i":
        raise ValueError("sums that cannot be")
    units = [UNIT if not np.any(column_P & (UNIT - 1)) else 1 for column_P in sums_PF.T]
    return [(_narrowest(c // unit), unit) for c, unit in zip(sums_PF.T, units, strict=True)]


def _narrowest(number_P: Whole, times: int = 1) -> Whole:
    """Return numbers, times a number, in the shortest type that holds them."""
    ends = int(number_P.min(initial=0)) * times, int(number_P.max(initial=0)) * times
    kinds: list[Any] = [np.uint8, np.int16, np.int32, np.int64]
    fits = (k for k in kinds if np.iinfo(k).min <= ends[0] and ends[1] <= np.iinfo(k).max)
    kind = next(fits)
    found = number_P.astype(kind)
    if times > 1:
        found *= kind(times) if times <= np.iinfo(kind).max else 0  # all are zero then
    return found
