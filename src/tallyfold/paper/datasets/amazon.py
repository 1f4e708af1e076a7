"""Amazon's videos: the words of user x video x word, and the stars of user x video x day."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

import tallyfold as tf
from tallyfold.data.summary import Dropped
from tallyfold.data.time_units import UNITS, BinUnit
from tallyfold.errors import DataError, DroppedWarning, ParameterError, warn
from tallyfold.paper.datasets import records
from tallyfold.paper.datasets.reader import Reader, Unfit, one_file
from tallyfold.paper.datasets.texts import StopWords, count_texts

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("user", "item", "rating", "timestamp")
KEYS = ("reviewerID", "asin", "overall", "unixReviewTime")
YEAR_10000 = 253_402_300_800
_ITEM = re.compile(r"B[0-9A-Z]{9}|[0-9]{9}[0-9X]")
_USER = re.compile(r"A[0-9A-Z]{9,20}")


Rating = tuple[str, str, int, int]
"""User, video, stars, and the time in seconds since 1970."""


def build_video_review(
    reader: Reader,
    files: Sequence[Path],
    *,
    min_df: int | float = 1,
    max_words: int | None = 4205,
    stop_words: StopWords = "english",
) -> tf.CountTensor:
    """Count the words of each user's review of each video."""
    texts = _reviews(reader, one_file(files, "reviews"))
    words = (min_df, max_words, stop_words)
    return count_texts(reader, texts, ["user", "video", "word"], words)


def _reviews(reader: Reader, file: Path) -> Iterator[dict[str, Any]]:
    for review in reader.parsed(reader.lines(file), _review):
        if review["text"]:
            yield review
        else:
            reader.leave_out("without a text")


def _review(line: str) -> dict[str, Any]:
    record = records.object_of(line, KEYS[:2])
    text = html.unescape(records.text_of(record, "reviewText"))  # &quot; is no word
    user, video = (records.checked_label(record[key], key) for key in KEYS[:2])
    return {"text": text, "user": user, "video": video}


def build_video_rating(
    reader: Reader,
    files: Sequence[Path],
    *,
    unit: BinUnit = "day",
    columns: Sequence[str] = COLUMNS,
) -> tf.CountTensor:
    """Take the stars that a user gave a video in a day (or another unit of time).

    ``columns`` is the order of the columns of a ratings CSV, which has no header. Where a user
    rated a video several times in a unit, the last rating stands: stars must not be added up.
    """
    import pandas as pd

    if unit not in UNITS:
        raise ParameterError(f"`unit` must be one of {', '.join(UNITS)}; got {unit!r}.")
    order = list(columns) if not isinstance(columns, str) else []
    if sorted(order) != sorted(COLUMNS):
        raise ParameterError(
            f"`columns` must be {', '.join(COLUMNS)} in the order of the file; got {columns!r}."
        )
    ratings = pd.DataFrame(
        _ratings(reader, one_file(files, "ratings or reviews"), order),
        columns=["user", "video", "stars", "time"],
    )
    if ratings.empty:
        raise DataError(reader.nothing_left())
    table = _latest(reader, ratings, unit)
    bins: dict[str, BinUnit] = {unit: unit}
    return tf.CountTensor.from_frame(table, ["user", "video", unit], "stars", bins=bins)


def _latest(reader: Reader, ratings: pd.DataFrame, unit: str) -> pa.Table:
    """Return the last rating of each cell, with the beginning of its unit of time."""
    times = pa.array(ratings["time"]).cast(pa.timestamp("s"))
    starts = pc.floor_temporal(times, unit=unit, week_starts_monday=True)
    ratings["start"] = starts.cast(pa.int64()).to_numpy()
    ratings = ratings.sort_values("time", kind="stable")
    replaced = ratings.duplicated(["user", "video", "start"], keep="last")
    if replaced.any():
        stars = int(ratings["stars"][replaced].sum())
        reason = f"a later rating of the same user, video and {unit} replaces it"
        reader.record(Dropped(reason, cells=int(replaced.sum()), total=stars))
        were = "rating was" if replaced.sum() == 1 else "ratings were"
        warn(
            f"{replaced.sum():,} {were} left out, because the same user rated the same video again "
            f"in the same {unit}: the last one stands. See `dropped`.",
            DroppedWarning,
        )
    table = pa.Table.from_pandas(ratings[~replaced], preserve_index=False)
    return table.append_column(unit, table["start"].cast(pa.timestamp("s")))


def _ratings(reader: Reader, file: Path, order: Sequence[str]) -> Iterator[Rating]:
    if ".csv" not in file.name.lower():
        return reader.parsed(reader.lines(file), _from_object)
    return records.csv_records(reader, file, order, partial(_from_row, order), header=False)


def _from_object(line: str) -> Rating:
    record = records.object_of(line, KEYS)
    return _rating([record[key] for key in KEYS], KEYS)


def _from_row(order: Sequence[str], fields: list[str]) -> Rating:
    row = dict(zip(order, fields, strict=True))
    if _ITEM.fullmatch(row["user"]) and _USER.fullmatch(row["item"]):
        raise Unfit(
            f"seems to have the item {row['user']!r} before the user {row['item']!r}, as files of "
            "2018 do: say columns=['item', 'user', 'rating', 'timestamp'] then."
        )
    return _rating([row[name] for name in COLUMNS], COLUMNS)


def _rating(values: Sequence[object], names: Sequence[str]) -> Rating:
    user, item, stars, time = values
    return (
        records.checked_label(user, names[0]),
        records.checked_label(item, names[1]),
        records.whole_number(stars, names[2], 1, 5),
        records.whole_number(time, names[3], 0, YEAR_10000 - 1),
    )
