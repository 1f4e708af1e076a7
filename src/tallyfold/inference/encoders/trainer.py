"""One iteration of training: where the fit stands, and its visits to encoders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.inference.cells.held_out import Target
from tallyfold.inference.encoders.evidence import N_PRIOR, exposures
from tallyfold.inference.encoders.objective import train
from tallyfold.inference.encoders.state import EncoderState
from tallyfold.inference.encoders.trained_axes import (
    CombinationAxis,
    EntityAxis,
    TrainedAxis,
    Which,
)
from tallyfold.inference.fit.calibration import calibrate
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability.counts import COUNTS

if TYPE_CHECKING:
    from tallyfold.inference.encoders.step import EncoderStep


FIRST_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Prior shapes tried when a derived axis is visited for the first time."""
LEAST_GAIN = 5.0
"""In nats over all held-out cells: what a visit's few free parameters may gain by chance."""
CALIBRATION_CELLS = 5_000


class EncoderTrainer:
    """The posterior during one iteration, and what follows from it.

    Attributes
    ----------
    posterior, params
        As in `EncoderState`, changed by visits.
    mean
        Mean factors of every axis, with rows for entities never seen.
    held_rate_V, held_multiplier_V
        The held-out cells' rates by the axes alone, and their multipliers.
    log_pmf_V
        The log predictive of the held-out cells as things stand.
    """

    target: Target
    log_pmf_V: Floats

    def __init__(self, step: EncoderStep, state: EncoderState, iteration: int) -> None:
        self.step, self.iteration = step, iteration
        self.cells, self.held_out = step.cells, step.held_out
        self.backend, self.dispersion = step.sweeps.backend, state.dispersion
        family = "poisson" if state.dispersion is None else "negative-binomial"
        self.likelihood = COUNTS[family, step.sweeps.likelihood.truncated]
        self.posterior, self.calibration = state.posterior, state.calibration
        self.params, self.visited = list(state.params), list(state.visited)
        self.prior_rate_M = state.prior_rate_M.copy()
        pairs = zip(self.posterior.means, self.cells.seen, strict=True)
        self.mean = [mean_over_seen(mean, seen) for mean, seen in pairs]
        self.held_multiplier_V = np.ones(len(self.held_out))
        for derived, each in zip(self.posterior.derived, step.combinations, strict=True):
            self.held_multiplier_V *= derived.mean_P1[each.held_row_V]
        self._set_held_rates()

    def state(self) -> EncoderState:
        """Return what the iteration has come to."""
        total = self.cells.group.all_reduce_number(float(self.log_pmf_V.sum()))
        return EncoderState(
            self.posterior,
            tuple(self.params),
            tuple(self.visited),
            self.prior_rate_M,
            self.dispersion,
            self.calibration,
            total / self.held_out.n_cells,
        )

    def calibrate(self) -> None:
        """Fix the predictive distribution of the held-out cells for this iteration."""
        completed = self.posterior.completed(self.cells.seen)
        moments = self._active(completed).rate_moments(self.held_out.indices_NM)
        some = self.held_out.every(-(-self.held_out.n_cells // CALIBRATION_CELLS))
        counts, mean, variance = (
            self.cells.group.all_gather(array[some]) for array in (self.held_out.counts_N, *moments)
        )
        likelihood, r = self.likelihood, self.dispersion
        self.calibration = calibrate(counts, mean, variance, likelihood, r, start=self.calibration)
        self.target = Target.at(self.held_out, moments, likelihood, r, self.calibration)
        self.log_pmf_V = self.target.log_pmf(self.held_rate_V * self.held_multiplier_V)

    def visit_all(self) -> None:
        """Visit the encoders of the derived axes, then those of the axes."""
        for number in range(len(self.step.combinations)):
            self._visit(CombinationAxis(self, number))
        for axis in range(self.cells.n_axes):
            self._visit(EntityAxis(self, axis))

    def _visit(self, axis: TrainedAxis) -> None:
        """Train an encoder; keep it if its posterior surely predicts better."""
        step, params = self.step, self.params[axis.encoder]
        objective = axis.objective()
        if axis.prior.rate is None and not self.visited[axis.encoder]:
            tried = [_with_strength(params, strength) for strength in FIRST_STRENGTHS]
            params = min(tried, key=lambda each: objective.loss(each)[0])
        start, n_total = step.first_params(axis.encoder), self.held_out.n_cells
        params = train(objective, params, start, step.weight_variance, step.steps, n_total)
        table = axis.posterior(params)
        log_pmf_V = self.target.log_pmf(axis.held_rates(table))
        gain, spread = self._gain(log_pmf_V - self.log_pmf_V)
        if not gain >= max(LEAST_GAIN, step.caution * spread):  # also if it is not a number
            return
        self.params[axis.encoder], self.visited[axis.encoder] = params, True
        self.log_pmf_V = log_pmf_V
        axis.adopt(table)

    def _gain(self, gain_V: Floats) -> tuple[float, float]:
        """Return the sum over all held-out cells, and its standard error."""
        group, n_cells = self.cells.group, self.held_out.n_cells
        gain = group.all_reduce_number(float(gain_V.sum()))
        squares = group.all_reduce_number(float(np.sum((gain_V - gain / n_cells) ** 2)))
        return gain, squares**0.5

    # -- what visits look at and change -----------------------------------------------------------

    def rates(self, factors: list[Floats], indices_NM: Positions) -> Floats:
        """Return the rates of cells by the axes alone."""
        return kernels.cell_rates(factors, indices_NM, backend=self.backend)

    def multipliers(self, cells: Which) -> Floats:
        """Return what the rates of some training cells are multiplied by."""
        product = np.ones(len(self.cells.counts_N[cells]))
        for derived, each in zip(self.posterior.derived, self.step.combinations, strict=True):
            product *= derived.mean_P1[each.row_N[cells]]
        return product

    def exposure(self, rate_N: Floats, counts_N: Ints) -> Floats:
        """Return the exposures of cells with these rates."""
        return exposures(self.likelihood, rate_N, counts_N, self.dispersion)

    def rng(self, encoder: int) -> np.random.Generator:
        """Return the randomness of an encoder's visit in this iteration."""
        return np.random.default_rng([self.step.seed, 5, self.iteration, encoder])

    def set_axis(self, axis: int, table: GammaTable) -> None:
        """Take other posteriors for an axis."""
        self.posterior = self.posterior.replace(axis, table)
        self.mean[axis] = mean_over_seen(table.mean_DK, self.cells.seen[axis])
        self._set_held_rates()
        if self.step.sweeps.prior_rate is None:
            self.prior_rate_M[axis] = 1 / table.mean_DK.mean()

    def set_derived(self, number: int, table: GammaTable) -> None:
        """Take other posteriors for a derived axis."""
        derived, row_V = list(self.posterior.derived), self.step.combinations[number].held_row_V
        before_V = derived[number].mean_P1[row_V]
        derived[number] = replace(derived[number], table=table)
        self.posterior = replace(self.posterior, derived=tuple(derived))
        self.held_multiplier_V = self.held_multiplier_V / before_V * derived[number].mean_P1[row_V]

    def _set_held_rates(self) -> None:
        self.held_rate_V = self.rates(self.mean, self.held_out.indices_NM)

    def _active(self, posterior: GammaPosterior) -> GammaPosterior:
        """Return the posterior without derived axes that add nothing but spread."""
        return replace(posterior, derived=tuple(d for d in posterior.derived if not d.idle))


def _with_strength(params: Floats, strength: float) -> Floats:
    changed = params.copy()
    changed[:N_PRIOR] = np.log(strength)
    return changed
