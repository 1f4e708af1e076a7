"""A chain of Gamma factors along an axis that has an order: each step's are near the last one's.

Between two steps stand counts as would have been seen of the factor before, with the exposure s:

    l_t ~ Poisson(s theta_(t-1)),    theta_t ~ Gamma(a + l_t, a b + s),    theta_1 ~ Gamma(a, a b)

Given the last one, a factor's mean is (a + s theta_(t-1)) / (a b + s). On its own every factor is
Gamma(a, a b), as without a chain, whatever s is; the correlation of neighbours is
rho = s / (a b + s), and that of factors n steps apart rho^n, so that steps may be missing: their
s is that of rho^n. With rho = 0 nothing is left of the chain.

All is conjugate. Given l, factors are independent Gammas; given factors, l has a Bessel
distribution (`probability.bessel`), and the best one of its kind is put in wherever it is needed:
a state has no l. With G for geometric means and E for means, the chain adds to the bound

    sum_t a ln(1 + r) - s (E_(t-1) + E_t) + ln 0F1(a; s (a b + s) G_(t-1) G_t),    r = s / (a b),

and every update of factors, of b and of rho raises it.

References
----------
Gourieroux and Jasiak, "Autoregressive Gamma Processes", Journal of Forecasting 25, 2006. Schein,
Linderman, Zhou, Blei and Wallach, "Poisson-Randomized Gamma Dynamical Systems", NeurIPS 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from tallyfold.posterior.gamma_posterior import GammaTable, Rows
from tallyfold.probability import bessel

Floats = npt.NDArray[np.float64]

LEAST, MOST = -7.0, 12.0
"""Of the log odds of a correlation; below, there is none."""
SHUFFLES, SURELY = 50, 3.0
"""By how many standard deviations, over so many random orders, neighbours must be more alike."""
HALVINGS = 6
"""Of an interval of log odds, one wide, that has the best one in it."""


@dataclass(frozen=True)
class GammaChain:
    """The rows of an axis that follow each other, under a prior Gamma(shape, shape * b).

    Attributes
    ----------
    shape
        Of the factors' prior.
    before_L, after_L
        Pairs of neighbouring rows.
    gap_L
        How many steps the second is after the first.
    """

    shape: float
    before_L: npt.NDArray[np.int64]
    after_L: npt.NDArray[np.int64]
    gap_L: Floats

    @classmethod
    def of(
        cls, shape: float, step_D: npt.NDArray[np.int64], seen_D: npt.NDArray[np.bool_]
    ) -> GammaChain:
        """Link the rows that were seen, in the order of their steps.

        Examples
        --------
        >>> GammaChain.of(1.0, np.array([3, 1, 2]), np.array([True, True, False])).gap_L
        array([2.])
        """
        rows = np.flatnonzero(seen_D)
        rows = rows[np.argsort(step_D[rows], kind="stable")]
        return cls(shape, rows[:-1], rows[1:], np.diff(step_D[rows]).astype(np.float64))

    def _pulls(self, correlation: float) -> Floats:
        """Return s / (a b) of every pair."""
        power_L = correlation**self.gap_L
        return np.asarray(power_L / (1 - power_L))

    def _between(self, table: GammaTable, b: float, pull_L: Floats) -> Floats:
        """Return the means of the counts between neighbours."""
        return bessel.mean(self.shape, self._products(table, b, pull_L))

    def _products(self, table: GammaTable, b: float, pull_L: Floats) -> Floats:
        geo_DK, rate = table.geometric_mean_DK, self.shape * b
        scale_L1 = (rate**2 * pull_L * (1 + pull_L))[:, None]
        return np.asarray(scale_L1 * geo_DK[self.before_L] * geo_DK[self.after_L])

    def _pair_sums(self, table: GammaTable) -> Floats:
        mean_D = table.mean_DK.sum(axis=1)
        return np.asarray(mean_D[self.before_L] + mean_D[self.after_L])

    def added(self, table: GammaTable, b: float, correlation: float) -> tuple[Floats, Floats]:
        """Return what neighbours, at the posteriors of a table, add to shapes and to rates."""
        pull_L = self._pulls(correlation)
        between_LK = self._between(table, b, pull_L)
        shape_DK, rate_D1 = np.zeros(table.shape_DK.shape), np.zeros((len(table.shape_DK), 1))
        for rows_L in (self.before_L, self.after_L):  # each row is in either once at most
            shape_DK[rows_L] += between_LK
            rate_D1[rows_L, 0] += self.shape * b * pull_L
        return shape_DK, rate_D1

    def gain(self, table: GammaTable, b: float, correlation: float) -> float:
        """Return what the chain adds to the bound."""
        pull_L = self._pulls(correlation)
        product_LK = self._products(table, b, pull_L)
        free = self.shape * product_LK.shape[1] * np.log1p(pull_L).sum()
        tied = self.shape * b * float(pull_L @ self._pair_sums(table))
        return float(free - tied + bessel.log_sum(self.shape, product_LK).sum())

    def learnt_rate(self, table: GammaTable, b: float, correlation: float, rows: Rows) -> float:
        """Return a prior rate b that raises the bound; of some rows, with all that are linked."""
        pull_L = self._pulls(correlation)
        mean_DK = table.mean_DK[rows]
        counts = self.shape * mean_DK.size + 2 * self._between(table, b, pull_L).sum()
        exposed = mean_DK.sum() + pull_L @ self._pair_sums(table)
        return float(counts / (self.shape * exposed))

    def learnt_correlation(self, table: GammaTable, b: float, correlation: float) -> float:
        """Return the correlation, uphill from the one given, where the bound is highest."""
        if not correlation and not self._is_ordered(table):
            return 0.0
        low = max(logit(correlation), LEAST) if correlation else LEAST
        step = 1.0 if self._slope(table, b, low) > 0 else -1.0
        while LEAST <= (high := low + step) <= MOST and self._slope(table, b, high) * step > 0:
            low = high
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._slope(table, b, middle) * step > 0:
                low = middle
            else:
                high = middle
        return 0.0 if low <= LEAST else float(expit(low))

    def _is_ordered(self, table: GammaTable) -> bool:
        """Return whether neighbours are more alike than in a random order, beyond chance.

        Without this a chain would also take courses that vary less than the prior says for smooth.
        """
        root_DK = np.sqrt(table.geometric_mean_DK)
        rows_D = np.append(self.before_L[:1], self.after_L)
        rng = np.random.default_rng(0)
        orders = [rows_D, *(rng.permutation(rows_D) for _ in range(SHUFFLES))]
        alike = np.array([np.vdot(root_DK[order[:-1]], root_DK[order[1:]]) for order in orders])
        return bool(alike[0] - alike[1:].mean() > SURELY * alike[1:].std())

    def _slope(self, table: GammaTable, b: float, log_odds: float) -> float:
        """Return the derivative of the gain by the log odds of the correlation."""
        pull_L = self._pulls(float(expit(log_odds)))
        between_L = self._between(table, b, pull_L).sum(axis=1)
        n_components = table.shape_DK.shape[1]
        tied_L = self.shape * b * (1 + pull_L) * self._pair_sums(table)
        terms_L = pull_L * (self.shape * n_components - tied_L) + (1 + 2 * pull_L) * between_L
        return float((self.gap_L * terms_L).sum() * expit(-log_odds))
