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
from tallyfold.inference.encoders.evidence import (
    LEAST_RATE,
    AxisEvidence,
    AxisPrior,
    AxisRows,
    DerivedRows,
    exposures,
)
from tallyfold.inference.encoders.information import cells_information
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import network_inputs
from tallyfold.models.cells import cell_positions
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.derived_axis import DerivedAxis, combination_keys, rows_of_keys
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import NO_LIMIT, GammaTable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

PASSES = 3
"""How often the encoders pass over the new cells: shares and multipliers settle quickly."""


def refuse_observed_zeros(fitted: Fitted) -> None:
    """Refuse new cells where empty cells of new entities would be evidence, too."""
    if fitted.parameters["zeros"] == "observed":
        raise ParameterError(
            "new cells can be taken in without a fit if zeros='missing' only: with observed zeros "
            "every empty cell of the new entities is evidence too. Fit again."
        )


def fold_in(fitted: Fitted, counts: CountTensor, axis: str) -> Fitted:
    """Return the result of a fit with new entities of an axis."""
    number = _axis_number(fitted, counts, axis)
    extended = _with_new_entities(fitted, counts.axis(axis), number)
    return _taken_in(extended, counts, [number])


def update(fitted: Fitted, counts: CountTensor) -> Fitted:
    """Return the result of a fit with the evidence of new cells of known entities."""
    _check_cells(counts)
    return _taken_in(fitted, counts, range(len(fitted.axes)))


def _taken_in(fitted: Fitted, counts: CountTensor, axes: Sequence[int]) -> Fitted:
    """Take new cells into the factors of some axes, and into the margins of a count head."""
    if fitted.factors is not None:
        fitted = _Intake(fitted, counts, axes).result()
    if fitted.head is None:
        return fitted
    sizes = [len(axis) for axis in fitted.axes]
    head = fitted.head.added(_known_positions(fitted, counts), counts.counts, sizes)
    return replace(fitted, head=head)


@dataclass
class _Rows:
    """The rows of an axis, or of a derived one, that have a new cell.

    Attributes
    ----------
    where
        Their positions in the whole table.
    base
        What the new cells' evidence is added to.
    table
        Their posteriors so far.
    params, prior
        Of the axis's encoder.
    """

    where: Ints
    base: GammaTable
    table: GammaTable
    params: Floats
    prior: AxisPrior

    @classmethod
    def of(
        cls, where: Ints, whole: GammaTable, params: Floats, prior: AxisPrior, prior_shape: float
    ) -> _Rows:
        table = whole.rows(where)
        if table.widest_DK is None or prior.rate is None:  # the last row of a derived axis is
            return cls(where, table, table, params, prior)  # its prior: nothing to replace
        new_U1 = table.widest_DK[:, :1] >= NO_LIMIT
        a, b = prior.at(params)
        base = GammaTable(
            np.where(new_U1, a, table.shape_DK),
            np.where(new_U1, b, table.rate_DK),
            np.where(new_U1, prior_shape, table.widest_DK),
        )
        return cls(where, base, table, params, prior)

    def take(self, evidence: AxisEvidence) -> None:
        """Add the evidence of the new cells to what was there before them."""
        counted_UK, exposed_UK = evidence.sums(self.params)
        base = self.base
        self.table = GammaTable(
            base.shape_DK + counted_UK, base.rate_DK + exposed_UK, base.widest_DK
        )

    def widened(self, fisher_UK: Floats) -> GammaTable:
        """Return the posteriors, the new cells' information added to their widths."""
        widest = self.base.widest_DK
        return replace(self.table, widest_DK=None if widest is None else widest + fisher_UK)


class _Intake:
    """New cells on their way into a model.

    All sums run over the entities and the combinations of labels that have a new cell; what they
    come to is written back in the end. So new cells cost what they are, however large the model.
    """

    def __init__(self, fitted: Fitted, counts: CountTensor, axes: Sequence[int]) -> None:
        assert isinstance(fitted.factors, GammaFactors)
        assert fitted.encoders is not None
        assert fitted.likelihood is not None
        self.fitted, self.changed = fitted, axes
        self.likelihood = fitted.likelihood
        self.prior_shape = float(fitted.parameters["prior_shape"])
        positions_NM = _known_positions(fitted, counts)
        touched, self.cells = _touched(positions_NM, counts.counts)
        gammas, encoders = fitted.factors.gammas, fitted.encoders
        self.axes = [
            _Rows.of(
                where, gammas.axes[axis], encoders.params[axis],
                AxisPrior(float(encoders.prior_rate_M[axis])), self.prior_shape,
            )
            for axis, where in enumerate(touched)
        ]  # fmt: skip
        self.derived: dict[int, _Rows] = {}
        self.whole_derived = list(gammas.derived)
        self.row_N: dict[int, Ints] = {}
        self.multipliers = [each.moments(positions_NM)[0] for each in gammas.derived]
        for number, each in enumerate(gammas.derived):
            if set(each.axes) & set(axes):
                params = encoders.params[len(gammas.axes) + number]
                self._add_derived(number, each, positions_NM, params)
        self._look_up_rates()

    def _add_derived(
        self, number: int, whole: DerivedAxis, positions_NM: npt.NDArray[np.int32], params: Floats
    ) -> None:
        """Give combinations without a row one, and take in those that have a new cell."""
        key_N = combination_keys(positions_NM, whole.axes, whole.sizes)
        keys_U, self.row_N[number] = np.unique(key_N, return_inverse=True)
        self.whole_derived[number] = extended = whole.with_keys(keys_U)
        where = rows_of_keys(keys_U, extended.keys_P)
        rows = _Rows.of(where, extended.table, params, AxisPrior(None), self.prior_shape)
        self.derived[number] = rows
        self.multipliers[number] = rows.table.mean_DK[self.row_N[number], 0]

    def result(self) -> Fitted:
        """Let the encoders pass over the cells; return the changed model."""
        for _ in range(PASSES):
            for number in self.derived:
                self._update_derived(number)
            for axis in self.changed:
                self._update_axis(axis)
        fitted, factors = self.fitted, self.fitted.factors
        assert isinstance(factors, GammaFactors)
        assert fitted.encoders is not None
        fisher_N, by_axis = cells_information(
            self._means, self.cells, self._multiplier(), self.likelihood,
            fitted.encoders.dispersion or fitted.dispersion, self.prior_shape, self.changed,
        )  # fmt: skip
        gammas = factors.gammas
        for axis, fisher_UK in by_axis.items():
            rows = self.axes[axis]
            table = gammas.axes[axis].with_rows(rows.where, rows.widened(fisher_UK))
            gammas = gammas.replace(axis, table)
        derived = list(self.whole_derived)
        for number, rows in self.derived.items():
            sums = DerivedRows(self.row_N[number], len(rows.where)).counts(fisher_N)
            table = derived[number].table.with_rows(rows.where, rows.widened(sums))
            derived[number] = replace(derived[number], table=table)
        gammas = replace(gammas, derived=tuple(derived))
        return replace(fitted, factors=GammaFactors(factors.names, factors.labels, gammas))

    @property
    def _means(self) -> list[Floats]:
        return [rows.table.mean_DK for rows in self.axes]

    def _look_up_rates(self) -> None:
        """Compute the cells' rates by the factors alone; multipliers do not change them."""
        self.mean_N = kernels.cell_rates(self._means, self.cells.indices_NM)

    def _multiplier(self) -> Floats:
        product_N = np.ones(len(self.cells.counts_N))
        for multiplier_N in self.multipliers:
            product_N *= multiplier_N
        return product_N

    def _rates_and_exposure(self) -> tuple[Floats, Floats]:
        rate_N = np.maximum(self.mean_N * self._multiplier(), LEAST_RATE)
        counts_N, r = self.cells.counts_N, self.fitted.dispersion
        return rate_N, exposures(self.likelihood, rate_N, counts_N, r)

    def _update_axis(self, axis: int) -> None:
        """Add the evidence of the cells to the rows of an axis that they belong to."""
        rate_N, exposure_N = self._rates_and_exposure()
        geo = [rows.table.geometric_mean_DK for rows in self.axes]
        rows = AxisRows(self.cells.layouts[axis], self.cells.indices_NM, geo, self._means)
        scaled_N = exposure_N * self._multiplier()
        self.axes[axis].take(AxisEvidence.of_axis(rows, self.cells.counts_N, rate_N, scaled_N))
        self._look_up_rates()

    def _update_derived(self, number: int) -> None:
        """Add the evidence of the cells to the multipliers of their combinations."""
        rate_N, exposure_N = self._rates_and_exposure()
        rows, others_N = self.derived[number], rate_N / self.multipliers[number]
        sums = DerivedRows(self.row_N[number], len(rows.where))
        inputs_2N = network_inputs(self.cells.counts_N, others_N)
        rows.take(AxisEvidence(sums, self.cells.counts_N, exposure_N * others_N, inputs_2N))
        self.multipliers[number] = rows.table.mean_DK[self.row_N[number], 0]


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
    old = fitted.axes[number]
    labels = pa.concat_arrays([old.labels, axis.labels.cast(old.labels.type)])
    axes = list(fitted.axes)
    axes[number] = Axis.of_distinct(old.name, labels)
    if fitted.factors is None:
        return replace(fitted, axes=tuple(axes))
    assert isinstance(fitted.factors, GammaFactors)
    gammas = fitted.factors.gammas
    rows = np.minimum(np.arange(len(labels) + 1), len(old))
    gammas = gammas.replace(number, gammas.axes[number].rows(rows))
    sizes = [len(each) for each in axes]
    gammas = replace(gammas, derived=tuple(each.resized(sizes) for each in gammas.derived))
    factors = GammaFactors(fitted.factors.names, [each.labels for each in axes], gammas)
    return replace(fitted, axes=tuple(axes), factors=factors)
