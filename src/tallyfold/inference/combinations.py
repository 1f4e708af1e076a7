"""Which combinations of axes get multipliers, and where the cells stand among them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.inference.world import ALONE, World
from tallyfold.posterior.interactions import combination_keys, countable, places_of

Ints = npt.NDArray[np.int64]
Cells = npt.NDArray[np.integer[Any]]

LEAST_KNOWN = 0.01
"""Combinations of which less than this share of held-out cells was seen cannot help."""
CELLS_AT_ONCE = 1 << 22
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
        As in `Interaction`.
    place_N, held_place_V
        Where the combinations of training and of held-out cells stand among the keys.
    matter_N
        The training cells whose combination some held-out cell shares: all that training needs.
    known_share
        Of how many held-out cells the combination was seen in training.
    """

    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    keys_P: Ints
    place_N: Cells
    held_place_V: Ints
    matter_N: Ints | slice
    known_share: float

    @classmethod
    def of(
        cls,
        axes: Sequence[int],
        shape: Sequence[int],
        cells_NM: Cells,
        held_VM: Cells,
        world: World = ALONE,
        keys_P: Ints | None = None,
    ) -> Combinations:
        """Find the combinations of the training cells, and where held-out cells share them."""
        sizes = tuple(shape[axis] for axis in axes)
        if keys_P is None:
            keys_P = seen_keys(axes, sizes, cells_NM, world)
        place_N = np.empty(len(cells_NM), dtype=np.int32)
        for start in range(0, len(cells_NM), CELLS_AT_ONCE):
            part = slice(start, start + CELLS_AT_ONCE)
            place_N[part] = places_of(combination_keys(cells_NM[part], axes, sizes), keys_P)
        held_V = places_of(combination_keys(held_VM, axes, sizes), keys_P)
        hit_P1 = world.total(np.bincount(held_V, minlength=len(keys_P) + 1) * 1.0) > 0
        known_share = 1 - world.number(float(np.sum(held_V == len(keys_P)))) / max(
            world.number(len(held_V)), 1
        )
        hit_N = hit_P1[place_N]
        few = len(hit_N) > 0 and hit_N.mean() < WORTH_SELECTING
        matter_N = np.flatnonzero(hit_N) if few else slice(None)
        return cls(tuple(axes), sizes, keys_P, place_N, held_V, matter_N, known_share)

    @property
    def n_places(self) -> int:
        """The combinations seen, and one for all others."""
        return len(self.keys_P) + 1


def seen_keys(axes: Sequence[int], sizes: Sequence[int], cells_NM: Cells, world: World) -> Ints:
    """Return the keys of the combinations of all processes' cells, ascending."""
    keys_P = np.unique(combination_keys(cells_NM, axes, sizes))
    return keys_P if world.size == 1 else np.unique(world.joined(keys_P))


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
    world: World = ALONE,
) -> list[Combinations]:
    """Find the combinations of each set of axes; leave out sets that no held-out cell shares.

    With a `least_known` above zero, sets with very many combinations are left out, too.
    """
    found = []
    for subset in subsets:
        sizes = [shape[axis] for axis in subset]
        keys_P = seen_keys(subset, sizes, cells_NM, world)
        if len(keys_P) > MOST_COMBINATIONS and least_known > 0:
            continue
        each = Combinations.of(subset, shape, cells_NM, held_VM, world, keys_P)
        if each.known_share >= least_known:
            found.append(each)
    return found
