"""Training the network on memories: first on earlier periods, judged by later ones; then on all.

The later periods only say whether there shall be a network, never when its training stops: that
takes a fixed number of passes over the cells.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from tallyfold.inference.past.learning import DistancesStep
from tallyfold.inference.past.periods import PastCells, next_cells
from tallyfold.inference.past.state import PastState
from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.posterior.past_network import (
    NetworkParams,
    PastNetwork,
    Training,
    logit,
    network_inputs,
)

PASSES = 6
BATCHES = 64, 1024
STEPS_OF_PASS = 200
"""Batches have that many cells, so that a pass has at least so many steps if there are enough."""
RATE = 4e-3
WARM_UP = 20
DECAY = 0.01
"""Of AdamW, towards a network that changes nothing."""
MOMENTS = 0.9, 0.99
LARGEST_STEP = 1.0
"""Gradients that are longer are cut to this length."""
LEVEL_STEPS, MOST_SHIFT = 20, 8.0


class Inputs(NamedTuple):
    """What a network is trained on: cells, the smoothed past's levelled logits, inputs."""

    cells: PastCells
    later_C: Mask
    level_C: Floats
    x_CD: Floats
    centre_D: Floats
    spread_D: Floats


@dataclass(frozen=True)
class NetworkStep:
    """One pass over the cells of the last periods in each iteration.

    Attributes
    ----------
    distances
        The step before, with cells of several distances.
    judged
        Whether the later periods are kept apart, and say how good the network is; else it is
        trained on all, if it was found to be good.
    """

    distances: DistancesStep
    judged: bool
    _known: dict[str, Inputs] = field(default_factory=dict, compare=False, repr=False)

    def start(self, previous: PastState | None = None) -> PastState:
        """Start with a network that changes nothing."""
        n_inputs = 2 + 5 * (len(self.distances.rates.history.tables) - 1)
        return replace(previous or PastState(), network=Training.first(n_inputs))

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Go over the cells once; the objective is the log score on them on the way."""
        assert state.network is not None
        cells, later_C, level_C, x_CD, *_ = self._inputs(state)
        if not later_C.any() or not (self.judged or state.network_gain > 0):
            return state, 0.0
        chosen_C = ~later_C if self.judged else np.ones(len(level_C), bool)
        own = cells.where(chosen_C)
        trained, score = one_pass(state.network, own, x_CD[chosen_C], level_C[chosen_C], iteration)
        state = replace(state, network=trained)
        if self.judged and iteration == PASSES:
            later, x_ND = cells.where(later_C), x_CD[later_C]
            level_N = level_C[later_C]
            told_N = -np.logaddexp(0.0, trained.params.logits(x_ND, level_N))
            gain = later.occurrence(told_N) - later.occurrence(-np.logaddexp(0.0, level_N))
            state = replace(state, network_gain=gain)
        return state, score

    def validation_score(self, state: PastState) -> None:
        """Return None: all passes are made."""
        return

    def made(self, state: PastState) -> PastNetwork | None:
        """Return the network, if it helps."""
        if state.network is None or not state.network_gain > 0:
            return None
        return PastNetwork(state.network.params, *self._inputs(state)[-2:])

    def _inputs(self, state: PastState) -> Inputs:
        """Return cells of the last periods, near and from further away, and what is known of them.

        The smoothed past is left as it is by this phase and by the one that follows.
        """
        past = replace(state, network=None, network_gain=0.0)
        key = repr(past)
        if key not in self._known:
            rates = self.distances.rates
            history, made = rates.history, rates.made(state)
            near = next_cells(rates.tensor, history, rates.time)
            cells = near.beside(self.distances.cells)
            logit_C = logit(made.log_zero(history, cells.asked))
            x_CD = network_inputs(history, cells.asked, logit_C)
            some_CD = x_CD if len(x_CD) else np.zeros((1, x_CD.shape[1]))
            centre_D, spread_D = some_CD.mean(axis=0), np.maximum(some_CD.std(axis=0), 1e-3)
            blank = PastNetwork(NetworkParams.first(x_CD.shape[1]), centre_D, spread_D)
            self._known.clear()
            self._known[key] = Inputs(
                cells,
                later_cells_of(cells),
                levelled(cells, logit_C),
                blank.standardised(x_CD),
                centre_D,
                spread_D,
            )
        return self._known[key]


def later_cells_of(cells: PastCells) -> Mask:
    """Return which cells are of the periods that judge."""
    target_C = cells.asked.known_N + cells.asked.ahead_N
    periods = np.unique(target_C)
    if len(periods) < 2:
        return np.zeros(len(target_C), bool)
    return np.asarray(np.isin(target_C, periods[-max(1, len(periods) // 4) :]))


def levelled(cells: PastCells, logit_C: Floats) -> Floats:
    """Return logits, shifted so that every period, from each distance, has the total that it had.

    Levels of periods are the smoothed past's business: a network that learned them, from a handful
    of periods, would tell labels apart by what happened to go with a high level.
    """
    group_C, weight_C = cells.group_C, cells.weight_C
    filled_G = np.bincount(group_C, weight_C * cells.filled_C)
    shift_G = np.zeros(len(filled_G))
    for _ in range(LEVEL_STEPS):
        some_C = 1 / (1 + np.exp(-(logit_C + shift_G[group_C])))
        total_G = np.bincount(group_C, weight_C * some_C)
        slope_G = np.bincount(group_C, weight_C * some_C * (1 - some_C))
        off_G = (filled_G - total_G) / np.maximum(slope_G, 1e-9)
        shift_G = np.clip(shift_G + np.clip(off_G, -1, 1), -MOST_SHIFT, MOST_SHIFT)
    return np.asarray(logit_C + shift_G[group_C])


def one_pass(
    network: Training, cells: PastCells, x_ND: Floats, logit_N: Floats, number: int
) -> tuple[Training, float]:
    """Return a network after AdamW has gone over all cells once, in an order of that pass.

    And the log score per cell with a count, on the way.
    """
    like, value_P = network.params, network.params.flat()
    mean_P, square_P = network.mean_P.copy(), network.square_P.copy()
    still_P = like.changing_nothing().flat()
    filled_N = cells.filled_C * 1.0
    weight_N = cells.weight_C * (len(filled_N) / max(cells.n_filled, 1.0))
    batch = min(int(np.clip(len(filled_N) // STEPS_OF_PASS, *BATCHES)), len(filled_N))
    steps, order_N = len(filled_N) // batch, np.random.default_rng(number).permutation(len(x_ND))
    keep, keep_square = MOMENTS
    score = 0.0
    for at in range(steps):
        row_B = order_N[at * batch : (at + 1) * batch]
        params, x_BD = like.with_flat(value_P), x_ND[row_B]
        unit_BU = params.units(x_BD)
        told_B = params.logits(x_BD, logit_N[row_B], unit_BU)
        error_B = (1 / (1 + np.exp(-np.clip(told_B, -60, 60))) - filled_N[row_B]) * weight_N[row_B]
        score -= float(weight_N[row_B] @ np.logaddexp(0.0, (1 - 2 * filled_N[row_B]) * told_B))
        slope_P = params.gradient(x_BD, logit_N[row_B], unit_BU, error_B / batch).flat()
        slope_P *= min(1.0, LARGEST_STEP / max(float(np.sqrt(np.sum(slope_P**2))), 1e-300))
        mean_P += (1 - keep) * (slope_P - mean_P)
        square_P += (1 - keep_square) * (slope_P**2 - square_P)
        step = (number - 1) * steps + at + 1
        share = min(1.0, step / WARM_UP) * 0.5 * (1 + np.cos(np.pi * step / (PASSES * steps)))
        size_P = np.sqrt(square_P / (1 - keep_square**step)) + 1e-8
        off_P = mean_P / (1 - keep**step) / size_P + DECAY * (value_P - still_P)
        value_P = value_P - RATE * share * off_P
    return Training(like.with_flat(value_P), mean_P, square_P), score / (steps * batch)
