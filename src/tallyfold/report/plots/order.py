"""Where labels stand on a line: numbers, times, names of months and days."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import python_values
from tallyfold.report.ordering import order_of

MONTHS = "january february march april may june july august september october november december"
DAYS = "monday tuesday wednesday thursday friday saturday sunday"
NAMES = [
    {name[:width]: number for number, name in enumerate(names.split(), 1)}
    for names in (MONTHS, DAYS)
    for width in (3, None)
]
"""Numbers of months and of weekdays, by their English names, short and whole."""

FIRST_DAY = 719163
"""The day 1970-01-01, counted as Python counts days."""


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
