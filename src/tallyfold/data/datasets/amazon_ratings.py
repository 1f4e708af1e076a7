"""Amazon video ratings: the stars of user x video x day."""

from __future__ import annotations

import re
import warnings
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.bins import UNITS
from tallyfold.data.datasets.amazon_reviews import PAGE, TERMS
from tallyfold.data.datasets.entry import Dataset
from tallyfold.data.datasets.labels import LabelCodes
from tallyfold.data.datasets.raw_files import one_file
from tallyfold.data.datasets.reader import Reader, Unfit
from tallyfold.data.datasets.records import checked_label, csv_rows, object_of, whole_number
from tallyfold.data.dropped import Dropped
from tallyfold.data.encode import Column, encode_columns
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.tensor import BinUnit, CountTensor
from tallyfold.errors import DataError, DroppedWarning, ParameterError

COLUMNS = ("user", "item", "rating", "timestamp")
KEYS = ("reviewerID", "asin", "overall", "unixReviewTime")
YEAR_10000 = 253_402_300_800
_ITEM = re.compile(r"B[0-9A-Z]{9}|[0-9]{9}[0-9X]")
_USER = re.compile(r"A[0-9A-Z]{9,20}")


class Rating(NamedTuple):
    """One rating; the time in seconds since 1970."""

    user: str
    item: str
    stars: int
    time: int


def build_video_rating(
    reader: Reader,
    files: Sequence[Path],
    *,
    unit: BinUnit = "day",
    columns: Sequence[str] = COLUMNS,
) -> CountTensor:
    """Take the stars that a user gave a video in a day (or another unit of time).

    ``columns`` is the order of the columns of a ratings CSV, which has no header.
    """
    if unit not in UNITS:
        raise ParameterError(f"`unit` must be one of {', '.join(UNITS)}; got {unit!r}.")
    order = list(columns) if not isinstance(columns, str) else []
    if sorted(order) != sorted(COLUMNS):
        raise ParameterError(
            f"`columns` must be {', '.join(COLUMNS)} in the order of the file; got {columns!r}."
        )
    users, videos, stars, times = LabelCodes(), LabelCodes(), array("b"), array("q")
    for rating in _ratings(reader, one_file(files, "ratings or reviews"), order):
        users.append(rating.user)
        videos.append(rating.item)
        stars.append(rating.stars)
        times.append(rating.time)
    if not stars:
        raise DataError(reader.nothing_left())
    seconds = pa.array(np.frombuffer(times, np.int64)).cast(pa.timestamp("s"))
    made = [users.column("user"), videos.column("video"), Column(unit, seconds, unit)]
    return _latest(reader, made, np.frombuffer(stars, np.int8), np.frombuffer(times, np.int64))


def _latest(
    reader: Reader,
    columns: Sequence[Column],
    stars_R: npt.NDArray[np.int8],
    times_R: npt.NDArray[np.int64],
) -> CountTensor:
    """Keep the last rating of each cell: stars of two ratings must not be added up."""
    codes, axes = encode_columns(
        [column.name for column in columns], {c.name: c for c in columns}.__getitem__
    )
    keys: list[npt.NDArray[Any]] = [np.arange(len(times_R)), times_R, *reversed(codes)]
    order = np.lexsort(keys)  # by cell, then by time, then by place in the file
    changes = np.stack([np.diff(code[order], append=-1) != 0 for code in codes])
    last = changes.any(axis=0)
    if not last.all():
        earlier = stars_R[order[~last]]
        _say_repeated(reader, len(earlier), int(earlier.sum(dtype=np.int64)), columns[2].name)
    kept = order[last]
    return tensor_from_rows(axes, [code[kept] for code in codes], stars_R[kept].astype(np.int64))


def _say_repeated(reader: Reader, number: int, stars: int, unit: str) -> None:
    reason = f"a later rating of the same user, video and {unit} replaces it"
    reader.record(Dropped(reason, cells=number, total=stars))
    were = "rating was" if number == 1 else "ratings were"
    warnings.warn(
        f"{number:,} {were} left out, because the same user rated the same video again in the same "
        f"{unit}: the last one stands. See `dropped`.",
        DroppedWarning,
        stacklevel=5,
    )


def _ratings(reader: Reader, file: Path, order: Sequence[str]) -> Iterator[Rating]:
    if ".csv" not in file.name.lower():
        return reader.parsed(reader.lines(file), _from_object)
    rows = csv_rows(reader, file, order, header=False)
    return reader.parsed(rows, lambda row: _from_row(dict(zip(order, row, strict=True))))


def _from_object(line: str) -> Rating:
    record = object_of(line, KEYS)
    return _rating([record[key] for key in KEYS], KEYS)


def _from_row(row: dict[str, str]) -> Rating:
    if _ITEM.fullmatch(row["user"]) and _USER.fullmatch(row["item"]):
        raise Unfit(
            f"seems to have the item {row['user']!r} before the user {row['item']!r}, as files of "
            "2018 do: say columns=['item', 'user', 'rating', 'timestamp'] then."
        )
    return _rating([row[name] for name in COLUMNS], COLUMNS)


def _rating(values: Sequence[object], names: Sequence[str]) -> Rating:
    user, item, stars, time = values
    return Rating(
        checked_label(user, names[0]),
        checked_label(item, names[1]),
        whole_number(stars, names[2], 1, 5),
        whole_number(time, names[3], 0, YEAR_10000 - 1),
    )


VIDEO_RATING = Dataset(
    title="Amazon video ratings",
    what="The stars, 1 to 5, that a user gave a video on a day.",
    axes=("user", "video", "day"),
    shape=(22_088, 13_689, 2465),
    nonzeros=133_087,
    origin=PAGE,
    terms=TERMS,
    files=("ratings_*.csv", "ratings_*.csv.gz", "reviews_*.json.gz", "reviews_*.json"),
    steps=(
        "From the 2014 edition of the Amazon product data, download the ratings of Amazon Instant "
        "Video: ratings_Amazon_Instant_Video.csv (a file of reviews does as well).",
        "tallyfold datasets build video-rating ratings_Amazon_Instant_Video.csv --out "
        "ratings.parquet --min-nonzeros user=3",
    ),
    remarks=(
        "The file has more users than the paper's tensor, and the paper does not say which it "
        "kept: --min-nonzeros and --top choose. Where a user rated a video twice on a day, the "
        "last rating stands; stars are never added up. Fit with zeros='missing'. A public "
        "stand-in is MovieTweetings (MIT licence): stars 1 to 10 of user x film x day."
    ),
    build=build_video_rating,
)
