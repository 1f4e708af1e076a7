"""New cells on their way into posteriors by the encoders that a fit has trained.

The encoders' sums over the new cells are added to what is there: to the prior for a new entity or
a new combination of labels, to the posterior for a known one. No old cell is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.inference.cells.training import touched_cells
from tallyfold.inference.encoders.evidence import (
    LEAST_RATE,
    AxisEvidence,
    AxisPrior,
    AxisRows,
    DerivedRows,
    exposures,
)
from tallyfold.inference.encoders.information import cells_information, information_of
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.kernels.evidence import network_inputs
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.derived_axis import DerivedAxis, combination_keys, rows_of_keys
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import NO_LIMIT, GammaTable

PASSES = 3
"""How often the encoders pass over the new cells: shares and multipliers settle quickly."""


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


class EncoderIntake:
    """New cells on their way into a model.

    All sums run over the entities and the combinations of labels that have a new cell; what they
    come to is written back in the end. So new cells cost what they are, however large the model.
    """

    def __init__(
        self, fitted: Fitted, positions_NM: Positions, counts_N: Ints, axes: Sequence[int]
    ) -> None:
        assert isinstance(fitted.factors, GammaFactors)
        assert fitted.encoders is not None
        assert fitted.likelihood is not None
        self.fitted, self.changed = fitted, axes
        self.likelihood = fitted.likelihood
        self.prior_shape = float(fitted.parameters["prior_shape"])
        touched, self.cells = touched_cells(positions_NM, counts_N)
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
        self, number: int, whole: DerivedAxis, positions_NM: Positions, params: Floats
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
            self._means, self.cells, self._multiplier(),
            information_of(self.likelihood, fitted.encoders.dispersion or fitted.dispersion),
            self.prior_shape, self.changed,
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
