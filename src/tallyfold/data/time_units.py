"""Units of time: how the label of a bin is written and read, and how bins follow each other."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Moments = npt.NDArray[np.datetime64]
Steps = npt.NDArray[np.int64]

BinUnit = Literal[
    "year", "quarter", "month", "week", "day", "hour", "weekday", "hour-of-day", "month-of-year"
]
Bins = (
    Mapping[str, BinUnit]
    | Mapping[str, Sequence[BinUnit]]
    | Mapping[str, BinUnit | Sequence[BinUnit]]
)
"""The units that the times of some columns are cut into."""
LAST_YEAR = 9999


class Unit(NamedTuple):
    """A unit that times are cut into.

    Attributes
    ----------
    write
        The label of a bin (ISO 8601) from the moment it begins.
    pattern
        What labels look like.
    rest
        What makes a label an ISO date or time, which Python reads.
    """

    write: Callable[[dt.datetime], str]
    pattern: re.Pattern[str]
    rest: str = ""


UNITS: dict[str, Unit] = {
    "year": Unit(lambda time: f"{time.year:04}", re.compile(r"\d{4}"), "-01-01"),
    "quarter": Unit(
        lambda time: f"{time.year:04}-Q{(time.month + 2) // 3}", re.compile(r"\d{4}-Q[1-4]")
    ),
    "month": Unit(
        lambda time: f"{time.year:04}-{time:%m}", re.compile(r"\d{4}-(0[1-9]|1[0-2])"), "-01"
    ),
    "week": Unit(
        lambda time: "{:04}-W{:02}".format(*time.isocalendar()[:2]),
        re.compile(r"\d{4}-W(0[1-9]|[1-4]\d|5[0-3])"),
    ),
    "day": Unit(lambda time: f"{time.year:04}-{time:%m-%d}", re.compile(r"\d{4}-\d{2}-\d{2}")),
    "hour": Unit(
        lambda time: f"{time.year:04}-{time:%m-%dT%H}", re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}")
    ),
}
"""Units of time that goes on; a later bin has a larger label."""

CYCLES: dict[str, tuple[str, ...]] = {
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour-of-day": tuple(f"{hour:02}h" for hour in range(24)),
    "month-of-year": (
        *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
        *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    ),
}
"""Units that come back, and the labels of their bins, in order."""

CYCLE_STARTS: dict[str, list[dt.datetime]] = {
    "weekday": [dt.datetime(2001, 1, day) for day in range(1, 8)],
    "hour-of-day": [dt.datetime(2001, 1, 1, hour) for hour in range(24)],
    "month-of-year": [dt.datetime(2001, month, 1) for month in range(1, 13)],
}
"""Where each bin of a cycle begins, in a year whose first day is a Monday: it sorts them."""

_WEEK_OF_1970 = 3
"""1970-01-01 was the fourth day of its week, which counts as week 0."""


def unit_of(label: str) -> str | None:
    """Return the unit of which a text is a label; None if it is one of none.

    Examples
    --------
    >>> unit_of("2024-Q3"), unit_of("Tue"), unit_of("2024-13"), unit_of("never")
    ('quarter', 'weekday', None, None)
    """
    for unit in UNITS:
        if bin_start(label, unit) is not None:
            return unit
    return next((unit for unit, labels in CYCLES.items() if label in labels), None)


def bin_start(label: str, unit: str) -> dt.datetime | None:
    """Return the moment at which the bin with this label begins; None if no bin of the unit has it.

    Examples
    --------
    >>> bin_start("2024-W07", "week"), bin_start("2024-13", "month")
    (datetime.datetime(2024, 2, 12, 0, 0), None)
    """
    if unit in CYCLES:
        found = dict(zip(CYCLES[unit], CYCLE_STARTS[unit], strict=True))
        return found.get(label)
    known = UNITS[unit]
    if not known.pattern.fullmatch(label):
        return None
    text = f"{label[:4]}-{3 * int(label[-1]) - 2:02}-01" if unit == "quarter" else label
    try:
        return dt.datetime.fromisoformat(text + known.rest)
    except ValueError:
        return None


def steps_of(starts: Moments, unit: str) -> Steps:
    """Return the number of each bin from the moment it begins; the bin of 1970-01-01 is 0.

    Examples
    --------
    >>> steps_of(np.array(["1970-04-01", "2024-02-12"], "datetime64[us]"), "quarter").tolist()
    [1, 216]
    """
    if unit == "week":
        return (_numbers(starts, "D") + _WEEK_OF_1970) // 7
    if unit == "quarter":
        return _numbers(starts, "M") // 3
    return _numbers(starts, {"year": "Y", "month": "M", "day": "D", "hour": "h"}[unit])


def starts_of(steps: Steps, unit: str) -> Moments:
    """Return the moment at which each bin begins, from its number.

    Examples
    --------
    >>> starts_of(np.array([1, 216]), "quarter").astype(str).tolist()
    ['1970-04-01T00:00:00.000000', '2024-01-01T00:00:00.000000']
    """
    if unit == "week":
        moments = (steps * 7 - _WEEK_OF_1970).astype("datetime64[D]")
    elif unit == "quarter":
        moments = (steps * 3).astype("datetime64[M]")
    else:
        codes = {"year": "Y", "month": "M", "day": "D", "hour": "h"}
        moments = steps.astype(f"datetime64[{codes[unit]}]")
    return moments.astype("datetime64[us]")


def written(starts: Sequence[dt.datetime | None], unit: str) -> pa.Array:
    """Return the labels of bins from the moments they begin, in the years 1 to 9999."""
    if unit in CYCLES:
        labels = dict(zip(CYCLE_STARTS[unit], CYCLES[unit], strict=True))
        return pa.array([start and labels[start] for start in starts], pa.large_string())
    write = UNITS[unit].write
    return pa.array([start and write(start) for start in starts], pa.large_string())


def _numbers(starts: Moments, code: str) -> Steps:
    numbers: Steps = starts.astype(f"datetime64[{code}]").astype(np.int64)
    return numbers
