"""Whether there is a count in a period, from what happened before.

A combination's own memory n, over the number of non-zeros E that its labels' margins lead one to
expect, is pulled to the margins' rate b where the history is short:
lambda = e^level b^power ((pull + n) / (pull + E))^fade, and the chance of a zero is that of a Gamma
mixture of Poissons, (1 + lambda v)^(-1 / v) with v = 1 / (pull + n) + drift (h - 1), h periods
ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.history import Asked, History, HistoryTable

FIRST_PULL = 0.02
"""The weight, in periods, of the first period's total: what is there before any history."""
LABEL_PULL = 0.1
"""The weight, in periods, of the average label in what is known of a label."""
SMALLEST = 1e-12
SEASON_PULL = 0.1
"""The weight, in periods, of the recent frequency of a label in that of a cycle before."""
RECENT = 0.4
"""The decay of the total that tells the present level from that of the margins."""


class Memory(NamedTuple):
    """How the past is remembered.

    Attributes
    ----------
    kind
        ``"decayed"``: all periods, fading; ``"window"``: the last ones alike; ``"season"``: the
        period at the same place of the last cycle.
    length
        The factor per period; or how many periods the window, or the cycle, has.
    """

    kind: Literal["decayed", "window", "season"]
    length: float

    def sums(self, table: HistoryTable, asked: Asked) -> Floats:
        """Return what is remembered of each cell's combination: cells, and the sum of ln y."""
        others_NK, known_N, _ = asked
        if self.kind == "decayed":
            return table.decayed(table.rows(others_NK, known_N), known_N, self.length)
        end_N, length = self._ends(asked)
        since_N = end_N - length
        upto_N2 = table.decayed(table.rows(others_NK, end_N), end_N, 1.0)
        return upto_N2 - table.decayed(table.rows(others_NK, since_N), since_N, 1.0)

    def periods(self, asked: Asked) -> Floats:
        """Return over how many periods that was summed."""
        if self.kind == "decayed":
            n_N = (asked.known_N + 1).astype(np.float64)
            return n_N if self.length == 1 else (1 - self.length**n_N) / (1 - self.length)
        end_N, length = self._ends(asked)
        return np.clip(end_N + 1, 0, length).astype(np.float64)

    def _ends(self, asked: Asked) -> tuple[Ints, int]:
        """Return the last period that is remembered, and how many there are."""
        length = int(self.length)
        if self.kind == "window":
            return asked.known_N, length
        cycles_N = -(-asked.ahead_N // length)
        return asked.known_N + asked.ahead_N - cycles_N * length, 1

    def words(self) -> str:
        """Return it in words."""
        if self.kind == "decayed":
            return f"decay {self.length:g} a period"
        if self.kind == "window":
            return "the last period" if self.length == 1 else f"the last {self.length:g} periods"
        return f"{self.length:g} periods before"


class PastFeatures(NamedTuple):
    """What rates are made of, for N cells.

    Attributes
    ----------
    n_N, periods_N
        How often the combination is remembered to have had a count, and over how many periods.
    log_slow_N
        ln of the rate a period that its labels' margins, as long remembered, lead one to expect.
    log_base_N
        ln of the rate that recent margins alone give, without ratios of pairs.
    log_pairs_N
        ln of the product of those ratios.
    log_recent_N
        ln of how the total of the last periods compares with the margins' longer memory of it.
    log_season_N
        ln of what the season adds to labels; see `Season`.
    """

    n_N: Floats
    periods_N: Floats
    log_slow_N: Floats
    log_base_N: Floats
    log_pairs_N: Floats
    log_recent_N: Floats
    log_season_N: Floats


class Season(NamedTuple):
    """What comes back: labels are as frequent as some periods before, to a power by axis.

    Attributes
    ----------
    length
        How many periods a cycle has.
    power_K
        How much of it there is, by position among the other axes.
    """

    length: int
    power_K: Floats

    def log_N(self, history: History, asked: Asked, margins: Memory) -> Floats:
        """Return ln of what the season adds to the rates of cells."""
        return log_seasons(history, asked, margins, self.length) @ self.power_K


def log_seasons(history: History, asked: Asked, margins: Memory, length: int) -> Floats:
    """Return ln of labels' frequencies a cycle before over recent ones, a column per other axis."""
    season, level_N = Memory("season", length), levels(history, asked, margins)
    known_N = season.periods(asked) > 0
    columns = np.zeros((len(known_N), len(history.sizes)))
    for table in history.singles:
        usual_N = label_rates(table, asked, margins, level_N)
        before_N = season.sums(table, asked)[:, 0]
        ratio_N = (before_N + SEASON_PULL * usual_N) / ((1 + SEASON_PULL) * usual_N)
        known_label_N = known_N & (asked.others_NK[:, table.axes[0]] >= 0)
        columns[:, table.axes[0]] = np.where(known_label_N, np.log(ratio_N), 0.0)
    return columns


class RateNumbers(NamedTuple):
    """What is learned of how the past leads to the next period; see the module.

    Attributes
    ----------
    log_pull, level, power, pairs, recent
        Of the next period; `pairs` is the power of the ratios of pairs of labels, `recent` how much
        of a change of the total goes on.
    fade, log_drift
        How memory and certainty fade with every further period.
    """

    log_pull: float = 0.0
    level: float = 0.0
    power: float = 1.0
    pairs: float = 0.5
    recent: float = 0.0
    fade: float = 1.0
    log_drift: float = -7.0

    def log_rates(self, features: PastFeatures, ahead_N: Ints) -> Floats:
        """Return the logarithm of the rates of cells."""
        pull = np.exp(self.log_pull)
        slow_N = np.exp(features.log_slow_N + self.pairs * features.log_pairs_N)
        ratio_N = np.log(pull + features.n_N) - np.log(pull + slow_N * features.periods_N)
        base_N = self.power * features.log_base_N + self.pairs * features.log_pairs_N
        base_N = base_N + self.recent * features.log_recent_N + features.log_season_N
        later_N = self.fade ** (ahead_N - 1.0)
        return np.asarray(self.level + base_N + later_N * ratio_N)

    def variances(self, features: PastFeatures, ahead_N: Ints) -> Floats:
        """Return the variances of the rates of cells, relative to their squares."""
        own_N = 1 / (np.exp(self.log_pull) + features.n_N)
        return np.asarray(own_N + np.exp(self.log_drift) * (ahead_N - 1.0))

    def log_zero(self, features: PastFeatures, ahead_N: Ints) -> Floats:
        """Return the log probability of no count."""
        return log_zero(self.log_rates(features, ahead_N), self.variances(features, ahead_N))


def log_zero(log_rate_N: Floats, variance_N: Floats) -> Floats:
    """Return ln P(0) of a Poisson whose rate is Gamma, with a variance relative to its square.

    Examples
    --------
    >>> log_zero(np.log([1.0, 1.0]), np.array([1e-9, 1.0])).round(4).tolist()
    [-1.0, -0.6931]
    """
    rate_N = np.exp(np.clip(log_rate_N, -60.0, 30.0))
    return np.asarray(-np.log1p(rate_N * variance_N) / variance_N)


@dataclass(frozen=True)
class PastRates:
    """How rates are made of history.

    Attributes
    ----------
    memory
        What is remembered of a combination.
    margins
        What is remembered of labels by themselves; None: only how many cells there are in all, and
        combinations are not compared with what their labels lead one to expect.
    numbers
        What was learned.
    season
        What comes back, if that helps.
    """

    memory: Memory
    margins: Memory | None
    numbers: RateNumbers
    season: Season | None = None

    def features(self, history: History, asked: Asked) -> PastFeatures:
        """Return what the rates of cells are made of."""
        n_N = self.memory.sums(history.whole, asked)[:, 0]
        periods_N = self.memory.periods(asked)
        none_N = np.zeros(len(n_N))
        if self.margins is None:
            level_N = levels(history, asked, self.memory)
            cells = float(np.prod([float(size) for size in history.sizes]))
            log_base_N = np.log(level_N / cells)
            return PastFeatures(n_N, periods_N, log_base_N, log_base_N, none_N, none_N, none_N)
        log_base_N = log_independent(history, asked, self.margins)
        log_slow_N = log_independent(history, asked, self.memory)
        log_pairs_N = none_N.copy()
        for table in history.between:
            pair_N = self.memory.sums(table, asked)[:, 0]
            alone_N = np.exp(log_independent(history, asked, self.memory, table.axes)) * periods_N
            log_pairs_N += np.log(pair_N + 1) - np.log(alone_N + 1)
        recent_N = levels(history, asked, Memory("decayed", RECENT))
        log_recent_N = np.log(recent_N / levels(history, asked, self.margins))
        log_season_N = (
            none_N if self.season is None else self.season.log_N(history, asked, self.margins)
        )
        return PastFeatures(
            n_N, periods_N, log_slow_N, log_base_N, log_pairs_N, log_recent_N, log_season_N
        )

    def log_zero(self, history: History, asked: Asked) -> Floats:
        """Return the log probability of no count in cells."""
        return self.numbers.log_zero(self.features(history, asked), asked.ahead_N)

    def log_rates(self, history: History, asked: Asked) -> Floats:
        """Return the logarithm of the rates of cells."""
        return self.numbers.log_rates(self.features(history, asked), asked.ahead_N)


def levels(history: History, asked: Asked, memory: Memory) -> Floats:
    """Return how many cells with a count a period has, as remembered."""
    table = history.tables[0]
    first = float(table.sums_E2[0, 0])
    n_N = memory.sums(table, asked)[:, 0]
    return np.asarray((n_N + FIRST_PULL * first) / (memory.periods(asked) + FIRST_PULL))


def log_independent(
    history: History, asked: Asked, memory: Memory, axes: tuple[int, ...] | None = None
) -> Floats:
    """Return ln of the cells a period that combinations of axes would have, were these independent.

    `axes` are positions among the other axes; None: all.
    """
    axes = tuple(range(len(history.sizes))) if axes is None else axes
    level_N = levels(history, asked, memory)
    if len(history.sizes) == 1:  # the labels are the combinations
        return np.log(level_N / history.sizes[0])
    log_N = (1 - len(axes)) * np.log(level_N)
    for table in history.singles:
        if table.axes[0] in axes:
            log_N += np.log(label_rates(table, asked, memory, level_N))
    return log_N


def label_rates(table: HistoryTable, asked: Asked, memory: Memory, level_N: Floats) -> Floats:
    """Return the cells a period that labels of an axis have."""
    average_N, periods_N = level_N / table.sizes[0], memory.periods(asked)
    unknown_N = asked.others_NK[:, table.axes[0]] < 0
    n_N = np.where(unknown_N, average_N * periods_N, memory.sums(table, asked)[:, 0])
    return np.maximum((n_N + LABEL_PULL * average_N) / (periods_N + LABEL_PULL), SMALLEST)
