"""Labels that have an order of their own: numbers, dates, time bins, names of months and days."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import python_values

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
MONTH = re.compile(r"(\d{4})-(\d{2})")
QUARTER = re.compile(r"(\d{4})-Q([1-4])")
DATE = re.compile(r"\d{4}-(\d{2}-\d{2}|W\d{2}).*")

MOST_NUMBERS = 200
"""More numeric labels than that are rather names, such as those of users, than a scale."""


MONTHS = "january february march april may june july august september october november december"
DAYS = "monday tuesday wednesday thursday friday saturday sunday"
NAMES = [
    {name[:width]: number for number, name in enumerate(names.split(), 1)}
    for names in (MONTHS, DAYS)
    for width in (3, None)
] + [{f"{hour:02}h": hour for hour in range(24)}]
"""Numbers of months, of weekdays, by their English names, short and whole, and of hours."""

FIRST_DAY = 719163
"""The day 1970-01-01, counted as Python counts days."""


class Order(NamedTuple):
    """Where labels stand on a line.

    Attributes
    ----------
    kind
        ``"number"`` or ``"time"``.
    places
        One number per label; times in days.
    line
        Whether a line is the better first view than a ranking.
    """

    kind: str
    places: list[float]
    line: bool


def order_of(labels: Sequence[str]) -> Order | None:
    """Return where labels stand, or None for labels that are just names.

    Examples
    --------
    >>> order_of(["2024-02", "2024-03"]).kind
    'time'
    >>> order_of(["1", "5", "two"]) is None
    True
    """
    if len(labels) < 2:
        return None
    if all(map(NUMBER.fullmatch, labels)):
        return Order("number", [*map(float, labels)], len(labels) <= MOST_NUMBERS)
    times = [day for label in labels if (day := _day(label)) is not None]
    return Order("time", times, True) if len(times) == len(labels) else None


def places_of(labels: pa.Array) -> npt.NDArray[Any] | None:
    """Return where labels stand on a line, as numbers or times; None if they have no order.

    Examples
    --------
    >>> places_of(pa.array(["2004", "2003"]))
    array([2004., 2003.])
    >>> places_of(pa.array(["2004-Q1", "2004-Q2"])).astype("datetime64[D]").tolist()
    [datetime.date(2004, 1, 1), datetime.date(2004, 4, 1)]
    >>> places_of(pa.array(["crime", "comedy"])) is None
    True
    """
    if pa.types.is_boolean(labels.type):
        return None
    if pa.types.is_temporal(labels.type):
        return np.asarray(labels.cast(pa.timestamp("us", getattr(labels.type, "tz", None))))
    texts = [str(label) for label in python_values(labels)]
    if are_names(texts):
        numbers = next(names for names in NAMES if texts[0].casefold() in names)
        return np.array([numbers[text.casefold()] for text in texts], np.float64)
    order = order_of(texts)
    if order is None:
        return None
    place_D = np.array(order.places, np.float64)
    if order.kind == "number":
        return place_D
    minutes_D = np.round((place_D - FIRST_DAY) * 1440)
    return np.asarray(minutes_D.astype(np.int64).astype("datetime64[m]"))


def are_names(texts: list[str]) -> bool:
    """Tell whether all labels are names of months, or of weekdays."""
    return any(all(text.casefold() in names for text in texts) for names in NAMES)


def _day(label: str) -> float | None:
    """Return the day that an ISO date, time, week, month or quarter begins, as a number."""
    if MONTH.fullmatch(label):
        label += "-01"
    elif quarter := QUARTER.fullmatch(label):
        label = f"{quarter[1]}-{3 * int(quarter[2]) - 2:02}-01"
    if not DATE.fullmatch(label):
        return None
    try:
        time = dt.datetime.fromisoformat(label).replace(tzinfo=None)
    except ValueError:
        return None
    return time.toordinal() + (time.hour * 60 + time.minute) / 1440
