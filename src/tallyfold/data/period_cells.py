"""The cells of one period, zeros included, as they look from the periods before it.

Labels that had no cell before are left out. Combinations that had one before and are silent now are
listed, or drawn; those that never had one are drawn by `draw_empty_cells`. Weights make sums over
these cells those over all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.data.tensor import CountTensor

Cells = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PeriodCells:
    """Cells of a period.

    Attributes
    ----------
    indices_CM
        Their positions on the tensor's axes.
    counts_C
        Their counts, zeros among them.
    weight_C
        How many cells each stands for.
    seen_C
        Whether the combination of its other labels had a count in a period that is known.
    n_new_labels
        How many cells with a count were left out, since a label had none before.
    """

    indices_CM: Cells
    counts_C: Ints
    weight_C: Floats
    seen_C: Mask
    n_new_labels: int = 0

    @property
    def filled_C(self) -> Mask:
        """Which cells have a count."""
        return self.counts_C > 0

    @property
    def n_filled(self) -> float:
        """How many cells with a count they stand for."""
        return float(self.weight_C[self.filled_C].sum())


def period_cells(
    tensor: CountTensor,
    axis: int,
    step_D: Ints,
    step: int,
    *,
    known: int | None = None,
    n: int = 20_000,
    most_listed: int = 20_000,
    seed: int = 0,
) -> PeriodCells:
    """Return the cells of a period.

    Parameters
    ----------
    tensor
        The counts, of that period and of earlier ones.
    axis, step_D
        The position of the axis of time, and the step of each of its labels.
    step
        The period.
    known
        The last period that is known; None: the one before.
    n, most_listed
        About how many cells that have a count, that had one before, and that never had one to
        draw, and up to how many to list all instead.
    seed
        Another seed draws others.

    Examples
    --------
    >>> tensor = CountTensor([Axis("who", ["a", "b"]), Axis("day", [1, 2])], [[0, 0], [1, 0], [1, 1]],
    ...     [1, 1, 4])
    >>> cells = period_cells(tensor, 1, np.array([0, 1]), 1)
    >>> cells.counts_C.tolist(), cells.seen_C.tolist()
    ([4, 0], [True, True])
    """  # noqa: E501
    known = step - 1 if known is None else known
    step_N = step_D[tensor.indices[:, axis]]
    others = [number for number in range(len(tensor.shape)) if number != axis]
    past_NK = tensor.indices[step_N <= known][:, others]
    labels = [np.unique(column) for column in past_NK.T]
    sizes = [len(each) for each in labels]
    now_N = step_N == step
    now_NK, inside_N = tensor.indices[now_N][:, others], np.ones(int(now_N.sum()), bool)
    for labels_L, column_N in zip(labels, now_NK.T, strict=True):
        inside_N &= np.isin(column_N, labels_L)
    place = int(np.flatnonzero(step_D == step)[0])
    rng = np.random.default_rng([seed, step - int(step_D.min())])
    filled = np.ravel_multi_index(_inside(now_NK[inside_N], labels), sizes)
    seen = np.unique(np.ravel_multi_index(_inside(past_NK, labels), sizes))
    silent = np.setdiff1d(seen, filled, assume_unique=True)
    rows, weights = _some(len(filled), n, most_listed, rng)
    chosen, chosen_weights = _some(len(silent), n, most_listed, rng)
    empty, empty_weights = _never_seen(sizes, np.union1d(seen, filled), n, most_listed, seed + step)
    keys = np.concatenate([filled[rows], silent[chosen], empty])
    counts = tensor.counts[now_N][inside_N][rows]
    found = PeriodCells(
        _positions(keys, labels, axis, place),
        np.concatenate([counts, np.zeros(len(keys) - len(rows), np.int64)]),
        np.concatenate([weights, chosen_weights, empty_weights]),
        np.isin(keys, seen),
        int((~inside_N).sum()),
    )
    return found if tensor.part is None else _of_part(found, tensor)


def _inside(others_NK: Cells, labels: list[Any]) -> tuple[Any, ...]:
    """Return the positions of cells among the labels that are known."""
    columns = zip(labels, others_NK.T, strict=True)
    return tuple(np.searchsorted(labels_L, column_N) for labels_L, column_N in columns)


def _positions(keys: Ints, labels: list[Any], axis: int, place: int) -> Cells:
    sizes = [len(each) for each in labels]
    columns = [each[at] for each, at in zip(labels, np.unravel_index(keys, sizes), strict=True)]
    columns.insert(axis, np.full(len(keys), place))
    return np.stack(columns, axis=1).astype(np.int32)


def _some(
    size: int, n: int, most_listed: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return which of some cells to take, all alike, and how many each stands for."""
    if size <= max(n, most_listed):
        return np.arange(size), np.ones(size)
    return np.sort(rng.choice(size, n, replace=False)), np.full(n, size / n)


def _never_seen(
    sizes: list[int], known: Ints, n: int, most_listed: int, seed: int
) -> tuple[Ints, Floats]:
    """Return combinations of known labels that had no count, and how many each stands for."""
    if len(sizes) == 1:
        return np.zeros(0, np.int64), np.zeros(0)
    axes = [Axis.numbered(str(number), size) for number, size in enumerate(sizes)]
    cells = np.stack(np.unravel_index(known, sizes), axis=1).astype(np.int32)
    combinations = CountTensor.of_canonical(axes, cells, np.ones(len(cells), np.int64))
    empty = draw_empty_cells(combinations, n, seed, most_listed=most_listed)
    return np.ravel_multi_index(tuple(empty.indices_ZM.T), sizes), empty.weight_Z


def _of_part(cells: PeriodCells, tensor: CountTensor) -> PeriodCells:
    """Leave out cells that are hidden."""
    assert tensor.part is not None
    inside_C = tensor.part.contains(tensor.axes, cells.indices_CM)
    return PeriodCells(
        cells.indices_CM[inside_C],
        cells.counts_C[inside_C],
        cells.weight_C[inside_C],
        cells.seen_C[inside_C],
        cells.n_new_labels,
    )
