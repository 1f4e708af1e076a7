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
from tallyfold.data.axis_order import Ordered
from tallyfold.data.bins import checked_bins
from tallyfold.data.cells import whole_counts
from tallyfold.data.declared_order import checked_ordered, with_order
from tallyfold.data.events import frame_column, read_columns, tensor_from_rows
from tallyfold.data.labels import Column, encode_columns
from tallyfold.data.missing import OTHER_WAYS, MissingRows, check_present
from tallyfold.data.problems import Problems, RowNumbers
from tallyfold.data.request import Request, check_choices
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.data.time_units import Bins
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
    bins: Bins | None,
    tz: str | None,
    ordered: Ordered | None,
    missing: str,
) -> CountTensor:
    """Count the words of texts; see `CountTensor.from_documents`."""
    names, cuts = checked_bins(bins, _named_axes(axes, word_axis), tz)
    if word_axis not in names or word_axis in cuts:
        raise ParameterError(f"`bins` names {word_axis!r}, the axis of words, which are no times.")
    declared = checked_ordered(ordered, names, cuts)
    labels = [name for name in names if name != word_axis]
    lists = [explode] if isinstance(explode, str) else list(explode)
    unknown = [name for name in lists if name not in labels]
    if unknown:
        raise ParameterError(
            f"`explode` names {listing(unknown)}, not among the axes {listing(labels)}."
        )
    check_choices("sum", missing)
    wanted = [*dict.fromkeys([*labels, text])]
    request = Request(wanted, None, cuts, missing=missing)
    table, request = read_columns(frame, request)
    columns = {name: frame_column(table, name, request) for name in labels}
    _check_lists(columns, lists)
    if missing == "label":
        columns |= {name: _with_nothing(columns[name]) for name in lists}
    rows_N: npt.NDArray[np.integer] = np.arange(len(table))
    dropped: list[Dropped] = []
    if missing == "drop":
        rows_N, dropped = _without_missing(columns, lists, text, table[text].is_null().to_list())

    problems, texts = Problems(), list[str]()
    with problems.gathered():
        texts = _texts(table, text, rows_N)
    _check_labels(columns, lists, problems)
    words_DV, words = _counted_words(texts, counter)
    documents_R = _explode(columns, lists, len(rows_N))
    words_RV = words_DV[documents_R]
    rows_N = np.repeat(np.arange(len(documents_R)), np.diff(words_RV.indptr))
    label_codes, label_axes = encode_columns(labels, columns.__getitem__)
    codes = {name: code[rows_N] for name, code in zip(labels, label_codes, strict=True)}
    built = dict(zip(labels, label_axes, strict=True))
    codes[word_axis], built[word_axis] = words_RV.indices, Axis(word_axis, words)
    empty = int((np.diff(words_DV.indptr) == 0).sum())
    if empty:
        dropped.append(Dropped("no word left in the text", documents=empty))
    in_order = [built[n] for n in names], [codes[n] for n in names]
    return with_order(tensor_from_rows(*in_order, words_RV.data, dropped=dropped), declared)


def _named_axes(axes: Sequence[str], word_axis: str) -> list[str]:
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


def _texts(table: Any, text: str, rows_N: npt.NDArray[np.integer]) -> list[str]:
    """Return the texts of some rows; refuse what is none."""
    column = table[text].to_list()
    bad = [int(row) for row in rows_N if not isinstance(column[row], str)]
    if bad:
        raise DataError(
            f"column {text!r} must hold text; got {len(bad):,} rows without, at row {listing(bad)}."
            " Leave out those that are missing with missing='drop', or fill in an empty text."
        )
    return [column[row] for row in rows_N]


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


def _check_lists(columns: Mapping[str, Column], lists: Sequence[str]) -> None:
    for name in lists:
        kind = columns[name].values.type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise LabelError(
                f"column {name!r} must hold lists to be exploded; got {kind}, such as "
                f"{listing(columns[name].values[:2].to_pylist())}. Split the text into a list "
                "first."
            )


def _check_labels(columns: Mapping[str, Column], lists: Sequence[str], problems: Problems) -> None:
    """Refuse documents without a label, and all else that is wrong with them."""
    for name, column in columns.items():
        if name not in lists and not column.named:
            check_present(column.values, name, "row", column.rows, problems)
    for name in lists:
        lengths = pc.fill_null(pc.list_value_length(columns[name].values), 0)
        empty = np.flatnonzero(lengths.to_numpy() == 0).tolist()
        with problems.gathered():
            if empty:
                raise LabelError(
                    f"column {name!r} has {len(empty):,} rows with no label, at row "
                    f"{listing(empty)}. {OTHER_WAYS}"
                )
    problems.raise_all()


def _without_missing(
    columns: dict[str, Column], lists: Sequence[str], text: str, no_text: Sequence[bool]
) -> tuple[npt.NDArray[np.integer], list[Dropped]]:
    """Leave out, in place, documents that lack something; return which stay, and the record."""
    gone = {}
    given = {name: column.values for name, column in columns.items()}
    for name in lists:
        before = columns[name].values.to_pylist()
        after = [[label for label in each or [] if label is not None] for each in before]
        gone[name] = sum(len(each or []) for each in before) - sum(map(len, after))
        columns[name] = replace(columns[name], values=pa.array(after, given[name].type))
        given[name] = pa.array([each or None for each in after])
    given[text] = pa.array([None if absent else True for absent in no_text])
    lacking = MissingRows()
    rows_N = np.flatnonzero(lacking.kept(given.items()))
    lacking.check_some_left(len(rows_N))
    for name, column in columns.items():
        columns[name] = replace(
            column, values=column.values.take(pa.array(rows_N)), rows=RowNumbers(0, rows_N)
        )
    inside = [Dropped("missing inside lists", labels=gone)] if any(gone.values()) else []
    return rows_N, [*lacking.records("documents"), *inside]


def _with_nothing(column: Column) -> Column:
    """Return a column of lists of which each has a label, be it a missing one."""
    values = [each or [None] for each in column.values.to_pylist()]
    return replace(column, values=pa.array(values, column.values.type))


def _explode(
    columns: dict[str, Column], lists: Sequence[str], n_documents: int
) -> npt.NDArray[np.int64]:
    """Give each document a row per label of its lists, in place; return each row's document."""
    documents_R = np.arange(n_documents)
    for name in lists:
        chunks = columns[name].values
        array = chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks
        parents = pc.list_parent_indices(array)
        documents_R = documents_R[parents]
        for other, column in columns.items():
            values = array.flatten() if other == name else column.values.take(parents)
            numbers = RowNumbers(0, column.rows.of(parents.to_numpy()))
            columns[other] = replace(column, values=values, rows=numbers)
    return documents_R
