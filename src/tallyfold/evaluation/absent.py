"""Events that were expected and did not happen: the empty cells with the most probable counts.

All empty cells are looked at where they can be listed. Elsewhere it is a search: among cells drawn
near the counts, cells of the strongest labels of each component, cells of the combinations of
labels that were counted most often, and then the neighbours of the best of all these.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tallyfold.data.empty_cells import EmptyCells, are_empty
from tallyfold.data.hashing import cell_keys
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.chances import Cells, Occurrences
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.occurrence import CombinationCounts

LOOKED_AT = 300_000
"""About how many cells are looked at in each way."""
BEST = 300
"""Neighbours of at most this many of the best cells are looked at, in each of some rounds."""
ROUNDS = 4
KEPT = 5_000
"""At least so many of the best empty cells are kept."""


def likely_empty(
    occurrences: Occurrences, drawn: EmptyCells, x_Z: Floats, x_N: Floats, most: int
) -> tuple[Cells, Floats]:
    """Return distinct empty cells, the most probable counts first, with x, P(Y = 0) = exp(-x).

    Parameters
    ----------
    occurrences
        Of counts in the cells of a tensor.
    drawn, x_Z
        Empty cells of the tensor, all or drawn, with their x.
    x_N
        Those of its cells with a count.
    most
        How many are wanted.
    """
    tensor, most = occurrences.tensor, max(most, KEPT)
    cells_AM, x_A = _best(tensor, drawn.indices_ZM, x_Z, most)
    if drawn.exact:
        return cells_AM, x_A
    for proposed_DM in (_of_components(occurrences), _of_combinations(occurrences)):
        cells_AM, x_A = _with(occurrences, cells_AM, x_A, proposed_DM, most)
    n_best = min(BEST, max(LOOKED_AT // 300, 1))
    seeds_BM = tensor.indices[np.argsort(-x_N, kind="stable")[:n_best]]
    tried = cell_keys(seeds_BM, tensor.shape)
    for _ in range(ROUNDS):
        new_BM = cells_AM[~np.isin(cell_keys(cells_AM, tensor.shape), tried)][:n_best]
        seeds_BM = np.concatenate([seeds_BM, new_BM])
        tried = np.append(tried, cell_keys(new_BM, tensor.shape))
        cells_AM, x_A = _with(occurrences, cells_AM, x_A, _neighbours(tensor, seeds_BM), most)
        seeds_BM = seeds_BM[:0]
    return cells_AM, x_A


def _with(
    occurrences: Occurrences, cells_AM: Cells, x_A: Floats, proposed_DM: Cells, most: int
) -> tuple[Cells, Floats]:
    """Return the best of the cells and of those proposed that are empty."""
    proposed_DM = proposed_DM[are_empty(occurrences.tensor, proposed_DM)]
    cells_DM = np.concatenate([cells_AM, proposed_DM])
    x_D = np.concatenate([x_A, occurrences.at(proposed_DM)])
    return _best(occurrences.tensor, cells_DM, x_D, most)


def _best(tensor: CountTensor, cells_DM: Cells, x_D: Floats, most: int) -> tuple[Cells, Floats]:
    """Return the cells with the most probable counts, each once, the most probable first."""
    _, first = np.unique(cell_keys(cells_DM, tensor.shape), return_index=True)
    order = first[np.argsort(-x_D[first], kind="stable")][:most]
    return cells_DM[order], x_D[order]


def _of_components(occurrences: Occurrences) -> Cells:
    """Return cells of the strongest labels of every component."""
    tensor, factors = occurrences.tensor, occurrences.model.fitted_.factors
    if factors is None:
        return _none(tensor)
    n_labels = int((LOOKED_AT / factors.n_components) ** (1 / len(tensor.shape)))
    strongest = []
    for name in tensor.names:
        mean_DK, place_D = factors.mean(name), occurrences.places(name)
        own_DK = np.vstack([mean_DK, mean_DK.mean(axis=0)])[place_D]  # -1: an average entity
        strongest.append(np.argsort(-own_DK, axis=0, kind="stable")[:n_labels])
    return np.concatenate(
        [_product([order[:, k] for order in strongest]) for k in range(factors.n_components)]
    )


def _of_combinations(occurrences: Occurrences) -> Cells:
    """Return cells of the combinations with the most counts that the model knows of."""
    tensor, occurrence = occurrences.tensor, occurrences.model.fitted_.occurrence
    if occurrence is None:
        return _none(tensor)
    sets = [each for each in occurrence.sets if not each.mirrored]
    widest = max((len(each.axes) for each in sets), default=0)
    sets = [each for each in sets if len(each.axes) == widest]
    found = [_of_set(occurrences, each, LOOKED_AT // len(sets)) for each in sets]
    return np.concatenate([_none(tensor), *found])


def _of_set(occurrences: Occurrences, counts: CombinationCounts, most: int) -> Cells:
    tensor, names = occurrences.tensor, [axis.name for axis in occurrences.model.axes_]
    columns, known_P = [], np.ones(len(counts.keys_P), bool)
    where_P = np.unravel_index(counts.keys_P, counts.sizes)
    for axis, column_P in zip(counts.axes, where_P, strict=True):
        place_D = occurrences.places(names[axis])
        back_D = np.full(counts.sizes[counts.axes.index(axis)], -1, np.int32)
        back_D[place_D[place_D >= 0]] = np.flatnonzero(place_D >= 0)
        columns.append(back_D[column_P])
        known_P &= columns[-1] >= 0
    given = [tensor.axis_number(names[axis]) for axis in counts.axes]
    others = [axis for axis in range(len(tensor.shape)) if axis not in given]
    width = int(most ** (1 / (1 + len(others))))
    busiest = [_busiest(tensor, axis, width) for axis in others]
    number = most // max(int(np.prod([len(labels) for labels in busiest])), 1)
    order = np.argsort(-np.where(known_P, counts.counts_P, 0).astype(np.float64), kind="stable")[
        :number
    ]
    order = order[known_P[order]]
    rows_RM = _product([np.arange(len(order)), *busiest])
    cells_DM = np.empty((len(rows_RM), len(tensor.shape)), np.int32)
    for axis, place_P in zip(given, columns, strict=True):
        cells_DM[:, axis] = place_P[order][rows_RM[:, 0]]
    cells_DM[:, others] = rows_RM[:, 1:]
    return cells_DM


def _neighbours(tensor: CountTensor, cells_DM: Cells) -> Cells:
    """Return the cells that differ from some in one of the busiest labels of one axis."""
    n_labels = max(LOOKED_AT // max(len(cells_DM) * len(tensor.shape), 1), 1)
    found = [_none(tensor)]
    for axis in range(len(tensor.shape)):
        labels = _busiest(tensor, axis, n_labels)
        near_DM = np.repeat(cells_DM, len(labels), axis=0)
        near_DM[:, axis] = np.tile(labels, len(cells_DM))
        found.append(near_DM)
    return np.concatenate(found)


def _busiest(tensor: CountTensor, axis: int, number: int) -> npt.NDArray[np.intp]:
    """Return the labels of an axis that have the most cells."""
    cells_D = np.bincount(tensor.indices[:, axis], minlength=tensor.shape[axis])
    return np.argsort(-cells_D, kind="stable")[:number]


def _product(labels: Sequence[npt.NDArray[np.intp]]) -> Cells:
    """Return all cells of some labels of every axis."""
    grid = np.meshgrid(*labels, indexing="ij")
    return np.stack([each.ravel() for each in grid], axis=1).astype(np.int32)


def _none(tensor: CountTensor) -> Cells:
    return np.empty((0, len(tensor.shape)), np.int32)
