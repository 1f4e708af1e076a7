"""Distributions of counts as histograms with a tail, and the multinomial head behind the rivals."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import zeta
from sklearn.linear_model import LogisticRegression

from tallyfold import CountTensor
from tallyfold.evaluation.metrics import coverage

LAST = 20
"""Counts from here on share one class, and a power law within it."""
FARTHEST = 10_000
FLOOR = 0.01
"""The share of the constant histogram in every prediction of a head."""


@dataclass(frozen=True)
class Scale:
    """The values 1..V that counts take. Where the last class means V and more, it has an exponent.

    A few values of which the smallest is not the most frequent are ratings: the scale ends at the
    largest of them, and nothing has probability outside it.
    """

    n_values: int
    exponent: float | None

    @classmethod
    def of(cls, counts_N):
        values, frequency = np.unique(counts_N, return_counts=True)
        if values[-1] <= LAST and frequency.argmax() > 0:
            return cls(int(values[-1]), None)
        # a made-up count keeps the exponent finite where the training part has none so large
        far = np.append(counts_N[counts_N >= LAST], 2 * LAST)

        def loss(exponent):
            return exponent * np.log(far).mean() + np.log(zeta(exponent, LAST))

        return cls(LAST, float(minimize_scalar(loss, bounds=(1.2, 12.0), method="bounded").x))

    def classes(self, counts_N):
        """Return the class of each count, from zero; -1 outside a bounded scale."""
        if self.exponent is None:
            return np.where(counts_N <= self.n_values, counts_N, 0) - 1
        return np.minimum(counts_N, self.n_values) - 1

    def shares(self, counts_N):
        """Return the share of each class, with half a count added to each."""
        frequency = np.bincount(self.classes(counts_N), minlength=self.n_values) + 0.5
        return frequency / frequency.sum()

    def beyond(self, counts_N):
        """Return the probability of a larger count than each, given the last class."""
        return zeta(self.exponent, np.maximum(counts_N, LAST - 1) + 1.0) / zeta(self.exponent, LAST)


@dataclass(frozen=True)
class Histograms:
    """A distribution over the classes of a scale for each of N cells."""

    scale: Scale
    probability_NV: np.ndarray

    @cached_property
    def cumulative_NV(self):
        return np.minimum(np.cumsum(self.probability_NV, axis=1), 1.0)

    def log_pmf(self, counts_N):
        class_N = self.scale.classes(counts_N)
        mass_N = self.probability_NV[np.arange(len(counts_N)), class_N]
        with np.errstate(divide="ignore"):
            log_N = np.log(np.where(class_N >= 0, mass_N, 0.0))
        if (s := self.scale.exponent) is not None:
            far = counts_N >= LAST
            log_N[far] -= s * np.log(counts_N[far]) + np.log(zeta(s, LAST))
        return log_N

    def cdf(self, counts_N):
        class_N = self.scale.classes(counts_N)
        below_N = self.cumulative_NV[np.arange(len(counts_N)), class_N]
        if self.scale.exponent is None:
            return np.where(class_N >= 0, below_N, 1.0)
        tail_N = 1.0 - self.probability_NV[:, -1] * self.scale.beyond(counts_N)
        return np.where(counts_N >= LAST, tail_N, below_N)

    def median(self):
        median_N = 1 + (self.cumulative_NV < 0.5).sum(axis=1)
        if self.scale.exponent is not None:
            far = median_N >= LAST
            falling_T = self.scale.beyond(np.arange(LAST, FARTHEST))
            wanted = 0.5 / self.probability_NV[far, -1]
            median_N[far] = LAST + np.searchsorted(-falling_T, -wanted)
        return median_N


@dataclass(frozen=True)
class Rival:
    """A fitted rival: what it says of cells, given that their counts are at least one."""

    predictive: Callable[[CountTensor], Histograms]

    def log_pmf(self, test):
        return self.predictive(test).log_pmf(test.counts)

    def median(self, test):
        return self.predictive(test).median()

    def scores(self, test):
        """Return the scores of the page, by the library's names for them."""
        predictive, counts_N = self.predictive(test), test.counts
        log_N = predictive.log_pmf(counts_N)
        segments = SimpleNamespace(segments=(np.exp(log_N), predictive.cdf(counts_N)))
        return {
            "log-pmf-positive": float(log_N.mean()),
            "mae-median": float(np.abs(predictive.median() - counts_N).mean()),
            "coverage-80": coverage(segments, 0.8),
        }


def fit_constant(train):
    """Return the histogram of the training counts, the same for every cell."""
    scale = Scale.of(train.counts)
    share_V = scale.shares(train.counts)
    return Rival(lambda test: Histograms(scale, np.tile(share_V, (test.nnz, 1))))


def fit_head(score_N, counts_N, scale, constant_V):
    """Fit a multinomial regression of classes on a score and its square; return scores -> P."""
    at, spread = score_N.mean(), score_N.std() + 1e-9

    def inputs(score_N):
        z_N = (score_N - at) / spread
        return np.stack([z_N, z_N**2], axis=1)

    regression = LogisticRegression(C=1.0, max_iter=500)
    regression.fit(inputs(score_N), scale.classes(counts_N))

    # classes that these cells lack keep their constant share
    rest_V = constant_V.copy()
    rest_V[regression.classes_] = FLOOR * constant_V[regression.classes_]

    def predictive(score_N):
        probability_NV = np.tile(rest_V, (len(score_N), 1))
        learnt_NC = regression.predict_proba(inputs(score_N))
        probability_NV[:, regression.classes_] += (1 - rest_V.sum()) * learnt_NC
        return Histograms(scale, probability_NV)

    return predictive
