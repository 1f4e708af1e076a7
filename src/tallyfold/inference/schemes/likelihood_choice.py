"""Poisson or negative binomial: the one that predicts held-out cells better, as a phase."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.calibration import calibrate
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.posterior.predictive import matched_mixture
from tallyfold.probability.counts import COUNTS

SWEEPS = 30
"""Iterations of the phase."""
CELLS = 100_000
HELD_OUT_CELLS = 4_000
"""Even samples of at most this many cells are enough to choose between two."""
LEAST_GAIN = 2.0
"""In nats over the held-out cells used; what gains less is noise, and Poisson is simpler."""


@dataclass(frozen=True)
class ChoiceState:
    """BPTF under either family, on a sample of the cells."""

    poisson: CAVIState
    negative_binomial: CAVIState


@dataclass(frozen=True)
class LikelihoodChoice:
    """Sweeps of BPTF with both families side by side; `chosen` compares them at the end.

    Attributes
    ----------
    sweeps
        The step whose likelihood is to be chosen; it must have validation cells.
    """

    sweeps: CAVIStep

    def start(self, previous: object = None) -> ChoiceState:
        """Start both."""
        plain, dispersed = self._steps
        return ChoiceState(plain.start(), dispersed.start())

    def advance(self, state: ChoiceState, iteration: int) -> tuple[ChoiceState, float]:
        """Sweep once with each; return the larger bound."""
        plain, dispersed = self._steps
        poisson, bound = plain.advance(state.poisson, iteration)
        negative_binomial, other = dispersed.advance(state.negative_binomial, iteration)
        return ChoiceState(poisson, negative_binomial), max(bound, other)

    def validation_score(self, state: ChoiceState) -> None:
        """Return None: nothing ends the phase early, and neither state is a result."""
        return

    def chosen(self, state: ChoiceState) -> CAVIState:
        """Return a fresh start on all cells, with the family whose calibrated score is better."""
        gain = self._score(state.negative_binomial) - self._score(state.poisson)
        plain, dispersed = self._steps
        step = dispersed if gain > LEAST_GAIN else plain
        return replace(step, cells=self.sweeps.cells).start()

    @cached_property
    def _steps(self) -> tuple[CAVIStep, CAVIStep]:
        cells, truncated = self.sweeps.cells, self.sweeps.likelihood.truncated
        thin = cells.every(-(-cells.n_cells // CELLS))
        some = TrainingCells.of(
            cells.shape, cells.indices_NM[thin], cells.counts_N[thin], cells.group
        )
        return (
            replace(self.sweeps, cells=some, likelihood=COUNTS["poisson", truncated]),
            replace(self.sweeps, cells=some, likelihood=COUNTS["negative-binomial", truncated]),
        )

    def _score(self, state: CAVIState) -> float:
        """Return the total log predictive of held-out cells, calibrated."""
        assert self.sweeps.validation is not None
        held_out, all_gather = self.sweeps.validation.cells, self.sweeps.cells.group.all_gather
        thin = held_out.every(-(-held_out.n_cells // HELD_OUT_CELLS))
        cells_NM = np.asfortranarray(all_gather(held_out.indices_NM[thin]))
        counts_N = all_gather(held_out.counts_N[thin])
        seen = self._steps[0].cells.seen
        moments = state.posterior.completed(seen).rate_moments(cells_NM)
        likelihood = state.likelihood(self.sweeps.likelihood.truncated)
        calibration = calibrate(counts_N, *moments, likelihood, state.dispersion)
        predictive = matched_mixture(*moments, likelihood, state.dispersion, calibration)
        return float(predictive.log_pmf(counts_N).sum())
