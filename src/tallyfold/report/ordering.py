"""Labels that have an order of their own: numbers, dates, months, weeks."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,2})?")
MONTH = re.compile(r"(\d{4})-(\d{2})")
QUARTER = re.compile(r"(\d{4})-Q([1-4])")
DATE = re.compile(r"\d{4}-(\d{2}-\d{2}|W\d{2}).*")

MOST_NUMBERS = 200
"""More numeric labels than that are rather names, such as those of users, than a scale."""


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
    numbers = _all(labels, _number)
    if numbers is not None:
        return Order("number", numbers, len(labels) <= MOST_NUMBERS)
    times = _all(labels, _day)
    return None if times is None else Order("time", times, True)


def _all(labels: Sequence[str], read: Callable[[str], float | None]) -> list[float] | None:
    """Return what every label is read as; None as soon as one cannot be."""
    found = []
    for label in labels:
        place = read(label)
        if place is None:
            return None
        found.append(place)
    return found


def _number(label: str) -> float | None:
    return float(label) if NUMBER.fullmatch(label) else None


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
