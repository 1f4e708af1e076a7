"""Counts that are whole and exact; cells in canonical form: each once, sorted by its indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.errors import CountError

MAX_COUNT = 2**53 - 1
"""The largest count: up to it floating point tells every whole number from its neighbours."""
_MAX_KEY = 2**63 - 1
_UNPACK_AT_A_TIME = 1 << 18


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


def _faults(numbers: npt.NDArray[Any], texts: Any) -> Iterator[tuple[str, Any, str]]:
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


class Cells(NamedTuple):
    """Distinct cells, sorted; ``indices_NM`` is stored column by column."""

    indices_NM: npt.NDArray[np.int32]
    counts_N: npt.NDArray[np.int64]
    repeats: int


def merge_cells(
    codes: Sequence[npt.NDArray[np.integer]],
    counts_R: npt.NDArray[np.int64] | None,
    shape: Sequence[int],
) -> Cells:
    """Sort rows into distinct cells, adding up the counts of rows that share one.

    Parameters
    ----------
    codes
        For each axis, the position of every row.
    counts_R
        The count of every row; None means one each.
    shape
        The size of each axis.
    """
    keys = _packed_keys(codes, shape)
    n_rows = len(codes[0])
    order = None
    if len(keys) == 1 and counts_R is None:
        keys[0].sort()  # a plain sort is several times faster than an argsort
    elif not _is_sorted(keys):
        order = np.argsort(keys[0]) if len(keys) == 1 else np.lexsort(keys[::-1])
        keys = [key[order] for key in keys]
    starts = _run_starts(keys)
    counts_N = _run_totals(counts_R, order, starts, n_rows)
    if len(starts) < n_rows:
        keys = [key[starts] for key in keys]
    del starts, order
    return Cells(_unpacked(keys, shape), counts_N, n_rows - len(counts_N))


def _groups(shape: Sequence[int]) -> list[list[int]]:
    """Split the axes, in order, into as few groups as fit a 64-bit key each."""
    groups: list[list[int]] = [[]]
    room = _MAX_KEY
    for axis, size in enumerate(shape):
        if groups[-1] and size > room:
            groups.append([])
            room = _MAX_KEY
        groups[-1].append(axis)
        room //= max(size, 1)
    return groups


def _packed_keys(
    codes: Sequence[npt.NDArray[np.integer]], shape: Sequence[int]
) -> list[npt.NDArray[np.int64]]:
    keys = []
    for group in _groups(shape):
        key = codes[group[0]].astype(np.int64)
        for axis in group[1:]:
            key *= shape[axis]
            key += codes[axis]
        keys.append(key)
    return keys


def _unpacked(keys: list[npt.NDArray[np.int64]], shape: Sequence[int]) -> npt.NDArray[np.int32]:
    """Take keys apart again, some at a time so that the steps between stay small."""
    indices_NM = np.empty((len(keys[0]), len(shape)), np.int32, order="F")
    for key, group in zip(keys, _groups(shape), strict=True):
        for start in range(0, len(key), _UNPACK_AT_A_TIME):
            part = slice(start, start + _UNPACK_AT_A_TIME)
            rest = key[part]
            for axis in group[:0:-1]:
                rest, indices_NM[part, axis] = np.divmod(rest, shape[axis])
            indices_NM[part, group[0]] = rest
    return indices_NM


def _is_sorted(keys: list[npt.NDArray[np.int64]]) -> bool:
    tied: npt.NDArray[np.bool_] | bool = True
    for key in keys:
        if np.any(tied & (key[1:] < key[:-1])):
            return False
        tied = tied & (key[1:] == key[:-1])
    return True


def _run_starts(keys: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.intp]:
    new = np.zeros(len(keys[0]), bool)
    new[:1] = True
    for key in keys:
        new[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(new)


def _run_totals(
    counts_R: npt.NDArray[np.int64] | None,
    order: npt.NDArray[Any] | None,
    starts: npt.NDArray[np.intp],
    n_rows: int,
) -> npt.NDArray[np.int64]:
    if counts_R is None:
        return np.diff(starts, append=n_rows).astype(np.int64, copy=False)
    counts_R = counts_R if order is None else counts_R[order]
    if len(starts) == n_rows:
        return counts_R.copy() if order is None else counts_R
    totals = np.add.reduceat(counts_R, starts)
    if counts_R.sum(dtype=np.float64) > MAX_COUNT:
        inexact = np.add.reduceat(counts_R.astype(np.float64), starts) > MAX_COUNT
        if inexact.any():
            raise CountError(
                f"{int(inexact.sum()):,} cells have repeated rows whose counts add up past "
                "2**53 - 1, which is not exact in floating point. Use a coarser unit."
            )
    return totals
