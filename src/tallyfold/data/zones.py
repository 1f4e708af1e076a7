"""Time zones: which there are, and what their clocks show."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import zoneinfo
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import listing
from tallyfold.errors import LabelError, ParameterError

Ints = npt.NDArray[np.int64]

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST = (dt.datetime(1, 1, 3, tzinfo=dt.UTC) - _EPOCH).days * DAY
_LAST = (dt.datetime(9999, 12, 29, tzinfo=dt.UTC) - _EPOCH).days * DAY
"""Between these Python knows the offset of a zone."""


def checked_zone(tz: str | None) -> str | None:
    """Return a time zone that is known, None for UTC; refuse others, with what is like them."""
    if tz is None or tz == "UTC":
        return None
    known = zoneinfo.available_timezones()
    if isinstance(tz, str) and tz in known:
        return tz
    words = {zone.rpartition("/")[2].casefold(): zone for zone in sorted(known)}
    words |= {zone.casefold(): zone for zone in sorted(known)}
    asked = str(tz).casefold().replace(" ", "_")
    near = [words[word] for word in difflib.get_close_matches(asked, words, n=3)]
    hint = f" Did you mean {listing([*dict.fromkeys(near)])}?" if near else ""
    raise ParameterError(
        f"`tz` must be the name of a time zone, such as 'Europe/Berlin' or 'UTC'; got {tz!r}.{hint}"
    )


def local_times(times: pa.Array | pa.ChunkedArray, tz: str | None) -> Any:
    """Return moments by the clock of a zone, without it; times without a zone are that already.

    Arrow's own conversion knows no summer time past 2037, so offsets are Python's: of a day, if it
    ends as it begins, or else of each of its seconds.

    Examples
    --------
    >>> moments = pa.array([dt.datetime(2024, 6, 1, 22, 30)], pa.timestamp("us", "UTC"))
    >>> local_times(moments, "Europe/Berlin").to_pylist()
    [datetime.datetime(2024, 6, 2, 0, 30)]
    """
    if not times.type.tz:
        return times
    unit = times.type.unit
    plain = times.cast(pa.timestamp(unit))  # as it is in UTC
    if tz is None:
        return plain
    try:
        zoneinfo.ZoneInfo(tz)
    except (KeyError, ValueError, OSError) as error:
        raise LabelError(
            f"times are to be seen from the zone {tz!r}, which this machine does not know. Bring "
            "its time zones up to date: pip install -U tzdata."
        ) from error
    if isinstance(plain, pa.ChunkedArray):
        plain = plain.combine_chunks()
    missing_N = plain.is_null().to_numpy(zero_copy_only=False)
    numbers_N = plain.cast(pa.int64()).fill_null(0).to_numpy()
    shifted_N = numbers_N + _offsets(numbers_N // PER_SECOND[unit], tz) * PER_SECOND[unit]
    return pa.array(shifted_N, mask=missing_N).cast(pa.timestamp(unit))


def _offsets(seconds_N: Ints, tz: str) -> Ints:
    """Return the seconds by which a zone is ahead of UTC at moments in seconds since 1970."""
    days_D, day_N = np.unique(seconds_N // DAY, return_inverse=True)
    begins_D = np.array([_offset(tz, int(day) * DAY) for day in days_D], np.int64)
    ends_D = np.array([_offset(tz, int(day + 1) * DAY) for day in days_D], np.int64)
    offset_N = begins_D[day_N]
    changing_C = np.flatnonzero((begins_D != ends_D)[day_N])
    if len(changing_C):
        distinct, place_C = np.unique(seconds_N[changing_C], return_inverse=True)
        offset_N[changing_C] = np.array([_offset(tz, int(s)) for s in distinct], np.int64)[place_C]
    return offset_N


@functools.lru_cache(1 << 16)
def _offset(tz: str, second: int) -> int:
    """Return the seconds by which a zone is ahead of UTC at a moment in seconds since 1970."""
    moment = _EPOCH + dt.timedelta(seconds=min(max(second, _FIRST), _LAST))
    offset = moment.astimezone(zoneinfo.ZoneInfo(tz)).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
