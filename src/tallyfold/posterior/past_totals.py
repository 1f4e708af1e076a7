"""Totals of labels, told from their own past: how many counts a label has in a period.

A label's rate is its decayed mean, pulled to that of the average label; all rates of a period go on
with the change of the whole total, as far as was learned. The total is negative binomial around
that: counts arrive in groups, a rate with a short history is unsure, and rates drift, the further
the more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.past_rates import RECENT, Memory, Season
from tallyfold.probability import negative_binomial

SMALLEST = 1e-9
LARGEST_LOG = 40.0


class TotalFeatures(NamedTuple):
    """What totals are made of, for N labels at some periods.

    Attributes
    ----------
    sums_N, periods_N
        The counts that are remembered of a label, and of how many periods.
    average_N
        The counts that the average label has in a period, as remembered.
    log_recent_N
        ln of how the whole total of the last periods compares with the longer memory of it.
    """

    sums_N: Floats
    periods_N: Floats
    average_N: Floats
    log_recent_N: Floats


class TotalNumbers(NamedTuple):
    """What is learned of the totals of an axis's labels.

    Attributes
    ----------
    log_pull, level, recent
        The weight of the average label, in periods; what all are multiplied by, as a logarithm; how
        much of a change of the whole total goes on.
    log_groups
        By how much groups of counts make the variance of chance larger.
    log_own, log_first, log_further
        Variances of a rate relative to its square: of one that is known by a single count, of the
        next period, and what every further period adds.
    """

    log_pull: float = -1.0
    level: float = 0.0
    recent: float = 0.5
    log_groups: float = -1.0
    log_own: float = -1.0
    log_first: float = -3.0
    log_further: float = -4.0

    def distribution(self, features: TotalFeatures, ahead_N: Ints) -> Totals:
        """Return the distributions of totals."""
        pull = np.exp(self.log_pull)
        rate_N = (features.sums_N + pull * features.average_N) / (features.periods_N + pull)
        mean_N = rate_N * np.exp(self.level + self.recent * features.log_recent_N)
        mean_N = np.maximum(mean_N, SMALLEST)
        drift_N = np.exp(self.log_first) + (ahead_N - 1.0) * np.exp(self.log_further)
        own_N = np.exp(self.log_own) / (features.sums_N + 1.0)
        return Totals(mean_N, 1 / (np.exp(self.log_groups) / mean_N + own_N + drift_N))


class Totals(NamedTuple):
    """Negative binomial distributions of totals, by mean and dispersion."""

    mean_N: Floats
    size_N: Floats

    def log_pmf(self, total_N: Floats) -> Floats:
        """Return the log probability of one total each."""
        return negative_binomial.log_pmf(total_N, self.mean_N, self.size_N)

    def of_all(self, share: float) -> Totals:
        """Return the same of all cells, where these are totals of a share of them."""
        return Totals(self.mean_N / share, self.size_N)

    def below(self, total_N: Floats) -> tuple[Floats, Floats]:
        """Return the probability of less than a total, and of at most as much."""
        upto_N = negative_binomial.cdf(total_N, self.mean_N, self.size_N)
        less_N = negative_binomial.cdf(np.maximum(total_N - 1, 0), self.mean_N, self.size_N)
        return np.where(total_N > 0, less_N, 0.0), upto_N

    def quantile(self, p: float) -> Ints:
        """Return the smallest totals that are not exceeded with at least a probability."""
        from scipy.stats import nbinom

        found_N = nbinom.ppf(p, self.size_N, self.size_N / (self.size_N + self.mean_N))
        return np.asarray(np.maximum(found_N, 0)).astype(np.int64)

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n totals each: n rows."""
        shape = (n, len(self.mean_N))
        sizes = np.broadcast_to(self.size_N, shape)
        return negative_binomial.sample(rng, np.broadcast_to(self.mean_N, shape), sizes)


@dataclass(frozen=True)
class PastTotals:
    """How totals of an axis's labels are made of history.

    Attributes
    ----------
    axis
        Its position among the other axes.
    memory
        How the past fades.
    numbers
        What was learned.
    """

    axis: int
    memory: Memory
    numbers: TotalNumbers

    def features(self, history: History, asked: Asked) -> TotalFeatures:
        """Return what totals of labels are made of."""
        whole, table = history.totals[0], history.totals[1 + self.axis]
        periods_N = self.memory.periods(asked)
        level_N = _level(self.memory.sums(whole, asked)[:, 1], periods_N)
        short = Memory("decayed", RECENT)
        recent_N = _level(short.sums(whole, asked)[:, 1], short.periods(asked))
        return TotalFeatures(
            self.memory.sums(table, asked)[:, 1],
            periods_N,
            level_N / history.sizes[self.axis],
            np.log(recent_N / level_N),
        )

    def distribution(self, history: History, asked: Asked) -> Totals:
        """Return the distributions of labels' totals."""
        return self.numbers.distribution(self.features(history, asked), asked.ahead_N)


def labels_asked(history: History, axis: int, label_N: Ints, known: int, ahead: int) -> Asked:
    """Return what is asked of labels of an axis at a period, as it looks from an earlier one."""
    others_NK = np.full((len(label_N), len(history.sizes)), -1, np.int32)
    others_NK[:, axis] = label_N
    return Asked(others_NK, np.full(len(label_N), known), np.full(len(label_N), ahead))


def whole_levels(history: History, memory: Memory, season: Season | None, horizon: int) -> Floats:
    """Return the expected totals of the next periods, as the spread of levels was learned."""
    ahead_H = np.arange(1, horizon + 1)
    none_HK = np.full((horizon, len(history.sizes)), -1, np.int32)
    asked = Asked(none_HK, np.full(horizon, history.n_periods - 1), ahead_H)
    whole = history.totals[0]
    mean_H = _level(memory.sums(whole, asked)[:, 1], memory.periods(asked))
    if season is None:
        return mean_H
    before_H = _level(Memory("season", season.length).sums(whole, asked)[:, 1], np.ones(horizon))
    power = min(float(season.power_K.max()), 1.0)
    return np.where(before_H > 1, mean_H * (before_H / mean_H) ** power, mean_H)


def _level(sums_N: Floats, periods_N: Floats) -> Floats:
    return np.asarray(np.maximum(sums_N, SMALLEST) / np.maximum(periods_N, SMALLEST))
