"""Sums over the other labels of a basket: how much they speak for a label.

A basket is a set of labels that have a count together, such as all a household bought on a day.
Each label has a short list of others, its neighbours, with weights.
"""

from importlib import import_module

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.kernels.backends import announce_compilation, chosen_backend

SMALL_WORK = 20_000
"""Cells below which ``"auto"`` means NumPy; both give the same bits."""
CELLS_AT_ONCE = 1 << 14


def basket_sums(
    row_N: Ints,
    label_N: Positions,
    indptr_P1: Ints,
    labels_E: Positions,
    near_DL: Positions,
    weight_DL: Floats,
    *,
    backend: str = "auto",
) -> Floats:
    """Return, for each cell, the sum of the weights of its label's neighbours in its basket.

    Parameters
    ----------
    row_N, label_N
        The basket and the label of each cell; -1 for one that is not known, whose sum is zero.
    indptr_P1, labels_E
        Basket p has the labels ``labels_E[indptr_P1[p]:indptr_P1[p + 1]]``, in ascending order.
    near_DL, weight_DL
        The neighbours of each label, in ascending order, and their weights.

    Examples
    --------
    >>> near, weight = np.array([[1], [0]], dtype=np.int32), np.array([[0.5], [0.2]])
    >>> baskets = np.array([0, 1]), np.array([1], dtype=np.int32)
    >>> cells = np.array([0, 0]), np.array([0, 1], dtype=np.int32)
    >>> basket_sums(*cells, *baskets, near, weight).tolist()  # label 1 is no neighbour of itself
    [0.5, 0.0]
    """
    given = row_N, label_N, indptr_P1, labels_E, near_DL, weight_DL
    if chosen_backend(backend, small=len(row_N) < SMALL_WORK) != "numba":
        return reference_sums(*given)
    announce_compilation()
    fused = import_module("tallyfold.kernels.fused.neighbours")
    return np.asarray(fused.basket_sums(*given))


def reference_sums(
    row_N: Ints,
    label_N: Positions,
    indptr_P1: Ints,
    labels_E: Positions,
    near_DL: Positions,
    weight_DL: Floats,
) -> Floats:
    """Do the same in SciPy, some cells at a time."""
    from scipy import sparse

    n_labels, length = near_DL.shape
    n_columns = max(n_labels, int(labels_E.max(initial=-1)) + 1)
    ones_E = np.ones(len(labels_E))
    baskets = sparse.csr_matrix((ones_E, labels_E, indptr_P1), (len(indptr_P1) - 1, n_columns))
    ends = np.arange(n_labels + 1) * length
    lists = (weight_DL.ravel(), near_DL.ravel(), ends)
    weights = sparse.csr_matrix(lists, (n_labels, n_columns))
    sum_N = np.zeros(len(row_N))
    known = np.flatnonzero((row_N >= 0) & (label_N >= 0) & (label_N < n_labels))
    for start in range(0, len(known), CELLS_AT_ONCE):
        some = known[start : start + CELLS_AT_ONCE]
        both = baskets[row_N[some]].multiply(weights[label_N[some]]).tocsr()
        both.sort_indices()
        sum_N[some] = np.asarray(both @ np.ones(n_columns))
    return sum_N
