"""Coordinate-ascent variational inference of Gamma factors: one sweep over the axes is one step.

With auxiliary multinomials the updates are closed (docs/models/bptf.md has the derivation). For a
cell n with count y, geometric means G and arithmetic means E of the factors:

- shape_dk = a + sum_n y * share_nk,          share_nk proportional to prod_m G_mk
- rate_dk  = a * b + sum_n w_n prod_other E_k   (zeros missing: over the cells seen)
- rate_dk  = a * b + share * closed sum         (zeros observed: over all cells not hidden)

to which, along an axis whose factors are linked, neighbours are added (`schemes.gamma_chain`);

where w_n, the expected exposure, is 1 for a plain Poisson and more for a truncated one, whose
unseen zeros count as exposure too. b = 1 / mean(E) maximises the bound in the prior rate.

With observed zeros there may be a gate (`schemes.gate`): a cell's own multiplier cancels in the
shares, and its mean goes into the closed sums. Its shape maximises the bound as well: given the
factors, the bound over the multipliers' posteriors is the marginal likelihood of the pairs' counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.schemes.dispersion import best_dispersion, is_power_of_two
from tallyfold.inference.schemes.factor_prior import FactorPrior
from tallyfold.inference.schemes.first_draws import SHAPE, first_draws
from tallyfold.inference.schemes.gate import Axes, Gate, GateState, gate_posterior
from tallyfold.inference.schemes.guide import Guidance, Guide, replaced
from tallyfold.kernels import dispatch as kernels
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability import gamma
from tallyfold.probability.counts import COUNTS, CountLikelihood

Floats = npt.NDArray[np.float64]


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
    correlation_M
        Of neighbouring factors of each axis; 0 where they are independent.
    gate
        The multipliers of pairs; None if the step has no gates.
    """

    posterior: GammaPosterior
    prior_rate_M: Floats
    dispersion: float | None
    correlation_M: Floats
    gate: GateState | None = None

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
    validation, held_out
        Cells to score after each sweep; the latter where zeros are observed.
    gates, gate
        Pairs of axes that a state may have a gate of, None for no gate, and the one to start with;
        zeros observed only.
    guide
        What is known of components before the fit; None: nothing.
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
    held_out: OccurrenceCells | None = None
    gates: Sequence[Axes | None] = ()
    gate: int = 0
    guide: Guide | None = None

    @cached_property
    def _gates(self) -> list[Gate]:
        return [Gate(axes, self.cells) for axes in self.gates]

    @cached_property
    def guidance(self) -> Guidance:
        """The priors of all axes, and the start."""
        return Guidance(self.guide, self.cells, self.n_components, self.prior_shape)

    def start(self, previous: object = None) -> CAVIState:
        """Draw factors close to one, scaled so that the mean rate is the mean count."""
        cells = self.cells
        n_cells: float = cells.n_cells
        if self.zeros_observed:
            pairs = zip(cells.covered, cells.over_all_rows, strict=True)
            n_labels = [float(total(np.array(seen_D.sum()))) for seen_D, total in pairs]
            n_cells = float(np.prod(n_labels)) * cells.share
        mean_count = max(cells.total_count / n_cells, 1e-12)
        scale = (mean_count / self.n_components) ** (1 / cells.n_axes)
        prior_rate = 1 / scale if self.prior_rate is None else self.prior_rate / self.prior_shape
        noises = first_draws(self.seed, cells.sizes, self.n_components, cells.rows)
        gate = self.gates[self.gate] if self.gates else None
        tables = [
            GammaTable(np.full_like(first_DK, SHAPE), SHAPE / (scale * first_DK))
            for first_DK in self.guidance.first(noises, gate)
        ]
        dispersion = 1.0 if self.dispersion is None else self.dispersion
        return CAVIState(
            GammaPosterior(tuple(tables)),
            np.full(cells.n_axes, prior_rate),
            dispersion if self.likelihood.dispersed else None,
            self.guidance.correlation_M,
            GateState.first(self.gate) if self.gates else None,
        )

    def advance(self, state: CAVIState, iteration: int) -> tuple[CAVIState, float]:
        """Update every axis once, then the gate or the dispersion; return the bound."""
        state = self.begun(state)
        new, terms = state, self.terms(state, self.cells)
        for axis, prior in enumerate(self.guidance.priors):
            table = self.updated(axis, new, terms)
            new = replace(new, posterior=new.posterior.replace(axis, table))
            if self.prior_rate is None:
                b, correlation = new.prior_rate_M[axis], new.correlation_M[axis]
                rate = prior.learnt_rate(table, b, correlation)
                new = replace(new, prior_rate_M=replaced(new.prior_rate_M, axis, rate))
        new = replace(new, correlation_M=self.guidance.learnt(new, iteration))
        new = self.with_dispersion(self.with_gate(new, iteration), self.cells, iteration)
        return new, self.bound(new)

    def updated(
        self,
        axis: int,
        state: CAVIState,
        terms: CellTerms,
        weight: float = 1.0,
        prior: FactorPrior | None = None,
    ) -> GammaTable:
        """Return the posteriors that cells, each counted `weight` times, give an axis.

        `prior` is that of the rows, if these are not all there are.
        """
        posterior, prior = state.posterior, prior or self.guidance.priors[axis]
        geo = posterior.geometric_means
        phi_DK, exposure_DK = terms.sums(axis, geo, posterior.means, state.dispersion)
        b, correlation = float(state.prior_rate_M[axis]), float(state.correlation_M[axis])
        counts_DK = weight * geo[axis] * phi_DK
        return prior.posterior(
            posterior.axes[axis], b, correlation, counts_DK, weight * exposure_DK
        )

    def begun(self, state: CAVIState) -> CAVIState:
        """Return the state with multipliers, if it has a gate and there are none yet."""
        gate = state.gate
        if gate is None or self.gates[gate.number] is None or len(gate.table.shape_DK):
            return state
        own = self._gates[gate.number]
        table = own.first_table(ClosedSums(state.posterior.means, self.cells.covered, 1, own.pairs))
        return replace(state, gate=replace(gate, table=table))

    def with_gate(self, state: CAVIState, iteration: int) -> CAVIState:
        """Update the gate; the shape of its prior is learnt ever more rarely."""
        gate = state.gate
        if gate is None or self.gates[gate.number] is None:
            return state
        shape = None if iteration < 5 or is_power_of_two(iteration) else gate.shape
        sums = self.sums(gate, state.posterior.means)
        table, shape = gate_posterior(sums, self._gates[gate.number].counts_P, shape)
        return replace(state, gate=replace(gate, table=table, shape=shape))

    def sums(self, gate: GateState | None, means: Sequence[Floats]) -> ClosedSums:
        """Return sums over all cells that are not hidden."""
        cells, pairs = self.cells, None if gate is None else self._gates[gate.number].pairs
        gate_P1 = None if gate is None or pairs is None else gate.table.mean_DK[:, 0]
        over_rows = cells.over_all_rows
        return ClosedSums(means, cells.covered, cells.share, pairs, gate_P1, over_rows)

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
        for axis, table in enumerate(posterior.axes):
            b, correlation = float(state.prior_rate_M[axis]), float(state.correlation_M[axis])
            total -= self.guidance.priors[axis].divergence(table, b, correlation)
        return total + self._gate_bound(state)

    def _gate_bound(self, state: CAVIState) -> float:
        """Return what the gate adds to the bound, besides its part in the closed sums."""
        gate = state.gate
        if gate is None or self.gates[gate.number] is None:
            return 0.0
        own, table = self._gates[gate.number], gate.table
        log_P = np.log(table.geometric_mean_DK[:-1, 0])
        kl_P1 = gamma.kl(table.shape_DK, table.rate_DK, gate.shape, gate.shape)[:, 0]
        n_rest = self.sums(gate, state.posterior.means).n_combinations - len(log_P)
        return float(own.counts_P @ log_P - kl_P1[:-1].sum() - n_rest * kl_P1[-1])

    def validation_score(self, state: CAVIState) -> float | None:
        """Score the validation cells at the posterior means; zeros too, where they are observed."""
        if self.held_out is not None:
            return self.held_out.count_score(partial(self.rates, self.begun(state)))
        if self.validation is None:
            return None
        rows = zip(state.posterior.means, self.cells.seen, self.cells.over_all_rows, strict=True)
        known = [mean_over_seen(*each) for each in rows]
        likelihood = state.likelihood(self.likelihood.truncated)
        return self.validation.score(known, likelihood, state.dispersion)

    def terms(self, state: CAVIState, cells: TrainingCells) -> CellTerms:
        """Return what cells say of the factors, under the state's likelihood."""
        likelihood = state.likelihood(self.likelihood.truncated)
        closed = partial(self.sums, state.gate) if self.zeros_observed else None
        return CellTerms(cells, likelihood, closed, self.backend)

    def rates(self, state: CAVIState, positions_NM: npt.NDArray[np.int32]) -> Floats:
        """Return the rates of cells."""
        rate_N = kernels.cell_rates(state.posterior.means, positions_NM, backend=self.backend)
        return rate_N * self.gated(state).multipliers(positions_NM)

    def gated(self, state: CAVIState) -> GammaPosterior:
        """Return the posterior of a state with its gate as a derived axis."""
        gate = self.begun(state).gate
        if gate is None:
            return state.posterior
        derived = self._gates[gate.number].derived(gate.table, gate.shape)
        return replace(state.posterior, derived=derived)
