"""Counts of any shape: a probability for each of some bins, and a tail beyond the last.

Small counts have a bin each, rarer ones share bins whose width grows; inside a bin the probability
falls as 1 / count. The last bin is open and has a Lomax tail, or the counts are on a bounded scale
and nothing lies beyond it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.errors import CountError, ParameterError
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.lomax import LomaxTail
from tallyfold.scales import recognised_scale

LEAST_CELLS = 30
"""A bin must have this many counts to be one of its own."""
MOST_SINGLE = 60
"""Counts up to this may have a bin each."""
GROWTH = 1.25
"""How much wider each further bin is."""


@dataclass(frozen=True)
class CountBins:
    """Ranges of counts.

    Attributes
    ----------
    lower_B
        The smallest count of each bin, in ascending order.
    upper
        The largest count there can be; None if the last bin is open.
    """

    lower_B: Ints
    upper: int | None = None

    @classmethod
    def of(
        cls, value_V: Ints, times_V: Ints, scale: tuple[int, int] | str | None = "auto"
    ) -> CountBins:
        """Choose bins for a histogram of counts.

        Parameters
        ----------
        value_V, times_V
            Distinct counts in ascending order, and how often each was seen.
        scale
            The smallest and the largest value there can be; ``"auto"`` recognises a scale by the
            histogram, see `recognised_scale`; None: there is no largest value.
        """
        if scale == "auto":
            scale = recognised_scale(value_V, times_V)
        if isinstance(scale, tuple):
            return cls(np.arange(scale[0], scale[1] + 1), scale[1])
        times_B = np.zeros(MOST_SINGLE + 2)
        np.add.at(times_B, np.minimum(value_V, MOST_SINGLE + 1), times_V)
        often = np.flatnonzero(times_B[: MOST_SINGLE + 1] >= LEAST_CELLS)
        single = int(often[-1]) if len(often) else 1
        lower = [*range(1, single + 1), *_wider_bins(single + 1, value_V, times_V)]
        return cls(np.array(lower, dtype=np.int64))

    @cached_property
    def log_width_B(self) -> Floats:
        """The logarithm of each closed bin's width on a logarithmic scale; 0 for the open one."""
        ends_B = np.append(self.lower_B[1:], (self.upper or self.lower_B[-1]) + 1)
        return np.log(np.log(ends_B / self.lower_B))

    @property
    def single_B(self) -> npt.NDArray[np.bool_]:
        """Which bins hold one count only."""
        last = self.upper is not None
        return np.append(np.diff(self.lower_B) == 1, last)

    def bin_of(self, counts_N: npt.ArrayLike, times_N: Ints | None = None) -> Ints:
        """Return the bin of each count; refuse counts that cannot be.

        `times_N` says how many cells have each count; None: one.
        """
        counts_N = np.asarray(counts_N)
        low, high = int(self.lower_B[0]), self.upper
        bad_N = (counts_N < low) | (counts_N > (np.inf if high is None else high))
        if bad_N.any():
            n_bad = bad_N.sum() if times_N is None else times_N[bad_N].sum()
            what = f"{low} or more" if high is None else f"on the scale {low} to {high}"
            raise CountError(
                f"counts must be {what} for this model; got {np.asarray(counts_N)[bad_N][0]:g} "
                f"({int(n_bad):,} such). "
                + (
                    "Leave such cells out, or fit with zeros='observed'."
                    if high is None
                    else "Fit with a wider `scale`, or scale=None for none."
                )
            )
        return np.searchsorted(self.lower_B, counts_N, side="right") - 1


def _wider_bins(first: int, value_V: Ints, times_V: Ints) -> list[int]:
    """Return the beginnings of bins from a count on, each wide enough to have cells."""

    def cells_from(count: int) -> int:
        return int(times_V[value_V >= count].sum())

    lower = [first]
    while cells_from(lower[-1]) >= 2 * LEAST_CELLS:
        wider = max(lower[-1] + 1, int(np.ceil(lower[-1] * GROWTH)))
        while cells_from(lower[-1]) - cells_from(wider) < LEAST_CELLS:
            wider = int(np.ceil(wider * GROWTH))
        if cells_from(wider) < LEAST_CELLS:
            break
        lower.append(wider)
    return lower


@dataclass(frozen=True)
class CategoricalCounts(CountDistribution):
    """Distributions of N counts over shared bins.

    Attributes
    ----------
    bins
        The ranges of counts.
    prob_NB
        The probability of each bin.
    tail
        The distribution inside the last bin, if it is open.

    Examples
    --------
    >>> stars = CategoricalCounts(CountBins(np.arange(1, 4), 3), np.array([[0.2, 0.2, 0.6]]))
    >>> stars.median().tolist(), stars.mean().round(3).tolist(), stars.cdf([2]).tolist()
    ([3], [2.4], [0.4])
    """

    bins: CountBins
    prob_NB: Floats
    tail: LomaxTail | None = None

    def log_pmf(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log of the pmf at one count per cell."""
        y_N = np.broadcast_to(np.asarray(y_N), self._shape)
        bin_N = self.bins.bin_of(y_N)
        log_N = np.log(np.take_along_axis(self.prob_NB, bin_N[:, None], axis=1)[:, 0])
        wide_N = ~self.bins.single_B[bin_N]
        if wide_N.any():
            y_W, bin_W = y_N[wide_N], bin_N[wide_N]
            log_N[wide_N] += np.log(np.log1p(1 / y_W)) - self.bins.log_width_B[bin_W]
            far_N = self._in_tail(bin_N)
            if far_N.any():
                assert self.tail is not None
                log_tail = np.log(self.prob_NB[far_N, -1])
                log_N[far_N] = log_tail + self.tail.log_pmf(y_N[far_N], log_tail)
        return np.asarray(log_N)

    def cdf(self, y_N: npt.ArrayLike) -> Floats:
        """Return the probability of a count of at most y."""
        y_N = np.broadcast_to(np.asarray(y_N), self._shape)
        within_N = np.clip(y_N, self.bins.lower_B[0], self.bins.upper)
        bin_N = self.bins.bin_of(within_N)
        before_N = np.take_along_axis(self._cumulative_N1B, bin_N[:, None], axis=1)[:, 0]
        own_N = np.take_along_axis(self.prob_NB, bin_N[:, None], axis=1)[:, 0]
        cdf_N = before_N + own_N * (1 - self._share_above(within_N, bin_N))
        return np.asarray(np.where(y_N < self.bins.lower_B[0], 0.0, np.minimum(cdf_N, 1.0)))

    def mean(self) -> Floats:
        """Return the mean of each cell."""
        ends_B = np.append(self.bins.lower_B[1:], (self.bins.upper or self.bins.lower_B[-1]) + 1)
        # a bin's mean under 1 / count, the ends halfway between counts
        width_B = ends_B - self.bins.lower_B
        mean_B = np.where(
            self.bins.single_B, self.bins.lower_B, width_B / np.exp(self.bins.log_width_B) - 0.5
        )
        mean_N = (self.prob_NB[:, :-1] * mean_B[:-1]).sum(axis=1)  # the same beside any others
        if self.tail is None:
            return np.asarray(mean_N + self.prob_NB[:, -1] * mean_B[-1])
        return np.asarray(
            mean_N + self.prob_NB[:, -1] * self.tail.mean(np.log(self.prob_NB[:, -1]))
        )

    def quantile(self, p: npt.ArrayLike) -> Ints:
        """Return, per cell, the smallest count with a cdf of at least p."""
        p_N = np.broadcast_to(np.asarray(p, dtype=np.float64), self._shape)
        if not np.all((p_N >= 0) & (p_N < 1)):
            raise ParameterError("`p` must be in 0 <= p < 1.")
        lower_B, cumulative_NB = self.bins.lower_B, self._cumulative_N1B
        bin_N = np.maximum((cumulative_NB[:, 1:] < p_N[:, None]).sum(axis=1), 0)
        bin_N = np.minimum(bin_N, len(lower_B) - 1)
        count_N = lower_B[bin_N].astype(np.float64)
        wide_N = ~self.bins.single_B[bin_N]
        if wide_N.any():
            rows, bin_W = np.flatnonzero(wide_N), bin_N[wide_N]
            share_W = (p_N[wide_N] - cumulative_NB[rows, bin_W]) / self.prob_NB[rows, bin_W]
            share_W = np.clip(share_W, 0.0, 1.0)
            closed_W = np.ceil(lower_B[bin_W] * np.exp(share_W * self._ratio_B[bin_W])) - 1
            count_W = np.clip(closed_W, lower_B[bin_W], self._last_B[bin_W])
            far_W = self._in_tail(bin_W)
            if self.tail is not None and far_W.any():
                log_tail = np.log(self.prob_NB[rows[far_W], -1])
                count_W[far_W] = self.tail.quantile(share_W[far_W], log_tail)
            count_N[wide_N] = count_W
        return np.asarray(count_N, dtype=np.int64)

    def sample(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw n counts per cell."""
        draws = [self.quantile(rng.random(self._shape)) for _ in range(n)]
        return np.stack(draws)

    def log_at_least(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log probability of a count of at least y."""
        y_N = np.broadcast_to(np.asarray(y_N), self._shape)
        bin_N = self.bins.bin_of(y_N)
        above_NB = np.cumsum(self.prob_NB[:, ::-1], axis=1)[:, ::-1]
        own_N = np.take_along_axis(self.prob_NB, bin_N[:, None], axis=1)[:, 0]
        beyond_N = np.take_along_axis(above_NB, bin_N[:, None], axis=1)[:, 0] - own_N
        beyond_N = np.where(bin_N == len(self.bins.lower_B) - 1, 0.0, beyond_N)
        inside_N = self._share_above(y_N - 1.0, bin_N)
        with np.errstate(divide="ignore"):
            log_N = np.log(np.minimum(beyond_N + own_N * inside_N, 1.0))
        far_N = self._in_tail(bin_N)
        if self.tail is not None and far_N.any():
            log_tail = np.log(self.prob_NB[far_N, -1])
            log_N[far_N] = log_tail + self.tail.log_at_least(y_N[far_N], log_tail)
        return np.asarray(log_N)

    def log_at_most(self, y_N: npt.ArrayLike) -> Floats:
        """Return the log probability of a count of at most y."""
        with np.errstate(divide="ignore"):
            return np.log(self.cdf(y_N))

    def given_positive(self) -> CategoricalCounts:
        """Return the distributions themselves: their counts are at least one."""
        return self

    def with_zeros(self) -> None:
        """Return None: nothing is known of how probable a count is at all."""
        return

    @property
    def _shape(self) -> tuple[int]:
        return (len(self.prob_NB),)

    @cached_property
    def _cumulative_N1B(self) -> Floats:
        """The probability of smaller bins, and a last column of all together."""
        zero_N1 = np.zeros((len(self.prob_NB), 1))
        return np.hstack([zero_N1, np.cumsum(self.prob_NB, axis=1, dtype=np.float64)])

    @property
    def _ratio_B(self) -> Floats:
        return np.exp(self.bins.log_width_B)

    @property
    def _last_B(self) -> Ints:
        return np.append(self.bins.lower_B[1:], (self.bins.upper or self.bins.lower_B[-1]) + 1) - 1

    def _in_tail(self, bin_N: Ints) -> npt.NDArray[np.bool_]:
        return np.asarray((bin_N == len(self.bins.lower_B) - 1) & (self.tail is not None))

    def _share_above(self, y_N: npt.NDArray[np.floating | np.integer], bin_N: Ints) -> Floats:
        """Return what part of a bin's probability lies above a count."""
        lower_N = self.bins.lower_B[bin_N]
        inside_N = np.log((y_N + 1.0) / lower_N) / self._ratio_B[bin_N]
        share_N = 1 - np.clip(inside_N, 0.0, 1.0)
        far_N = self._in_tail(bin_N)
        if self.tail is not None and far_N.any():
            log_tail = np.log(self.prob_NB[far_N, -1])
            share_N[far_N] = np.exp(self.tail.log_at_least(y_N[far_N] + 1.0, log_tail))
        return np.asarray(share_N)


def mixed_categorical(parts: Sequence[CategoricalCounts]) -> CategoricalCounts:
    """Mix distributions of the same cells over the same bins, each with the same weight."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return CategoricalCounts(
        first.bins, np.mean([part.prob_NB for part in parts], axis=0), first.tail
    )
