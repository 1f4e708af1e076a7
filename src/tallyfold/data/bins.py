"""Dates and times cut into bins: of time that goes on, or of a cycle, in a zone."""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, listing, python_values
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.problems import ALL_ROWS, SHOWN, Problem, Problems, RowNumbers
from tallyfold.data.time_units import CYCLE_STARTS, CYCLES, UNITS, bin_start, unit_of, written
from tallyfold.data.zones import checked_zone, local_times
from tallyfold.errors import LabelError, ParameterError, did_you_mean

if TYPE_CHECKING:
    from tallyfold.data.time_units import Bins

TIME_WANTED = (
    "column {!r} must hold dates or times to be binned, or text in ISO form such as 2015-03-09 or "
    "2015-03-09 14:30"
)
TIME_REMEDY = "Turn it into dates first."
BINNED_WANTED = "column {!r} is cut by {}, so it must hold times, or labels of such bins"
BINNED_REMEDY = "Go back to the times, or cut by the unit of the labels ({} is not told from them)."
NO_TIME_REMEDY = (
    "Mend those rows (pandas.to_datetime(column, format='%d/%m/%Y') reads other forms, unit='s' "
    "seconds since 1970), or leave them out with bad='drop'."
)

_DATE = (
    r"[1-9]\d{3}-((0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31)"
)
_SURE = _DATE + r"([ T]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,6})?)?)?"
_ZONE = r"(Z|[+-](0\d|1[0-3]):?[0-5]\d)"
"""Times that Arrow surely reads: a single text that is none must not make a long column slow."""
_LOOSE = re.compile(r"(\d{4})-(\d\d?)-(\d\d?)(?:[T ](\d\d?)((?::[\d:.,]*)?) ?(UTC|Z|[+-][\d:]+)?)?")
"""Dates and times as they are also written: 2015-3-9, 2015-03-09 9:30 UTC."""
_ALL_BINS = {**dict.fromkeys(UNITS), **dict.fromkeys(CYCLES)}


def checked_bins(
    bins: Bins | None, columns: Sequence[str], tz: str | None = None
) -> tuple[list[str], dict[str, AxisOrder]]:
    """Return the axes that columns become, and how the times of some of them are cut.

    A column that is cut into several units becomes as many axes, such as time-day, time-weekday.
    Bins of columns that are no axis, units and zones that do not exist are refused.

    Examples
    --------
    >>> checked_bins({"time": ["day", "weekday"]}, ["user", "time"])[0]
    ['user', 'time-day', 'time-weekday']
    """
    if bins is not None and not isinstance(bins, Mapping):
        raise ParameterError(f"`bins` must be like {{'date': 'month'}}; got {bins!r}.")
    bins, zone = bins or {}, checked_zone(tz)
    if tz is not None and not bins:
        raise ParameterError("`tz` is the zone in which `bins` cut times; there are no bins.")
    for name, units in bins.items():
        if name not in columns:
            raise ParameterError(
                f"`bins` names {name!r}, which is not among the axes {listing(list(columns))}."
            )
        _check_units(name, units)
    axes: list[str] = []
    orders: dict[str, AxisOrder] = {}
    for column in columns:
        units = bins.get(column, ())
        several = [column] if isinstance(units, str) or len(units) < 2 else []
        for unit in [units] if isinstance(units, str) else units:
            name = several[0] if several else f"{column}-{unit}"
            orders[name] = AxisOrder.of_unit(unit, zone, None if name == column else column)
        axes += several or [f"{column}-{unit}" for unit in units]
    twice = [name for name in axes if axes.count(name) > 1]
    if twice and len(set(columns)) == len(columns):
        raise ParameterError(
            f"`bins` would make a second axis {twice[0]!r}. Rename the column of that name."
        )
    return axes, orders


def _check_units(name: str, units: Any) -> None:
    """Refuse what is no unit, nor several different ones."""
    listed = [units] if isinstance(units, str) or not isinstance(units, Sequence) else list(units)
    for unit in listed:
        if unit not in _ALL_BINS:
            raise ParameterError(
                f"`bins` of {name!r} must be one of {', '.join(_ALL_BINS)}, or a list of several; "
                f"got {unit!r}.{did_you_mean(unit, _ALL_BINS)}"
            )
    if not listed or len(set(listed)) < len(listed):
        raise ParameterError(
            f"`bins` of {name!r} must name at least one unit, each once; got {listed!r}."
        )


def bin_starts(
    values: pa.Array | pa.ChunkedArray,
    order: AxisOrder,
    axis: str,
    rows: RowNumbers = ALL_ROWS,
    problems: Problems | None = None,
    remedy: str = NO_TIME_REMEDY,
) -> Any:
    """Return the moment at which each time's bin begins, by the clock of the zone.

    Times with a zone, or an offset, are seen from the order's zone; times without are taken as they
    are. A bin of a cycle begins in 2001. Texts that are neither times nor labels of such bins are
    noted as `problems`; without those, they are refused.
    """
    own = Problems()
    times = _wall_times(values, order, axis, rows, own, remedy)
    if problems is None:
        own.raise_all()
    else:
        problems.add(own)
    return _floored(times, order.unit or "")


def bin_labels(starts: pa.Array, unit: str, axis: str) -> pa.Array:
    """Write the label of each bin from the moment it begins."""
    try:
        return written(starts.to_pylist(), unit)
    except (OverflowError, ValueError) as error:
        texts = starts.drop_null().cast(pa.large_string()).to_pylist()
        raise LabelError(
            f"times on axis {axis!r} must be in the years 1 to 9999 to be binned; they run from "
            f"{min(texts)} to {max(texts)}. Drop or mend the others."
        ) from error


def bins_of(labels: pa.Array, axis: Axis, rows: RowNumbers = ALL_ROWS) -> pa.Array:
    """Return the labels of an axis of bins for times that are asked of it.

    What is a label of the axis, or could be, stays. All else must be a time.

    Examples
    --------
    >>> axis = Axis("day", ["2024-05"], AxisOrder.of_unit("month"))
    >>> bins_of(pa.array(["2024-05-01 12:30", "2024-05", "2024-06"]), axis).to_pylist()
    ['2024-05', '2024-05', '2024-06']
    >>> bins_of(pa.array(["never"]), axis)
    Traceback (most recent call last):
        ...
    tallyfold.errors.LabelError: column 'day' must hold dates or times ... 'never'. ...
    """
    order = axis.order
    if order is None or order.unit is None:
        return labels
    asked = labels
    if is_text(labels.type):
        labels = labels.cast(pa.large_string())
        own = pc.is_in(labels, value_set=axis.labels.cast(pa.large_string()))
        asked = pc.if_else(own, pa.scalar(None, labels.type), labels)
    column = order.column or axis.name
    starts = bin_starts(asked, order, column, rows, remedy=TIME_REMEDY).dictionary_encode()
    cut = bin_labels(starts.dictionary, order.unit, axis.name).take(starts.indices)
    return pc.coalesce(cut, labels) if is_text(labels.type) else cut


def is_text(kind: pa.DataType) -> bool:
    """Tell whether a type of Arrow's is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _floored(times: Any, unit: str) -> Any:
    if unit in UNITS:
        floored = pc.floor_temporal(times, unit=unit, week_starts_monday=True)
        return floored.cast(pa.timestamp("us"))  # after flooring: casting truncates toward 1970
    if unit == "weekday":
        place = pc.day_of_week(times)
    else:
        place = pc.hour(times) if unit == "hour-of-day" else pc.subtract(pc.month(times), 1)
    return pc.take(pa.array(CYCLE_STARTS[unit], pa.timestamp("us")), place)


def _wall_times(
    values: pa.Array | pa.ChunkedArray,
    order: AxisOrder,
    axis: str,
    rows: RowNumbers,
    problems: Problems,
    remedy: str,
) -> Any:
    """Return what a clock in the order's zone shows at each time."""
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    kind = values.type
    if pa.types.is_timestamp(kind):
        return local_times(values, order.tz)
    if pa.types.is_date(kind):
        return values.cast(pa.timestamp("us"))
    if pa.types.is_null(kind):
        return values.cast(pa.timestamp("us"))
    if pa.types.is_integer(kind) and order.unit == "year":
        values = pc.utf8_lpad(values.cast(pa.string()), 4, "0")
    if is_text(values.type):
        return _parsed(values.cast(pa.large_string()), order, axis, rows, problems, remedy)
    shown = ", ".join(str(example) for example in python_values(values[:SHOWN]))
    raise LabelError(f"{TIME_WANTED.format(axis)}; got {kind}, {shown}. {TIME_REMEDY}")


def labels_of_other_bins(values: Any, order: AxisOrder) -> npt.NDArray[np.bool_]:
    """Return which values are texts that label bins of another unit.

    Examples
    --------
    >>> texts = pa.array(["2024-05", "2024-W07", "never"])
    >>> labels_of_other_bins(texts, AxisOrder.of_unit("month")).tolist()
    [False, True, False]
    """
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not pa.types.is_large_string(values.type) and not pa.types.is_string(values.type):
        return np.zeros(len(values), bool)
    texts = values.cast(pa.large_string())
    distinct = pc.unique(texts).drop_null().to_pylist()
    other = [text for text in distinct if isinstance(_read(text, order.unit or ""), str)]
    found = pc.is_in(texts, value_set=pa.array(other, pa.large_string()))
    return np.asarray(found.to_numpy(zero_copy_only=False), bool)


def _parsed(
    texts: Any, order: AxisOrder, axis: str, rows: RowNumbers, problems: Problems, remedy: str
) -> Any:
    """Read ISO times and labels: all that Arrow can at once, each other text by itself."""
    kinds = (pa.timestamp("us"), pa.timestamp("us", "UTC"))
    for kind in kinds:  # none has a zone, or each has one
        with contextlib.suppress(pa.ArrowInvalid):
            return local_times(texts.cast(kind), order.tz)
    plain = pa.scalar(None, pa.timestamp("us"))
    for kind, zone in zip(kinds, ("", _ZONE), strict=True):
        sure = pc.match_substring_regex(texts, f"^{_SURE}{zone}$")
        some = pc.if_else(sure, texts, pa.scalar(None, texts.type))
        with contextlib.suppress(pa.ArrowInvalid):
            plain = pc.coalesce(local_times(some.cast(kind), order.tz), plain)
            texts = pc.if_else(sure, pa.scalar(None, texts.type), texts)
    return pc.coalesce(plain, _one_by_one(texts, order, axis, rows, problems, remedy))


def _one_by_one(
    texts: Any, order: AxisOrder, axis: str, rows: RowNumbers, problems: Problems, remedy: str
) -> Any:
    """Read each distinct text by itself, whatever its form."""
    distinct = pc.unique(texts).drop_null()
    found = [_read(text, order.unit or "") for text in distinct.to_pylist()]
    no_times = [text for text, one in zip(distinct, found, strict=True) if one is None]
    _note(
        texts,
        no_times,
        TIME_WANTED.format(axis),
        "texts that are none",
        remedy,
        rows,
        problems,
    )
    units = {one for one in found if isinstance(one, str)}
    for unit in sorted(units):
        some = [text for text, one in zip(distinct, found, strict=True) if one == unit]
        wanted = BINNED_WANTED.format(axis, order.unit)
        remedy = BINNED_REMEDY.format(order.unit)
        _note(texts, some, wanted, f"labels of bins by {unit}", remedy, rows, problems)
    moments = [one if isinstance(one, dt.datetime) else None for one in found]
    zoned = pa.array([m is not None and m.tzinfo is not None for m in moments], pa.bool_())
    walls = pa.array([m and m.replace(tzinfo=None) for m in moments], pa.timestamp("us"))
    seen = local_times(walls.cast(pa.timestamp("us", "UTC")), order.tz)
    return pc.if_else(zoned, seen, walls).take(pc.index_in(texts, value_set=distinct))


def _note(
    texts: Any,
    some: list[pa.Scalar],
    wanted: str,
    kind: str,
    remedy: str,
    rows: RowNumbers,
    problems: Problems,
) -> None:
    """Note rows whose texts are among some that cannot be used."""
    if not some:
        return
    bad = pa.array([each.as_py() for each in some], pa.large_string())
    where = np.flatnonzero(pc.is_in(texts, value_set=bad).to_numpy(zero_copy_only=False))
    shown = [repr(text) for text in texts.take(pa.array(where[:SHOWN])).to_pylist()]
    first = rows.of(where[:SHOWN]).tolist()
    problems.note(Problem(LabelError, wanted, kind, remedy, len(where), first, shown))


@functools.lru_cache(1 << 16)
def _read(text: str, unit: str) -> dt.datetime | str | None:
    """Return the moment that a text stands for, or the unit of which it is a label, if not this.

    A moment with an offset is in UTC. Labels of the unit stand for the beginning of their bin.
    """
    labelled = unit_of(text)
    if labelled is not None and labelled not in ("day", "hour"):
        return bin_start(text, unit) if labelled == unit else labelled
    return _moment(text)


def _moment(text: str) -> dt.datetime | None:
    """Return an ISO time, in UTC if it has an offset; None if the text is none."""
    loose = _LOOSE.fullmatch(text.strip())
    if loose:
        year, month, day, hour, rest, zone = loose.groups(default="")
        text = f"{year}-{month:0>2}-{day:0>2}"
        if hour:
            text += f"T{hour:0>2}{rest}{'Z' if zone == 'UTC' else zone}"
    try:
        time = dt.datetime.fromisoformat(text)
        return time.astimezone(dt.UTC) if time.tzinfo else time
    except (ValueError, OverflowError):
        return None
