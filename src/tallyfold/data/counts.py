"""Whether numbers are counts: whole, not negative, finite, and exactly representable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.errors import CountError

MAX_COUNT = 2**53 - 1
"""The largest count: up to it floating point tells every whole number from its neighbours."""

Mask = npt.NDArray[np.bool_]


def whole_counts(
    values: Any, *, name: str, row_word: str = "row", first_row: int = 0, spelled: bool = False
) -> npt.NDArray[np.int64]:
    """Return the values as 64-bit counts, or say which rows hold something else.

    Parameters
    ----------
    values
        An Arrow or NumPy array of numbers.
    name
        What to call the values in an error.
    row_word
        What to call a row in an error.
    first_row
        The number of the first row: not 0 if the values are part of a longer column.
    spelled
        Whether the values are texts that spell numbers, of a precision that no Arrow type has.
    """
    texts = None
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            where = np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))
            raise CountError(
                f"{name} must not be missing; got {len(where):,} missing, at {row_word} "
                f"{listing((where + first_row).tolist())}. Drop those rows, or fill in their "
                "counts."
            )
        if spelled or pa.types.is_decimal(values.type):
            texts = values.cast(pa.string())
            values = texts.cast(pa.float64())
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        raise CountError(
            f"{name} must be numbers; got values such as {listing(numbers[:3].tolist())} of type "
            f"{numbers.dtype}. Name the column that holds the counts, or use value=None to count "
            "rows."
        )
    for what, bad, remedy in _faults(numbers, texts):
        if bad.any():
            where = np.flatnonzero(bad)
            given = numbers if texts is None else texts
            shown = ", ".join(f"{row_word} {first_row + row}: {given[row]}" for row in where[:5])
            more = f" and {len(where) - 5:,} more" if len(where) > 5 else ""
            raise CountError(
                f"{name} must be whole numbers from 0 to 2**53 - 1; got {len(where):,} {what}, "
                f"{shown}{more}. {remedy}"
            )
    return numbers.astype(np.int64, copy=False)


def _faults(numbers: npt.NDArray[Any], texts: Any) -> Iterator[tuple[str, Mask, str]]:
    if numbers.dtype.kind == "f":
        finite = np.isfinite(numbers)
        yield "that are NaN or infinite", ~finite, "Drop those rows, or fill in their counts."
        fraction = finite & (np.floor(numbers) != numbers)
        if texts is not None:  # one too small for floating point is a fraction, too
            fraction |= np.asarray(pc.match_substring_regex(texts, r"\.0*[1-9]"))
        remedy = "If they are amounts, not counts, choose a unit in which they are whole."
        yield "with a fraction", fraction, remedy
    if numbers.dtype.kind in "fi":
        remedy = "A count cannot be negative: aggregate corrections first, or drop them."
        yield "below zero", numbers < 0, remedy
    remedy = "Larger counts are not exact in floating point: use a coarser unit."
    yield "past 2**53 - 1", numbers > MAX_COUNT, remedy
