"""Parts of the cells by entities of one axis: to train on, or to work through one after the other.

Given the other axes, what an axis's cells say separates over its entities. So an encoder can be
trained on the cells of a few entities drawn at random, without bias, and posteriors of all can be
computed a range of entities at a time, with arrays no longer than a part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells

Ints = npt.NDArray[np.int64]
Which = slice | npt.NDArray[Any]

LARGEST_PART = 8_000_000
"""Cells in a range of entities; one entity may have more."""


class AxisPart(NamedTuple):
    """Some entities of an axis, their training cells and their held-out cells.

    Attributes
    ----------
    entities
        Which rows of the axis's factors they are; in the cells they are numbered from 0.
    cells, held_out
        Their cells.
    places, held_places
        Where these stand among all cells of this process.
    """

    entities: Which
    cells: TrainingCells
    places: Which
    held_out: HeldOutCells
    held_places: Which


def whole(cells: TrainingCells, held_out: HeldOutCells) -> AxisPart:
    """Return all entities as one part."""
    everything = slice(None)
    return AxisPart(everything, cells, everything, held_out, everything)


def part_of(cells: TrainingCells, held_out: HeldOutCells, axis: int, entities: Which) -> AxisPart:
    """Return the part of some entities."""
    own, places = cells.of_entities(axis, entities)
    held, held_places = held_out.of_entities(axis, entities)
    return AxisPart(entities, own, places, held, held_places)


def part_without_held_out(cells: TrainingCells, axis: int, entities: Which) -> AxisPart:
    """Return the part of some entities to compute their posteriors with, nothing to train on."""
    own, places = cells.of_entities(axis, entities)
    none = np.empty(0, dtype=np.int64)
    indices_0M = np.empty((0, cells.n_axes), dtype=np.int32, order="F")
    return AxisPart(entities, own, places, HeldOutCells.of(own.shape, indices_0M, none), none)


def ranges(cells_D: Ints, most: int = LARGEST_PART) -> Iterator[slice]:
    """Yield ranges of entities with at most so many cells, given each entity's number of cells.

    Examples
    --------
    >>> list(ranges(np.array([3, 4, 9, 1, 1]), most=8))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 5, None)]
    """
    start, before = 0, 0
    ends_D = np.cumsum(cells_D)
    while start < len(cells_D):
        stop = max(int(np.searchsorted(ends_D, before + most, side="right")), start + 1)
        yield slice(start, stop)
        start, before = stop, int(ends_D[stop - 1])


def drawn(
    rng: np.random.Generator, cells_D: Ints, candidates: Ints, most_entities: int, most_cells: int
) -> Ints:
    """Draw entities at random, ascending: at most so many, with about so many cells at most.

    How many are drawn depends on the mean number of cells, never on those drawn: each entity is as
    likely as any other.
    """
    on_average = max(float(cells_D[candidates].mean()), 1.0)
    number = min(most_entities, len(candidates), max(1, int(most_cells / on_average)))
    return np.sort(rng.choice(candidates, number, replace=False))
