"""Whether numbers are counts: whole, not negative, finite, and exactly representable."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.errors import CountError

MAX_COUNT = 2**53 - 1
"""The largest count: up to it floating point tells every whole number from its neighbours."""


def whole_counts(
    values: Any, *, name: str, row_word: str = "row", first_row: int = 0
) -> npt.NDArray[np.int64]:
    """Return the values as 64-bit counts, or say which rows hold something else.

    Parameters
    ----------
    values
        An Arrow or NumPy array of numbers.
    name
        What to call the values in an error.
    row_word
        What to call a place in an error.
    first_row
        The number of the first place: not 0 if the values are part of a longer column.
    """
    numbers = _numpy_numbers(values, name, row_word, first_row)
    for what, bad, remedy in _faults(numbers):
        if bad.any():
            where = np.flatnonzero(bad)
            raise CountError(
                f"{name} must be whole numbers from 0 to 2**53 - 1; got {len(where):,} {what}, "
                f"{places(where, numbers, row_word, first_row)}. {remedy}"
            )
    return numbers.astype(np.int64, copy=False)


def places(
    where: npt.NDArray[np.intp],
    numbers: npt.NDArray[Any],
    row_word: str = "row",
    first_row: int = 0,
) -> str:
    """Name the first five rows and what they hold."""
    shown = ", ".join(f"{row_word} {first_row + row}: {numbers[row]}" for row in where[:5])
    return shown + (f" and {len(where) - 5:,} more" if len(where) > 5 else "")


def _faults(
    numbers: npt.NDArray[Any],
) -> list[tuple[str, npt.NDArray[np.bool_], str]]:
    faults = []
    if numbers.dtype.kind == "f":
        finite = np.isfinite(numbers)
        faults.append(
            ("that are NaN or infinite", ~finite, "Drop those rows, or fill in their counts.")
        )
        whole = np.floor(numbers) == numbers
        remedy = "If they are amounts, not counts, choose a unit in which they are whole."
        faults.append(("with a fraction", finite & ~whole, remedy))
    if numbers.dtype.kind in "fi":
        remedy = "A count cannot be negative: aggregate corrections first, or drop them."
        faults.append(("below zero", numbers < 0, remedy))
    remedy = "Larger counts are not exact in floating point: use a coarser unit."
    faults.append(("past 2**53 - 1", numbers > MAX_COUNT, remedy))
    return faults


def _numpy_numbers(values: Any, name: str, row_word: str, first_row: int) -> npt.NDArray[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            where = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            raise CountError(
                f"{name} must not be missing; got {len(where):,} missing, at {row_word} "
                f"{listing((where + first_row).tolist())}. Drop those rows, or fill in their "
                "counts."
            )
        if pa.types.is_decimal(values.type):
            values = _whole_decimals(values, name, row_word, first_row)
        values = _to_numpy(values)
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        shown = listing(numbers[:3].tolist())
        raise CountError(
            f"{name} must be numbers; got values such as {shown} of type {numbers.dtype}. "
            "Name the column that holds the counts, or use value=None to count rows."
        )
    return numbers


def _to_numpy(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    if isinstance(values, pa.ChunkedArray):
        return np.asarray(values.to_numpy())
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _whole_decimals(values: Any, name: str, row_word: str, first_row: int) -> Any:
    """Turn decimals into floating point, unless that would hide a fraction."""
    fraction = pc.not_equal(values, pc.floor(values)).to_numpy(zero_copy_only=False)
    if fraction.any():
        where = np.flatnonzero(fraction)
        shown = values.take(pa.array(where[:5])).to_pylist()
        rows = zip(where + first_row, shown, strict=False)
        listed = ", ".join(f"{row_word} {row}: {n}" for row, n in rows)
        raise CountError(
            f"{name} must be whole numbers from 0 to 2**53 - 1; got {len(where):,} with a "
            f"fraction, {listed}. If they are amounts, not counts, choose a unit in which they "
            "are whole."
        )
    return values.cast(pa.float64())
