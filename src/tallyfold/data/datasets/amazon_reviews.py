"""Amazon video reviews: user x video x word."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from pathlib import Path

from tallyfold.data.datasets.entry import Dataset
from tallyfold.data.datasets.raw_files import one_file
from tallyfold.data.datasets.reader import Reader
from tallyfold.data.datasets.records import label_of, object_of, text_of
from tallyfold.data.datasets.texts import StopWords, Text, count_texts
from tallyfold.data.tensor import CountTensor

PAGE = "Julian McAuley's Amazon product data (http://jmcauley.ucsd.edu/data/amazon)"
TERMS = "No licence is stated. The page asks users to cite its papers: take it as research use."


def build_video_review(
    reader: Reader,
    files: Sequence[Path],
    *,
    min_df: int | float = 1,
    max_words: int | None = 4205,
    stop_words: StopWords = "english",
) -> CountTensor:
    """Count the words of each user's review of each video."""
    return count_texts(
        reader,
        _texts(reader, one_file(files, "reviews")),
        ["user", "video", "word"],
        min_df=min_df,
        max_words=max_words,
        stop_words=stop_words,
    )


def _texts(reader: Reader, file: Path) -> Iterator[Text]:
    for text in reader.parsed(reader.lines(file), _review):
        if text.text:
            yield text
        else:
            reader.leave_out("without a text")


def _review(line: str) -> Text:
    record = object_of(line, ("reviewerID", "asin"))
    text = html.unescape(text_of(record, "reviewText"))  # &quot; is no word
    return Text(text, [label_of(record, "reviewerID"), label_of(record, "asin")])


VIDEO_REVIEW = Dataset(
    title="Amazon video reviews",
    what="How often a user's review of a video uses a word.",
    axes=("user", "video", "word"),
    shape=(5130, 1685, 4205),
    nonzeros=1_269_654,
    origin=PAGE,
    terms=TERMS,
    files=("reviews_*.json.gz", "reviews_*.json"),
    steps=(
        "From the 2014 edition of the Amazon product data, download the 5-core reviews of Amazon "
        "Instant Video: reviews_Amazon_Instant_Video_5.json.gz.",
        "tallyfold datasets build video-review reviews_Amazon_Instant_Video_5.json.gz --out "
        "reviews.parquet",
    ),
    remarks=(
        "The 5-core file has the paper's 5,130 users and 1,685 videos. The paper does not say how "
        "words were chosen; here they are the 4,205 most frequent of three or more letters, "
        "without English stop words."
    ),
    build=build_video_review,
)
