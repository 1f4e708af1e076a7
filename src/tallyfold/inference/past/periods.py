"""The last periods of training counts, as they look from the periods before them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.period_cells import PeriodCells, period_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.history import Asked, History

Mask = npt.NDArray[np.bool_]

MOST_PERIODS = 8
"""What is learned is learned on at most this many of the last periods."""
CELLS_OF_PERIOD = 10_000
CELLS_OF_RATES, CELLS_OF_AMOUNTS = 3_000, 5_000
CELLS_FURTHER = 1_500
"""About how many cells of each kind (with a count, silent now, never seen) a period gives: to the
network, to the few numbers of rates and of amounts, and from each distance further away."""
EMPTY_OF_FILLED, FEWEST_CELLS = 10, 500
"""No more than about so many times the cells with a count are drawn of those without, though not
fewer than the second: more of them say nothing, and take time."""
RECENCY = 0.8
"""What a period counts of the one after it, where something is learned."""
MOST_AHEAD = 4
"""What is learned of distances is learned up to this many periods ahead."""


@dataclass(frozen=True)
class PastCells:
    """Cells of several periods, with weights, and what of the past is known at each.

    Attributes
    ----------
    asked
        What is asked.
    counts_C, weight_C
        Their counts, and how many cells each stands for; those of earlier periods for less.
    """

    asked: Asked
    counts_C: Ints
    weight_C: Floats

    @cached_property
    def filled_C(self) -> Mask:
        """Which have a count."""
        return self.counts_C > 0

    @cached_property
    def n_filled(self) -> float:
        """How many cells with a count they stand for."""
        return float(self.weight_C[self.filled_C].sum())

    @cached_property
    def group_C(self) -> Ints:
        """The number of each cell's period and distance."""
        pair_C = (self.asked.known_N + self.asked.ahead_N) * (MOST_AHEAD + 1) + self.asked.ahead_N
        return np.asarray(np.unique(pair_C, return_inverse=True)[1])

    def occurrence(self, log_zero_C: Floats) -> float:
        """Return the log score of whether there is a count, per cell that has one."""
        some_F = np.log(np.maximum(-np.expm1(log_zero_C[self._filled_F]), 1e-300))
        told = np.sum(self._weight_F * some_F) + np.sum(self._weight_of_empty_C * log_zero_C)
        return float(told) / max(self.n_filled, 1.0)

    @cached_property
    def _filled_F(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(self.filled_C)

    @cached_property
    def _weight_F(self) -> Floats:
        return self.weight_C[self._filled_F]

    @cached_property
    def _weight_of_empty_C(self) -> Floats:
        return np.where(self.filled_C, 0.0, self.weight_C)

    def where(self, chosen_C: Mask) -> PastCells:
        """Return some of them."""
        asked = self.asked.where(chosen_C)
        return PastCells(asked, self.counts_C[chosen_C], self.weight_C[chosen_C])

    def beside(self, other: PastCells) -> PastCells:
        """Return these and others."""
        return PastCells(
            self.asked.beside(other.asked),
            np.concatenate([self.counts_C, other.counts_C]),
            np.concatenate([self.weight_C, other.weight_C]),
        )


class TimeAxis(NamedTuple):
    """The axis of time of a tensor: its position, and the step of each of its labels."""

    number: int
    step_D: Ints


def last_periods(n_periods: int) -> range:
    """Return the periods, counted from the first, on which is learned."""
    number = int(np.clip(n_periods // 2, 1, MOST_PERIODS))
    return range(max(n_periods - number, 1), n_periods)


def next_cells(
    tensor: CountTensor,
    history: History,
    time: TimeAxis,
    n: int = CELLS_OF_PERIOD,
    *,
    observed: bool = True,
) -> PastCells:
    """Return cells of the last periods, each as it looks from the period before."""
    targets = last_periods(history.n_periods)
    return _gathered(tensor, history, time, [(step, 1) for step in targets], n, observed)


def later_cells(tensor: CountTensor, history: History, time: TimeAxis) -> PastCells:
    """Return cells of the last periods as they look from two and more periods before."""
    pairs = [
        (step, ahead)
        for step in last_periods(history.n_periods)
        for ahead in range(2, MOST_AHEAD + 1)
        if step - ahead >= 1
    ]
    return _gathered(tensor, history, time, pairs, CELLS_FURTHER, True)


def _gathered(
    tensor: CountTensor,
    history: History,
    time: TimeAxis,
    pairs: list[tuple[int, int]],
    n: int,
    observed: bool,
) -> PastCells:
    first = int(time.step_D[tensor.indices[:, time.number]].min())
    step_D = time.step_D - first
    last_N = np.isin(step_D[tensor.indices[:, time.number]], [step for step, _ in pairs])
    filled = int(last_N.sum()) // max(len({step for step, _ in pairs}), 1)
    n = min(n, max(EMPTY_OF_FILLED * filled, FEWEST_CELLS))
    parts: list[tuple[PeriodCells, int, int]] = []
    for step, ahead in pairs:
        if not np.any(step_D == step):  # a gap: no label stands for it
            continue
        upto = step - ahead
        cells = period_cells(
            tensor, time.number, step_D, step, known=upto, n=n, most_listed=n, seed=step
        )
        parts.append((cells, upto, ahead))
    if not parts:
        none = np.zeros(0, np.int64)
        others = np.zeros((0, len(history.sizes)), np.int32)
        return PastCells(Asked(others, none, none), none, np.zeros(0))
    sizes = [len(cells.counts_C) for cells, _, _ in parts]
    last = max(known + ahead for _, known, ahead in parts)
    fading = [RECENCY ** (last - known - ahead) for _, known, ahead in parts]
    indices = np.concatenate([cells.indices_CM for cells, _, _ in parts])
    asked = Asked(
        np.delete(indices, time.number, axis=1),
        np.repeat([known for _, known, _ in parts], sizes).astype(np.int64),
        np.repeat([ahead for _, _, ahead in parts], sizes).astype(np.int64),
    )
    counts = np.concatenate([cells.counts_C for cells, _, _ in parts])
    weight_C = np.concatenate([cells.weight_C for cells, _, _ in parts]) * np.repeat(fading, sizes)
    found = PastCells(asked, counts, weight_C)
    return found if observed else found.where(found.filled_C)
