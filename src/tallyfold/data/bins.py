"""Dates and times cut into years, quarters, months, weeks, days or hours."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import listing
from tallyfold.errors import LabelError, ParameterError

UNITS: dict[str, Callable[[dt.datetime], str]] = {
    "year": lambda time: f"{time:%Y}",
    "quarter": lambda time: f"{time:%Y}-Q{(time.month + 2) // 3}",
    "month": lambda time: f"{time:%Y-%m}",
    "week": lambda time: f"{time:%G-W%V}",
    "day": lambda time: f"{time:%Y-%m-%d}",
    "hour": lambda time: f"{time:%Y-%m-%dT%H}",
}
"""Units, and how the label of a bin is written from the moment it begins (ISO 8601)."""


def checked_bins(bins: Mapping[str, str] | None, axes: Sequence[str]) -> dict[str, str]:
    """Refuse bins of columns that are no axis, and units that do not exist."""
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


def floor_times(values: pa.Array | pa.ChunkedArray, unit: str, axis: str) -> Any:
    """Return the moment each time's bin begins; times with a zone are taken in UTC."""
    return pc.floor_temporal(_plain_times(values, axis), unit=unit, week_starts_monday=True)


def time_labels(starts: pa.Array, unit: str) -> pa.Array:
    """Write the label of each bin from the moment it begins."""
    write = UNITS[unit]
    return pa.array([write(start) for start in starts.to_pylist()], pa.large_string())


def _plain_times(values: pa.Array | pa.ChunkedArray, axis: str) -> Any:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("us", tz=kind.tz), safe=False).cast(pa.timestamp("us"))
    if pa.types.is_date(kind):
        return values.cast(pa.timestamp("us"))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _parsed(values.cast(pa.large_string()), axis)
    raise not_a_time(axis, values[:5].to_pylist(), str(kind))


def _parsed(texts: Any, axis: str) -> Any:
    try:
        return texts.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        try:  # with a zone, such as a final Z
            return texts.cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
        except pa.ArrowInvalid as error:
            bad = [text for text in pc.unique(texts).to_pylist() if not _is_time(text)]
            raise not_a_time(axis, bad, "text") from error


def _is_time(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def not_a_time(axis: str, examples: list[Any], kind: str) -> LabelError:
    """Describe values that cannot be binned."""
    return LabelError(
        f"column {axis!r} must hold dates or times to be binned, or text in ISO form such as "
        f"2015-03-09 or 2015-03-09 14:30; got {kind} such as {listing(examples)}. "
        "Turn it into dates first."
    )
