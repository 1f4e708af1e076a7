"""Where an anchored fit stands during one iteration, and its visits to encoders.

A visit trains an encoder on the cells of all entities or, if there are very many cells or
`batch_entities` says so, of some drawn at random; then it computes all posteriors, a range of
entities at a time. No array has an entry for each cell except where the fit is small enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.combinations import Combinations
from tallyfold.inference.cells.held_out import MOST_DISPERSION, Target
from tallyfold.inference.cells.parts import (
    LARGEST_PART,
    AxisPart,
    Which,
    drawn,
    part_of,
    part_without_held_out,
    ranges,
    whole,
)
from tallyfold.inference.encoders.leave_one_out import (
    LeaveOneOutAxisVisit,
    LeaveOneOutInteractionVisit,
)
from tallyfold.inference.encoders.objective import (
    LEAST_RATE,
    N_PRIOR,
    AxisVisit,
    InteractionVisit,
    multiplier_sums,
    train,
    with_factor,
)
from tallyfold.inference.fit.calibration import calibrate
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.cavi import factors_of
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import network_inputs
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.posterior.gamma_factors import completed_gammas, gamma_rate_moments
from tallyfold.posterior.interactions import Interaction, with_interactions
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.posterior.predictive import Calibration
from tallyfold.probability import gamma

if TYPE_CHECKING:
    from tallyfold.inference.encoders.anchored import AnchoredStep

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Visit = AxisVisit | InteractionVisit

FIRST_STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Prior shapes tried when multipliers are visited for the first time."""
LEAST_GAIN = 5.0
"""In nats over all held-out cells: what a visit's few free numbers may gain by chance."""
CALIBRATION_CELLS = 5_000
GOLDEN = 0.6180339887498949
"""Multiples of it, less whole numbers, are spread evenly."""


class Place:
    """A state, and what follows from it."""

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
        self.effects = [self._effect(number) for number in range(len(step.combinations))]
        self.held_multiplier_V = np.ones(len(self.held_out))
        for effect_P1, each in zip(self.effects, step.combinations, strict=True):
            self.held_multiplier_V *= effect_P1[each.held_place_V]
        self._set_held_rates()

    def _set_held_rates(self) -> None:
        self.held_rate_V = self._rates(self.mean, self.held_out.indices_NM)

    def _rates(self, factors: Sequence[Floats], indices_NM: npt.NDArray[np.int32]) -> Floats:
        return kernels.cell_rates(factors, indices_NM, backend=self.backend)

    def _effect(self, number: int) -> Floats:
        shape = np.asarray(self.state[f"effect_shape_{number}"], dtype=float)
        return np.asarray(shape / np.asarray(self.state[f"effect_rate_{number}"], dtype=float))

    def multipliers(self, places: Which) -> Floats:
        """Return what the factors' rates of some training cells are multiplied by."""
        product = np.ones(len(self.cells.counts_N[places]))
        for effect_P1, each in zip(self.effects, self.step.combinations, strict=True):
            product *= effect_P1[each.place_N[places]]
        return product

    @cached_property
    def _dispersion(self) -> float:
        return float(self.state["dispersion"])

    @property
    def score(self) -> float:
        """The mean log predictive of the held-out cells as things stand."""
        total = self.cells.group.all_reduce_number(float(self.log_pmf_V.sum()))
        return total / self.held_out.n_cells

    def calibrate(self) -> None:
        """Fix the predictive distribution of the held-out cells for this iteration."""
        dispersion = self._dispersion if self.likelihood.dispersed else None
        moments = self._moments()
        some = self.held_out.every(-(-self.held_out.n_cells // CALIBRATION_CELLS))
        counts, mean, variance = (
            self.cells.group.all_gather(array[some]) for array in (self.held_out.counts_N, *moments)
        )
        found = calibrate(
            counts, mean, variance, self.likelihood, dispersion, start=self._calibration()
        )
        self.state["calibration"] = np.array(
            [found.scale, found.exponent, found.dispersion or 0.0, found.spread]
        )
        self.target = Target.at(self.held_out, moments, self.likelihood, dispersion, found)
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

    # -- axes -------------------------------------------------------------------------------------

    def visit_axis(self, axis: int) -> None:
        """Visit an axis's encoder; keep what it gives if that predicts better."""
        part = self._part_to_train_on(axis)
        visit = self._axis_visit(axis, part)

        def posterior(numbers: Floats) -> tuple[Floats, Floats]:
            if isinstance(part.entities, slice):
                return visit.posterior(numbers)
            return self._axis_posterior(axis, numbers)

        found = self._better(
            visit,
            f"encoder_{axis}",
            axis,
            (),
            posterior,
            lambda *both: self._held_rates_with(axis, *both),
        )
        if found is None:
            return
        shape_DK, rate_DK = found
        self.state |= {f"shape_{axis}": shape_DK, f"rate_{axis}": rate_DK}
        self.geo[axis] = gamma.geometric_mean(shape_DK, rate_DK)
        self.mean[axis] = mean_over_seen(shape_DK / rate_DK, self.cells.seen[axis])
        self._set_held_rates()
        if self.step.sweeps.prior_rate is None:
            prior_rate_M = np.array(self.state["prior_rate"], dtype=float)
            prior_rate_M[axis] = 1 / (shape_DK / rate_DK).mean()
            self.state["prior_rate"] = prior_rate_M

    def _part_to_train_on(self, axis: int) -> AxisPart:
        """Return all entities or, if that is too much, some that have held-out cells."""
        candidates = np.flatnonzero(self.held_out.seen[axis])
        number = self.cells.cells_per_entity[axis]
        most_entities, most_cells = self.step.most_at_once
        if len(candidates) <= most_entities and self.cells.n_cells <= most_cells:
            return whole(self.cells, self.held_out)
        entities = drawn(self._rng(axis), number, candidates, most_entities, most_cells)
        return part_of(self.cells, self.held_out, axis, entities)

    def _axis_visit(self, axis: int, part: AxisPart) -> AxisVisit:
        geo, mean = (
            with_factor(factors, axis, factors[axis][part.entities])
            for factors in (self.geo, self.mean)
        )
        multiplier_N = self.multipliers(part.places)
        rate_N = self._rates(mean, part.cells.indices_NM) * multiplier_N
        visit = AxisVisit(
            axis=axis,
            cells=part.cells,
            held_out=part.held_out,
            target=self.target.of_some(part.held_places),
            geo=geo,
            mean=mean,
            prior_rate=float(np.asarray(self.state["prior_rate"])[axis]),
            inputs_2N=network_inputs(part.cells.counts_N, rate_N),
            exposure_N=self._exposure(rate_N, part.cells.counts_N) * multiplier_N,
            held_multiplier_V=self.held_multiplier_V[part.held_places],
            backend=self.backend,
        )
        if not self.step.leave_one_out:
            return visit
        return LeaveOneOutAxisVisit(
            **_fields(visit), own_target=self._own_target(), multiplier_N=multiplier_N
        )

    def _axis_posterior(self, axis: int, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the posteriors of all entities, a range at a time."""
        found = [
            self._axis_visit(axis, part_without_held_out(self.cells, axis, entities)).posterior(
                numbers
            )
            for entities in ranges(self.cells.cells_per_entity[axis])
        ]
        return np.concatenate([s for s, _ in found]), np.concatenate([r for _, r in found])

    def _held_rates_with(self, axis: int, shape_DK: Floats, rate_DK: Floats) -> Floats:
        """Return the held-out cells' rates if an axis had these posteriors."""
        known_DK = mean_over_seen(shape_DK / rate_DK, self.cells.seen[axis])
        factors = with_factor(self.mean, axis, known_DK)
        return self._rates(factors, self.held_out.indices_NM) * self.held_multiplier_V

    # -- multipliers ------------------------------------------------------------------------------

    def visit_interaction(self, number: int) -> None:
        """Visit the encoder of some axes' multipliers; keep what it gives if that is better."""
        each, before_P1 = self.step.combinations[number], self.effects[number]
        held_others_V = self.held_rate_V * self.held_multiplier_V / before_P1[each.held_place_V]
        some = self._places_to_train_on(number)
        visit = self._interaction_visit(number, held_others_V, some)

        def posterior(numbers: Floats) -> tuple[Floats, Floats]:
            if some is None:
                return visit.posterior(numbers)
            return self._interaction_posterior(number, numbers)

        found = self._better(
            visit,
            f"effect_encoder_{number}",
            self.cells.n_axes + number,
            FIRST_STRENGTHS if int(self.state[f"effect_visits_{number}"]) == 0 else (),
            posterior,
            lambda shape_P1, rate_P1: held_others_V * (shape_P1 / rate_P1)[each.held_place_V],
        )
        if found is None:
            return
        self.state[f"effect_visits_{number}"] = np.array(1)
        self.state |= {f"effect_shape_{number}": found[0], f"effect_rate_{number}": found[1]}
        self.effects[number] = self._effect(number)
        own_V = self.effects[number][each.held_place_V]
        self.held_multiplier_V = self.held_multiplier_V / before_P1[each.held_place_V] * own_V

    def _places_to_train_on(self, number: int) -> Ints | None:
        """Draw combinations that have held-out cells, if all are too many; None for all."""
        each, group = self.step.combinations[number], self.cells.group
        most_places, most_cells = self.step.most_at_once
        hit_P = group.all_reduce(np.bincount(each.held_place_V, minlength=each.n_places))[:-1]
        candidates = np.flatnonzero(hit_P)
        if len(candidates) <= most_places and self.cells.n_cells <= most_cells:
            return None
        cells_P = group.all_reduce(np.bincount(each.place_N, minlength=each.n_places)).astype(
            np.int64
        )
        rng = self._rng(self.cells.n_axes + number)
        return drawn(rng, cells_P, candidates, most_places, most_cells)

    def _interaction_visit(
        self, number: int, held_others_V: Floats, some: Ints | None
    ) -> InteractionVisit:
        each = self.step.combinations[number]
        n_places, place_N, held_place_V, matter_N = (
            each.n_places,
            each.place_N,
            each.held_place_V,
            each.matter_N,
        )
        cells: Which = slice(None)
        held: Which = slice(None)
        if some is not None:
            chosen = _chosen(each, some, self.held_out.first)
            cells, held, place_N, held_place_V = chosen
            n_places, matter_N = len(some) + 1, slice(None)
        others_N, exposure_N = self._without_own(number, cells)
        visit = InteractionVisit(
            counts_N=self.cells.counts_N[cells],
            place_N=place_N,
            n_places=n_places,
            held_place_V=held_place_V,
            matter_N=matter_N,
            target=self.target.of_some(held),
            inputs_2N=network_inputs(self.cells.counts_N[cells], others_N),
            exposure_N=exposure_N,
            held_others_V=held_others_V[held],
            backend=self.backend,
            group=self.cells.group,
        )
        if not self.step.leave_one_out:
            return visit
        return LeaveOneOutInteractionVisit(
            **_fields(visit), own_target=self._own_target(), others_N=others_N
        )

    def _without_own(self, number: int, cells: Which) -> tuple[Floats, Floats]:
        """Return cells' rates without one set's multipliers, and the exposures of these."""
        each = self.step.combinations[number]
        indices_NM = np.asfortranarray(self.cells.indices_NM[cells])
        rate_N = self._rates(self.mean, indices_NM) * self.multipliers(cells)
        others_N = rate_N / self.effects[number][each.place_N[cells]]
        return others_N, self._exposure(rate_N, self.cells.counts_N[cells]) * others_N

    def _interaction_posterior(self, number: int, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the posteriors of all combinations, taking some cells at a time."""
        each = self.step.combinations[number]
        counted_P1, exposed_P1 = np.zeros(each.n_places), np.zeros(each.n_places)
        for start in range(0, len(self.cells), LARGEST_PART):
            part = slice(start, start + LARGEST_PART)
            others_N, exposure_N = self._without_own(number, part)
            counts_N = self.cells.counts_N[part]
            inputs_2N = network_inputs(counts_N, others_N)
            place_N = each.place_N[part]
            sums = multiplier_sums(
                numbers, inputs_2N, place_N, each.n_places, counts_N, exposure_N, self.backend
            )
            counted_P1 += sums[0]
            exposed_P1 += sums[1]
        a, c = np.exp(numbers[:N_PRIOR])
        return a + self.cells.group.all_reduce(counted_P1), c + self.cells.group.all_reduce(
            exposed_P1
        )

    # -- both -------------------------------------------------------------------------------------

    def _rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.step.seed, 5, int(self.state["visits"]), number])

    def _own_target(self) -> Target:
        """Return the predictive distribution at the training cells, as calibrated."""
        calibration = self._calibration()
        r = calibration.dispersion or (self._dispersion if self.likelihood.dispersed else np.inf)
        r_N = np.full(len(self.cells.counts_N), min(r, MOST_DISPERSION))
        return Target(self.cells.counts_N, calibration, self.likelihood.truncated, r_N)

    def _exposure(self, rate_N: Floats, counts_N: Ints) -> Floats:
        r_N = np.full(len(rate_N), self._dispersion)
        rate_N = np.maximum(rate_N, LEAST_RATE)
        return expected_exposure(self.likelihood.name, rate_N, counts_N, r_N)

    def _better(
        self,
        visit: Visit,
        name: str,
        number: int,
        first_strengths: Sequence[float],
        posterior: Callable[[Floats], tuple[Floats, Floats]],
        held_rates: Callable[[Floats, Floats], Floats],
    ) -> tuple[Floats, Floats] | None:
        """Train an encoder; return its posteriors if they predict surely better, and keep it."""
        step, numbers = self.step, np.asarray(self.state[name], dtype=float)
        if len(first_strengths):
            tried = [_with_strength(numbers, strength) for strength in first_strengths]
            numbers = min(tried, key=lambda each: visit.loss(each)[0])
        start = step.first_encoder(number)
        n_total = self.cells.n_cells if step.leave_one_out else self.held_out.n_cells
        trained = train(visit, numbers, start, step.weight_variance, step.steps, n_total)
        found = posterior(trained)
        log_pmf_V = self.target.log_pmf(held_rates(*found))
        gain, spread = self._gain(log_pmf_V - self.log_pmf_V)
        if not gain >= max(LEAST_GAIN, step.caution * spread):  # also if it is not a number
            return None
        self.state[name], self.log_pmf_V = trained, log_pmf_V
        return found

    def _gain(self, gain_V: Floats) -> tuple[float, float]:
        """Return the sum over all held-out cells, and its standard error."""
        group, n_cells = self.cells.group, self.held_out.n_cells
        gain = group.all_reduce_number(float(gain_V.sum()))
        squares = group.all_reduce_number(float(np.sum((gain_V - gain / n_cells) ** 2)))
        return gain, squares**0.5


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


def _chosen(
    each: Combinations, some: Ints, first_held_out: int
) -> tuple[Ints, npt.NDArray[np.bool_], Ints, Ints]:
    """Return the training cells and held-out cells of some combinations, renumbered from 0.

    Of the held-out cells whose combination was never seen the same share is taken, by their
    position among all, so that it does not matter which process has them.
    """
    local_P1 = np.full(each.n_places, -1, dtype=np.int64)
    local_P1[some] = np.arange(len(some))
    cells = np.flatnonzero(local_P1[each.place_N] >= 0)
    position_V = first_held_out + np.arange(len(each.held_place_V))
    share = len(some) / max(each.n_places - 1, 1)
    lucky_V = position_V * GOLDEN % 1.0 < share
    never_V = each.held_place_V == each.n_places - 1
    held_V = np.where(never_V, lucky_V, local_P1[each.held_place_V] >= 0)
    local_P1[-1] = len(some)
    return cells, held_V, local_P1[each.place_N[cells]], local_P1[each.held_place_V[held_V]]


def _fields(visit: AxisVisit | InteractionVisit) -> dict[str, Any]:
    return {field.name: getattr(visit, field.name) for field in fields(visit)}


def _with_strength(numbers: Floats, strength: float) -> Floats:
    changed = numbers.copy()
    changed[:N_PRIOR] = np.log(strength)
    return changed
