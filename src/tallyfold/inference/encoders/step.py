"""VAE-BPTF's encoders, trained to predict held-out cells: one visit to each is one iteration.

Encoders start at BPTF's conjugate update, where sweeps of BPTF (`schemes.cavi`) have led. Each
iteration visits every encoder once: first those of the derived axes (the multipliers of axis
combinations), then those of the axes. A visit computes the sums of all training cells, weighted by
the encoder's network, and improves the encoder's parameters by a few steps of L-BFGS on the log
predictive of held-out cells, which are in no sum. It is kept only if it predicts them better than
before, so a fit cannot diverge; what it cannot improve it leaves as it was.

This is not the evidence bound, whose own choice of the multipliers' priors shrinks them too much
under a truncated likelihood.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.evidence import N_PRIOR
from tallyfold.inference.encoders.state import EncoderState
from tallyfold.inference.encoders.trainer import EncoderTrainer
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.evidence import conjugate_network

MOST_CELLS = 20_000_000
"""Encoders are trained on the cells of all entities if these are no more than this."""
STEPS = 5
"""Steps of L-BFGS in a visit."""


@dataclass(frozen=True)
class EncoderStep:
    """Visits to every encoder; see the module's text.

    Attributes
    ----------
    sweeps
        The BPTF step that came before; it has the cells, the likelihood and the priors.
    held_out
        Cells the encoders learn to predict.
    combinations
        Of axes, whose multipliers are learnt.
    hidden_units, weight_variance, steps
        Of the networks: their size, the variance of the pull to their start, and the steps of
        L-BFGS in a visit.
    caution
        A visit is kept if it gains more than `caution` standard errors.
    batch_entities, most_cells
        Train an encoder on the cells of at most `batch_entities` rows, drawn at random (None: of
        all), which have at most `most_cells` cells.
    seed
        Of the encoders' start and of the rows drawn.
    """

    sweeps: CAVIStep
    held_out: HeldOutCells
    combinations: Sequence[Combinations] = ()
    hidden_units: int = 8
    weight_variance: float = 0.1
    steps: int = STEPS
    caution: float = 0.5
    batch_entities: int | None = None
    most_cells: int = MOST_CELLS
    seed: int = 0

    @property
    def cells(self) -> TrainingCells:
        """What is fitted to."""
        return self.sweeps.cells

    @property
    def most_at_once(self) -> tuple[int, int]:
        """How many rows an encoder is trained on, and how many cells they may have."""
        if self.batch_entities is None:
            return np.iinfo(np.int64).max, self.most_cells
        # entities of a short axis have many cells each: let them have no more than a long one's
        usual = self.cells.n_cells * self.batch_entities // max(self.cells.shape)
        return self.batch_entities, min(self.most_cells, max(usual, 1))

    def start(self, swept: CAVIState) -> EncoderState:
        """Begin with encoders that are conjugate updates, and multipliers that are one."""
        derived = tuple(each.derived_axis() for each in self.combinations)
        n_encoders = self.cells.n_axes + len(derived)
        return EncoderState(
            replace(swept.posterior, derived=derived),
            tuple(self.first_params(number) for number in range(n_encoders)),
            (False,) * n_encoders,
            swept.prior_rate_M,
            swept.dispersion,
        )

    def first_params(self, number: int) -> Floats:
        """Return the parameters an encoder starts with, and is pulled to."""
        return first_params(
            self.seed, number, self.hidden_units, self.sweeps.prior_shape, self.cells.n_axes
        )

    def advance(self, state: EncoderState, iteration: int) -> tuple[EncoderState, float]:
        """Visit every encoder; return the mean log predictive of the held-out cells."""
        trainer = EncoderTrainer(self, state, iteration)
        trainer.calibrate()
        trainer.visit_all()
        new = trainer.state()
        return new, new.score

    def validation_score(self, state: EncoderState) -> float:
        """Return the mean log predictive of the held-out cells."""
        return state.score


def first_params(
    seed: int, number: int, hidden_units: int, prior_shape: float, n_axes: int
) -> Floats:
    """Return the parameters of a conjugate encoder; those after `n_axes` are of derived axes."""
    rng = np.random.default_rng([seed, 3, number])
    params = np.concatenate([np.zeros(N_PRIOR), conjugate_network(hidden_units, rng)])
    if number < n_axes:
        params[0] = np.log(prior_shape)
    return params
