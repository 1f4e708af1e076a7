"""Which combinations of axes get multipliers, and where the cells stand among them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.kernels.arrays import Ints, Whole
from tallyfold.posterior.derived_axis import (
    DerivedAxis,
    combination_keys,
    countable,
    rows_of_keys,
)
from tallyfold.posterior.gamma_posterior import GammaTable

Cells = Whole

LEAST_KNOWN = 0.01
"""Combinations of which less than this share of held-out cells was seen cannot help."""
CELLS_AT_ONCE = 1 << 22
SAMPLED = 64
"""One combination of this many is counted to estimate their number."""
MOST_COMBINATIONS = 20_000_000
"""Sets of axes with more combinations are left out: nearly each would be seen once."""
WORTH_SELECTING = 0.8
"""If more training cells than this share matter, all are taken."""


@dataclass(frozen=True)
class Combinations:
    """The combinations of some axes among training and held-out cells.

    Attributes
    ----------
    axes, sizes, keys_P
        As in `DerivedAxis`.
    row_N, held_row_V
        The rows of training and of held-out cells; the last one is for combinations never seen.
    used_N
        The training cells whose combination some held-out cell shares: all that training needs.
    known_share
        Of how many held-out cells the combination was seen in training.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    row_N: Cells
    held_row_V: Ints
    used_N: Ints | slice
    known_share: float

    @classmethod
    def of(
        cls,
        axes: Sequence[int],
        shape: Sequence[int],
        cells_NM: Cells,
        held_VM: Cells,
        group: ProcessGroup = ALONE,
    ) -> Combinations:
        """Find the combinations of the training cells, and where held-out cells share them."""
        sizes = tuple(shape[axis] for axis in axes)
        key_N = combination_keys(cells_NM, axes, sizes)
        keys_P, row_N = np.unique(key_N, return_inverse=True)
        if group.size > 1:  # each knows its own cells' keys; all number the keys of all
            all_P = np.unique(group.all_gather(keys_P))
            row_N, keys_P = rows_of_keys(keys_P, all_P)[row_N], all_P
        row_N = row_N.astype(np.int32 if len(keys_P) < 2**31 else np.int64)
        held_V = rows_of_keys(combination_keys(held_VM, axes, sizes), keys_P)
        hit_P1 = group.all_reduce(np.bincount(held_V, minlength=len(keys_P) + 1) * 1.0) > 0
        known_share = 1 - group.all_reduce_number(float(np.sum(held_V == len(keys_P)))) / max(
            group.all_reduce_number(len(held_V)), 1
        )
        hit_N = hit_P1[row_N]
        few = len(hit_N) > 0 and hit_N.mean() < WORTH_SELECTING
        used_N = np.flatnonzero(hit_N) if few else slice(None)
        return cls(tuple(axes), sizes, keys_P, row_N, held_V, used_N, known_share)

    @property
    def n_rows(self) -> int:
        """The combinations seen, and one for all others."""
        return len(self.keys_P) + 1

    def derived_axis(self) -> DerivedAxis:
        """Return the axis before anything is learnt: every multiplier is one."""
        ones_P1 = np.ones((self.n_rows, 1))
        return DerivedAxis(self.axes, self.sizes, self.keys_P, GammaTable(ones_P1, ones_P1))


def _estimated_number(
    axes: Sequence[int], sizes: Sequence[int], cells_NM: Cells, group: ProcessGroup
) -> float:
    """Estimate the number of combinations, without sorting all keys, if there may be too many.

    Of each combination all cells are in the sample, or none.
    """
    most = min(math.prod(sizes), group.all_reduce_number(len(cells_NM)))
    if most <= MOST_COMBINATIONS:
        return most
    sample = [np.empty(0, dtype=np.int64)]
    for start in range(0, len(cells_NM), CELLS_AT_ONCE):
        key_N = combination_keys(cells_NM[start : start + CELLS_AT_ONCE], axes, sizes)
        scrambled_N = (key_N.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
        sample.append(key_N[scrambled_N % np.uint64(SAMPLED) == 0])
    return float(SAMPLED * len(np.unique(group.all_gather(np.concatenate(sample)))))


def candidate_axes(n_axes: int, shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the sets of axes worth trying: pairs, and all axes but one."""
    sizes = sorted({2, n_axes - 1}) if n_axes > 2 else []
    subsets = [subset for size in sizes for subset in combinations(range(n_axes), size)]
    return [subset for subset in subsets if countable([shape[axis] for axis in subset])]


def useful_combinations(
    subsets: Sequence[tuple[int, ...]],
    shape: Sequence[int],
    cells_NM: Cells,
    held_VM: Cells,
    least_known: float = LEAST_KNOWN,
    group: ProcessGroup = ALONE,
) -> list[Combinations]:
    """Find the combinations of each set of axes; leave out sets that no held-out cell shares.

    With a `least_known` above zero, sets with very many combinations are left out, too.
    """
    found = []
    for subset in subsets:
        sizes = [shape[axis] for axis in subset]
        if (
            least_known > 0
            and _estimated_number(subset, sizes, cells_NM, group) > MOST_COMBINATIONS
        ):
            continue
        each = Combinations.of(subset, shape, cells_NM, held_VM, group)
        if each.known_share >= least_known:
            found.append(each)
    return found
