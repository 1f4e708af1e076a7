"""What is told of cells from what came before them: whether there is a count, and how many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.named_arrays import Arrays, named, part_of
from tallyfold.posterior.past_amounts import AmountNumbers, PastAmounts, SizeNumbers
from tallyfold.posterior.past_network import PastNetwork
from tallyfold.posterior.past_rates import Memory, PastRates, RateNumbers, Season
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.hurdle import HurdleCounts

Cells = npt.NDArray[np.integer[Any]]
KINDS = ("decayed", "window", "season")
MOST_FREEDOM = 100.0
MOST_LOG_LEVEL = 3.0


class LevelSpread(NamedTuple):
    """How far the total of a period may be from what is expected: variances of its logarithm.

    All cells of a period share one level, whose logarithm is Student t.

    Attributes
    ----------
    first
        Of the next period.
    further
        What every further period adds.
    freedom
        Degrees of freedom: how many periods the variances were learned from, less one.
    """

    first: float = 0.0
    further: float = 0.0
    freedom: float = MOST_FREEDOM

    def levels(self, ahead: int, rng: np.random.Generator, n: int) -> Floats:
        """Draw the level of a period some periods ahead, relative to what is expected."""
        log_R = self.deviation(ahead) * rng.standard_t(self.freedom, n)
        return np.exp(np.clip(log_R, -MOST_LOG_LEVEL, MOST_LOG_LEVEL))

    def deviation(self, ahead: int) -> float:
        """Return the standard deviation, some periods ahead."""
        return float(np.sqrt(self.first + (ahead - 1) * self.further))


NO_SPREAD = LevelSpread()


@dataclass(frozen=True)
class Forecaster:
    """What tells counts of periods from those before them.

    Attributes
    ----------
    history
        All counts, by combination and period.
    rates
        Whether there is a count; None where zeros are missing.
    amounts
        How many, given that there is one.
    spread
        How far totals of periods may be off.
    network
        What corrects the rates' chances, where a later period said that it helps.
    share
        The share of all cells that history holds: others were hidden from the fit.
    """

    history: History
    rates: PastRates | None
    amounts: PastAmounts
    spread: LevelSpread = NO_SPREAD
    network: PastNetwork | None = None
    share: float = 1.0

    def distribution(self, indices_NM: Cells) -> CountDistribution:
        """Return the predictive distributions of cells; -1 is an unknown label."""
        return self.distribution_at(self.history.asked(indices_NM))

    def distribution_at(self, asked: Asked) -> CountDistribution:
        """Return the predictive distributions of cells, given what is known of the past."""
        amount = self.amounts.distribution(self.history, asked)
        if self.rates is None:
            return amount
        return HurdleCounts(self.log_zero_at(asked), amount)

    def sample(self, indices_NM: Cells, rng: np.random.Generator, n: int) -> Ints:
        """Draw n counts per cell; in each draw, cells of a period share a level."""
        asked = self.history.asked(indices_NM)
        told = self.distribution_at(asked)
        if not isinstance(told, HurdleCounts):
            return told.sample(rng, n)
        level_nN = np.ones((n, len(asked.ahead_N)))
        step_N = asked.known_N + asked.ahead_N
        for step in np.unique(step_N):
            of_N = step_N == step
            ahead = int(asked.ahead_N[of_N][0])
            level_nN[:, of_N] = self.spread.levels(ahead, rng, n)[:, None]
        some_nN = rng.random(level_nN.shape) >= np.exp(level_nN * told.log_zero_N)
        return np.where(some_nN, told.positive.sample(rng, n), 0)

    def log_zero(self, indices_NM: Cells) -> Floats:
        """Return the log probability of no count in cells."""
        return self.log_zero_at(self.history.asked(indices_NM))

    def log_zero_at(self, asked: Asked) -> Floats:
        """Return the same, given what is known of the past."""
        assert self.rates is not None
        log_zero_N = self.rates.log_zero(self.history, asked)
        if self.network is None:
            return log_zero_N
        return self.network.log_zero(self.history, asked, log_zero_N)

    def rates_of(self, indices_NM: Cells) -> Floats:
        """Return the rates of cells; where zeros are missing, their mean counts."""
        asked = self.history.asked(indices_NM)
        if self.rates is None:
            return self.amounts.distribution(self.history, asked).mean()
        if self.network is not None:
            return -self.log_zero_at(asked)
        return np.exp(np.clip(self.rates.log_rates(self.history, asked), -700.0, 30.0))

    def with_periods(self, step_D: Ints) -> Forecaster:
        """Return the same for an axis of time with these steps, counted as those of its history."""
        return replace(self, history=replace(self.history, step_D=step_D))

    # -- as arrays --------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Return all that is needed to build this again, as named arrays."""
        found = named("history/", self.history.arrays())
        found |= named("histogram/", self.amounts.histogram.arrays())
        found["amount_memory"] = _memory_array(self.amounts.memory)
        if self.amounts.numbers is not None:
            found["amount_numbers"] = np.array(self.amounts.numbers)
        if self.amounts.sizes is not None:
            found["amount_sizes"] = np.array(self.amounts.sizes)
        found["spread"] = np.array(self.spread)
        found["share"] = np.array([self.share])
        if self.network is not None:
            found |= named("network/", self.network.arrays())
        if self.rates is not None:
            found["memory"] = _memory_array(self.rates.memory)
            found["numbers"] = np.array(self.rates.numbers)
            if self.rates.margins is not None:
                found["margins"] = _memory_array(self.rates.margins)
            if self.rates.season is not None:
                found["season"] = np.array([self.rates.season.length, *self.rates.season.power_K])
        return found

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Forecaster | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        histogram = CountHead.from_arrays(part_of(arrays, "histogram/"))
        if histogram is None:
            raise ValueError("no histogram of counts")
        numbers = arrays.get("amount_numbers")
        amounts = PastAmounts(
            histogram,
            _memory(arrays["amount_memory"]),
            None if numbers is None else AmountNumbers(*numbers.tolist()),
            SizeNumbers(*arrays["amount_sizes"].tolist()) if "amount_sizes" in arrays else None,
        )
        rates = None
        if "memory" in arrays:
            margins = _memory(arrays["margins"]) if "margins" in arrays else None
            learned = RateNumbers(*arrays["numbers"].tolist())
            length, *power = arrays["season"].tolist() if "season" in arrays else [0]
            season = Season(int(length), np.array(power)) if length else None
            rates = PastRates(_memory(arrays["memory"]), margins, learned, season)
        spread = LevelSpread(*arrays["spread"].tolist())
        history = History.from_arrays(part_of(arrays, "history/"))
        network = PastNetwork.from_arrays(part_of(arrays, "network/"))
        [share] = arrays["share"].tolist() if "share" in arrays else [1.0]
        return cls(history, rates, amounts, spread, network, share)


def _memory_array(memory: Memory) -> Floats:
    return np.array([KINDS.index(memory.kind), memory.length], dtype=np.float64)


def _memory(array: Floats) -> Memory:
    number, length = array.tolist()
    return Memory(KINDS[int(number)], length)  # type: ignore[arg-type]
