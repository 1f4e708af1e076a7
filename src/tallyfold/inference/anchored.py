"""VAE-BPTF's anchored form: encoders that start at the conjugate update and learn to predict.

A fit has two parts. First come sweeps of BPTF (`inference.variational`). Then each iteration visits
every encoder once: first those of the multipliers of axis combinations, then those of the axes. A
visit computes the sums of all training cells, weighted by the encoder's network, and improves the
encoder's numbers by a few steps of L-BFGS on the log predictive of held-out cells, which are in no
sum. It is kept only if it predicts them better than before, so a fit cannot leave the rails; what
it cannot improve it leaves as it was.

This is not the evidence bound, whose own choice of the multipliers' priors shrinks them too much
under a truncated likelihood. Nor is it leave-one-out, unless asked for (`leave_one_out`): a cell
left out of its own sum alone still reaches itself through the other factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.inference.calibration import calibrate
from tallyfold.inference.combinations import Combinations
from tallyfold.inference.encoder_visits import (
    LEAST_RATE,
    N_PRIOR,
    AxisVisit,
    InteractionVisit,
    train,
)
from tallyfold.inference.held_out import MOST_DISPERSION, HeldOutCells, Target
from tallyfold.inference.leave_one_out import LeaveOneOutAxisVisit, LeaveOneOutInteractionVisit
from tallyfold.inference.loop import State
from tallyfold.inference.training import TrainingCells
from tallyfold.inference.variational import VariationalStep, factors_of
from tallyfold.kernels import select as kernels
from tallyfold.kernels.evidence import conjugate_network, network_inputs
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.posterior.gamma_factors import completed_gammas, gamma_rate_moments
from tallyfold.posterior.interactions import Interaction, with_interactions
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.predictive import Calibration
from tallyfold.probability import gamma

Floats = npt.NDArray[np.float64]

FIRST_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Prior shapes tried when multipliers are visited for the first time."""
LEAST_GAIN = 5.0
"""In nats over all held-out cells: what a visit's few free numbers may gain by chance."""
CALIBRATION_CELLS = 5_000
STALE_SWEEPS = 8
KEPT = "kept_"
"""Marks the arrays of the best sweep so far."""


@dataclass
class AnchoredStep:
    """Sweeps, then visits; see the module's text.

    Parameters
    ----------
    sweeps
        The BPTF step to start with; it has the cells, the likelihood and the priors.
    held_out
        Cells the encoders learn to predict; None leaves plain sweeps.
    combinations
        Of axes, whose multipliers are learnt.
    hidden_units, weight_variance, steps
        Of the networks: their size, the variance of the pull to their start, and the steps of
        L-BFGS in a visit.
    start_sweeps
        At most so many sweeps before the first visit; fewer if held-out cells are no longer
        predicted better.
    caution
        A visit is kept if it gains more than so many standard errors.
    leave_one_out
        Train the encoders on the training cells, each left out of its own sum; what they learnt is
        still kept only if it predicts the held-out cells better.
    """

    sweeps: VariationalStep
    held_out: HeldOutCells | None
    combinations: Sequence[Combinations] = ()
    hidden_units: int = 8
    weight_variance: float = 0.1
    steps: int = 5
    start_sweeps: int = 60
    caution: float = 0.5
    leave_one_out: bool = False
    seed: int = 0

    maximise = True

    @property
    def cells(self) -> TrainingCells:
        """What is fitted to."""
        return self.sweeps.cells

    def start(self) -> State:
        """Start the sweeps, with encoders that are conjugate updates."""
        state = self.sweeps.start() | {"visits": np.array(0), "stale": np.array(0)}
        state["learning"] = np.array(int(self.held_out is not None))
        state["dispersed"] = np.array(int(self.sweeps.likelihood.dispersed))
        state |= {"score": np.array(-1e300), "calibration": np.array([1.0, 1.0, 0.0, 1.0])}
        for axis in range(self.cells.n_axes):
            state[f"encoder_{axis}"] = self.first_encoder(axis)
        for number, each in enumerate(self.combinations):
            state[f"effect_encoder_{number}"] = self.first_encoder(self.cells.n_axes + number)
            state[f"effect_axes_{number}"] = np.array(each.axes)
            state[f"effect_keys_{number}"] = each.keys_P
            state[f"effect_shape_{number}"] = np.ones(each.n_places)
            state[f"effect_rate_{number}"] = np.ones(each.n_places)
            state[f"effect_visits_{number}"] = np.array(0)
        return state

    def first_encoder(self, number: int) -> Floats:
        """Return the numbers an encoder starts with, and is pulled to."""
        rng = np.random.default_rng([self.seed, 3, number])
        numbers = np.concatenate([np.zeros(N_PRIOR), conjugate_network(self.hidden_units, rng)])
        if number < self.cells.n_axes:
            numbers[0] = np.log(self.sweeps.prior_shape)
        return numbers

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Sweep over the axes, or visit every encoder."""
        if self.held_out is None:
            new, bound = self.sweeps.advance(state, iteration)
            return state | new, bound
        if int(state["visits"]) == 0:
            return self._sweep(state, iteration)
        return self._visit_all(state)

    def validation_score(self, state: State) -> float | None:
        """Return the mean log predictive of the held-out cells; without encoders, the sweeps'."""
        if self.held_out is None:
            return self.sweeps.validation_score(state)
        return float(state["score"])

    # -- sweeps -----------------------------------------------------------------------------------

    def _sweep(self, state: State, iteration: int) -> tuple[State, float]:
        """Sweep; after the last one, go on from the best."""
        new, bound = self.sweeps.advance(state, iteration)
        score = self.sweeps.validation_score(new)
        assert score is not None
        kept = _without(state, KEPT)
        better = score > float(state["score"]) or not kept
        best = new if better else kept
        stale = 0 if better else int(state["stale"]) + 1
        if iteration >= self.start_sweeps or stale >= STALE_SWEEPS:
            rest = {name: value for name, value in state.items() if not name.startswith(KEPT)}
            return rest | best | {"visits": np.array(1)}, bound
        marks = {"stale": np.array(stale), "score": np.array(max(score, float(state["score"])))}
        return state | new | {KEPT + name: best[name] for name in new} | marks, bound

    # -- visits -----------------------------------------------------------------------------------

    def _visit_all(self, state: State) -> tuple[State, float]:
        place = Place(self, dict(state))
        place.calibrate()
        for number in range(len(self.combinations)):
            place.visit_interaction(number)
        for axis in range(self.cells.n_axes):
            place.visit_axis(axis)
        place.state["visits"] = np.array(int(state["visits"]) + 1)
        place.state["score"] = np.array(max(place.score, float(state["score"])))
        return place.state, place.score


class Place:
    """Where a fit stands during one iteration: a state, and what follows from it."""

    def __init__(self, step: AnchoredStep, state: State) -> None:
        assert step.held_out is not None
        self.step, self.state, self.held_out = step, state, step.held_out
        self.cells, self.likelihood = step.cells, step.sweeps.likelihood
        self.backend = step.sweeps.backend
        shapes, rates = factors_of(state)
        self.geo = [gamma.geometric_mean(s, r) for s, r in zip(shapes, rates, strict=True)]
        self.mean = [
            mean_over_seen(shape / rate, seen)
            for shape, rate, seen in zip(shapes, rates, self.cells.seen, strict=True)
        ]
        self._set_rates()
        self.multiplier_N, self.held_multiplier_V = (
            np.ones(len(self.cells.counts_N)),
            np.ones(len(self.held_out)),
        )
        for number, each in enumerate(step.combinations):
            effect_P1 = self._effects(number)
            self.multiplier_N *= effect_P1[each.place_N]
            self.held_multiplier_V *= effect_P1[each.held_place_V]

    def _set_rates(self) -> None:
        self.rate_N = kernels.cell_rates(self.mean, self.cells.indices_NM, backend=self.backend)
        self.held_rate_V = kernels.cell_rates(
            self.mean, self.held_out.indices_NM, backend=self.backend
        )

    def _effects(self, number: int) -> Floats:
        shape = np.asarray(self.state[f"effect_shape_{number}"], dtype=float)
        return np.asarray(shape / np.asarray(self.state[f"effect_rate_{number}"], dtype=float))

    @cached_property
    def _dispersion(self) -> float:
        return float(self.state["dispersion"])

    @property
    def score(self) -> float:
        """The mean log predictive of the held-out cells as things stand."""
        total = self.cells.world.number(float(self.log_pmf_V.sum()))
        return total / self.held_out.n_cells

    def calibrate(self) -> None:
        """Fix the predictive distribution of the held-out cells for this iteration."""
        dispersion = self._dispersion if self.likelihood.dispersed else None
        moments = self._moments()
        some = self.held_out.every(-(-self.held_out.n_cells // CALIBRATION_CELLS))
        counts, mean, variance = (
            self.cells.world.joined(array[some]) for array in (self.held_out.counts_N, *moments)
        )
        calibration = calibrate(
            counts, mean, variance, self.likelihood, dispersion, start=self._calibration()
        )
        self.state["calibration"] = np.array(
            [
                calibration.scale,
                calibration.exponent,
                calibration.dispersion or 0.0,
                calibration.spread,
            ]
        )
        self.target = Target.at(self.held_out, moments, self.likelihood, dispersion, calibration)
        self.log_pmf_V = self.target.log_pmf(self.held_rate_V * self.held_multiplier_V)

    def _calibration(self) -> Calibration:
        scale, exponent, dispersion, spread = np.asarray(self.state["calibration"]).tolist()
        return Calibration(scale, exponent, dispersion or None, spread)

    def _moments(self) -> tuple[Floats, Floats]:
        shapes, rates = factors_of(self.state)
        known = [
            completed_gammas(*parts) for parts in zip(shapes, rates, self.cells.seen, strict=True)
        ]
        moments = gamma_rate_moments(
            [shape for shape, _ in known], [rate for _, rate in known], self.held_out.indices_NM
        )
        return with_interactions(
            interactions_of(self.state, self.cells.shape), self.held_out.indices_NM, *moments
        )

    def visit_axis(self, axis: int) -> None:
        """Visit an axis's encoder; keep what it gives if that predicts better."""
        rate_N = self.rate_N * self.multiplier_N
        visit = AxisVisit(
            axis=axis,
            cells=self.cells,
            held_out=self.held_out,
            target=self.target,
            geo=self.geo,
            mean=self.mean,
            prior_rate=float(np.asarray(self.state["prior_rate"])[axis]),
            inputs_2N=network_inputs(self.cells.counts_N, rate_N),
            exposure_N=self._exposure(rate_N) * self.multiplier_N,
            held_multiplier_V=self.held_multiplier_V,
            backend=self.backend,
        )
        if self.step.leave_one_out:
            visit = LeaveOneOutAxisVisit(
                **_fields(visit), own_target=self._own_target(), multiplier_N=self.multiplier_N
            )
        found = self._better(visit, f"encoder_{axis}", axis, [])
        if found is None:
            return
        shape_DK, rate_DK = found
        self.state |= {f"shape_{axis}": shape_DK, f"rate_{axis}": rate_DK}
        self.geo[axis] = gamma.geometric_mean(shape_DK, rate_DK)
        self.mean[axis] = mean_over_seen(shape_DK / rate_DK, self.cells.seen[axis])
        self._set_rates()
        if self.step.sweeps.prior_rate is None:
            prior_rate_M = np.array(self.state["prior_rate"], dtype=float)
            prior_rate_M[axis] = 1 / (shape_DK / rate_DK).mean()
            self.state["prior_rate"] = prior_rate_M

    def visit_interaction(self, number: int) -> None:
        """Visit the encoder of some axes' multipliers; keep what it gives if that is better."""
        each, before_P1 = self.step.combinations[number], self._effects(number)
        own_N, own_V = before_P1[each.place_N], before_P1[each.held_place_V]
        rate_N = self.rate_N * self.multiplier_N
        visit = InteractionVisit(
            counts_N=self.cells.counts_N,
            place_N=each.place_N,
            n_places=each.n_places,
            held_place_V=each.held_place_V,
            matter_N=each.matter_N,
            target=self.target,
            inputs_2N=network_inputs(self.cells.counts_N, rate_N / own_N),
            exposure_N=self._exposure(rate_N) * rate_N / own_N,
            held_others_V=self.held_rate_V * self.held_multiplier_V / own_V,
            backend=self.backend,
            world=self.cells.world,
        )
        if self.step.leave_one_out:
            visit = LeaveOneOutInteractionVisit(
                **_fields(visit), own_target=self._own_target(), others_N=rate_N / own_N
            )
        first = FIRST_STRENGTHS if int(self.state[f"effect_visits_{number}"]) == 0 else ()
        name = f"effect_encoder_{number}"
        found = self._better(visit, name, self.cells.n_axes + number, first)
        if found is None:
            return
        shape_P1, rate_P1 = found
        self.state[f"effect_visits_{number}"] = np.array(1)
        self.state |= {f"effect_shape_{number}": shape_P1, f"effect_rate_{number}": rate_P1}
        after_P1 = shape_P1 / rate_P1
        self.multiplier_N = self.multiplier_N / own_N * after_P1[each.place_N]
        self.held_multiplier_V = self.held_multiplier_V / own_V * after_P1[each.held_place_V]

    def _own_target(self) -> Target:
        """Return the predictive distribution at the training cells, as calibrated."""
        calibration = self._calibration()
        r = calibration.dispersion or (self._dispersion if self.likelihood.dispersed else np.inf)
        r_N = np.full(len(self.cells.counts_N), min(r, MOST_DISPERSION))
        return Target(self.cells.counts_N, calibration, self.likelihood.truncated, r_N)

    def _exposure(self, rate_N: Floats) -> Floats:
        r_N = np.full(len(rate_N), self._dispersion)
        rate_N = np.maximum(rate_N, LEAST_RATE)
        return expected_exposure(self.likelihood.name, rate_N, self.cells.counts_N, r_N)

    def _better(
        self,
        visit: AxisVisit | InteractionVisit,
        name: str,
        number: int,
        first_strengths: Sequence[float],
    ) -> tuple[Floats, Floats] | None:
        """Train an encoder; return its posteriors if they predict surely better, and keep it."""
        step, numbers = self.step, np.asarray(self.state[name], dtype=float)
        if len(first_strengths):
            tried = [_with_strength(numbers, strength) for strength in first_strengths]
            numbers = min(tried, key=lambda each: visit.loss(each)[0])
        start = step.first_encoder(number)
        trained = train(visit, numbers, start, step.weight_variance, step.steps)
        posterior = visit.posterior(trained)
        log_pmf_V = self.target.log_pmf(visit.held_rates(*posterior))
        gain, spread = self._gain(log_pmf_V - self.log_pmf_V)
        if not gain >= max(LEAST_GAIN, step.caution * spread):  # also if it is not a number
            return None
        self.state[name], self.log_pmf_V = trained, log_pmf_V
        return posterior

    def _gain(self, gain_V: Floats) -> tuple[float, float]:
        """Return the sum over all held-out cells, and its standard error."""
        world, n_cells = self.cells.world, self.held_out.n_cells
        gain = world.number(float(gain_V.sum()))
        squares = world.number(float(np.sum((gain_V - gain / n_cells) ** 2)))
        return gain, squares**0.5


def warming_up(state: State) -> bool:
    """Tell whether the encoders were not visited yet, and will be."""
    return int(state["learning"]) == 1 and int(state["visits"]) < 2


def interactions_of(state: State, shape: Sequence[int]) -> list[Interaction]:
    """Return the multipliers of a state, those that stayed at one among them."""
    found = []
    for number in range(sum(name.startswith("effect_axes_") for name in state)):
        axes = tuple(np.asarray(state[f"effect_axes_{number}"]).tolist())
        found.append(
            Interaction(
                axes,
                tuple(shape[axis] for axis in axes),
                np.asarray(state[f"effect_keys_{number}"], dtype=np.int64),
                np.asarray(state[f"effect_shape_{number}"], dtype=float),
                np.asarray(state[f"effect_rate_{number}"], dtype=float),
            )
        )
    return [each for each in found if not each.idle]


def _without(state: State, prefix: str) -> State:
    """Return the arrays whose names have a prefix, without it."""
    return {n.removeprefix(prefix): value for n, value in state.items() if n.startswith(prefix)}


def _fields(visit: AxisVisit | InteractionVisit) -> dict[str, Any]:
    return {field.name: getattr(visit, field.name) for field in fields(visit)}


def _with_strength(numbers: Floats, strength: float) -> Floats:
    changed = numbers.copy()
    changed[:N_PRIOR] = np.log(strength)
    return changed
