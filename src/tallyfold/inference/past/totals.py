"""Learning how the past of an axis's labels leads to their next totals.

All that is needed is the history of a fit, so that it can be learned whenever totals are asked for.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from tallyfold.inference.past.learning import uphill
from tallyfold.inference.past.periods import MOST_AHEAD, RECENCY, last_periods
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.forecaster import Forecaster
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.past_rates import Memory
from tallyfold.posterior.past_totals import (
    PastTotals,
    TotalFeatures,
    TotalNumbers,
    labels_asked,
)

DECAYS = (0.5, 0.7, 0.85, 0.95)
MOST_LABELS = 400
"""Learned on at most this many labels of an axis, drawn at random."""
FEW_TRIES, MANY_TRIES = 60, 400


def learned_totals(forecaster: Forecaster, axis: int) -> PastTotals:
    """Learn the numbers of an axis's totals on the last periods of a history."""
    history, rates = forecaster.history, forecaster.rates
    assert rates is not None
    memories = [rates.memory]
    if rates.memory.kind == "decayed" and rates.margins is not None:
        memories = [Memory("decayed", decay) for decay in DECAYS]
    asked, total_N, weight_N = _last_totals(history, axis)
    best, best_score = PastTotals(axis, memories[0], TotalNumbers()), -np.inf
    for memory in memories if len(total_N) else ():
        past = PastTotals(axis, memory, TotalNumbers())
        features = past.features(history, asked)
        tries = FEW_TRIES if len(memories) > 1 else MANY_TRIES
        numbers, score = _learned(past.numbers, features, asked.ahead_N, total_N, weight_N, tries)
        if score > best_score:
            best, best_score = PastTotals(axis, memory, numbers), score
    if len(memories) > 1 and len(total_N):
        features = best.features(history, asked)
        numbers, _ = _learned(best.numbers, features, asked.ahead_N, total_N, weight_N, MANY_TRIES)
        best = PastTotals(axis, best.memory, numbers)
    return best


def _last_totals(history: History, axis: int) -> tuple[Asked, Floats, Floats]:
    """Return labels at the last periods as they look from some before, their totals, and weights.

    Labels without a count by then are left out.
    """
    table = history.totals[1 + axis]
    seen_L = np.unique(table.key_E)
    if len(seen_L) > MOST_LABELS:
        seen_L = np.sort(np.random.default_rng(axis).choice(seen_L, MOST_LABELS, replace=False))
    parts: list[Asked] = []
    totals: list[Floats] = []
    last = history.n_periods - 1
    for step in last_periods(history.n_periods):
        for ahead in range(1, min(MOST_AHEAD, step) + 1):
            asked = labels_asked(history, axis, seen_L, step - ahead, ahead)
            known_L = table.rows(asked.others_NK, asked.known_N) >= 0
            parts.append(asked.where(known_L))
            totals.append(totals_at(history, axis, seen_L[known_L], step))
    asked = reduce(Asked.beside, parts)
    weight_N = RECENCY ** (last - asked.known_N - asked.ahead_N).astype(np.float64)
    return asked, np.concatenate(totals), weight_N


def totals_at(history: History, axis: int, label_L: Ints, step: int) -> Floats:
    """Return what labels had in a period."""
    table = history.totals[1 + axis]
    asked = labels_asked(history, axis, label_L, step, 1)
    row_L = table.rows(asked.others_NK, asked.known_N)
    now_L = (row_L >= 0) & (table.step_E[row_L] == step)
    return np.asarray(np.where(now_L, table.sums_E2[row_L, 1], 0.0))


def _learned(
    start: TotalNumbers,
    features: TotalFeatures,
    ahead_N: Ints,
    total_N: Floats,
    weight_N: Floats,
    tries: int,
) -> tuple[TotalNumbers, float]:
    """Return the best numbers, and their mean log score."""
    centre_F = np.array(TotalNumbers())

    def score(value_F: Floats) -> float:
        numbers = TotalNumbers(*value_F.tolist())
        if not 0 <= numbers.recent <= 1:
            return -np.inf
        told_N = numbers.distribution(features, ahead_N).log_pmf(total_N)
        return float(weight_N @ told_N / weight_N.sum())

    best_F = uphill(score, np.array(start), centre_F, float(weight_N.sum()), tries)
    return TotalNumbers(*best_F.tolist()), score(best_F)
