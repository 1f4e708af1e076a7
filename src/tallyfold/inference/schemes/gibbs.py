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

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes import cavi as variational
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.layout import AxisLayout
from tallyfold.probability import gamma
from tallyfold.probability.counts import CountLikelihood

Floats = npt.NDArray[np.float64]

START_SWEEPS = 20
"""A chain starts at the means that so many variational sweeps lead to."""

LEAST, MOST = 1e-290, 1e290
"""Rates are kept within these, as in the kernels."""

EXPOSURES, FACTORS = 2, 3
"""What random numbers are for; 0 and 1 are the start's and the validation part's."""


@dataclass(frozen=True)
class Schedule:
    """Which iterations of a chain are kept: after `burn_in`, every `thin`-th, `n_draws` of them."""

    burn_in: int
    n_draws: int
    thin: int

    @property
    def n_iterations(self) -> int:
        """The length of the chain."""
        return self.burn_in + self.n_draws * self.thin

    def keeps(self, iteration: int) -> bool:
        """Whether the state after an iteration (from 1 on) is one of the draws."""
        return iteration > self.burn_in and (iteration - self.burn_in) % self.thin == 0


@dataclass
class GibbsStep:
    """One sweep of the sampler; see the module's text.

    Parameters
    ----------
    cells
        What is fitted to.
    likelihood, dispersion
        The distribution of a cell's count given its rate, and the negative binomial's r.
    zeros_observed
        Whether cells without an entry count as zeros; Poisson only.
    n_components, prior_shape
        The number of components, and the shape of the factors' Gamma prior.
    prior_rate
        The prior's rate; None learns one per axis during burn-in, then keeps it.
    schedule
        Which iterations are kept.
    seed
        Of all randomness.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    n_components: int
    prior_shape: float
    schedule: Schedule
    prior_rate: float | None = None
    dispersion: float = 1.0
    seed: int = 0
    backend: str = "auto"

    maximise = True

    def start(self) -> State:
        """Take a few variational sweeps and begin at their means, with no draw kept."""
        sweeps = CAVIStep(
            cells=self.cells,
            likelihood=self.likelihood,
            zeros_observed=self.zeros_observed,
            n_components=self.n_components,
            prior_shape=self.prior_shape,
            prior_rate=self.prior_rate,
            dispersion=self.dispersion,
            seed=self.seed,
            backend=self.backend,
        )
        found = sweeps.start()
        for sweep in range(1, START_SWEEPS + 1):
            found, _ = sweeps.advance(found, sweep)
        shapes, rates = variational.factors_of(found)
        factors = [shape / rate for shape, rate in zip(shapes, rates, strict=True)]
        return state_of(factors) | no_draws(factors) | {"prior_rate": found["prior_rate"]}

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Draw every axis once; the objective is the mean log pmf of the cells at the new draw."""
        factors = factors_of(state)
        prior_rate_M = np.array(state["prior_rate"], dtype=float)
        for axis in range(self.cells.n_axes):
            factors[axis] = self.draw_axis(axis, factors, float(prior_rate_M[axis]), iteration)
            if self.prior_rate is None and iteration <= self.schedule.burn_in:
                prior_rate_M[axis] = 1 / factors[axis].mean()
        kept = keep_draws(state, factors, self.schedule.keeps(iteration))
        new = state_of(factors) | kept | {"prior_rate": prior_rate_M}
        return new, self._log_pmf(factors)

    def validation_score(self, state: State) -> None:
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
    counts_N: npt.NDArray[np.integer],
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


def no_draws(factors: list[Floats], **others: Floats) -> State:
    """Return stacks without a draw in them, for the factors of every axis and for others."""
    named = {str(axis): factor for axis, factor in enumerate(factors)} | others
    return {f"draws_{name}": np.empty((0, *value.shape)) for name, value in named.items()}


def keep_draws(state: State, factors: list[Floats], keep: bool, **others: Floats) -> State:
    """Return the stacks of draws, with the given values on top if they are to be kept."""
    named = {str(axis): factor for axis, factor in enumerate(factors)} | others
    kept: State = {f"draws_{name}": state[f"draws_{name}"] for name in named}
    if not keep:
        return kept
    return {
        name: np.concatenate([kept[name], value[None]])
        for name, value in zip(kept, named.values(), strict=True)
    }


def draws_of(state: State) -> list[Floats]:
    """Return the draws of every axis (draws x entities x components).

    Before the first one is kept, the current factors stand for it.
    """
    factors = factors_of(state)
    draws = [np.asarray(state[f"draws_{axis}"], dtype=float) for axis in range(len(factors))]
    return draws if len(draws[0]) else [factor[None] for factor in factors]


def factors_of(state: State) -> list[Floats]:
    """Return the current factors of every axis."""
    n_axes = sum(name.startswith("factor_") for name in state)
    return [np.asarray(state[f"factor_{axis}"], dtype=float) for axis in range(n_axes)]


def state_of(factors: list[Floats]) -> State:
    """Name the current factors of every axis."""
    return {f"factor_{axis}": factor for axis, factor in enumerate(factors)}
