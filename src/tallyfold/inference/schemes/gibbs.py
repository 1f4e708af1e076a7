"""Gibbs sampling of Gamma factors: one draw of every axis is one step.

Given the factors, counts are split over components by multinomials; given the split, factors are
Gamma (docs/models/bptf-gibbs.md has the derivation). With a cell's exposure w_n:

- shape_dk = a + counts of entity d allocated to component k
- rate_dk  = a * b + sum_n w_n prod_other z_k   (zeros missing: over the cells seen)
- rate_dk  = a * b + prod_other column sums     (zeros observed: over all cells)

Before each axis the allocation and the exposures are drawn anew, from the newest factors: it costs
the same as drawing them once for all axes, and the chain forgets faster.

A step's random numbers are a function of (seed, iteration, axis): a resumed chain is the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.cavi import CAVIState
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Whole
from tallyfold.kernels.layout import AxisLayout
from tallyfold.probability import gamma
from tallyfold.probability.counts import CountLikelihood

START_SWEEPS = 20
"""A chain starts at the means that this many variational sweeps lead to."""

LEAST, MOST = 1e-290, 1e290
"""Rates are kept within these, as in the kernels."""

EXPOSURES, FACTORS = 2, 3
"""What random numbers are for; 0 and 1 are the start's and the validation part's."""


@dataclass(frozen=True)
class Part:
    """A part of a chain: burn-in, which keeps no draw, or the draws after it.

    Attributes
    ----------
    before
        The number of iterations of the chain before this part.
    thin
        Keep every `thin`-th draw; None keeps none.
    """

    before: int = 0
    thin: int | None = None

    def keeps(self, iteration: int) -> bool:
        """Return whether the state after an iteration of this part (from 1 on) is kept."""
        return self.thin is not None and iteration % self.thin == 0


@dataclass(frozen=True)
class GibbsState:
    """The present draw of every axis, and the draws kept (draws x entities x components)."""

    factors: tuple[Floats, ...]
    draws: tuple[Floats, ...]
    prior_rate_M: Floats

    @classmethod
    def from_sweeps(cls, swept: CAVIState) -> GibbsState:
        """Begin a chain at the means of variational sweeps, with no draw kept."""
        factors = tuple(swept.posterior.means)
        return cls(factors, no_draws(factors), swept.prior_rate_M)


@dataclass(frozen=True)
class GibbsStep:
    """One sweep of the sampler; see the module's text.

    Attributes
    ----------
    cells
        What is fitted to.
    likelihood, dispersion
        The distribution of a cell's count given its rate, and the negative binomial's r.
    zeros_observed
        Whether cells without an entry count as zeros; Poisson only.
    prior_shape
        The shape of the factors' Gamma prior.
    prior_rate
        The prior's rate; None learns one per axis during burn-in, then keeps it.
    part
        Burn-in, or the draws after it.
    seed
        Of all randomness.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    prior_shape: float
    part: Part
    prior_rate: float | None = None
    dispersion: float = 1.0
    seed: int = 0
    backend: str = "auto"

    def advance(self, state: GibbsState, iteration: int) -> tuple[GibbsState, float]:
        """Draw every axis once; the objective is the mean log pmf of the cells at the new draw."""
        factors, prior_rate_M = list(state.factors), state.prior_rate_M.copy()
        number = self.part.before + iteration
        for axis in range(self.cells.n_axes):
            factors[axis] = self.draw_axis(axis, factors, float(prior_rate_M[axis]), number)
            if self.prior_rate is None and self.part.thin is None:
                prior_rate_M[axis] = 1 / factors[axis].mean()
        draws = state.draws
        if self.part.keeps(iteration):
            draws = with_draw(draws, factors)
        return GibbsState(tuple(factors), draws, prior_rate_M), self._log_pmf(factors)

    def validation_score(self, state: GibbsState) -> None:
        """Return None: all draws are wanted, so nothing stops a chain early."""
        return

    def draw_axis(
        self, axis: int, factors: list[Floats], prior_rate: float, iteration: int
    ) -> Floats:
        """Draw one axis given the others."""
        cells, layout = self.cells, self.cells.layouts[axis]
        counter = iteration * cells.n_axes + axis
        counts_DK = kernels.allocate_axis(factors, layout, self.seed, counter, backend=self.backend)
        if self.zeros_observed:
            totals = [factor.sum(axis=0) for m, factor in enumerate(factors) if m != axis]
            exposure_DK = np.broadcast_to(np.prod(totals, axis=0), counts_DK.shape)
        else:
            rng = np.random.default_rng([self.seed, iteration, axis, EXPOSURES])
            exposure_DK = exposure_sums(
                rng, factors, cells, layout, self.likelihood, self.dispersion, self.backend
            )
        rate_DK = np.clip(self.prior_shape * prior_rate + exposure_DK, LEAST, MOST)
        rng = np.random.default_rng([self.seed, iteration, axis, FACTORS])
        return gamma.sample(rng, self.prior_shape + counts_DK.astype(float), rate_DK)

    def _log_pmf(self, factors: list[Floats]) -> float:
        total_K = np.prod([factor.sum(axis=0) for factor in factors], axis=0)
        total = float(total_K.sum()) if self.zeros_observed else None
        cells, likelihood = self.cells, self.likelihood
        return mean_log_pmf(factors, cells, likelihood, self.dispersion, total, self.backend)


def draw_exposures(
    rng: np.random.Generator,
    likelihood: CountLikelihood,
    rate_N: Floats,
    counts_N: Whole,
    dispersion: float,
) -> Floats:
    """Draw how much of each cell's rate counts as seen.

    A truncated count is the first that was not zero in a row of trials. The zeros before it are
    geometric, P(f) = P0**f (1 - P0), drawn as the whole part of an exponential over -ln P0: exact,
    and in floating point no rate is too small. A negative binomial's trials have a Gamma(r, r)
    multiplier each; given counts and rates their sum is one Gamma draw.
    """
    rate_N = np.clip(rate_N, LEAST, MOST)
    time_N = dispersion * np.log1p(rate_N / dispersion) if likelihood.dispersed else rate_N
    trials_N = np.ones_like(rate_N)
    if likelihood.truncated:
        unseen_N = np.floor(rng.standard_exponential(len(rate_N)) / time_N)
        trials_N += np.minimum(unseen_N, MOST)
    if not likelihood.dispersed:
        return trials_N
    return rng.standard_gamma(dispersion * trials_N + counts_N) / (dispersion + rate_N)


def exposure_sums(
    rng: np.random.Generator,
    factors: list[Floats],
    cells: TrainingCells,
    layout: AxisLayout,
    likelihood: CountLikelihood,
    dispersion: float,
    backend: str,
) -> Floats:
    """Draw the cells' exposures; per entity, sum them times the other axes' product."""
    if likelihood.name == "poisson":
        return kernels.axis_sums(factors, layout, np.ones(len(cells.counts_N)), backend=backend)
    rate_N = kernels.cell_rates(factors, cells.indices_NM, backend=backend)
    exposure_N = draw_exposures(rng, likelihood, rate_N, cells.counts_N, dispersion)
    return kernels.axis_sums(factors, layout, exposure_N, backend=backend)


def mean_log_pmf(
    factors: list[Floats],
    cells: TrainingCells,
    likelihood: CountLikelihood,
    dispersion: float,
    total: float | None,
    backend: str,
) -> float:
    """Return the mean log pmf of the cells; of all cells if `total`, their total rate, is given."""
    sum_seen = kernels.cell_bound(
        factors,
        factors,
        cells.indices_NM,
        cells.counts_N,
        likelihood=likelihood.name,
        dispersion=dispersion if likelihood.dispersed else None,
        backend=backend,
    )
    if total is None:
        return sum_seen / len(cells.counts_N)
    sum_seen += float(kernels.cell_rates(factors, cells.indices_NM, backend=backend).sum())
    return (sum_seen - total) / float(np.prod(cells.shape, dtype=float))


def no_draws(factors: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return a stack without a draw in it for each array."""
    return tuple(np.empty((0, *factor.shape)) for factor in factors)


def with_draw(draws: Sequence[Floats], factors: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return the stacks of draws with the given values on top."""
    pairs = zip(draws, factors, strict=True)
    return tuple(np.concatenate([stack, factor[None]]) for stack, factor in pairs)


def draws_or_present(draws: Sequence[Floats], factors: Sequence[Floats]) -> list[Floats]:
    """Return the draws of every axis; before the first one is kept, the present factors."""
    return list(draws) if len(draws[0]) else [factor[None] for factor in factors]
