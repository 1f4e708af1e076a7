"""New entities, and new cells of known ones, taken into a fitted model by its encoders.

The encoders' sums over the new cells are added to what is there: to the prior for a new entity or
a new combination of labels, to the posterior for a known one. No old cell is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.inference.encoder_visits import (
    LEAST_RATE,
    axis_posterior,
    axis_prior,
    multiplier_posterior,
)
from tallyfold.inference.information import NO_LIMIT, cells_information
from tallyfold.inference.training import TrainingCells
from tallyfold.kernels import select as kernels
from tallyfold.kernels.evidence import network_inputs
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.models.cells import cell_positions
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.interactions import Interaction, combination_keys, places_of
from tallyfold.probability import gamma

Floats = npt.NDArray[np.float64]

PASSES = 3
"""How often the encoders pass over the new cells: shares and multipliers settle quickly."""


def folded_in(fitted: Fitted, counts: CountTensor, axis: str) -> Fitted:
    """Return what the fit left, and with it new entities of an axis."""
    number = _axis_number(fitted, counts, axis)
    extended = _with_new_entities(fitted, counts.axis(axis), number)
    return _Intake(extended, counts, [number]).result()


def updated(fitted: Fitted, counts: CountTensor) -> Fitted:
    """Return what the fit left, with the evidence of new cells of known entities."""
    _check_cells(counts)
    return _Intake(fitted, counts, range(len(fitted.axes))).result()


class _Intake:
    """New cells on their way into a model."""

    def __init__(self, fitted: Fitted, counts: CountTensor, axes: Sequence[int]) -> None:
        assert isinstance(fitted.factors, GammaFactors)
        self.fitted, self.factors, self.axes = fitted, fitted.factors, axes
        positions_NM = _known_positions(fitted, counts)
        shape = tuple(len(axis) for axis in fitted.axes)
        self.cells = TrainingCells.of(shape, positions_NM, counts.counts)
        self.base = [_with_new_keys(each, positions_NM) for each in fitted.interactions]
        self.shapes, self.rates = list(self.factors.shapes), list(self.factors.rates)
        self.base_shapes, self.base_rates = list(self.shapes), list(self.rates)
        self.new = [self._without_cells(axis) & seen for axis, seen in enumerate(self.cells.seen)]
        for axis in axes:
            self._start_from_prior(axis)
        self.multipliers = list(self.base)
        self.effect_places = [each.places(positions_NM) for each in self.base]

    def result(self) -> Fitted:
        """Let the encoders pass over the cells; return the changed model."""
        touched = [n for n, each in enumerate(self.base) if set(each.axes) & set(self.axes)]
        for _ in range(PASSES):
            for number in touched:
                self._update_multipliers(number)
            for axis in self.axes:
                self._update_axis(axis)
        factors = GammaFactors(self.factors.names, self.factors.labels, self.shapes, self.rates)
        return self._with_information(replace(self.fitted, factors=factors), touched)

    def _with_information(self, fitted: Fitted, touched: Sequence[int]) -> Fitted:
        """Add what the new cells tell of the entities and combinations they belong to."""
        assert fitted.likelihood is not None
        pairs = zip(self.shapes, self.rates, strict=True)
        told_N, told = cells_information(
            [shape[:-1] / rate[:-1] for shape, rate in pairs],
            self.cells,
            self._multiplier(),
            fitted.likelihood,
            float(fitted.extra["seen_dispersion"]) or fitted.dispersion,
            float(fitted.parameters["prior_shape"]),
            self.axes,
        )
        names = {axis: f"information_{axis}" for axis in self.axes}
        before = {
            axis: np.where(self.new[axis][:, None], 0.0, fitted.extra[name])
            for axis, name in names.items()
        }
        more = {name: before[axis] + told[axis] for axis, name in names.items()}
        effects = [
            self._wider(number, told_N) if number in touched else each
            for number, each in enumerate(self.multipliers)
        ]
        return replace(fitted, interactions=tuple(effects), extra=fitted.extra | more)

    def _wider(self, number: int, told_N: Floats) -> Interaction:
        each, place_N = self.multipliers[number], self.effect_places[number]
        if each.widest_P1 is None:
            return each
        told_P1 = np.bincount(place_N, told_N, minlength=len(each.shape_P1))
        return replace(each, widest_P1=each.widest_P1 + told_P1)

    def _without_cells(self, axis: int) -> npt.NDArray[np.bool_]:
        """Tell which entities had no cell before these."""
        return np.asarray(self.fitted.extra[f"information_{axis}"][:, 0] >= NO_LIMIT)

    def _start_from_prior(self, axis: int) -> None:
        """Let the evidence of entities without a cell so far be added to the prior."""
        prior = axis_prior(self._numbers(f"encoder_{axis}"), self._prior_rate(axis))
        for tables, value in zip((self.base_shapes, self.base_rates), prior, strict=True):
            tables[axis] = tables[axis].copy()
            tables[axis][:-1][self.new[axis]] = value

    def _prior_rate(self, axis: int) -> float:
        return float(self.fitted.extra["prior_rate"][axis])

    def _multiplier(self) -> Floats:
        product_N = np.ones(len(self.cells.counts_N))
        for each, place_N in zip(self.multipliers, self.effect_places, strict=True):
            product_N *= each.mean_P1[place_N]
        return product_N

    def _rates_and_exposure(self) -> tuple[Floats, Floats]:
        fitted = self.fitted
        assert fitted.likelihood is not None
        means = [shape / rate for shape, rate in zip(self.shapes, self.rates, strict=True)]
        rate_N = kernels.cell_rates(means, self.cells.indices_NM) * self._multiplier()
        rate_N = np.maximum(rate_N, LEAST_RATE)
        r_N = np.full(len(rate_N), fitted.dispersion or 1.0)
        counts_N = self.cells.counts_N
        return rate_N, expected_exposure(fitted.likelihood.name, rate_N, counts_N, r_N)

    def _update_axis(self, axis: int) -> None:
        """Add the evidence of the cells to the rows of an axis that they belong to."""
        rate_N, exposure_N = self._rates_and_exposure()
        pairs = list(zip(self.shapes, self.rates, strict=True))
        geo = [gamma.geometric_mean(shape, rate) for shape, rate in pairs]
        mean = [shape / rate for shape, rate in pairs]
        geo_N = kernels.cell_rates(geo, self.cells.indices_NM)
        share_N = self.cells.counts_N / np.maximum(geo_N, LEAST_RATE)
        numbers = self._numbers(f"encoder_{axis}")
        prior_rate = self._prior_rate(axis)
        shape_DK, rate_DK = axis_posterior(
            numbers,
            network_inputs(self.cells.counts_N, rate_N),
            (geo, share_N),
            (mean, exposure_N * self._multiplier()),
            self.cells.layouts[axis],
            prior_rate,
            "auto",
        )
        a, b = axis_prior(numbers, prior_rate)
        seen_D1 = self.cells.seen[axis][:, None]
        self.shapes[axis] = _added(self.base_shapes[axis], shape_DK - a, seen_D1)
        self.rates[axis] = _added(self.base_rates[axis], rate_DK - b, seen_D1)

    def _update_multipliers(self, number: int) -> None:
        """Add the evidence of the cells to the multipliers of their combinations."""
        rate_N, exposure_N = self._rates_and_exposure()
        base, place_N = self.base[number], self.effect_places[number]
        own_N = self.multipliers[number].mean_P1[place_N]
        numbers = self._numbers(f"effect_encoder_{self._encoder_number(base.axes)}")
        shape_P1, rate_P1 = multiplier_posterior(
            numbers,
            network_inputs(self.cells.counts_N, rate_N / own_N),
            place_N,
            len(base.shape_P1),
            self.cells.counts_N,
            exposure_N * rate_N / own_N,
            "auto",
        )
        a, c = np.exp(numbers[:2])
        self.multipliers[number] = replace(
            base, shape_P1=base.shape_P1 + (shape_P1 - a), rate_P1=base.rate_P1 + (rate_P1 - c)
        )

    def _numbers(self, name: str) -> Floats:
        return np.asarray(self.fitted.extra[name], dtype=float)

    def _encoder_number(self, axes: tuple[int, ...]) -> int:
        """Return which encoder belongs to the multipliers of some axes."""
        extra, number = self.fitted.extra, 0
        while tuple(extra[f"effect_axes_{number}"].tolist()) != axes:
            number += 1
        return number


def _added(base: Floats, evidence: Floats, seen_D1: npt.NDArray[np.bool_]) -> Floats:
    """Add evidence to the rows that have any; the last row is the entity never seen."""
    return np.vstack([base[:-1] + np.where(seen_D1, evidence, 0.0), base[-1:]])


def _check_cells(counts: CountTensor) -> None:
    if not isinstance(counts, CountTensor):
        raise ParameterError(f"new cells must be a CountTensor; got {type(counts).__name__}.")
    if counts.nnz == 0:
        raise DataError("the tensor of new cells has no non-zero cell; there is nothing to add.")


def _known_positions(fitted: Fitted, counts: CountTensor) -> npt.NDArray[np.int32]:
    """Return where the new cells are; refuse labels the model does not know."""
    positions_NM = np.asfortranarray(cell_positions(fitted.axes, counts, "prior"))
    for number, axis in enumerate(fitted.axes):
        unknown = np.flatnonzero(positions_NM[:, number] < 0)
        if len(unknown):
            given = counts.axis(axis.name)
            place = counts.indices[unknown[0], counts.axis_number(axis.name)]
            raise LabelError(
                f"the model does not know {given.label(int(place))!r} on axis {axis.name!r} "
                f"({len(unknown):,} cells have such a label). Fold in the new entities of one axis "
                "at a time, or leave these cells out."
            )
    return positions_NM


def _axis_number(fitted: Fitted, counts: CountTensor, axis: str) -> int:
    """Check what is given for new entities; return their axis's position."""
    _check_cells(counts)
    names = [each.name for each in fitted.axes]
    if axis not in names or axis not in counts.names:
        raise LabelError(f"there is no axis {axis!r} in both; the model has {', '.join(names)}.")
    number = names.index(axis)
    _, known = fitted.axes[number].find(counts.axis(axis).labels)
    if known.any():
        label = counts.axis(axis).label(int(np.flatnonzero(known)[0]))
        raise LabelError(
            f"{label!r} on axis {axis!r} is known already. New cells of known entities go in with "
            "`partial`; `counts.filter` or `compact` leaves out labels without a cell."
        )
    return number


def _with_new_entities(fitted: Fitted, axis: Axis, number: int) -> Fitted:
    """Give an axis more labels, each as an average entity for now."""
    assert isinstance(fitted.factors, GammaFactors)
    old, factors = fitted.axes[number], fitted.factors
    labels = pa.concat_arrays([old.labels, axis.labels.cast(old.labels.type)])
    axes = list(fitted.axes)
    axes[number] = Axis.of_distinct(old.name, labels)
    shapes, rates = list(factors.shapes), list(factors.rates)
    for table in (shapes, rates):
        table[number] = np.vstack([table[number], np.repeat(table[number][-1:], len(axis), axis=0)])
    sizes = [len(each) for each in axes]
    name = f"information_{number}"
    nothing = np.full((len(axis), factors.n_components), NO_LIMIT)
    extra = fitted.extra | {name: np.vstack([fitted.extra[name], nothing])}
    if int(extra.get("dispersion_axis", -1)) == number:
        ratios, unknown = extra["entity_dispersion"][:-1], np.zeros(len(axis) + 1)
        extra["entity_dispersion"] = np.append(ratios, unknown)
    return replace(
        fitted,
        axes=tuple(axes),
        factors=GammaFactors(factors.names, [each.labels for each in axes], shapes, rates),
        interactions=tuple(_resized(each, sizes) for each in fitted.interactions),
        extra=extra,
    )


def _resized(interaction: Interaction, shape: Sequence[int]) -> Interaction:
    """Give the combinations the numbers they have on longer axes; their order stays."""
    sizes = tuple(shape[axis] for axis in interaction.axes)
    keys_P = np.ravel_multi_index(interaction.labels_at(interaction.keys_P), sizes)
    return replace(interaction, sizes=sizes, keys_P=keys_P.astype(np.int64))


def _with_new_keys(interaction: Interaction, positions_NM: npt.NDArray[np.int32]) -> Interaction:
    """Add the combinations of new cells, each with the posterior of one never seen."""
    given = np.unique(combination_keys(positions_NM, interaction.axes, interaction.sizes))
    new = given[places_of(given, interaction.keys_P) == len(interaction.keys_P)]
    where, wide = np.searchsorted(interaction.keys_P, new), interaction.widest_P1
    return replace(
        interaction,
        keys_P=np.insert(interaction.keys_P, where, new),
        shape_P1=np.insert(interaction.shape_P1, where, interaction.shape_P1[-1]),
        rate_P1=np.insert(interaction.rate_P1, where, interaction.rate_P1[-1]),
        widest_P1=None if wide is None else np.insert(wide, where, wide[-1]),
    )
