"""Factors by sweeps of BPTF and, where counts are negative binomial, by encoders on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.combinations import (
    LEAST_KNOWN,
    Combinations,
    candidate_axes,
    useful_combinations,
)
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.state import EncoderState
from tallyfold.inference.encoders.step import MOST_CELLS, EncoderStep, first_params
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.inference.schemes.guide import Guide
from tallyfold.inference.schemes.likelihood_choice import SWEEPS as CHOICE_SWEEPS
from tallyfold.inference.schemes.likelihood_choice import LikelihoodChoice
from tallyfold.inference.schemes.svi import SVIState, SVIStep
from tallyfold.models.axis_sets import Interactions, axis_positions
from tallyfold.models.fitted import Fitted, TrainedEncoders
from tallyfold.models.gamma_model import with_fisher_widths
from tallyfold.models.guided import GuidedModel
from tallyfold.models.parameters import NonNegative, PositiveInt, choose_likelihood, number
from tallyfold.models.smoothing import smoothness_of

HIDDEN_UNITS = 8
"""Of the encoders' networks."""
LEAST_HELD_OUT = 100
"""With fewer held-out cells than this the encoders stay conjugate: there is too little to learn."""
SWEEPS, SWEEPS_TOL = 200, 1e-5
"""Limit and tolerance of the sweeps: BPTF's, so that nothing stops before BPTF would."""
VISITS, VISITS_TOL = 100, 3e-4
"""Limit and tolerance of the iterations that train encoders."""
BATCH_WINDOW = 4
"""Of visits to drawn entities one may gain nothing by chance: this many in a row tell."""


@dataclass(kw_only=True, eq=False, repr=False)
class EncodedModel(GuidedModel):
    """Base of VAE-BPTF: its factors where zeros are missing."""

    n_components: PositiveInt = 10
    interactions: Interactions = "auto"
    prior_shape: Annotated[float, number(0, 1e6)] | None = None  # type: ignore[assignment]
    max_iter: PositiveInt | None = None
    tol: NonNegative | None = None
    batch_entities: PositiveInt | None = None

    def _decided_shape(self) -> float:
        """Return the shape of the factors' prior, which a fit has decided on."""
        assert self.prior_shape is not None
        return self.prior_shape

    def _lives_with_cells(self, axes: Sequence[Axis], axis: int) -> bool:
        swept = self.amount == "head" and not self._observed and self.likelihood != "auto"
        plain = swept and self.batch_entities is None
        return plain and super()._lives_with_cells(axes, axis)

    @property
    def _family(self) -> str:
        """The likelihood's family, Poisson where it is still to be chosen."""
        return "poisson" if self.likelihood == "auto" else self.likelihood

    @property
    def _iteration_limit(self) -> int | None:
        """The limit of sweeps and visits together, and of a choice of likelihood before them."""
        if self.amount == "head" or self._observed:
            return None
        choice = CHOICE_SWEEPS if self.likelihood == "auto" else 0
        return choice + (SWEEPS + VISITS if self.max_iter is None else self.max_iter)

    @property
    def _most_sweeps(self) -> int:
        """The limit of sweeps: as many as BPTF would make, and half of a given `max_iter`.

        With batches, which are quick, two thirds.
        """
        if self.max_iter is None:
            return SWEEPS
        if self.amount == "head":
            return self.max_iter
        share = self.max_iter // 2 if self.batch_entities is None else self.max_iter * 2 // 3
        return min(SWEEPS, max(1, share))

    def _phases(
        self, cells: TrainingCells, held_out: CountTensor | None, guide: Guide | None = None
    ) -> Sequence[Phase]:
        sweeps = self._sweeps(cells, held_out, self.n_components, self._family, guide=guide)
        few = sweeps.validation is None or sweeps.validation.cells.n_cells < LEAST_HELD_OUT
        choice = self._choice(sweeps) if sweeps.validation is not None else []
        begin = choice[0].step.chosen if choice else sweeps.start  # type: ignore[attr-defined]
        if self.amount == "head" and self.batch_entities is not None:
            return [*choice, self._svi(sweeps, begin)]
        if held_out is None or few or self.amount == "head":  # no encoders: sweeps of BPTF
            rules = StoppingRules(
                SWEEPS if self.max_iter is None else self.max_iter,
                SWEEPS_TOL if self.tol is None else self.tol,
                self.patience,
                warns=self.max_iter is not None,
            )
            return [*choice, Phase("sweeps", sweeps, begin, rules)]
        return [*choice, *self._trained(sweeps, begin, held_out)]

    def _choice(self, sweeps: CAVIStep) -> list[Phase]:
        if self.likelihood != "auto":
            return []
        choice = LikelihoodChoice(sweeps)
        return [Phase("choice", choice, choice.start, StoppingRules(CHOICE_SWEEPS))]

    def _trained(
        self, sweeps: CAVIStep, begin: Callable[[Any], CAVIState], held_out: CountTensor
    ) -> list[Phase]:
        """Return sweeps, over all entities or over some, and then visits to encoders."""
        assert sweeps.validation is not None
        encoders = EncoderStep(
            sweeps,
            sweeps.validation.cells,
            self._combinations(sweeps.cells, held_out),
            hidden_units=HIDDEN_UNITS,
            batch_entities=self.batch_entities,
            seed=self._seed,
        )
        tol = VISITS_TOL if self.tol is None else self.tol
        warns = self.max_iter is not None
        rules = StoppingRules(None, tol, self.patience, min_iter=1, warns=warns)
        first = Phase("sweeps", sweeps, begin, StoppingRules(self._most_sweeps, 0.0, self.patience))
        if self.batch_entities is None:
            return [first, Phase("encoders", encoders, encoders.start, rules)]
        return [
            self._svi(sweeps, begin),
            Phase(
                "encoders",
                encoders,
                lambda state: encoders.start(state.sweep),
                replace(rules, window=BATCH_WINDOW),
            ),
        ]

    def _svi(self, sweeps: CAVIStep, begin: Callable[[Any], CAVIState]) -> Phase:
        """Return sweeps over some entities at a time."""
        assert self.batch_entities is not None
        n_iterations = self._most_sweeps
        svi = SVIStep(sweeps, n_iterations, self.batch_entities, MOST_CELLS, self._seed)
        return Phase("svi", svi, lambda s: svi.start(begin(s)), StoppingRules(n_iterations))

    def _caveat(self, outcome: Outcome) -> str:
        last = outcome.history[-1]
        if last.phase != "svi" or last.validation is not None:
            return ""
        return (
            " It had not looked at all entities of its longest axis yet: the factors of the others "
            "are those it started with."
        )

    def _axis_sets(self, tensor: CountTensor) -> list[tuple[int, ...]] | None:
        """Return the positions of the axes whose combinations are asked for; None for auto."""
        if isinstance(self.interactions, str):
            return None if self.interactions == "auto" else []
        names = [axis.name for axis in tensor.axes]
        sets = [axis_positions(each, names, tensor.shape) for each in self.interactions]
        return list(dict.fromkeys(sets))

    def _combinations(self, cells: TrainingCells, held_out: CountTensor) -> list[Combinations]:
        sets = self._axis_sets(held_out)
        least = 0.0 if sets is not None else LEAST_KNOWN
        if sets is None:
            sets = candidate_axes(cells.n_axes, cells.shape)
        return useful_combinations(
            sets, cells.shape, cells.indices_NM, held_out.indices, least, cells.group
        )

    def _make_fitted(
        self, state: CAVIState | SVIState | EncoderState, axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        state = state.sweep if isinstance(state, SVIState) else state
        linked = {} if isinstance(state, EncoderState) else smoothness_of(axes, state.correlation_M)
        state = self._with_encoders(state).active()
        family = "poisson" if state.dispersion is None else "negative-binomial"
        likelihood = choose_likelihood(family, self.truncated, self.zeros)
        fitted = self._gamma_fitted(state.posterior, axes, cells, likelihood, state.dispersion)
        r = state.calibration.dispersion
        encoders = TrainedEncoders(state.params, state.prior_rate_M, r)
        fitted = replace(fitted, encoders=encoders, smoothness=linked)
        return with_fisher_widths(
            fitted, cells, r or state.dispersion, self._decided_shape(), self.backend
        )

    def _with_encoders(self, state: CAVIState | EncoderState) -> EncoderState:
        """Return a state with encoders: conjugate ones, if there was nothing to train on."""
        if isinstance(state, EncoderState):
            return state
        n_axes = len(state.posterior.axes)
        params = tuple(
            first_params(self._seed, axis, HIDDEN_UNITS, self._decided_shape(), n_axes)
            for axis in range(n_axes)
        )
        return EncoderState(
            state.posterior, params, (False,) * n_axes, state.prior_rate_M, state.dispersion
        )
