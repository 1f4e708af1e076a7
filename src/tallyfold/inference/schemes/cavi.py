"""Coordinate-ascent variational inference of Gamma factors: one sweep over the axes is one step.

With auxiliary multinomials the updates are closed (docs/models/bptf.md has the derivation). For a
cell n with count y, geometric means G and arithmetic means E of the factors:

- shape_dk = a + sum_n y * share_nk,          share_nk proportional to prod_m G_mk
- rate_dk  = a * b + sum_n w_n prod_other E_k   (zeros missing: over the cells seen)
- rate_dk  = a * b + prod_other column sums     (zeros observed: over all cells)

where w_n, the expected exposure, is 1 for a plain Poisson and more for a truncated one, whose
unseen zeros count as exposure too. b = 1 / mean(E) maximises the bound in the prior rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.schemes.dispersion import best_dispersion, is_power_of_two
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability import gamma
from tallyfold.probability.counts import COUNTS, CountLikelihood

Floats = npt.NDArray[np.float64]

START_SHAPE = 100.0
"""Factors start as draws around one with this shape: close together, but not equal."""


@dataclass(frozen=True)
class CAVIState:
    """What a sweep starts from.

    Attributes
    ----------
    posterior
        Gamma posteriors of all axes.
    prior_rate_M
        Of each axis's prior, in units of the prior's shape.
    dispersion
        The negative binomial's r; None if the likelihood is a Poisson.
    """

    posterior: GammaPosterior
    prior_rate_M: Floats
    dispersion: float | None

    def likelihood(self, truncated: bool) -> CountLikelihood:
        """Return the distribution of a count given its rate."""
        return COUNTS["poisson" if self.dispersion is None else "negative-binomial", truncated]


@dataclass(frozen=True)
class CAVIStep:
    """Coordinate ascent on the bound; see the module's text.

    Attributes
    ----------
    cells
        What is fitted to.
    likelihood
        The distribution of a cell's count given its rate, unless the state has another family.
    zeros_observed
        Whether cells without an entry count as zeros; Poisson only.
    n_components, prior_shape
        The number of components, and the shape of the factors' Gamma prior.
    prior_rate
        The prior's rate; None learns one per axis.
    dispersion
        The negative binomial's r; None learns it.
    seed
        Of the random start.
    validation
        Cells to score after each sweep.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    n_components: int
    prior_shape: float
    prior_rate: float | None = None
    dispersion: float | None = None
    seed: int = 0
    backend: str = "auto"
    validation: ValidationCells | None = None

    def start(self, previous: object = None) -> CAVIState:
        """Draw factors close to one, scaled so that the mean rate is the mean count."""
        rng = np.random.default_rng([self.seed, 0])
        cells = self.cells
        n_cells = np.prod(cells.shape, dtype=float) if self.zeros_observed else cells.n_cells
        mean_count = max(cells.total_count / n_cells, 1e-12)
        scale = (mean_count / self.n_components) ** (1 / cells.n_axes)
        prior_rate = 1 / scale if self.prior_rate is None else self.prior_rate / self.prior_shape
        tables = []
        for size in cells.shape:
            noise_DK = rng.gamma(START_SHAPE, 1 / START_SHAPE, (size, self.n_components))
            shape_DK = np.full_like(noise_DK, START_SHAPE)
            tables.append(GammaTable(shape_DK, START_SHAPE / (scale * noise_DK)))
        dispersion = 1.0 if self.dispersion is None else self.dispersion
        return CAVIState(
            GammaPosterior(tuple(tables)),
            np.full(cells.n_axes, prior_rate),
            dispersion if self.likelihood.dispersed else None,
        )

    def advance(self, state: CAVIState, iteration: int) -> tuple[CAVIState, float]:
        """Update every axis once, then the dispersion; return the bound."""
        posterior, prior_rate_M = state.posterior, state.prior_rate_M.copy()
        terms = self.terms(state, self.cells)
        for axis in range(self.cells.n_axes):
            prior_rate = float(prior_rate_M[axis])
            table = self.updated(axis, posterior, prior_rate, terms, state.dispersion)
            posterior = posterior.replace(axis, table)
            if self.prior_rate is None:
                prior_rate_M[axis] = 1 / table.mean_DK.mean()
        new = CAVIState(posterior, prior_rate_M, state.dispersion)
        new = self.with_dispersion(new, self.cells, iteration)
        return new, self.bound(new)

    def updated(
        self,
        axis: int,
        posterior: GammaPosterior,
        prior_rate: float,
        terms: CellTerms,
        dispersion: float | None,
        weight: float = 1.0,
    ) -> GammaTable:
        """Return the posteriors that cells, each counted `weight` times, give an axis."""
        geo = posterior.geometric_means
        phi_DK, exposure_DK = terms.sums(axis, geo, posterior.means, dispersion)
        a = self.prior_shape
        return GammaTable(a + weight * geo[axis] * phi_DK, a * prior_rate + weight * exposure_DK)

    def with_dispersion(self, state: CAVIState, cells: TrainingCells, iteration: int) -> CAVIState:
        """Learn the negative binomial's r, ever more rarely; a Poisson has none."""
        r = state.dispersion
        if r is None or self.dispersion is not None or not is_power_of_two(iteration):
            return state
        likelihood, mean = state.likelihood(self.likelihood.truncated), state.posterior.means
        return replace(state, dispersion=best_dispersion(cells, likelihood, mean, r, self.backend))

    def bound(self, state: CAVIState) -> float:
        """Return the evidence lower bound, every constant in it."""
        posterior = state.posterior
        terms = self.terms(state, self.cells)
        total = terms.bound(posterior.geometric_means, posterior.means, state.dispersion)
        for table, prior_rate in zip(posterior.axes, state.prior_rate_M, strict=True):
            total -= self.divergence(table, prior_rate)
        return total

    def divergence(self, table: GammaTable, prior_rate: float) -> float:
        """Return the Kullback-Leibler divergence of an axis's posterior from its prior."""
        a = self.prior_shape
        return float(gamma.kl(table.shape_DK, table.rate_DK, a, a * prior_rate).sum())

    def validation_score(self, state: CAVIState) -> float | None:
        """Score the validation cells at the posterior means."""
        if self.validation is None:
            return None
        pairs = zip(state.posterior.means, self.cells.seen, strict=True)
        known = [mean_over_seen(mean, seen) for mean, seen in pairs]
        likelihood = state.likelihood(self.likelihood.truncated)
        return self.validation.score(known, likelihood, state.dispersion)

    def terms(self, state: CAVIState, cells: TrainingCells) -> CellTerms:
        """Return what cells say of the factors, under the state's likelihood."""
        likelihood = state.likelihood(self.likelihood.truncated)
        return CellTerms(cells, likelihood, self.zeros_observed, self.backend)
