"""Seeds that the cells themselves give: which labels of one axis stand in the same baskets.

A basket is what one combination of the other axes has of an axis: the words of a document. Axes of
a few labels (the kind of place in a document) do not divide it. Baskets x labels, weighted by
tf-idf of the logarithms of counts, is factored into non-negative components from a fixed start, so
that the same cells always give the same ones. What they say of every label, how its counts are
divided among components, is a seed of all labels at once; what the baskets have of components says
where labels of the other axes start.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.posterior.likeness import overlaps

PASSES = 200
MOST_CELLS = 5_000_000
"""With more, some of the baskets are looked at."""
FEW_LABELS = 8
"""Axes with no more labels do not divide baskets, if there are others."""
LEAST_SHARE = 1e-3
"""Of a factor, relative to an even share: what starts at zero would stay there."""
LEAST_LIFT, MOST_LIFT = 0.2, 8.0
"""Between which labels start, relative to the others, where components have seeds elsewhere."""


@dataclass(frozen=True)
class FoundSeeds:
    """How the counts of labels are divided among components, and where all axes start.

    Attributes
    ----------
    axis
        Whose labels.
    share_DK
        Which part of a label's counts is of each component; a label of none has zeros.
    starts
        For each axis, factors to start from, relative to an even share (labels x components).
    """

    axis: int
    share_DK: Floats
    starts: tuple[Floats, ...]

    def matched(self, starts: Sequence[Floats]) -> FoundSeeds:
        """Return the same components in the order of those that starts are nearest to.

        Components that start at random (NaN) come last.
        """
        wanted_DK = np.nan_to_num(starts[self.axis])
        wanted_DK = wanted_DK / np.maximum(wanted_DK.sum(axis=1, keepdims=True), 1e-300)
        alike_LK = overlaps([wanted_DK], [self.share_DK])
        rows, columns = linear_sum_assignment(alike_LK, maximize=True)
        share_DK = np.zeros_like(wanted_DK)
        share_DK[:, rows] = self.share_DK[:, columns]
        return FoundSeeds(self.axis, share_DK, tuple(starts))


def find_seeds(
    cells: TrainingCells, axis: int | None, n_components: int, n_all: int
) -> FoundSeeds | None:
    """Find seeds of an axis; None takes the one with the largest baskets.

    Of the `n_all` components the first `n_components` have them, or fewer, if there are not as many
    labels or baskets; the others start at random. None: there is nothing to find.
    """
    indices_NM = cells.group.all_gather(cells.indices_NM)
    counts_N = cells.group.all_gather(cells.counts_N)
    others = [_dividing(own, cells.shape) for own in range(cells.n_axes)]
    if axis is None:
        numbers = [_baskets(indices_NM, axes, cells.shape) for axes in others]
        axis = int(np.argmin([basket_N.max(initial=-1) for basket_N in numbers]))
        basket_N = numbers[axis]
    else:
        basket_N = _baskets(indices_NM, others[axis], cells.shape)
    step = -(-len(basket_N) // MOST_CELLS)
    if step > 1:
        looked_N = basket_N % step == 0
        indices_NM, counts_N = indices_NM[looked_N], counts_N[looked_N]
        basket_N = basket_N[looked_N] // step
    if not len(basket_N):
        return None
    table_BD = sparse.csr_matrix(
        (counts_N.astype(np.float64), (basket_N, indices_NM[:, axis])),
        (int(basket_N.max()) + 1, cells.shape[axis]),
    )
    looked_at = np.ones(len(basket_N))
    mass_KD = _divided(table_BD, min(n_components, *table_BD.shape))
    share_DK = np.zeros((cells.shape[axis], n_all))
    share_DK[:, : len(mass_KD)] = (mass_KD / np.maximum(mass_KD.sum(axis=0), 1e-300)).T
    starts = []
    for own, size in enumerate(cells.shape):
        own_DK = share_DK
        if own != axis:
            pairs = (indices_NM[:, own], indices_NM[:, axis])
            times_DV = sparse.csr_matrix((looked_at, pairs), (size, len(share_DK)))
            own_DK = np.asarray(times_DV @ share_DK)
        starts.append(_start(own_DK, len(mass_KD), by_label=own == axis))
    return FoundSeeds(axis, share_DK, tuple(starts))


def _dividing(own: int, shape: Sequence[int]) -> list[int]:
    """Return the axes whose combinations are baskets of an axis.

    Examples
    --------
    >>> _dividing(1, (539, 5463, 3)), _dividing(0, (539, 3))
    ([0], [1])
    """
    others = [axis for axis in range(len(shape)) if axis != own]
    return [axis for axis in others if shape[axis] > FEW_LABELS] or others


def _baskets(
    indices_NM: Positions, axes: Sequence[int], shape: Sequence[int]
) -> npt.NDArray[np.int64]:
    """Return the number of each cell's combination of labels of some axes, in their order."""
    number_N = np.zeros(len(indices_NM), dtype=np.int64)
    for axis in axes:
        key_N = number_N * shape[axis] + indices_NM[:, axis]
        number_N = np.unique(key_N, return_inverse=True)[1].astype(np.int64)
    return number_N


def _divided(table_BD: sparse.csr_matrix, n_components: int) -> Floats:
    """Return the weight that each component has in all baskets together, by label."""
    from sklearn.decomposition import NMF
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_extraction.text import TfidfTransformer

    weigher = TfidfTransformer(sublinear_tf=True)
    model = NMF(n_components, init="nndsvda", max_iter=PASSES, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weight_BK = model.fit_transform(weigher.fit_transform(table_BD))
    return np.asarray(model.components_ * weight_BK.sum(axis=0)[:, None])


def _start(own_DK: Floats, n_found: int, *, by_label: bool) -> Floats:
    """Return how far each label's shares are above even ones; NaN for components not found."""
    found_DK = own_DK[:, :n_found]
    sum_D1 = found_DK.sum(axis=1, keepdims=True)
    found_DK = np.where(sum_D1 > 0, found_DK / np.maximum(sum_D1, 1e-300), 1 / n_found)
    if by_label:
        start_DK = np.maximum(found_DK * n_found, LEAST_SHARE)
    else:
        above_DK = found_DK / np.maximum(found_DK.mean(axis=0), 1e-300)
        start_DK = np.clip(above_DK, LEAST_LIFT, MOST_LIFT)
    return np.pad(start_DK, ((0, 0), (0, own_DK.shape[1] - n_found)), constant_values=float(np.nan))
