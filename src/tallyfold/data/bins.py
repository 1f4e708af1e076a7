"""Dates and times cut into years, quarters, months, weeks, days or hours."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing, python_values
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.problems import ALL_ROWS, SHOWN, Problem, Problems, RowNumbers
from tallyfold.data.time_units import UNITS
from tallyfold.errors import LabelError, ParameterError

TIME_WANTED = (
    "column {!r} must hold dates or times to be binned, or text in ISO form such as 2015-03-09 or "
    "2015-03-09 14:30"
)
TIME_REMEDY = "Turn it into dates first."


def checked_bins(bins: Mapping[str, str] | None, axes: Sequence[str]) -> dict[str, AxisOrder]:
    """Refuse bins of columns that are no axis, and units that do not exist."""
    if bins is not None and not isinstance(bins, Mapping):
        raise ParameterError(f"`bins` must be like {{'date': 'month'}}; got {bins!r}.")
    for name, unit in (bins or {}).items():
        if name not in axes:
            raise ParameterError(
                f"`bins` names {name!r}, which is not among the axes {listing(list(axes))}."
            )
        if unit not in UNITS:
            raise ParameterError(
                f"`bins` of {name!r} must be one of {', '.join(UNITS)}; got {unit!r}."
            )
    return {name: AxisOrder.of_unit(unit) for name, unit in (bins or {}).items()}


def floor_times(
    values: pa.Array | pa.ChunkedArray,
    unit: str,
    axis: str,
    rows: RowNumbers = ALL_ROWS,
    problems: Problems | None = None,
) -> Any:
    """Return the moment each time's bin begins; times with a zone are taken in UTC.

    Texts that are no time are noted as `problems`; without those, they are refused.
    """
    own = Problems()
    times = _plain_times(values, axis, rows, own)
    if problems is None:
        own.raise_all()
    else:
        problems.add(own)
    floored = pc.floor_temporal(times, unit=unit, week_starts_monday=True)
    return floored.cast(pa.timestamp("us"))  # after flooring: casting truncates toward 1970


def time_labels(starts: pa.Array, unit: str, axis: str) -> pa.Array:
    """Write the label of each bin from the moment it begins."""
    write = UNITS[unit].write
    try:
        labels = [None if start is None else write(start) for start in starts.to_pylist()]
        return pa.array(labels, pa.large_string())
    except (OverflowError, ValueError) as error:
        texts = starts.drop_null().cast(pa.large_string()).to_pylist()
        raise LabelError(
            f"times on axis {axis!r} must be in the years 1 to 9999 to be binned; they run from "
            f"{min(texts)} to {max(texts)}. Drop or mend the others."
        ) from error


def bins_of(labels: pa.Array, unit: str, axis: str) -> pa.Array:
    """Return the labels of an axis of time bins for what is asked of it.

    Dates, times and texts that are times are cut; all else, such as labels of bins, stays.

    Examples
    --------
    >>> bins_of(pa.array(["2024-05-01 12:30", "2024-05", "never"]), "month", "day").to_pylist()
    ['2024-05', '2024-05', 'never']
    """
    kind = labels.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        distinct = floor_times(labels, unit, axis).dictionary_encode()
        return time_labels(distinct.dictionary, unit, axis).take(distinct.indices)
    if not pa.types.is_large_string(kind) and not pa.types.is_string(kind):
        return labels
    encoded = labels.dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    moments = [_moment(text) for text in texts]
    cut = [t if m is None else UNITS[unit].write(m) for t, m in zip(texts, moments, strict=True)]
    return pa.array(cut, pa.large_string()).take(encoded.indices)


def _plain_times(
    values: pa.Array | pa.ChunkedArray, axis: str, rows: RowNumbers, problems: Problems
) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp(kind.unit))  # with a zone: as it is in UTC
    if pa.types.is_date(kind):
        return values.cast(pa.timestamp("us"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _parsed(values.cast(pa.large_string()), axis, rows, problems)
    shown = ", ".join(str(example) for example in python_values(values[:SHOWN]))
    raise LabelError(f"{TIME_WANTED.format(axis)}; got {kind}, {shown}. {TIME_REMEDY}")


def _parsed(texts: Any, axis: str, rows: RowNumbers, problems: Problems) -> Any:
    """Read ISO times: all at once if Arrow can, else each distinct text by itself."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):  # none has a zone, or each has one
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(kind).cast(pa.timestamp("us"))
    distinct = pc.unique(texts).drop_null()
    moments = [_moment(text) for text in distinct.to_pylist()]
    bad = distinct.filter(pa.array([moment is None for moment in moments], pa.bool_()))
    if len(bad):
        where = np.flatnonzero(pc.is_in(texts, value_set=bad).to_numpy(zero_copy_only=False))
        shown = [repr(text) for text in texts.take(pa.array(where[:SHOWN])).to_pylist()]
        wanted, kind = TIME_WANTED.format(axis), "texts that are none"
        first = rows.of(where[:SHOWN]).tolist()
        problems.note(Problem(LabelError, wanted, kind, TIME_REMEDY, len(where), first, shown))
    return pa.array(moments, pa.timestamp("us")).take(pc.index_in(texts, value_set=distinct))


def _moment(text: str) -> dt.datetime | None:
    """Return an ISO time in UTC, without its zone; None if the text is none."""
    try:
        time = dt.datetime.fromisoformat(text)
        return time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        return None
