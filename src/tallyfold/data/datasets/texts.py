"""A stream of labelled texts into a tensor of word counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

from tallyfold.data.datasets.labels import LabelCodes, Relabel
from tallyfold.data.datasets.reader import Reader
from tallyfold.data.documents import counted_words, tensor_from_word_counts, word_counter
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError

THREE_LETTERS = r"(?u)\b[^\W\d_]{3,}\b"
"""What a word is here: three or more letters, without digits. The case is ignored."""

StopWords = Literal["english"] | Sequence[str] | None


class Text(NamedTuple):
    """One document: its text, and its label (or labels) on each axis but that of words."""

    text: str
    labels: Sequence[Any]


def count_texts(
    reader: Reader,
    texts: Iterable[Text],
    axes: Sequence[str],
    *,
    lists: Sequence[str] = (),
    relabel: Mapping[str, Relabel] | None = None,
    min_df: int | float,
    max_words: int | None,
    stop_words: StopWords,
) -> CountTensor:
    """Count the words of texts, each of which is seen once and not kept.

    Memory goes with the different words of each document that is kept, not with the files.
    """
    counter = word_counter(min_df, max_words, stop_words, THREE_LETTERS)
    names = [name for name in axes if name != "word"]
    codes = [LabelCodes() for _ in names]
    stream = iter(texts)
    first = next(stream, None)
    if first is None:
        raise DataError(reader.nothing_left())
    words_DV, words = counted_words(
        _taking_labels(chain([first], stream), codes, [name in lists for name in names]), counter
    )
    columns = [
        code.column(name, (relabel or {}).get(name))
        for name, code in zip(names, codes, strict=True)
    ]
    return tensor_from_word_counts(words_DV, words, columns, axes, lists)


def _taking_labels(
    texts: Iterable[Text], codes: Sequence[LabelCodes], is_list: Sequence[bool]
) -> Iterator[str]:
    """Pass the texts on and keep their labels."""
    for text, labels in texts:
        for code, label, several in zip(codes, labels, is_list, strict=True):
            if several:
                code.extend(label)
            else:
                code.append(label)
        yield text


def checked_years(years: Any) -> tuple[int, int]:
    """Return the first and last year to keep; None keeps all."""
    if years is None:
        return -(10**9), 10**9
    pair = tuple(years) if isinstance(years, Sequence) and not isinstance(years, str) else ()
    if len(pair) != 2 or not all(type(year) is int for year in pair) or pair[0] > pair[1]:
        raise ParameterError(
            f"`years` must be the first and the last year to keep, such as (2003, 2016), or None; "
            f"got {years!r}."
        )
    return pair[0], pair[1]
