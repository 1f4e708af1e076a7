"""Dates and times cut into years, quarters, months, weeks, days or hours."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing, python_values
from tallyfold.errors import LabelError, ParameterError

UNITS: dict[str, Callable[[dt.datetime], str]] = {
    "year": lambda time: f"{time.year:04}",
    "quarter": lambda time: f"{time.year:04}-Q{(time.month + 2) // 3}",
    "month": lambda time: f"{time.year:04}-{time:%m}",
    "week": lambda time: "{:04}-W{:02}".format(*time.isocalendar()[:2]),
    "day": lambda time: f"{time.year:04}-{time:%m-%d}",
    "hour": lambda time: f"{time.year:04}-{time:%m-%dT%H}",
}
"""Units, and how the label of a bin is written from the moment it begins (ISO 8601)."""


def checked_bins(bins: Mapping[str, str] | None, axes: Sequence[str]) -> dict[str, str]:
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
    return dict(bins or {})


def floor_times(
    values: pa.Array | pa.ChunkedArray, unit: str, axis: str, first_row: int = 0
) -> Any:
    """Return the moment each time's bin begins; times with a zone are taken in UTC."""
    times = _plain_times(values, axis, first_row)
    floored = pc.floor_temporal(times, unit=unit, week_starts_monday=True)
    return floored.cast(pa.timestamp("us"))  # after flooring: casting truncates toward 1970


def time_labels(starts: pa.Array, unit: str, axis: str) -> pa.Array:
    """Write the label of each bin from the moment it begins."""
    write = UNITS[unit]
    try:
        return pa.array([write(start) for start in starts.to_pylist()], pa.large_string())
    except (OverflowError, ValueError) as error:
        texts = starts.cast(pa.large_string()).to_pylist()
        raise LabelError(
            f"times on axis {axis!r} must be in the years 1 to 9999 to be binned; they run from "
            f"{min(texts)} to {max(texts)}. Drop or mend the others."
        ) from error


def _plain_times(values: pa.Array | pa.ChunkedArray, axis: str, first_row: int) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp(kind.unit))  # with a zone: as it is in UTC
    if pa.types.is_date(kind):
        return values.cast(pa.timestamp("us"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _parsed(values.cast(pa.large_string()), axis, first_row)
    raise not_a_time(axis, python_values(values[:5]), str(kind))


def _parsed(texts: Any, axis: str, first_row: int) -> Any:
    """Read ISO times: all at once if Arrow can, else each distinct text by itself."""
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC")):  # none has a zone, or each has one
        with contextlib.suppress(pa.ArrowInvalid):
            return texts.cast(kind).cast(pa.timestamp("us"))
    distinct = pc.unique(texts)
    moments = [_moment(text) for text in distinct.to_pylist()]
    bad = distinct.filter(pa.array([moment is None for moment in moments]))
    if len(bad):
        rows = np.flatnonzero(pc.is_in(texts, value_set=bad).to_numpy(zero_copy_only=False))
        shown = texts.take(pa.array(rows[:5])).to_pylist()
        places = [
            f"row {row}: {text!r}" for row, text in zip(rows + first_row, shown, strict=False)
        ]
        raise not_a_time(axis, places, f"{len(rows):,} texts that are none")
    return pa.array(moments, pa.timestamp("us")).take(pc.index_in(texts, value_set=distinct))


def _moment(text: str) -> dt.datetime | None:
    """Return an ISO time in UTC, without its zone; None if the text is none."""
    try:
        time = dt.datetime.fromisoformat(text)
        return time.astimezone(dt.UTC).replace(tzinfo=None) if time.tzinfo else time
    except (ValueError, OverflowError):
        return None


def not_a_time(axis: str, examples: list[Any], kind: str) -> LabelError:
    """Describe values that cannot be binned."""
    shown = [str(example) for example in examples]
    return LabelError(
        f"column {axis!r} must hold dates or times to be binned, or text in ISO form such as "
        f"2015-03-09 or 2015-03-09 14:30; got {kind}, {', '.join(shown)}. "
        "Turn it into dates first."
    )
