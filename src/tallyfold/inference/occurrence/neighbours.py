"""Weights of the labels of a basket for each other, by ridge regression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.kernels.blas import one_blas_thread
from tallyfold.kernels.margins import key_counts
from tallyfold.posterior.derived_axis import combination_keys, countable
from tallyfold.posterior.neighbours import Neighbours

PENALTY = 100.0
"""Of the ridge, in baskets; from 20 to 500 scores differ in the third digit."""
MOST_LABELS = 4096
"""The labels with the most cells: the regression takes the cube of their number."""
MOST_NEAR = 100
"""Neighbours that a label keeps."""
LEAST_IN_BASKET = 2.0
"""Cells of a basket, on average, for its labels to say something of each other."""
MOST_PAIRS = 3e8
"""Pairs of labels in baskets that are counted; larger data count those of some baskets."""


def found_neighbours(
    indices_NM: Positions,
    shape: Sequence[int],
    share: float,
    gate: Sequence[int],
    seed: int,
    n_baskets: Callable[[tuple[int, ...]], int] | None = None,
) -> Neighbours | None:
    """Return the neighbours of the axis outside of the gate, whose pairs are the baskets.

    Among several such axes it is the shortest one whose baskets have two labels and more, on
    average; None if none has. `n_baskets` says how many combinations axes have, if that is known.
    """
    axes = [m for m in np.argsort(shape, kind="stable").tolist() if m not in gate]
    for axis in axes:
        others = [m for m in range(len(shape)) if m != axis]
        if shape[axis] < 3 or not countable([shape[m] for m in others]):
            continue
        empty = np.zeros(0, dtype=np.int64)
        lists = np.zeros((shape[axis], 0), dtype=np.int32), np.zeros((shape[axis], 0))
        bare = Neighbours(
            axis, tuple(shape), share, empty, np.zeros(1, np.int64), empty.astype(np.int32), *lists
        )
        if n_baskets is None:
            sizes = [shape[m] for m in others]
            number = len(key_counts(combination_keys(indices_NM, others, sizes))[0])
        else:
            number = n_baskets(tuple(others))
        if number * LEAST_IN_BASKET <= len(indices_NM):
            return _with_weights(bare.filled(indices_NM, share), seed)
    return None


def _with_weights(baskets: Neighbours, seed: int) -> Neighbours:
    n_labels = baskets.sizes[baskets.axis]
    cells_D = np.bincount(baskets.labels_E, minlength=n_labels)
    kept = np.sort(np.argsort(-cells_D, kind="stable")[:MOST_LABELS])
    weight_QQ = ridge_weights(_gram(baskets, kept, seed), PENALTY)
    length = min(MOST_NEAR, len(kept) - 1)
    near_QL = np.argpartition(-np.abs(weight_QQ), length - 1, axis=1)[:, :length]
    near_QL.sort(axis=1)
    near_DL = np.tile(np.arange(length, dtype=np.int32), (n_labels, 1))
    weight_DL = np.zeros((n_labels, length))
    near_DL[kept] = kept[near_QL]
    weight_DL[kept] = np.take_along_axis(weight_QQ, near_QL, axis=1)
    return replace(baskets, near_DL=near_DL, weight_DL=weight_DL)


def _gram(baskets: Neighbours, kept: Ints, seed: int) -> Floats:
    """Return in how many baskets two labels are together; of some baskets, if there are many."""
    from scipy import sparse

    place_D = np.full(baskets.sizes[baskets.axis], -1)
    place_D[kept] = np.arange(len(kept))
    place_E = place_D[baskets.labels_E]
    row_E = np.repeat(np.arange(len(baskets.keys_P)), np.diff(baskets.indptr_P1))
    inside_E = place_E >= 0
    size_P = np.bincount(row_E[inside_E], minlength=len(baskets.keys_P)).astype(np.float64)
    order_P = np.random.default_rng([seed, 17]).permutation(len(size_P))
    within_P = np.empty(len(size_P), dtype=bool)
    within_P[order_P] = np.cumsum(size_P[order_P] ** 2) <= MOST_PAIRS
    inside_E &= within_P[row_E]
    ones_E = np.ones(int(inside_E.sum()))
    cells = (ones_E, (row_E[inside_E], place_E[inside_E]))
    baskets_PQ = sparse.csr_matrix(cells, (len(size_P), len(kept)))
    scale = len(size_P) / max(int(within_P.sum()), 1)
    return np.asarray((baskets_PQ.T @ baskets_PQ).toarray() * scale)


def ridge_weights(gram_QQ: Floats, penalty: float) -> Floats:
    """Return, in each row, the weights of all labels for one, none for itself.

    Row i is the ridge regression of label i on all others: minus the inverse of the penalised Gram
    matrix, its rows divided by its diagonal.

    Examples
    --------
    >>> ridge_weights(np.array([[4.0, 2.0], [2.0, 3.0]]), 1.0).round(2).tolist()
    [[0.0, 0.5], [0.4, 0.0]]
    """
    from scipy.linalg.lapack import dpotrf, dpotri

    penalised_QQ = np.array(gram_QQ, order="F")
    penalised_QQ[np.diag_indices_from(penalised_QQ)] += penalty
    with one_blas_thread():
        root_QQ, _ = dpotrf(penalised_QQ, lower=1, overwrite_a=1)
        inverse_QQ, _ = dpotri(root_QQ, lower=1, overwrite_c=1)
    lower_QQ = np.tril(inverse_QQ, -1)
    weight_QQ = -(lower_QQ + lower_QQ.T) / np.diag(inverse_QQ)[:, None]
    np.fill_diagonal(weight_QQ, 0.0)
    return np.asarray(weight_QQ)
