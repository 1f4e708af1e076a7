"""How many, given that there is a count, from what happened before.

The distribution is the histogram of all counts, tilted by a power of the count so that the mean of
ln y is what the cell's labels and their combination had before: their decayed means, each pulled to
that of the smaller sets. Nothing is assumed of its shape, and it has a fitted tail. Where large
counts are common, a negative binomial around the same means may be better: it can be narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.count_head import CountHead, with_base
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.past_rates import Memory
from tallyfold.probability.categorical import CategoricalCounts
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.mixture import CountMixture

TILTS = np.linspace(-12.0, 8.0, 201)
TRUNCATED = COUNTS["negative-binomial", True]
LOG_RATES, LARGEST_LOG = np.linspace(-5.0, 5.0, 101), 30.0
FIRST_PULL = 1.0
"""After how many cells the recent mean of ln y counts as much as that of the histogram."""


class AmountFeatures(NamedTuple):
    """Numbers of cells and sums of ln y: of all, of single labels, of sets between, of the whole.

    The middle two have a column for each label, and for each set.
    """

    all_N2: Floats
    singles_NS2: Floats
    between_NS2: Floats
    whole_N2: Floats


class AmountNumbers(NamedTuple):
    """What is learned of how many: pulls, in cells, and the weights of labels and of sets."""

    log_label_pull: float = 2.0
    label_weight: float = 1.0
    log_set_pull: float = 3.0
    set_weight: float = 0.5
    log_whole_pull: float = 1.0

    def means(self, features: AmountFeatures, centre: float) -> Floats:
        """Return the expected means of ln y."""
        mean_N = _pulled(features.all_N2, np.full(len(features.all_N2), centre), FIRST_PULL)
        mean_N = mean_N + self.label_weight * _differences(
            features.singles_NS2, mean_N, np.exp(self.log_label_pull)
        )
        mean_N = mean_N + self.set_weight * _differences(
            features.between_NS2, mean_N, np.exp(self.log_set_pull)
        )
        return _pulled(features.whole_N2, mean_N, np.exp(self.log_whole_pull))


def _pulled(sums_N2: Floats, to_N: Floats, pull: float) -> Floats:
    return np.asarray((sums_N2[..., 1] + pull * to_N) / (sums_N2[..., 0] + pull))


def _differences(sums_NS2: Floats, mean_N: Floats, pull: float) -> Floats:
    """Return how far labels are off, added up."""
    off_NS = _pulled(sums_NS2, mean_N[:, None], pull) - mean_N[:, None]
    return np.asarray(off_NS.sum(axis=1))


class SizeNumbers(NamedTuple):
    """What is learned of negative binomials around the expected means of ln y.

    Attributes
    ----------
    log_scale
        ln of a rate over that of a Poisson count, of at least one, with such a mean of ln y.
    log_variance, log_own
        Variances of a rate relative to its square: of any cell, and what one without history adds.
    """

    log_scale: float = 0.0
    log_variance: float = -1.0
    log_own: float = -1.0

    def rates(self, mean_N: Floats) -> Floats:
        """Return the rates of cells."""
        log_N = np.interp(mean_N, _means_of_logs(), LOG_RATES)
        log_N = np.where(mean_N > LOG_RATES[-1], mean_N, log_N)
        return np.exp(np.clip(log_N + self.log_scale, LOG_RATES[0], LARGEST_LOG))

    def dispersions(self, features: AmountFeatures) -> Floats:
        """Return the dispersions of cells."""
        own_N = np.exp(self.log_own) / (1 + features.whole_N2[:, 0])
        return np.asarray(1 / (np.exp(self.log_variance) + own_N))


@cache
def _means_of_logs() -> Floats:
    """Return the mean of ln y of Poisson counts of at least one, at each of `LOG_RATES`."""
    y_Y = np.arange(1, 400)
    log_TY = y_Y * LOG_RATES[:, None] - gammaln(y_Y + 1) - np.exp(LOG_RATES)[:, None]
    share_TY = np.exp(log_TY)
    return np.asarray(share_TY @ np.log(y_Y) / share_TY.sum(axis=1))


@dataclass(frozen=True)
class PastAmounts:
    """How distributions of counts of at least one are made of history.

    Attributes
    ----------
    histogram
        Bins, their shares and the tail, of all counts.
    memory
        How the past fades.
    numbers
        What was learned; None: the histogram is that of every cell.
    sizes
        What was learned of negative binomials, if they are better than the tilted histogram.
    """

    histogram: CountHead
    memory: Memory
    numbers: AmountNumbers | None
    sizes: SizeNumbers | None = None

    @cached_property
    def log_lower_B(self) -> Floats:
        """Logarithm of the smallest count of each bin."""
        return np.log(self.histogram.bins.lower_B)

    @cached_property
    def means_T(self) -> Floats:
        """The mean of ln y at each tilt."""
        return self._tilted(TILTS) @ self.log_lower_B

    @property
    def centre(self) -> float:
        """The mean of ln y of the histogram."""
        return float(self.histogram.base_B @ self.log_lower_B)

    def features(self, history: History, asked: Asked) -> AmountFeatures:
        """Return what distributions of cells are made of."""
        empty, whole = history.tables[0], history.whole
        several = len(history.sizes) > 1
        singles = history.singles if several else ()

        def sums(tables: tuple[object, ...]) -> Floats:
            found = [self.memory.sums(table, asked) for table in tables]  # type: ignore[arg-type]
            return np.stack(found, axis=1) if found else np.zeros((len(asked.known_N), 0, 2))

        return AmountFeatures(
            self.memory.sums(empty, asked),
            sums(singles),
            sums(history.between),
            self.memory.sums(whole, asked),
        )

    def tilts(self, numbers: AmountNumbers, features: AmountFeatures) -> Floats:
        """Return the power of the count by which each cell's histogram is tilted."""
        means_N = numbers.means(features, self.centre)
        return np.interp(means_N, self.means_T, TILTS)

    def log_bins(self, tilt_N: Floats, bin_N: Ints) -> Floats:
        """Return the log probability of one bin per cell."""
        log_N = np.log(self.histogram.base_B)[bin_N] + tilt_N * self.log_lower_B[bin_N]
        return np.asarray(log_N - np.interp(tilt_N, TILTS, self._log_norm_T))

    @cached_property
    def _log_norm_T(self) -> Floats:
        return np.log(np.exp(TILTS[:, None] * self.log_lower_B) @ self.histogram.base_B)

    def log_pmf(
        self, numbers: AmountNumbers, sizes: SizeNumbers, features: AmountFeatures, counts_N: Ints
    ) -> Floats:
        """Return the log probability of one count per cell, by negative binomials."""
        rate_N = sizes.rates(numbers.means(features, self.centre))
        return TRUNCATED.log_pmf(counts_N, rate_N, sizes.dispersions(features))

    def distribution(self, history: History, asked: Asked) -> CountDistribution:
        """Return the distributions of cells' counts, given that they are at least one."""
        if self.sizes is not None and self.numbers is not None:
            features = self.features(history, asked)
            rate_N = self.sizes.rates(self.numbers.means(features, self.centre))
            return CountMixture(TRUNCATED, rate_N[None], self.sizes.dispersions(features))
        tilt_N = np.zeros(len(asked.known_N))
        if self.numbers is not None:
            tilt_N = self.tilts(self.numbers, self.features(history, asked))
        base_B = self.histogram.base_B
        prob_NB = with_base(self._tilted(tilt_N), base_B)
        return CategoricalCounts(self.histogram.bins, prob_NB, self.histogram.tail)

    def _tilted(self, tilt_N: Floats) -> Floats:
        weight_NB = np.exp(tilt_N[:, None] * self.log_lower_B)
        weight_NB *= self.histogram.base_B
        return np.asarray(weight_NB / weight_NB.sum(axis=1, keepdims=True))
