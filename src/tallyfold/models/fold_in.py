"""New entities, and new cells of known ones, taken into a fitted model by its encoders.

The encoders' sums over the new cells are added to what is there: to the prior for a new entity or
a new combination of labels, to the posterior for a known one. No old cell is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.encoders.information import NO_LIMIT, cells_information
from tallyfold.inference.encoders.objective import (
    LEAST_RATE,
    axis_posterior,
    axis_prior,
    multiplier_posterior,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import network_inputs
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.models.cells import cell_positions
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.interactions import Interaction, combination_keys, places_of
from tallyfold.probability import gamma

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    """New cells on their way into a model.

    All sums run over the entities and the combinations of labels that have a new cell; what they
    come to is written back in the end. So new cells cost what they are, however large the model.
    """

    def __init__(self, fitted: Fitted, counts: CountTensor, axes: Sequence[int]) -> None:
        assert isinstance(fitted.factors, GammaFactors)
        self.fitted, self.factors, self.axes = fitted, fitted.factors, axes
        positions_NM = _known_positions(fitted, counts)
        self.rows, self.cells = _touched(positions_NM, counts.counts)
        pairs = list(zip(self.rows, range(len(self.rows)), strict=True))
        self.shapes = [self.factors.shapes[axis][rows] for rows, axis in pairs]
        self.rates = [self.factors.rates[axis][rows] for rows, axis in pairs]
        self.new = [self._without_cells(axis)[rows] for rows, axis in pairs]
        self.geo = [
            gamma.geometric_mean(*both) for both in zip(self.shapes, self.rates, strict=True)
        ]
        self.mean = [shape / rate for shape, rate in zip(self.shapes, self.rates, strict=True)]
        self.base = {axis: self._from_prior(axis) for axis in axes}
        self.effects = {
            number: _Effects.of(each, positions_NM)
            for number, each in enumerate(fitted.interactions)
            if set(each.axes) & set(axes)
        }
        self.multipliers = [
            self.effects[number].mean_N if number in self.effects else each.moments(positions_NM)[0]
            for number, each in enumerate(fitted.interactions)
        ]
        self._look_up_rates()

    def result(self) -> Fitted:
        """Let the encoders pass over the cells; return the changed model."""
        for _ in range(PASSES):
            for number in self.effects:
                self._update_multipliers(number)
            for axis in self.axes:
                self._update_axis(axis)
        shapes, rates = list(self.factors.shapes), list(self.factors.rates)
        for axis in self.axes:
            shapes[axis] = _written(shapes[axis], self.rows[axis], self.shapes[axis])
            rates[axis] = _written(rates[axis], self.rows[axis], self.rates[axis])
        factors = GammaFactors(self.factors.names, self.factors.labels, shapes, rates)
        return self._with_information(replace(self.fitted, factors=factors))

    def _with_information(self, fitted: Fitted) -> Fitted:
        """Add what the new cells tell of the entities and combinations they belong to."""
        assert fitted.likelihood is not None
        told_N, told = cells_information(
            self.mean,
            self.cells,
            self._multiplier(),
            fitted.likelihood,
            float(fitted.extra["seen_dispersion"]) or fitted.dispersion,
            float(fitted.parameters["prior_shape"]),
            self.axes,
        )
        more = {}
        for axis, told_UK in told.items():
            name, rows = f"information_{axis}", self.rows[axis]
            before_UK = np.where(self.new[axis][:, None], 0.0, fitted.extra[name][rows])
            more[name] = _written(fitted.extra[name], rows, before_UK + told_UK)
        interactions = list(fitted.interactions)
        for number, effects in self.effects.items():
            interactions[number] = effects.merged(told_N)
        return replace(fitted, interactions=tuple(interactions), extra=fitted.extra | more)

    def _without_cells(self, axis: int) -> npt.NDArray[np.bool_]:
        """Tell which entities had no cell before these."""
        return np.asarray(self.fitted.extra[f"information_{axis}"][:, 0] >= NO_LIMIT)

    def _from_prior(self, axis: int) -> tuple[Floats, Floats]:
        """Return what evidence is added to: the prior, for entities without a cell so far."""
        a, b = axis_prior(self._numbers(f"encoder_{axis}"), self._prior_rate(axis))
        new_U1 = self.new[axis][:, None]
        return np.where(new_U1, a, self.shapes[axis]), np.where(new_U1, b, self.rates[axis])

    def _prior_rate(self, axis: int) -> float:
        return float(self.fitted.extra["prior_rate"][axis])

    def _look_up_rates(self) -> None:
        """Compute the cells' rates by the factors alone; multipliers do not change them."""
        self.mean_N = kernels.cell_rates(self.mean, self.cells.indices_NM)

    def _multiplier(self) -> Floats:
        product_N = np.ones(len(self.cells.counts_N))
        for multiplier_N in self.multipliers:
            product_N *= multiplier_N
        return product_N

    def _rates_and_exposure(self) -> tuple[Floats, Floats]:
        fitted = self.fitted
        assert fitted.likelihood is not None
        rate_N = np.maximum(self.mean_N * self._multiplier(), LEAST_RATE)
        r_N = np.full(len(rate_N), fitted.dispersion or 1.0)
        counts_N = self.cells.counts_N
        return rate_N, expected_exposure(fitted.likelihood.name, rate_N, counts_N, r_N)

    def _update_axis(self, axis: int) -> None:
        """Add the evidence of the cells to the rows of an axis that they belong to."""
        rate_N, exposure_N = self._rates_and_exposure()
        geo_N = kernels.cell_rates(self.geo, self.cells.indices_NM)
        share_N = self.cells.counts_N / np.maximum(geo_N, LEAST_RATE)
        numbers = self._numbers(f"encoder_{axis}")
        prior_rate = self._prior_rate(axis)
        shape_UK, rate_UK = axis_posterior(
            numbers,
            network_inputs(self.cells.counts_N, rate_N),
            (self.geo, share_N),
            (self.mean, exposure_N * self._multiplier()),
            self.cells.layouts[axis],
            prior_rate,
            "auto",
        )
        a, b = axis_prior(numbers, prior_rate)
        base_shape_UK, base_rate_UK = self.base[axis]
        self.shapes[axis] = base_shape_UK + (shape_UK - a)
        self.rates[axis] = base_rate_UK + (rate_UK - b)
        self.geo[axis] = gamma.geometric_mean(self.shapes[axis], self.rates[axis])
        self.mean[axis] = self.shapes[axis] / self.rates[axis]
        self._look_up_rates()

    def _update_multipliers(self, number: int) -> None:
        """Add the evidence of the cells to the multipliers of their combinations."""
        rate_N, exposure_N = self._rates_and_exposure()
        effects, own_N = self.effects[number], self.multipliers[number]
        numbers = self._numbers(f"effect_encoder_{self._encoder_number(effects.whole.axes)}")
        shape_U, rate_U = multiplier_posterior(
            numbers,
            network_inputs(self.cells.counts_N, rate_N / own_N),
            effects.place_N,
            len(effects.keys_U),
            self.cells.counts_N,
            exposure_N * rate_N / own_N,
            "auto",
        )
        a, c = np.exp(numbers[:2])
        effects.add(shape_U - a, rate_U - c)
        self.multipliers[number] = effects.mean_N

    def _numbers(self, name: str) -> Floats:
        return np.asarray(self.fitted.extra[name], dtype=float)

    def _encoder_number(self, axes: tuple[int, ...]) -> int:
        """Return which encoder belongs to the multipliers of some axes."""
        extra, number = self.fitted.extra, 0
        while tuple(extra[f"effect_axes_{number}"].tolist()) != axes:
            number += 1
        return number


@dataclass
class _Effects:
    """The multipliers of the combinations that have a new cell, U of them.

    Attributes
    ----------
    whole
        All multipliers of these axes, as they were.
    keys_U, old_U
        The combinations, and where they stood; the last place if never seen.
    place_N
        Each cell's combination.
    shape_U, rate_U
        What the new cells have made of them so far.
    """

    whole: Interaction
    keys_U: Ints
    old_U: Ints
    place_N: Ints
    shape_U: Floats
    rate_U: Floats

    @classmethod
    def of(cls, whole: Interaction, positions_NM: npt.NDArray[np.int32]) -> _Effects:
        key_N = combination_keys(positions_NM, whole.axes, whole.sizes)
        keys_U, place_N = np.unique(key_N, return_inverse=True)
        old_U = places_of(keys_U, whole.keys_P)
        return cls(whole, keys_U, old_U, place_N, whole.shape_P1[old_U], whole.rate_P1[old_U])

    @property
    def mean_N(self) -> Floats:
        """The present multiplier of each cell."""
        return np.asarray((self.shape_U / self.rate_U)[self.place_N])

    def add(self, to_shape_U: Floats, to_rate_U: Floats) -> None:
        """Add evidence to what was there before the new cells."""
        self.shape_U = self.whole.shape_P1[self.old_U] + to_shape_U
        self.rate_U = self.whole.rate_P1[self.old_U] + to_rate_U

    def merged(self, told_N: Floats) -> Interaction:
        """Return all multipliers, these among them, and what cells tell of them added."""
        whole, wide_P1 = self.whole, self.whole.widest_P1
        new_U = self.old_U == len(whole.keys_P)
        before_U = np.searchsorted(whole.keys_P, self.keys_U)
        at_U = before_U + np.cumsum(new_U) - new_U  # each new one moves all that follow
        size = len(whole.keys_P) + int(new_U.sum())
        old_P1 = np.ones(size + 1, dtype=bool)
        old_P1[at_U[new_U]] = False

        def spread(values_P1: Floats, values_U: Floats) -> Floats:
            merged_P1 = np.empty(size + 1)
            merged_P1[old_P1] = values_P1
            merged_P1[at_U] = values_U
            return merged_P1

        if wide_P1 is not None:
            told_U = np.bincount(self.place_N, told_N, minlength=len(self.keys_U))
            wide_P1 = spread(wide_P1, wide_P1[self.old_U] + told_U)
        keys_P = np.empty(size, dtype=np.int64)
        keys_P[old_P1[:-1]], keys_P[at_U] = whole.keys_P, self.keys_U
        return replace(
            whole,
            keys_P=keys_P,
            shape_P1=spread(whole.shape_P1, self.shape_U),
            rate_P1=spread(whole.rate_P1, self.rate_U),
            widest_P1=wide_P1,
        )


def _touched(
    positions_NM: npt.NDArray[np.int32], counts_N: npt.NDArray[np.int64]
) -> tuple[list[Ints], TrainingCells]:
    """Return the entities that have a new cell, and the cells by positions among them."""
    rows, local_NM = [], np.empty_like(positions_NM, order="F")
    for axis, column_N in enumerate(positions_NM.T):
        seen_D = np.bincount(column_N) > 0
        rows.append(np.flatnonzero(seen_D))
        local_NM[:, axis] = (np.cumsum(seen_D) - 1)[column_N]
    shape = tuple(len(each) for each in rows)
    return rows, TrainingCells.of(shape, local_NM, counts_N)


def _written(table: Floats, rows: Ints, values: Floats) -> Floats:
    """Return a copy of a table with other values in some rows."""
    copy = table.copy()
    copy[rows] = values
    return copy


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
    sizes, keys_P = tuple(shape[axis] for axis in interaction.axes), interaction.keys_P
    below = 1  # how many combinations the axes after this one have
    for old, new in zip(interaction.sizes[:0:-1], sizes[:0:-1], strict=True):
        if new != old:
            keys_P = keys_P + keys_P // (old * below) * ((new - old) * below)
        below *= new
    return replace(interaction, sizes=sizes, keys_P=keys_P)
