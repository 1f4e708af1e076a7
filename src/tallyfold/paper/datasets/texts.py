"""Labelled texts into a tensor of word counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import pyarrow as pa

import tallyfold as tf
from tallyfold.data.documents import word_counter
from tallyfold.data.summary import Dropped
from tallyfold.errors import DataError, ParameterError
from tallyfold.paper.datasets.reader import LONE_SURROGATE, Reader

THREE_LETTERS = r"(?u)\b[^\W\d_]{3,}\b"
"""What a word is here: three or more letters, without digits. The case is ignored."""

StopWords = Literal["english"] | Sequence[str] | None


def counter_of(min_df: int | float, max_words: int | None, stop_words: StopWords) -> Any:
    """Return what counts the words of texts; refuse options that it cannot have."""
    return word_counter(min_df, max_words, stop_words, THREE_LETTERS)


def count_texts(
    reader: Reader,
    texts: Iterable[dict[str, Any]],
    axes: Sequence[str],
    counter: Any,
    authors: Authors | None = None,
) -> tf.CountTensor:
    """Count the words of documents, each a ``"text"`` and a label for every axis but the words.

    With `authors`, the labels of ``"author"`` are lists of keys that it gave. Memory goes with the
    documents that are kept, not with the files.
    """
    documents = list(texts)
    if not documents:
        raise DataError(reader.nothing_left())
    names = authors.labels() if authors is not None else {}
    for document in documents:
        document["text"] = LONE_SURROGATE.sub("?", document["text"])  # Arrow holds none
        if names:
            document["author"] = [names[key] for key in document["author"]]
    lists = ["author"] if names else []
    table = pa.Table.from_pylist(documents)
    return tf.CountTensor.from_documents(table, "text", axes, explode=lists, vectorizer=counter)


class Authors:
    """Tells authors apart by their identity where they have one, and shows them by name.

    Examples
    --------
    >>> authors = Authors()
    >>> keys = [authors.met("1", "Wei Wang"), authors.met("2", "Wei Wang"), authors.met("3", "Eva")]
    >>> list(authors.labels().values())
    ['Wei Wang (1)', 'Wei Wang (2)', 'Eva']
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def met(self, identity: str, name: str) -> tuple[str, str]:
        """Return the key of an author; the first name met with an identity is the one shown."""
        key = (identity, "") if identity else ("", name)
        self._names.setdefault(key, name or identity)
        return key

    def labels(self) -> dict[tuple[str, str], str]:
        """Return labels by key: the name, and the identity where others have that name."""
        namesakes = Counter(self._names.values())
        return {
            key: f"{name} ({key[0]})" if key[0] and namesakes[name] > 1 else name
            for key, name in self._names.items()
        }


def repeated_authors(number: int) -> Dropped:
    """Record authors whom a paper lists more than once."""
    return Dropped("an author listed twice counts once", labels={"repeated author": number})


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
