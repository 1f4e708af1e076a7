"""Texts into a tensor of words, as the paper builds its author x word x year tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, listing
from tallyfold.data.bins import checked_bins
from tallyfold.data.counts import whole_counts
from tallyfold.data.dropped import Dropped
from tallyfold.data.encode import Column, encode_columns
from tallyfold.data.events import (
    frame_column,
    read_columns,
    tensor_from_rows,
)
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError, TallyfoldError

TWO_SIGNS = r"(?u)\b\w\w+\b"
"""What a word is unless said otherwise, as scikit-learn has it: two or more letters or digits."""


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
    _check_exploded(lists, labels)
    table, _ = read_columns(frame, [*labels, *([text] if text not in labels else [])])
    units = checked_bins(bins, labels)

    words_DV, words = counted_words(_texts(table, text), counter)
    columns = [frame_column(table, name, units.get(name)) for name in labels]
    return tensor_from_word_counts(words_DV, words, columns, names, lists, word_axis)


def tensor_from_word_counts(
    words_DV: Any,
    words: list[str],
    columns: Sequence[Column],
    names: Sequence[str],
    lists: Sequence[str],
    word_axis: str = "word",
) -> CountTensor:
    """Put counted words and the labels of their documents together, in the order of ``names``."""
    labels = [column.name for column in columns]
    n_documents = len(columns[0].values)
    if words_DV.shape != (n_documents, len(words)):
        raise ParameterError(
            f"`vectorizer` must return a row per text and a column per word, "
            f"{(n_documents, len(words))}; got {words_DV.shape}."
        )
    documents_R, columns = _exploded(columns, lists, n_documents)
    rows_N, words_N, counts_N = _cells_of_rows(words_DV, documents_R)

    label_codes, label_axes = encode_columns(labels, {c.name: c for c in columns}.__getitem__)
    codes = {name: code[rows_N] for name, code in zip(labels, label_codes, strict=True)}
    built = dict(zip(labels, label_axes, strict=True))
    codes[word_axis], built[word_axis] = words_N, Axis(word_axis, words)
    tensor = tensor_from_rows([built[n] for n in names], [codes[n] for n in names], counts_N)
    empty = int((np.diff(words_DV.indptr) == 0).sum())
    dropped = list(tensor.dropped)
    if empty:
        dropped.append(Dropped("no word left in the text", documents=empty))
    return CountTensor.of_canonical(tensor.axes, tensor.indices, tensor.counts, dropped)


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


def _check_exploded(lists: Sequence[str], labels: Sequence[str]) -> None:
    unknown = [name for name in lists if name not in labels]
    if unknown:
        raise ParameterError(
            f"`explode` names {listing(unknown)}, not among the axes {listing(list(labels))}."
        )


def _texts(table: Any, text: str) -> list[str]:
    texts: list[str] = table[text].to_list()
    bad = [row for row, value in enumerate(texts) if not isinstance(value, str)]
    if bad:
        raise DataError(
            f"column {text!r} must hold text; got {len(bad):,} rows without, at row {listing(bad)}."
            " Drop them, or fill in an empty text."
        )
    return texts


def counted_words(texts: Iterable[str], counter: Any) -> tuple[Any, list[str]]:
    """Count the words of each text: a sparse row per text, and the word of each column.

    The texts may be a stream: scikit-learn's own counter looks at each once and keeps none.
    """
    import scipy.sparse

    try:
        words_DV = scipy.sparse.csr_array(counter.fit_transform(texts))
        words = list(counter.get_feature_names_out())
    except TallyfoldError:  # from a stream of texts that was being read
        raise
    except AttributeError as error:
        raise ParameterError(
            "`vectorizer` must be an object with scikit-learn's fit_transform and "
            f"get_feature_names_out, such as CountVectorizer(); got {counter!r}."
        ) from error
    except (ValueError, TypeError) as error:  # scikit-learn says why: only stop words, ...
        raise DataError(f"no words could be counted in the texts: {error}") from error
    words_DV.sort_indices()
    return words_DV, words


def _exploded(
    columns: Sequence[Column], lists: Sequence[str], n_documents: int
) -> tuple[npt.NDArray[np.int64], list[Column]]:
    """Repeat documents so that each has one label per axis; return the document of each row."""
    rows = np.arange(n_documents)
    values = {column.name: column.values for column in columns}
    for name in lists:
        chunks = values[name]
        array = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            raise LabelError(
                f"column {name!r} must hold lists to be exploded; got {array.type}, such as "
                f"{listing(array[:2].to_pylist())}. Split the text into a list first."
            )
        lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        if (lengths == 0).any():
            where = np.flatnonzero(lengths == 0).tolist()
            raise LabelError(
                f"column {name!r} has {len(where):,} rows with no label, at row {listing(where)}. "
                "Drop them, or give each at least one."
            )
        repeat = np.repeat(np.arange(len(array)), lengths)
        rows = rows[repeat]
        values = {other: _taken(column, repeat) for other, column in values.items()}
        values[name] = array.flatten()
    return rows, [Column(c.name, values[c.name], c.unit, c.keep_order) for c in columns]


def _taken(column: Any, rows: npt.NDArray[np.int64]) -> Any:
    return column.take(pa.array(rows))


def _cells_of_rows(
    words_DV: Any, documents_R: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """List every (row, word, count): a document's words, once for each of its rows."""
    lengths_R = np.diff(words_DV.indptr)[documents_R]
    rows_N = np.repeat(np.arange(len(documents_R)), lengths_R)
    starts_R = words_DV.indptr[documents_R].astype(np.int64)
    within_N = np.arange(len(rows_N)) - np.repeat(np.cumsum(lengths_R) - lengths_R, lengths_R)
    places_N = np.repeat(starts_R, lengths_R) + within_N
    words_N = words_DV.indices[places_N].astype(np.int32, copy=False)
    counts_E = whole_counts(words_DV.data, name="what the vectorizer counts", row_word="entry")
    return rows_N, words_N, counts_E[places_N]
