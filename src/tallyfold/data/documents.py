"""Texts into a tensor of words, as the paper builds its author x word x year tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, listing
from tallyfold.data.bins import checked_bins
from tallyfold.data.cells import whole_counts
from tallyfold.data.events import frame_column, read_columns, tensor_from_rows
from tallyfold.data.labels import Column, encode_columns
from tallyfold.data.request import Request
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError

TWO_SIGNS = r"(?u)\b\w\w+\b"
"""What a word is by default, as in scikit-learn: two or more letters, digits or underscores."""


def word_counter(
    min_df: int | float, max_words: int | None, stop_words: Any, pattern: str = TWO_SIGNS
) -> Any:
    """Return scikit-learn's counter of words with our names for its parameters."""
    from sklearn.feature_extraction.text import CountVectorizer

    if isinstance(stop_words, str) and stop_words != "english":
        raise ParameterError(
            f"`stop_words` must be 'english', a list of words or None; got {stop_words!r}."
        )
    if stop_words is not None and not isinstance(stop_words, str):
        stop_words = list(stop_words)
    whole = isinstance(min_df, int | np.integer) and min_df >= 1
    if not whole and not (isinstance(min_df, float) and 0 <= min_df <= 1):
        raise ParameterError(
            "`min_df` must be a number of documents (an integer from 1 on) or a share of them (a "
            f"number in [0, 1]); got {min_df!r}."
        )
    if max_words is not None and (not isinstance(max_words, int | np.integer) or max_words < 1):
        raise ParameterError(f"`max_words` must be a positive integer or None; got {max_words!r}.")
    return CountVectorizer(
        min_df=min_df, max_features=max_words, stop_words=stop_words, token_pattern=pattern
    )


def tensor_from_documents(
    frame: Any,
    text: str,
    axes: Sequence[str],
    *,
    explode: str | Sequence[str],
    word_axis: str,
    counter: Any,
    bins: Mapping[str, str] | None,
) -> CountTensor:
    """Count the words of texts; see `CountTensor.from_documents`."""
    names = _axis_order(axes, word_axis)
    labels = [name for name in names if name != word_axis]
    lists = [explode] if isinstance(explode, str) else list(explode)
    unknown = [name for name in lists if name not in labels]
    if unknown:
        raise ParameterError(
            f"`explode` names {listing(unknown)}, not among the axes {listing(labels)}."
        )
    table, _ = read_columns(frame, Request([*dict.fromkeys([*labels, text])]))
    units = checked_bins(bins, labels)

    words_DV, words = _counted_words(_texts(table, text), counter)
    columns = {name: frame_column(table, name, units.get(name)) for name in labels}
    documents_R = _explode(columns, lists, len(table))
    words_RV = words_DV[documents_R]
    rows_N = np.repeat(np.arange(len(documents_R)), np.diff(words_RV.indptr))
    label_codes, label_axes = encode_columns(labels, columns.__getitem__)
    codes = {name: code[rows_N] for name, code in zip(labels, label_codes, strict=True)}
    built = dict(zip(labels, label_axes, strict=True))
    codes[word_axis], built[word_axis] = words_RV.indices, Axis(word_axis, words)
    tensor = tensor_from_rows([built[n] for n in names], [codes[n] for n in names], words_RV.data)
    empty = int((np.diff(words_DV.indptr) == 0).sum())
    dropped = [Dropped("no word left in the text", documents=empty)] if empty else []
    return CountTensor.of_canonical(
        tensor.axes, tensor.indices, tensor.counts, [*tensor.dropped, *dropped]
    )


def _axis_order(axes: Sequence[str], word_axis: str) -> list[str]:
    if isinstance(axes, str):
        raise ParameterError(f"`axes` must be a list of column names; got the text {axes!r}.")
    names = list(axes)
    if word_axis not in names:
        names.insert(1, word_axis)
    if len(set(names)) < len(names) or len(names) < 2:
        raise ParameterError(
            f"`axes` must name at least one column besides {word_axis!r}, each once; got "
            f"{listing(list(axes))}."
        )
    return names


def _texts(table: Any, text: str) -> list[str]:
    texts: list[str] = table[text].to_list()
    bad = [row for row, value in enumerate(texts) if not isinstance(value, str)]
    if bad:
        raise DataError(
            f"column {text!r} must hold text; got {len(bad):,} rows without, at row {listing(bad)}."
            " Drop them, or fill in an empty text."
        )
    return texts


def _counted_words(texts: list[str], counter: Any) -> tuple[Any, list[str]]:
    """Count the words of each text: a sparse row per text, and the word of each column."""
    import scipy.sparse

    try:
        words_DV = scipy.sparse.csr_array(counter.fit_transform(texts))
        words = list(counter.get_feature_names_out())
    except AttributeError as error:
        raise ParameterError(
            "`vectorizer` must be an object with scikit-learn's fit_transform and "
            f"get_feature_names_out, such as CountVectorizer(); got {counter!r}."
        ) from error
    except (ValueError, TypeError) as error:  # scikit-learn says why: only stop words, ...
        raise DataError(f"no words could be counted in the texts: {error}") from error
    if words_DV.shape != (len(texts), len(words)):
        raise ParameterError(
            f"`vectorizer` must return a row per text and a column per word, "
            f"{(len(texts), len(words))}; got {words_DV.shape}."
        )
    words_DV.data = whole_counts(words_DV.data, name="what the vectorizer counts", row_word="entry")
    return words_DV, words


def _explode(
    columns: dict[str, Column], lists: Sequence[str], n_documents: int
) -> npt.NDArray[np.int64]:
    """Give each document a row per label of its lists, in place; return each row's document."""
    documents_R = np.arange(n_documents)
    for name in lists:
        chunks = columns[name].values
        array = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            raise LabelError(
                f"column {name!r} must hold lists to be exploded; got {array.type}, such as "
                f"{listing(array[:2].to_pylist())}. Split the text into a list first."
            )
        empty = np.flatnonzero(array.value_lengths().fill_null(0).to_numpy() == 0).tolist()
        if empty:
            raise LabelError(
                f"column {name!r} has {len(empty):,} rows with no label, at row {listing(empty)}. "
                "Drop them, or give each at least one."
            )
        parents = pc.list_parent_indices(array)
        documents_R = documents_R[parents]
        for other, column in columns.items():
            values = array.flatten() if other == name else column.values.take(parents)
            columns[other] = replace(column, values=values)
    return documents_R
