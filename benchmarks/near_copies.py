"""A split that hides a word from all copies of a text at once.

Co-authors carry copies of one abstract: when a cell of one is hidden and that of the other is not,
a model that finds the copy has the answer. Fibres (author, year) whose words have a tf-idf cosine
above one half, directly or by way of others, are one group, and all cells of a group and a word
go to the same part.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import norm

from tallyfold.data.split import Split

ALIKE = 0.5


def split_copies(tensor, test_size, *, axis, random_state):
    """Hold out a share of the pairs of a group of near copies and a label of `axis`."""
    word_N = tensor.indices[:, tensor.axis_number(axis)]
    group_N = groups(tensor, axis)
    pair_N = group_N * tensor.shape[tensor.axis_number(axis)] + word_N
    pairs, number_N = np.unique(pair_N, return_inverse=True)
    hidden = np.random.default_rng(random_state).random(len(pairs)) < test_size
    return Split(tensor.with_cells(~hidden[number_N]), tensor.with_cells(hidden[number_N]))


def groups(tensor, axis):
    """Return for each cell the group of near copies that its fibre along `axis` belongs to."""
    number = tensor.axis_number(axis)
    others = np.delete(tensor.indices, number, axis=1)
    fibres, fibre_N = np.unique(others, axis=0, return_inverse=True)
    shape = len(fibres), tensor.shape[number]
    counts_FD = sparse.csr_array(
        (tensor.counts, (fibre_N, tensor.indices[:, number])), shape, float
    )
    rarity_D = np.log(len(fibres) / np.maximum(tensor.marginal(axis, "nonzeros"), 1))
    weights_FD = counts_FD.multiply(rarity_D[None]).tocsr()
    length_F = np.maximum(norm(weights_FD, axis=1), 1e-12)
    unit_FD = sparse.diags_array(1 / length_F) @ weights_FD
    blocks = [unit_FD[at : at + 1000] @ unit_FD.T > ALIKE for at in range(0, len(fibres), 1000)]
    _, group_F = connected_components(sparse.vstack(blocks), directed=False)
    return group_F[fibre_N].astype(np.int64)
