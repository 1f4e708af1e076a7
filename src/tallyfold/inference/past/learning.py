"""Learning how the past leads to the next period: a candidate of memories an iteration.

The few numbers of each candidate are found by Nelder and Mead on the last training periods: never
on random cells, which cannot show that a level drifts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import TypeVar

import numpy as np
from scipy.optimize import minimize

from tallyfold.data.tensor import CountTensor
from tallyfold.inference.past.periods import (
    CELLS_OF_AMOUNTS,
    CELLS_OF_RATES,
    MOST_AHEAD,
    RECENCY,
    PastCells,
    TimeAxis,
    later_cells,
    next_cells,
)
from tallyfold.inference.past.state import PastState
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.forecaster import NO_SPREAD, LevelSpread
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.past_amounts import AmountNumbers, PastAmounts, SizeNumbers
from tallyfold.posterior.past_rates import (
    RECENT,
    Memory,
    PastRates,
    RateNumbers,
    Season,
    levels,
    log_seasons,
)

COMBINATIONS = (0.8, 0.9, 0.97, 1.0)
MARGINS = (0.8, 0.93)
AMOUNTS = (0.8, 0.95, 1.0)
"""Decays that are tried."""
CYCLES = {"hour": 24, "day": 7, "week": 52, "month": 12, "quarter": 4}
OTHER_CYCLE = 2
"""How many periods a cycle has; of years, and of periods without a unit."""
SEASON_GAIN = 0.01
"""What a season must gain, per cell with a count."""
LARGE, COMMON = 10, 0.2
"""Negative binomials are tried where a larger part of the total is in counts above the first."""
SIZE_GAIN = 0.01
"""What they must gain, per cell with a count."""
MOST_POWER = 1.5
MOST_TRIES = 120
WIDTH = 3.0
"""Of the Gaussian prior on numbers that are learned, about where they start: for few cells."""
MOST_LOG_DRIFT = 2.0
LEAST_PERIODS = 4
"""With fewer periods, nothing is said of how far totals are off."""

N = TypeVar("N", RateNumbers, AmountNumbers, SizeNumbers)

Candidate = tuple[Memory, Memory | None]


def smoothed_candidates() -> list[Candidate]:
    """Return the pairs of decays, of combinations and of margins, that are tried."""
    pairs = product(COMBINATIONS, MARGINS)
    return [(Memory("decayed", long), Memory("decayed", short)) for long, short in pairs]


@dataclass(frozen=True)
class RatesStep:
    """Learn whether there is a count, with another candidate of memories in each iteration.

    Attributes
    ----------
    tensor, history, time
        The training counts.
    candidates
        Memories of combinations and of margins.
    """

    tensor: CountTensor
    history: History
    time: TimeAxis
    candidates: Sequence[Candidate]

    @cached_property
    def cells(self) -> PastCells:
        """Cells of the last periods."""
        return next_cells(self.tensor, self.history, self.time, CELLS_OF_RATES)

    def start(self, previous: PastState | None = None) -> PastState:
        """Return a state in which nothing was tried."""
        return previous or PastState()

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Try one more candidate; the objective is the best log score per cell with a count."""
        number = (iteration - 1) % len(self.candidates)
        numbers, score = self.learned(number, state.rates)
        if score > state.rate_score:
            state = replace(state, candidate=number, rates=numbers, rate_score=score)
        return state, state.rate_score

    def validation_score(self, state: PastState) -> None:
        """Return None: all candidates are tried."""
        return

    def learned(self, candidate: int, start: RateNumbers) -> tuple[RateNumbers, float]:
        """Return the best numbers for a candidate, and their score."""
        cells = self.cells
        features = PastRates(*self.candidates[candidate], start).features(self.history, cells.asked)
        names = ["log_pull", "level"]
        if self.candidates[candidate][1] is not None:
            names += ["power", "recent", *(["pairs"] if self.history.between else [])]

        def score(numbers: RateNumbers) -> float:
            if not 0 <= numbers.recent <= 1:  # the level stays, goes on, or is between
                return -np.inf
            return cells.occurrence(numbers.log_zero(features, cells.asked.ahead_N))

        if not cells.n_filled:
            return start, 0.0
        return _best(score, start, RateNumbers(), names, cells.n_filled)

    def made(self, state: PastState) -> PastRates:
        """Return what was learned."""
        season = state.season if state.season.length else None
        return PastRates(*self.candidates[state.candidate], state.rates, season)


@dataclass(frozen=True)
class SeasonStep:
    """Learn whether labels come back with a season, and how much of it there is, by axis."""

    rates: RatesStep

    def start(self, previous: PastState | None = None) -> PastState:
        """Go on with what was learned of the next period."""
        return previous or PastState()

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Learn all at once; the objective is the log score per cell with a count."""
        cells, history, made = self.rates.cells, self.rates.history, self.rates.made(state)
        length = self._length
        if made.margins is None or not cells.n_filled or history.n_periods < 2 * length + 1:
            return state, state.rate_score
        features = made.features(history, cells.asked)
        season_NK = log_seasons(history, cells.asked, made.margins, length)
        centre_F = np.zeros(1 + season_NK.shape[1])

        def told(value_F: Floats) -> float:
            if np.any(value_F[1:] < 0) or np.any(value_F[1:] > MOST_POWER):
                return -np.inf
            numbers = state.rates._replace(level=state.rates.level + float(value_F[0]))
            seasonal = features._replace(log_season_N=season_NK @ value_F[1:])
            return cells.occurrence(numbers.log_zero(seasonal, cells.asked.ahead_N))

        best_F = uphill(told, centre_F, centre_F, cells.n_filled)
        score = told(best_F)
        if score > state.rate_score + SEASON_GAIN:
            numbers = state.rates._replace(level=state.rates.level + float(best_F[0]))
            season = Season(length, best_F[1:])
            state = replace(state, rates=numbers, season=season, rate_score=score)
        return state, state.rate_score

    @property
    def _length(self) -> int:
        order = self.rates.tensor.axes[self.rates.time.number].order
        unit = None if order is None else order.unit
        return CYCLES.get(str(unit), OTHER_CYCLE)

    def validation_score(self, state: PastState) -> None:
        """Return None: there is one iteration."""
        return


@dataclass(frozen=True)
class AmountsStep:
    """Learn how many there are, with another memory in each iteration; the last tries sizes.

    Attributes
    ----------
    tensor, history, time
        The training counts.
    histogram
        That of all counts.
    sizes
        Whether negative binomials are tried; only where large counts are common.
    """

    tensor: CountTensor
    history: History
    time: TimeAxis
    histogram: CountHead
    sizes: bool

    @cached_property
    def cells(self) -> PastCells:
        """Cells with a count of the last periods."""
        return next_cells(self.tensor, self.history, self.time, CELLS_OF_AMOUNTS, observed=False)

    def start(self, previous: PastState | None = None) -> PastState:
        """Return a state in which all cells have the histogram."""
        return replace(previous or PastState(), amount_memory=-1, amount_score=self._plain_score)

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Try one more memory; the objective is the best log score per cell."""
        if iteration > len(AMOUNTS):
            return self._with_sizes(state)
        number = iteration - 1
        numbers, score = self._learned(number, state.amounts)
        if score > state.amount_score:
            state = replace(state, amount_memory=number, amounts=numbers, amount_score=score)
        return state, state.amount_score

    def validation_score(self, state: PastState) -> None:
        """Return None: all memories are tried."""
        return

    def made(self, state: PastState) -> PastAmounts:
        """Return what was learned."""
        number = state.amount_memory
        numbers = None if number < 0 else state.amounts
        memory = Memory("decayed", AMOUNTS[max(number, 0)])
        return PastAmounts(self.histogram, memory, numbers, state.sizes)

    def _with_sizes(self, state: PastState) -> tuple[PastState, float]:
        """Try negative binomials around the means that tilt the histogram."""
        cells = self.cells
        large = float(cells.counts_C[cells.counts_C > LARGE].sum())
        rare = large <= COMMON * float(cells.counts_C.sum())
        if not self.sizes or rare or self.histogram.bins.upper is not None:
            return state, state.amount_score
        start = replace(state, amount_memory=max(state.amount_memory, 0))
        amounts = self.made(start)
        features = amounts.features(self.history, cells.asked)

        def mean(log_C: Floats) -> float:
            return float(cells.weight_C @ log_C / cells.weight_C.sum())

        def told(numbers: AmountNumbers, sizes: SizeNumbers) -> float:
            return mean(amounts.log_pmf(numbers, sizes, features, cells.counts_C))

        numbers, sizes, score = state.amounts, SizeNumbers(), -np.inf
        for _ in range(2):  # few numbers at a time are found sooner than all at once
            sizes, _ = _best(
                partial(told, numbers), sizes, SizeNumbers(), SizeNumbers._fields, cells.n_filled
            )
            numbers, score = _best(
                partial(told, sizes=sizes), numbers, AmountNumbers(), AmountNumbers._fields,
                cells.n_filled,
            )  # fmt: skip
        tilted = self.made(state).distribution(self.history, cells.asked)  # counts, not bins
        if score > mean(tilted.log_pmf(cells.counts_C)) + SIZE_GAIN:
            state = replace(start, amounts=numbers, sizes=sizes)
        return state, state.amount_score

    @cached_property
    def _plain_score(self) -> float:
        if not len(self.cells.counts_C):
            return 0.0
        bin_C = self.histogram.bins.bin_of(self.cells.counts_C)
        weight_C = self.cells.weight_C
        return float(weight_C @ np.log(self.histogram.base_B)[bin_C] / weight_C.sum())

    def _learned(self, number: int, start: AmountNumbers) -> tuple[AmountNumbers, float]:
        cells, history = self.cells, self.history
        if not len(cells.counts_C):
            return start, 0.0
        amounts = PastAmounts(self.histogram, Memory("decayed", AMOUNTS[number]), start)
        features = amounts.features(history, cells.asked)
        bin_C = self.histogram.bins.bin_of(cells.counts_C)
        names = ["log_whole_pull"]
        names += ["log_label_pull", "label_weight"] if len(history.sizes) > 1 else []
        names += ["log_set_pull", "set_weight"] if history.between else []

        def score(numbers: AmountNumbers) -> float:
            log_C = amounts.log_bins(amounts.tilts(numbers, features), bin_C)
            return float(cells.weight_C @ log_C / cells.weight_C.sum())

        return _best(score, start, AmountNumbers(), names, cells.n_filled)


@dataclass(frozen=True)
class DistancesStep:
    """Learn how memory and certainty fade with distance, and how far totals are off."""

    rates: RatesStep

    @cached_property
    def cells(self) -> PastCells:
        """Cells of the last periods as they look from further away."""
        return later_cells(self.rates.tensor, self.rates.history, self.rates.time)

    def start(self, previous: PastState | None = None) -> PastState:
        """Go on with what was learned of the next period."""
        return previous or PastState()

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Learn all at once; the objective is the log score per cell with a count."""
        made, cells, history = self.rates.made(state), self.cells, self.rates.history
        score, features = 0.0, made.features(history, cells.asked)
        numbers = state.rates
        if cells.n_filled:

            def told(each: RateNumbers) -> float:
                fading = each._replace(fade=min(max(each.fade, 0.0), 1.0))
                if fading != each or each.log_drift > MOST_LOG_DRIFT:
                    return -np.inf
                return cells.occurrence(each.log_zero(features, cells.asked.ahead_N))

            begin = numbers._replace(fade=0.95, log_drift=-3.0)
            numbers, score = _best(told, begin, begin, ["fade", "log_drift"], cells.n_filled)
        memory = made.memory if made.margins is None else Memory("decayed", RECENT)
        spread = level_spread(history, memory, made.season)
        if spread.further > np.exp(numbers.log_drift):  # cells are as unsure as their total
            numbers = numbers._replace(log_drift=float(np.log(spread.further)))
        return replace(state, rates=numbers, spread=spread), score

    def validation_score(self, state: PastState) -> None:
        """Return None: there is one iteration."""
        return


def _best(
    score: Callable[[N], float], start: N, centre: N, names: Sequence[str], n_cells: float
) -> tuple[N, float]:
    """Return the numbers with the best score, some of which are free, and that score."""

    def numbers(value_F: Floats) -> N:
        return start._replace(**dict(zip(names, value_F.tolist(), strict=True)))

    centre_F = np.array([getattr(centre, name) for name in names])
    first_F = np.array([getattr(start, name) for name in names])
    best_F = uphill(lambda value_F: score(numbers(value_F)), first_F, centre_F, n_cells)
    best = numbers(best_F)
    return best, score(best)


def uphill(
    score: Callable[[Floats], float],
    first_F: Floats,
    centre_F: Floats,
    n_cells: float,
    tries: int = MOST_TRIES,
) -> Floats:
    """Return where a score is best, less a Gaussian prior around a centre."""

    def loss(value_F: Floats) -> float:
        prior = float(np.sum(((value_F - centre_F) / WIDTH) ** 2)) / 2
        found = score(value_F)
        return (prior / n_cells - found) if np.isfinite(found) else 1e300

    corners = np.vstack([first_F, first_F + 0.3 * np.eye(len(first_F))])
    found = minimize(
        loss,
        first_F,
        method="Nelder-Mead",
        options={"maxfev": tries, "xatol": 3e-3, "fatol": 3e-6, "initial_simplex": corners},
    )
    return np.round(found.x, 6)


def level_spread(history: History, memory: Memory, season: Season | None = None) -> LevelSpread:
    """Return how far totals of periods were off, by how many periods ahead they were foretold.

    They are foretold by a fading mean, and by the total of a cycle before where there is a season.

    Mean squares over the later two thirds of the history, each period counting `RECENCY` of the one
    after it, since unquiet times follow each other; less what chance alone does.
    """
    table = history.tables[0]
    total_T = np.zeros(history.n_periods)
    total_T[table.step_E] = table.sums_E2[:, 0]
    excess: list[float] = []
    freedom = 1.0
    for ahead in range(1, MOST_AHEAD + 1):
        target_T = np.arange(max(history.n_periods // 3, ahead), history.n_periods)
        target_T = target_T[total_T[target_T] > 0]
        if len(target_T) < LEAST_PERIODS:
            break
        none = np.zeros((len(target_T), len(history.sizes)), np.int32)
        asked = Asked(none, target_T - ahead, np.full(len(target_T), ahead))
        expected_T = np.log(levels(history, asked, memory))
        if season is not None:
            target_T, expected_T = _seasonal(total_T, target_T, expected_T, season, ahead)
            if len(target_T) < LEAST_PERIODS:
                break
        off_T = np.log(total_T[target_T]) - expected_T
        weight_T = RECENCY ** (target_T[-1] - target_T)
        weight_T = weight_T / weight_T.sum()
        freedom = max(freedom, 1 / float(weight_T @ weight_T) - 1)
        excess.append(max(float(weight_T @ (off_T**2 - 1 / total_T[target_T])), 0.0))
    if not excess:
        return NO_SPREAD
    further_H = np.arange(len(excess), dtype=np.float64)
    squares = max(float(further_H @ further_H), 1.0)
    slope = float(further_H @ (np.array(excess) - excess[0])) / squares
    return LevelSpread(excess[0], max(slope, 0.0), freedom)


def _seasonal(
    total_T: Floats, target_T: Ints, expected_T: Floats, season: Season, ahead: int
) -> tuple[Ints, Floats]:
    """Return the periods that have one a cycle before, and what they are expected to have."""
    before_T = target_T - -(-ahead // season.length) * season.length
    there_T = (before_T >= 0) & (total_T[np.maximum(before_T, 0)] > 0)
    target_T, expected_T = target_T[there_T], expected_T[there_T]
    ratio_T = np.log(total_T[before_T[there_T]]) - expected_T
    return target_T, expected_T + min(float(season.power_K.max()), 1.0) * ratio_T
