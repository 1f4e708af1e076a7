"""How often words stand in the same documents: what coherence is measured against."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy import sparse

from tallyfold.data.axis import Axis, listing
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError, ShapeError
from tallyfold.kernels.arrays import Array, Floats, Ints
from tallyfold.models.parameters import NONE, check_parameters, integer, number

EPSILON = number(0, 0.01) | NONE
AT_ONCE = 2**22
"""Pairs of words that are counted at once, needed or not."""
_log = logging.getLogger("tallyfold")


@cache
def _say_part() -> None:
    """Say once that documents of which words are hidden make words seem further apart."""
    _log.warning(
        "the reference of words is a part of all cells: words that are in another part are taken "
        "for absent from their documents, and coherence misleads. Take the whole that was split."
    )


@dataclass(frozen=True)
class Cooccurrence:
    """In how many documents words are, alone and together.

    Use `from_documents`, `from_tensor` or `from_counts` to make one.

    Attributes
    ----------
    words
        The words, as an axis.
    counts_V
        The number of documents with each word.
    n_documents
        The number of documents.

    Examples
    --------
    >>> texts = [["poisson", "count"], ["poisson", "count", "rate"], ["rate"]]
    >>> reference = Cooccurrence.from_documents(texts)
    >>> reference.npmi(["poisson", "count"]), round(reference.npmi(["poisson", "rate"]), 3)
    (1.0, -0.262)
    """

    words: Axis
    counts_V: Ints
    n_documents: int
    documents_DV: Any = None
    pairs_VV: Any = None

    # -- making one -------------------------------------------------------------------------------

    @classmethod
    def from_documents(
        cls, documents: Any, labels: Sequence[Any] | None = None, *, window: int | None = None
    ) -> Cooccurrence:
        """Count the documents of a corpus.

        Parameters
        ----------
        documents
            Lists of words, one for each document; or a matrix of counts, documents x words, as an
            array or of scipy.sparse.
        labels
            The words of a matrix's columns; for lists of words, those to count (None: all).
        window
            For lists of words: take every run of `window` words for a document of its own, as
            gensim's ``c_npmi`` does with 10. A shorter document is one window.
        """
        # an array of words is no matrix of counts
        dense = isinstance(documents, np.ndarray) and documents.dtype.kind in "biuf"
        if sparse.issparse(documents) or (dense and documents.ndim == 2):
            if labels is None or window is not None:
                raise ParameterError("a matrix of documents needs `labels`, and has no `window`.")
            return cls._of_matrix(documents, Axis("word", labels))
        matrix, words = _token_documents(documents, labels, window)
        return cls._of_matrix(matrix, Axis("word", words))

    @classmethod
    def from_tensor(
        cls, tensor: CountTensor, word: str = "word", document: Sequence[str] | None = None
    ) -> Cooccurrence:
        """Count the documents of a tensor.

        Parameters
        ----------
        tensor
            Counts with an axis of words.
        word
            The name of that axis.
        document
            The axes whose labels make up a document, such as ``["author", "year"]``: each
            combination with a count is one. None takes all axes but the words.
        """
        import pandas as pd

        if not isinstance(tensor, CountTensor):
            raise ParameterError(f"expected a CountTensor; got {type(tensor).__name__}.")
        if tensor.part is not None and tensor.part.share < 1:
            _say_part()
        column = tensor.indices[:, tensor.axis_number(word)]
        if isinstance(document, str):
            document = [document]
        names = (
            [name for name in tensor.names if name != word] if document is None else list(document)
        )
        if not names or word in names:
            raise ParameterError(
                f"`document` must name axes other than {word!r}, at least one; got {names}."
            )
        labels = pd.DataFrame(tensor.indices[:, [tensor.axis_number(name) for name in names]])
        row = labels.groupby(list(labels)).ngroup().to_numpy()
        shape = (int(row.max()) + 1 if len(row) else 0, len(tensor.axis(word)))
        ones = np.ones(tensor.nnz, np.int64)
        matrix = sparse.coo_array((ones, (row, column)), shape)
        return cls._of_matrix(matrix, tensor.axis(word))

    @classmethod
    def from_counts(
        cls, pairs: Any, counts: npt.ArrayLike, n_documents: int, labels: Sequence[Any]
    ) -> Cooccurrence:
        """Take counts from elsewhere: an encyclopedia, say.

        Parameters
        ----------
        pairs
            A symmetric matrix, sparse or not: the number of documents with both words.
        counts
            The number of documents with each word.
        n_documents
            The number of documents.
        labels
            The words.
        """
        words, pairs = Axis("word", labels), sparse.csr_array(pairs)
        counts_V = np.asarray(counts)
        if pairs.shape != (len(words), len(words)) or counts_V.shape != (len(words),):
            raise ShapeError(
                f"{len(words):,} labels need {len(words):,} counts and a square matrix of pairs; "
                f"got {counts_V.shape} and {pairs.shape}."
            )
        _check_counts(pairs, counts_V, n_documents)
        return cls(words, counts_V, int(n_documents), pairs_VV=pairs)

    @classmethod
    def _of_matrix(cls, documents: Any, words: Axis) -> Cooccurrence:
        if documents.shape[1] != len(words):
            raise ShapeError(
                f"each column needs a label: got {documents.shape[1]:,} columns and {len(words):,} "
                "labels."
            )
        if documents.shape[0] == 0:
            raise DataError("there is no document.")
        matrix = sparse.csr_array(documents)
        matrix.sum_duplicates()
        if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
            raise DataError("the counts of words in documents must be numbers of at least 0.")
        matrix.eliminate_zeros()
        ones = np.ones(matrix.nnz, np.int32)  # whatever the counts
        matrix = sparse.csr_array((ones, matrix.indices, matrix.indptr), matrix.shape)
        counts_V = np.asarray(matrix.sum(axis=0), np.int64).ravel()
        return cls(words, counts_V, matrix.shape[0], documents_DV=matrix)

    # -- asking -----------------------------------------------------------------------------------

    def npmi(self, words: Iterable[Any], *, epsilon: float | None = None) -> float:
        """Return the mean normalised pointwise mutual information of all pairs of some words.

        Parameters
        ----------
        words
            At least two words.
        epsilon
            None gives pairs never seen together -1, which NPMI tends to. A number is added to the
            chance of a pair, as gensim does with 1e-12: such pairs then have values above -1 that
            depend on it.
        """
        check_parameters({"epsilon": epsilon}, {"epsilon": EPSILON})
        words = list(words)
        if len(words) < 2:
            raise ParameterError(f"coherence needs at least two words; got {len(words)}.")
        place = self.words.positions(words)
        nowhere = np.flatnonzero(self.counts_V[place] == 0)
        if len(nowhere):
            raise DataError(f"no document has the word {listing([words[n] for n in nowhere])}.")
        first, second = np.array(list(combinations(place, 2))).T
        return float(np.mean(self.pair_npmi(first, second, epsilon=epsilon)))

    def pair_npmi(self, first_P: Array, second_P: Array, *, epsilon: float | None = None) -> Floats:
        """Return the NPMI of pairs of words, given by their positions."""
        both_P = self.pair_counts(first_P, second_P) / self.n_documents
        alone_2P = np.log(self.counts_V[np.stack([first_P, second_P])] / self.n_documents)
        both_P = both_P + (epsilon or 0.0)
        npmi_P = np.where(both_P > 0, 0.0, -1.0)  # 0 for words that every document has
        some_P = (both_P > 0) & (both_P < 1)
        log_both_P = np.log(both_P[some_P])
        npmi_P[some_P] = (log_both_P - alone_2P[0, some_P] - alone_2P[1, some_P]) / -log_both_P
        return npmi_P

    def pair_counts(self, first_P: Array, second_P: Array) -> Ints:
        """Return in how many documents pairs of words are, given by their positions."""
        if self.pairs_VV is not None:
            return np.asarray(self.pairs_VV[first_P, second_P]).ravel()
        counts_P = np.zeros(len(first_P), np.int64)
        rows, place_P = np.unique(first_P, return_inverse=True)
        width = max(1, AT_ONCE // len(self.words))
        for start in range(0, len(rows), width):
            together = self._documents_VD[rows[start : start + width]] @ self.documents_DV
            inside = np.flatnonzero((place_P >= start) & (place_P < start + width))
            counts_P[inside] = together.toarray()[place_P[inside] - start, second_P[inside]]
        return counts_P

    @cached_property
    def _documents_VD(self) -> Any:
        return self.documents_DV.T.tocsr()


def _check_counts(pairs: Any, counts_V: Array, n_documents: int) -> None:
    """Refuse counts that cannot all come from the same documents."""
    if abs(pairs - pairs.T).sum() > 0:
        raise DataError("the matrix of pairs must be symmetric: a pair has no order.")
    together = pairs.tocoo()
    apart = together.row != together.col  # the diagonal is not asked for
    least = np.minimum(counts_V[together.row], counts_V[together.col])[apart]
    fits = np.all((together.data[apart] >= 0) & (together.data[apart] <= least))
    if not (fits and np.all((counts_V >= 0) & (counts_V <= n_documents))):
        raise DataError(
            "counts must be at least 0, those of words at most `n_documents`, and those of pairs "
            "at most those of their words. Do all three come from the same documents?"
        )


def _token_documents(
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
        width = min(window or len(found), len(found))  # a shorter document is one window
        parts_RW = sliding_window_view(np.array(found, np.int64), width)
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
