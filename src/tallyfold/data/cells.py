"""Counts that are whole and exact; cells in canonical form: each once, sorted by its indices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, listing
from tallyfold.data.missing import missing_in
from tallyfold.data.problems import ALL_ROWS, SHOWN, Problem, Problems, RowNumbers
from tallyfold.errors import CountError, RepeatedWarning, RoundedWarning, ShapeError, warn
from tallyfold.scales import Ints, recognised_scale

MAX_COUNT = 2**53 - 1
"""The largest count: up to it floating point tells every whole number from its neighbours."""
COUNT_REMEDY = "Leave those rows out with missing='drop', or fill in their counts."
FRACTION_REMEDY = "If they are amounts, not counts, choose a unit in which they are whole."
HALVES_REMEDY = (
    f"{FRACTION_REMEDY} Double the column if they are halves: stars from 0.5 to 5 are counts on "
    "scale=(1, 10)."
)
NEGATIVE_REMEDY = "A count cannot be negative: aggregate corrections first, or drop them."
LARGE_REMEDY = "Larger counts are not exact in floating point: use a coarser unit."
DROP_BAD = " bad='drop' leaves those rows out."
_MAX_KEY = 2**63 - 1
_UNPACK_AT_A_TIME = 1 << 18


def whole_counts(
    values: Any,
    *,
    name: str,
    row_word: str = "row",
    rows: RowNumbers = ALL_ROWS,
    spelled: bool = False,
    problems: Problems | None = None,
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
    rows
        The numbers of the rows, if the values are part of a longer column.
    spelled
        Whether the values are texts that spell numbers, of a precision that no Arrow type has.
    problems
        Where to note what is wrong; without it, an error says so. If anything is, the counts are 0.
    """
    own = Problems()
    if isinstance(values, pa.Array | pa.ChunkedArray):
        missing = missing_in(values)
        if missing.any():
            _note_missing(own, missing, name, row_word, rows)
            rows = RowNumbers(0, rows.of(np.flatnonzero(~missing)))
            values = values.filter(pa.array(~missing))
    counts = np.zeros(len(values), np.int64)
    if len(values) or not own:
        counts = _whole(values, name, row_word, rows, spelled, own)
    if problems is None:
        own.raise_all()
    else:
        problems.add(own)
    return counts


def _whole(
    values: Any, name: str, row_word: str, rows: RowNumbers, spelled: bool, problems: Problems
) -> npt.NDArray[np.int64]:
    """Return values of which none is missing as counts, noting which are none."""
    numbers, texts = _numbers(values, name, spelled)
    wanted = f"{name} must be whole numbers from 0 to 2**53 - 1"
    seen = np.zeros(numbers.shape, bool)
    for what, bad, remedy in _faults(numbers, texts):
        where = np.flatnonzero(bad & ~seen)
        seen |= bad
        if len(where):
            remedy += DROP_BAD if row_word == "row" else ""
            given, first = numbers if texts is None else texts, where[:SHOWN]
            shown, named = [str(given[row]) for row in first], rows.of(first).tolist()
            problems.note(
                Problem(CountError, wanted, what, remedy, len(where), named, shown, row_word)
            )
    return np.zeros(numbers.shape, np.int64) if seen.any() else numbers.astype(np.int64, copy=False)


def bad_counts(values: Any, name: str, spelled: bool = False) -> npt.NDArray[np.bool_]:
    """Return which values of an Arrow array are no counts, and not missing."""
    bad = ~missing_in(values)
    faults = _faults(*_numbers(values.filter(pa.array(bad)), name, spelled))
    bad[bad] = np.logical_or.reduce([fault for _, fault, _ in faults])
    return bad


def _numbers(values: Any, name: str, spelled: bool) -> tuple[npt.NDArray[Any], Any]:
    """Return values as an array of numbers, and the texts that spell them, if there are any."""
    texts, is_arrow = None, isinstance(values, pa.Array | pa.ChunkedArray)
    if is_arrow and (spelled or pa.types.is_decimal(values.type)):
        texts = values.cast(pa.string())
        values = texts.cast(pa.float64())
    numbers = np.asarray(values)
    if numbers.dtype.kind not in "iuf":
        raise CountError(
            f"{name} must be numbers; got values such as {listing(numbers[:3].tolist())} of type "
            f"{numbers.dtype}. Name the column that holds the counts, or use value=None to count "
            "rows; texts that spell numbers are made into them by pandas.to_numeric(column, "
            "errors='coerce'), which leaves a gap for each that does not (missing='drop')."
        )
    return numbers, texts


def _note_missing(
    problems: Problems, missing: npt.NDArray[np.bool_], name: str, row_word: str, rows: RowNumbers
) -> None:
    where = np.flatnonzero(missing)
    wanted, remedy = f"{name} must not be missing", COUNT_REMEDY
    first = rows.of(where[:SHOWN]).tolist()
    problems.note(
        Problem(CountError, wanted, "missing", remedy, len(where), first, row_word=row_word)
    )


def _faults(numbers: npt.NDArray[Any], texts: Any) -> Iterator[tuple[str, Any, str]]:
    if numbers.dtype.kind == "f":
        finite = np.isfinite(numbers)
        yield "that are NaN or infinite", ~finite, "Fill in their counts."
        fraction = finite & (np.floor(numbers) != numbers)
        if texts is not None:  # one too small for floating point is a fraction, too
            fraction |= np.asarray(pc.match_substring_regex(texts, r"\.0*[1-9]"))
        halves = texts is None and bool(np.all(numbers[fraction] % 1 == 0.5))
        yield "with a fraction", fraction, HALVES_REMEDY if halves else FRACTION_REMEDY
    if numbers.dtype.kind in "fi":
        yield "below zero", numbers < 0, NEGATIVE_REMEDY
    yield "past 2**53 - 1", numbers > MAX_COUNT, LARGE_REMEDY


class Cells(NamedTuple):
    """Distinct cells, sorted; ``indices_NM`` is stored column by column."""

    indices_NM: npt.NDArray[np.int32]
    counts_N: npt.NDArray[np.int64]
    repeats: int


def merge_cells(
    codes: Sequence[npt.NDArray[np.integer]],
    counts_R: npt.NDArray[np.int64] | None,
    shape: Sequence[int],
    repeated: str | None = None,
) -> Cells:
    """Sort rows into distinct cells, putting together the counts of rows that share one.

    Parameters
    ----------
    codes
        For each axis, the position of every row.
    counts_R
        The count of every row; None means one each.
    shape
        The size of each axis.
    repeated
        How: ``"sum"`` (or None), ``"mean"`` (rounded), ``"last"`` or ``"max"``.
    """
    keys = _packed_keys(codes, shape)
    n_rows = len(codes[0])
    order = None
    if len(keys) == 1 and counts_R is None:
        keys[0].sort()  # a plain sort is several times faster than an argsort
    elif not _is_sorted(keys):
        stable = repeated == "last" or len(keys) > 1
        order = np.lexsort(keys[::-1]) if stable else np.argsort(keys[0])
        keys = [key[order] for key in keys]
    starts = _run_starts(keys)
    counts_N = _run_totals(counts_R, order, starts, n_rows, repeated)
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
    repeated: str | None,
) -> npt.NDArray[np.int64]:
    times_N = np.diff(starts, append=n_rows).astype(np.int64, copy=False)
    if counts_R is None:
        return times_N if repeated in (None, "sum", "error") else np.ones_like(times_N)
    counts_R = counts_R if order is None else counts_R[order]
    if len(starts) == n_rows:
        return counts_R.copy() if order is None else counts_R
    if repeated == "last":
        return np.asarray(counts_R[starts + times_N - 1])
    if repeated == "max":
        return np.asarray(np.maximum.reduceat(counts_R, starts))
    totals = np.add.reduceat(counts_R, starts)
    if counts_R.sum(dtype=np.float64) > MAX_COUNT:
        inexact = np.add.reduceat(counts_R.astype(np.float64), starts) > MAX_COUNT
        if inexact.any():
            raise CountError(
                f"{int(inexact.sum()):,} cells have repeated rows whose counts add up past "
                "2**53 - 1, which is not exact in floating point. Use a coarser unit."
            )
    return whole_means(totals, times_N) if repeated == "mean" else totals


def whole_means(
    totals_N: npt.NDArray[np.int64], times_N: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return means of whole numbers, rounded to whole ones, halves up; say how many were not whole.

    Examples
    --------
    >>> whole_means(np.array([8, 6]), np.array([2, 3])).tolist()
    [4, 2]
    """
    means_N, rest_N = np.divmod(totals_N, times_N)
    warn_rounded(int((rest_N > 0).sum()), int((times_N > 1).sum()))
    means_N += 2 * rest_N >= times_N
    return means_N


def warn_rounded(fractions: int, several: int) -> None:
    """Say how many means, of the cells with several rows, were not whole."""
    if fractions:
        warn(
            f"the means of {fractions:,} of {several:,} cells with several rows "
            "are not whole; they were rounded to the nearest whole number, halves up. "
            "repeated='last' or repeated='max' takes one of the counts as it is.",
            RoundedWarning,
        )


def warn_added(value_V: Ints, times_V: Ints, repeats: int) -> None:
    """Say that rows which repeat a cell were added up, if their values look like ratings."""
    scale = recognised_scale(value_V, times_V)
    if scale is not None:
        warn(
            f"the values look like ratings from {scale[0]} to {scale[1]}, and {repeats:,} rows "
            "repeat a cell: they were added up, which is off that scale. repeated='last', "
            "repeated='mean' or repeated='max' takes one value of a cell; repeated='sum' adds up "
            "and says nothing.",
            RepeatedWarning,
        )


def checked_indices(indices: npt.NDArray[Any], axes: tuple[Axis, ...]) -> npt.NDArray[np.int32]:
    """Refuse positions of cells that are not whole numbers within the axes, one row per cell."""
    if indices.size == 0:
        indices = indices.reshape(0, len(axes)).astype(np.int32)
    if indices.ndim != 2 or indices.shape[1] != len(axes) or indices.dtype.kind not in "iu":
        raise ShapeError(
            f"indices must be whole numbers of shape (cells, {len(axes)}), one column per axis; "
            f"got shape {indices.shape} of type {indices.dtype}."
        )
    for number, axis in enumerate(axes):
        column = indices[:, number]
        if len(column) and (column.min() < 0 or column.max() >= len(axis)):
            raise ShapeError(
                f"positions on axis {axis.name!r} must be from 0 to {len(axis) - 1:,}; "
                f"got {column.min()} to {column.max()}."
            )
    return indices.astype(np.int32, copy=False)
