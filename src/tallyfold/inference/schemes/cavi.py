"""Mean-field variational updates of Gamma factors: one sweep over the axes is one step.

With auxiliary multinomials the updates are closed (docs/models/bptf.md has the derivation). For a
cell n with count y, geometric means G and arithmetic means E of the factors:

- shape_dk = a + sum_n y * share_nk,          share_nk proportional to prod_m G_mk
- rate_dk  = a * b + sum_n w_n prod_other E_k   (zeros missing: over the cells seen)
- rate_dk  = a * b + prod_other column sums     (zeros observed: over all cells)

where w_n, the expected exposure, is 1 for a plain Poisson and more for a truncated one, whose
unseen zeros count as exposure too. b = 1 / mean(E) maximises the bound in the prior rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.dispersion import best_dispersion, is_power_of_two
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability import gamma
from tallyfold.probability.counts import CountLikelihood

Floats = npt.NDArray[np.float64]

START_SHAPE = 100.0
"""Factors start as draws around one with this shape: close together, but not equal."""


@dataclass
class CAVIStep:
    """Coordinate ascent on the bound; see the module's text.

    Parameters
    ----------
    cells
        What is fitted to.
    likelihood
        The distribution of a cell's count given its rate.
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

    maximise = True

    def start(self) -> State:
        """Draw factors close to one, scaled so that the mean rate is the mean count."""
        rng = np.random.default_rng([self.seed, 0])
        cells = self.cells
        n_cells = np.prod(cells.shape, dtype=float) if self.zeros_observed else cells.n_cells
        mean_count = max(cells.total_count / n_cells, 1e-12)
        scale = (mean_count / self.n_components) ** (1 / cells.n_axes)
        state: State = {"prior_rate": np.full(cells.n_axes, 1 / scale)}
        for axis, size in enumerate(cells.shape):
            noise_DK = rng.gamma(START_SHAPE, 1 / START_SHAPE, (size, self.n_components))
            state[f"shape_{axis}"] = np.full_like(noise_DK, START_SHAPE)
            state[f"rate_{axis}"] = START_SHAPE / (scale * noise_DK)
        if self.prior_rate is not None:
            state["prior_rate"] = np.full(cells.n_axes, self.prior_rate / self.prior_shape)
        state["dispersion"] = np.array(1.0 if self.dispersion is None else self.dispersion)
        return state

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Update every axis once, then the dispersion; return the bound."""
        shapes, rates = factors_of(state)
        prior_rate_M = np.array(state["prior_rate"], dtype=float)
        dispersion = float(state["dispersion"])
        mean = [shape / rate for shape, rate in zip(shapes, rates, strict=True)]
        geo = [gamma.geometric_mean(s, r) for s, r in zip(shapes, rates, strict=True)]
        for axis in range(self.cells.n_axes):
            phi_DK, exposure_DK = self._terms.sums(axis, geo, mean, dispersion)
            shapes[axis] = self.prior_shape + geo[axis] * phi_DK
            rates[axis] = self.prior_shape * prior_rate_M[axis] + exposure_DK
            mean[axis] = shapes[axis] / rates[axis]
            geo[axis] = gamma.geometric_mean(shapes[axis], rates[axis])
            if self.prior_rate is None:
                prior_rate_M[axis] = 1 / mean[axis].mean()
        if self.likelihood.dispersed and self.dispersion is None and is_power_of_two(iteration):
            dispersion = best_dispersion(
                self.cells, self.likelihood, mean, dispersion, self.backend
            )
        new = state_of(shapes, rates)
        new |= {"prior_rate": prior_rate_M, "dispersion": np.array(dispersion)}
        return new, self.bound(new)

    def bound(self, state: State) -> float:
        """Return the evidence lower bound, every constant in it."""
        shapes, rates = factors_of(state)
        mean = [shape / rate for shape, rate in zip(shapes, rates, strict=True)]
        geo = [gamma.geometric_mean(s, r) for s, r in zip(shapes, rates, strict=True)]
        total = self._terms.bound(geo, mean, float(state["dispersion"]))
        for axis, (shape_DK, rate_DK) in enumerate(zip(shapes, rates, strict=True)):
            prior_rate = self.prior_shape * float(np.asarray(state["prior_rate"])[axis])
            total -= float(gamma.kl(shape_DK, rate_DK, self.prior_shape, prior_rate).sum())
        return total

    def validation_score(self, state: State) -> float | None:
        """Score the validation cells at the posterior means."""
        if self.validation is None:
            return None
        shapes, rates = factors_of(state)
        mean = [shape / rate for shape, rate in zip(shapes, rates, strict=True)]
        known = [mean_over_seen(m, s) for m, s in zip(mean, self.cells.seen, strict=True)]
        return self.validation.score(known, self.likelihood, float(state["dispersion"]))

    @property
    def _terms(self) -> CellTerms:
        return CellTerms(self.cells, self.likelihood, self.zeros_observed, self.backend)


def factors_of(state: State) -> tuple[list[Floats], list[Floats]]:
    """Return the shapes and rates of every axis."""
    n_axes = sum(name.startswith("shape_") for name in state)
    shapes = [np.asarray(state[f"shape_{axis}"], dtype=float) for axis in range(n_axes)]
    rates = [np.asarray(state[f"rate_{axis}"], dtype=float) for axis in range(n_axes)]
    return shapes, rates


def state_of(shapes: list[Floats], rates: list[Floats]) -> State:
    """Name the shapes and rates of every axis."""
    state: State = {f"shape_{axis}": shape for axis, shape in enumerate(shapes)}
    return state | {f"rate_{axis}": rate for axis, rate in enumerate(rates)}
