"""Cells that are nearly copies of each other, so that parts of a split can keep them together."""

from __future__ import annotations

import numpy as np

from tallyfold.data.groups import CellGroups
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError

FIBRES_AT_ONCE = 1000


def groups_along(tensor: CountTensor, axis: str | None) -> CellGroups | None:
    """Return the groups of near copies along an axis; None without one."""
    return None if axis is None else near_copies(tensor, axis)


def near_copies(tensor: CountTensor, axis: str, *, similarity: float = 0.5) -> CellGroups:
    """Return a group for each cell: copies of one cell have the same.

    Co-authors carry the words of one abstract. When a cell of one is held out and that of the other
    is not, a model that finds the copy has the answer: scores say how well copies are found. Give
    the groups to `split` and to `fit`, and copies are held out together.

    Parameters
    ----------
    tensor
        The counts.
    axis
        The axis along which copies agree, such as the words of a text. Fibres, the cells that
        differ on this axis only, are alike if the cosine of their counts, weighted by how rare a
        label is (tf-idf), is above `similarity`; so are all that are joined by a chain of such.
    similarity
        Between 0 and 1.

    Returns
    -------
    CellGroups
        As an array, a number for each non-zero cell: cells of alike fibres with the same label on
        `axis` have the same. `of` gives the number of any cell.

    Examples
    --------
    >>> import tallyfold as tf, pandas as pd
    >>> texts = {"ann": ["model", "data"], "bob": ["model", "data"], "eve": ["cat"]}
    >>> rows = [(who, word) for who, words in texts.items() for word in words]
    >>> frame = pd.DataFrame(rows, columns=["who", "word"])
    >>> tensor = tf.CountTensor.from_frame(frame, axes=["who", "word"])
    >>> ann, bob, eve = np.asarray(near_copies(tensor, "word"))[[0, 2, 4]]
    >>> bool(ann == bob), bool(ann == eve)  # ann and bob wrote the same
    (True, False)
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    if not 0 < similarity < 1:
        raise ParameterError(f"`similarity` must be between 0 and 1; got {similarity!r}.")
    number = tensor.axis_number(axis)
    others = np.delete(tensor.indices, number, axis=1)
    fibres, fibre_N = np.unique(others, axis=0, return_inverse=True)
    label_N, size = tensor.indices[:, number], tensor.shape[number]
    rarity_D = np.log(1 + len(fibres) / np.maximum(tensor.marginal(axis, "nonzeros"), 1))
    weight_N = tensor.counts * rarity_D[label_N]
    length_F = np.sqrt(np.bincount(fibre_N, weight_N**2))
    unit_FD = sparse.csr_array(
        (weight_N / length_F[fibre_N], (fibre_N, label_N)), (len(fibres), size)
    )
    starts = range(0, len(fibres), FIBRES_AT_ONCE)
    alike = [unit_FD[at : at + FIBRES_AT_ONCE] @ unit_FD.T > similarity for at in starts]
    joined_FF = sparse.vstack([part.astype(np.int8) for part in alike])
    _, group_F = connected_components(joined_FF, directed=False)
    return CellGroups(tensor.axes, tensor.indices, axis, group_F[fibre_N].astype(np.int64))
