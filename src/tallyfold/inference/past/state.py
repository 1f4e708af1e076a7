"""What a fit to the past comes to, step by step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.posterior.forecaster import NO_SPREAD, LevelSpread
from tallyfold.posterior.past_amounts import AmountNumbers, SizeNumbers
from tallyfold.posterior.past_network import Training
from tallyfold.posterior.past_rates import RateNumbers, Season

NOT_TRIED = -1e300
FIRST_RATES, FIRST_AMOUNTS = RateNumbers(), AmountNumbers()
NO_SEASON = Season(0, np.zeros(0))


@dataclass(frozen=True)
class PastState:
    """The best memories and numbers so far.

    Attributes
    ----------
    candidate
        Which memories: their place among the candidates.
    rates, rate_score
        What was learned of whether there is a count, and its log score.
    season
        What comes back; of length 0 if nothing does.
    amount_memory
        Which memory of amounts; -1: every cell has the histogram.
    amounts, amount_score
        What was learned of how many, and its log score.
    sizes
        What was learned of negative binomials, if they are better.
    spread
        How far totals of periods may be off.
    network, network_gain
        The network that corrects the rates, and the least it gained in later periods.
    """

    candidate: int = 0
    rates: RateNumbers = FIRST_RATES
    rate_score: float = NOT_TRIED
    season: Season = NO_SEASON
    amount_memory: int = -1
    amounts: AmountNumbers = FIRST_AMOUNTS
    amount_score: float = NOT_TRIED
    sizes: SizeNumbers | None = None
    spread: LevelSpread = NO_SPREAD
    network: Training | None = None
    network_gain: float = 0.0
