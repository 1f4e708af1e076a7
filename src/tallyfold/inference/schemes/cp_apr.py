"""CP-APR: maximum likelihood for Poisson counts by multiplicative updates.

Rates are sum_k weight_k prod_m factor_mk, each column of a factor sums to one. An axis is visited
with the weights moved into its factor, B. For one axis (docs/models/ptf-kl.md has the derivation)

- phi_dk      = sum_n y_n / rate_n * prod_other       (over the cells with an entry)
- exposure_dk = 1 (zeros observed), sum_n w_n prod_other (zeros missing: over the cells seen)
- B_dk       <- B_dk * phi_dk / exposure_dk

where w_n is 1, or 1 / (1 - exp(-rate_n)) for a likelihood truncated at zero. No update raises the
loss, and the Karush-Kuhn-Tucker conditions min(B, 1 - phi / exposure) = 0 say when to stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability.counts import CountLikelihood

SHIFTS = 6
"""The number of sizes of a shift off zero that are tried, each a tenth of the one before."""


class Visit(NamedTuple):
    """What visiting an axis came to."""

    factor_DK: Floats
    weight_K: Floats
    violation: float  # of the conditions, before any update


@dataclass(frozen=True)
class CPAPRState:
    """Factors whose columns sum to one, the components' weights, and the conditions' violation."""

    factors: tuple[Floats, ...]
    weight_K: Floats
    violation: float = 0.0


@dataclass(frozen=True)
class CPAPRStep:
    """One sweep over the axes, each with inner multiplicative updates; see the module's text.

    Parameters
    ----------
    cells
        What is fitted to.
    likelihood
        Poisson, plain or truncated at zero.
    zeros_observed
        Whether cells without an entry count as zeros; plain Poisson only.
    n_components
        The number of components.
    max_inner, tol
        At most `max_inner` updates per visit; fewer if the conditions hold up to `tol`.
    kappa, kappa_tol
        Entries below `kappa_tol` that should not be zero are raised by up to `kappa`.
    floor
        Below this rate, logarithms go on as their tangent.
    seed
        Of the random start.
    validation
        Cells to score after each sweep.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    n_components: int
    max_inner: int = 10
    tol: float = 1e-4
    kappa: float = 1e-2
    kappa_tol: float = 1e-10
    floor: float = 1e-10
    seed: int = 0
    backend: str = "auto"
    validation: ValidationCells | None = None

    def start(self, previous: object = None) -> CPAPRState:
        """Draw factors, and weigh them so that the rates add up to the counts."""
        rng = np.random.default_rng([self.seed, 0])
        factors = []
        for size, seen_D in zip(self.cells.shape, self.cells.seen, strict=True):
            value_DK = rng.uniform(0.1, 1.0, (size, self.n_components))
            # an entity without a cell has no say where zeros are missing
            value_DK[~seen_D & (not self.zeros_observed)] = 0.0
            factors.append(value_DK / value_DK.sum(axis=0))
        total = float(self.n_components)
        if not self.zeros_observed:
            total = float(self._rates(factors).sum())
        weight = float(self.cells.counts_N.sum()) / total
        return CPAPRState(tuple(factors), np.full(self.n_components, weight))

    def advance(self, state: CPAPRState, iteration: int) -> tuple[CPAPRState, float]:
        """Visit every axis once; a state that satisfies the conditions is returned as it is."""
        factors, weight_K, violation = list(state.factors), state.weight_K, 0.0
        for axis in range(self.cells.n_axes):
            visit = self._visit(axis, factors, weight_K)
            factors[axis], weight_K = visit.factor_DK, visit.weight_K
            violation = max(violation, visit.violation)
        new = CPAPRState(tuple(factors), weight_K, violation)
        return new, self.loss([factors[0] * weight_K, *factors[1:]])

    def loss(self, factors: list[Floats]) -> float:
        """Return minus the log-likelihood, every constant in it, per cell with an entry."""
        rate_N = self._rates(factors)
        high_N = np.maximum(rate_N, self.floor)
        below_N = rate_N - high_N  # zero, but for rates below the floor
        log_N = np.log(high_N) + below_N / self.floor
        total = self._log_factorials - float(self.cells.counts_N @ log_N)
        if self.zeros_observed:
            total += float(np.prod([factor.sum(axis=0) for factor in factors], axis=0).sum())
        elif self.likelihood.truncated:
            seen_N = -np.expm1(-high_N)
            total += float(np.sum(high_N + np.log(seen_N) + below_N / seen_N))
        else:
            total += float(rate_N.sum())
        return total / len(rate_N)

    def validation_score(self, state: CPAPRState) -> float | None:
        """Return the mean log pmf of the validation cells, no rate below the floor."""
        if self.validation is None:
            return None
        pairs = zip(state.factors, self.cells.seen, strict=True)
        known = [mean_over_seen(factor, seen) for factor, seen in pairs]
        known[0] = known[0] * state.weight_K
        rate_N = np.maximum(self.validation.rates(known), self.floor)
        return float(np.mean(self.likelihood.log_pmf(self.validation.cells.counts_N, rate_N)))

    def _visit(self, axis: int, factors: list[Floats], weight_K: Floats) -> Visit:
        """Update one axis until its conditions hold, at most `max_inner` times."""
        factors, alone_DK = [*factors], factors[axis]
        factors[axis] = alone_DK * weight_K
        fixed_DK = self._fixed_exposure(axis, factors)
        ratio_DK, violation = self._ratio(axis, factors, fixed_DK)
        if violation < self.tol:
            return Visit(alone_DK, weight_K, violation)
        first = violation
        stuck_DK = (alone_DK < self.kappa_tol) & (ratio_DK > 1 + self.tol)
        if stuck_DK.any():
            factors[axis] = self._off_zero(axis, factors, stuck_DK * weight_K)
            ratio_DK, violation = self._ratio(axis, factors, fixed_DK)
        for inner in range(1, self.max_inner + 1):
            factors[axis] = factors[axis] * ratio_DK
            if inner < self.max_inner:
                ratio_DK, violation = self._ratio(axis, factors, fixed_DK)
            if violation < self.tol:
                break
        weight_K = factors[axis].sum(axis=0)
        return Visit(factors[axis] / np.where(weight_K > 0, weight_K, 1.0), weight_K, first)

    def _ratio(
        self, axis: int, factors: list[Floats], fixed_DK: Floats | None
    ) -> tuple[Floats, float]:
        """Return phi over exposure, and how far the conditions are from holding."""
        layout = self.cells.layouts[axis]
        phi_DK = kernels.share_sums(factors, layout, floor=self.floor, backend=self.backend)
        exposure_DK = fixed_DK
        if exposure_DK is None:
            seen_N = -np.expm1(-np.maximum(self._rates(factors), self.floor))
            exposure_DK = kernels.axis_sums(factors, layout, 1 / seen_N, backend=self.backend)
        ratio_DK = np.divide(phi_DK, exposure_DK, out=np.ones_like(phi_DK), where=exposure_DK > 0)
        distance_DK = np.minimum(factors[axis] * exposure_DK, 1 - ratio_DK)
        return ratio_DK, float(np.abs(distance_DK).max())

    def _fixed_exposure(self, axis: int, factors: list[Floats]) -> Floats | None:
        """Return the exposure that stays the same while this axis changes; None if it does not."""
        if self.zeros_observed:
            return np.ones_like(factors[axis])
        if self.likelihood.truncated:
            return None
        ones_N = np.ones(len(self.cells.counts_N))
        return kernels.axis_sums(factors, self.cells.layouts[axis], ones_N, backend=self.backend)

    def _off_zero(self, axis: int, factors: list[Floats], direction_DK: Floats) -> Floats:
        """Raise entries that are zero but should not be, by so much that the loss does not rise."""
        before, own_DK = self.loss(factors), factors[axis]
        for power in range(SHIFTS):
            factors[axis] = own_DK + self.kappa * 0.1**power * direction_DK
            if self.loss(factors) <= before:
                return factors[axis]
        return own_DK

    def _rates(self, factors: list[Floats]) -> Floats:
        return kernels.cell_rates(factors, self.cells.indices_NM, backend=self.backend)

    @cached_property
    def _log_factorials(self) -> float:
        return float(gammaln(self.cells.counts_N + 1.0).sum())
