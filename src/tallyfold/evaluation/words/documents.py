"""Documents as a matrix that tells which words they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.models.parameters import NONE, check_parameters, integer

Ints = npt.NDArray[np.int64]


def boolean_matrix(documents: Any) -> Any:
    """Return ones where documents (rows) have words (columns), whatever their counts."""
    matrix = sparse.csr_array(documents)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
        raise DataError("the counts of words in documents must be numbers of at least 0.")
    matrix.eliminate_zeros()
    ones = np.ones(matrix.nnz, np.int32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), matrix.shape)


def token_documents(
    documents: Iterable[Sequence[Any]], labels: Sequence[Any] | None, window: int | None
) -> tuple[Any, list[Any]]:
    """Return the matrix of documents, or of their windows, and the words of its columns."""
    check_parameters({"window": window}, {"window": integer(1) | NONE})
    column_of = {} if labels is None else {label: n for n, label in enumerate(labels)}
    rows, columns, n_rows = [], [], 0
    for document in documents:
        if isinstance(document, str | bytes):
            raise ParameterError(
                "documents must be lists of words; got a text. Split it: text.lower().split()."
            )
        if labels is None:
            found = [column_of.setdefault(token, len(column_of)) for token in document]
        else:
            found = [column_of.get(token, -1) for token in document]
        parts_RW = _windows(np.array(found, np.int64), window)
        rows.append(np.repeat(np.arange(n_rows, n_rows + len(parts_RW)), parts_RW.shape[1]))
        columns.append(parts_RW.ravel())
        n_rows += len(parts_RW)
    if not column_of:
        raise DataError("the documents have no word.")
    row, column = np.concatenate(rows), np.concatenate(columns)
    known = column >= 0
    ones = np.ones(int(known.sum()), np.int64)
    shape = (n_rows, len(column_of))
    return sparse.coo_array((ones, (row[known], column[known])), shape), list(column_of)


def tensor_documents(tensor: CountTensor, word: str, document: Sequence[str] | None) -> Any:
    """Return the matrix of a tensor's documents: combinations of labels with a count."""
    if not isinstance(tensor, CountTensor):
        raise ParameterError(f"expected a CountTensor; got {type(tensor).__name__}.")
    column = tensor.indices[:, tensor.axis_number(word)]
    if isinstance(document, str):
        document = [document]
    names = [name for name in tensor.names if name != word] if document is None else list(document)
    if not names or word in names:
        raise ParameterError(
            f"`document` must name axes other than {word!r}, at least one; got {names}."
        )
    row = np.zeros(tensor.nnz, np.int64)
    for name in names:
        number = tensor.axis_number(name)
        # numbered afresh after each axis, so that products of long axes cannot overflow
        _, row = np.unique(
            row * tensor.shape[number] + tensor.indices[:, number], return_inverse=True
        )
    shape = (int(row.max()) + 1 if len(row) else 0, len(tensor.axis(word)))
    return sparse.coo_array((np.ones(tensor.nnz, np.int64), (row, column)), shape)


def _windows(words_L: Ints, window: int | None) -> npt.NDArray[np.int64]:
    """Return the runs of a document, one per row; all of it where it is no longer than one."""
    if window is None or len(words_L) <= window:
        return words_L[None]
    return np.lib.stride_tricks.sliding_window_view(words_L, window)
