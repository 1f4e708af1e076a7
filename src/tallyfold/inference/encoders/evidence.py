"""What an axis's cells tell its encoder, and the posterior that the encoder makes of it.

The encoder of an axis gives row d (an entity, or a combination of entities) and component k the
Gamma posterior

- shape_dk = a + sum_n f_n y_n share_nk
- rate_dk  = a b c + sum_n g_n e_n prod_other E_k

where f_n and g_n, the weights of the cell's count and of its exposure, come from a small network of
(ln y_n, ln rate_n) (`kernels.evidence`), and a, c are learnt. With f = g = c = 1 this is the
conjugate update. A derived axis has one component, so all shares are one, and its prior's rate is c
alone; prod_other is then the cell's rate without the multiplier of its own combination.

With observed zeros the sums of exposures run over all cells and are closed products of column sums;
nothing but `Rows.exposures` has to know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Array, Floats, Ints, Positions, Whole
from tallyfold.kernels.evidence import evidence_gradient, evidence_weights, network_inputs
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.likelihoods import expected_exposure
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.probability.counts import CountLikelihood

N_PRIOR = 2
"""An encoder's first parameters: ln a and ln c; its network's follow."""
LEAST_RATE = 1e-290
"""Smaller rates are taken as this one, as in the kernels."""


class Rows(Protocol):
    """How cells are summed over the rows of an axis, and the transposes of these sums."""

    def counts(self, weight_N: Floats) -> Floats:
        """Return, per row and component, the sum over cells of weight times share."""

    def counts_transpose(self, table_DK: Floats) -> Floats:
        """Return, per cell, the sum over components of the row's values times shares."""

    def exposures(self, weight_N: Floats) -> Floats:
        """Return, per row and component, the sum over cells of weight times the others' product."""

    def exposures_transpose(self, table_DK: Floats) -> Floats:
        """Return, per cell, the sum over components of the row's values times the product."""


@dataclass(frozen=True)
class AxisRows:
    """The entities of an axis; shares are by geometric means, exposures by arithmetic ones."""

    layout: AxisLayout
    indices_NM: Positions
    geo: Sequence[Floats]
    mean: Sequence[Floats]
    backend: str = "auto"

    def counts(self, weight_N: Floats) -> Floats:
        """Sum over cells; `weight_N` is over the cells' rates by geometric means."""
        sums_DK = kernels.axis_sums(self.geo, self.layout, weight_N, backend=self.backend)
        return self.geo[self.layout.axis][: len(sums_DK)] * sums_DK

    def counts_transpose(self, table_DK: Floats) -> Floats:
        """Return the transpose's values at cells."""
        axis = self.layout.axis
        factors = with_factor(self.geo, axis, self.geo[axis] * table_DK)
        return kernels.cell_rates(factors, self.indices_NM, backend=self.backend)

    def exposures(self, weight_N: Floats) -> Floats:
        """Sum over cells."""
        return kernels.axis_sums(self.mean, self.layout, weight_N, backend=self.backend)

    def exposures_transpose(self, table_DK: Floats) -> Floats:
        """Return the transpose's values at cells: their rates, if the rows had these means."""
        factors = with_factor(self.mean, self.layout.axis, table_DK)
        return kernels.cell_rates(factors, self.indices_NM, backend=self.backend)


@dataclass(frozen=True)
class DerivedRows:
    """The combinations of a derived axis: one component, every share and product one."""

    row_N: Whole
    n_rows: int

    def counts(self, weight_N: Floats) -> Floats:
        """Sum over cells."""
        return np.bincount(self.row_N, weight_N, minlength=self.n_rows).astype(float)[:, None]

    def counts_transpose(self, table_DK: Floats) -> Floats:
        """Look the cells' rows up."""
        return np.asarray(table_DK[self.row_N, 0])

    exposures = counts
    exposures_transpose = counts_transpose


@dataclass(frozen=True)
class AxisEvidence:
    """The training cells of an axis, as its encoder sees them.

    Attributes
    ----------
    rows
        How the cells are summed.
    count_N
        Counts, over the rates by geometric means where shares are not one.
    exposure_N
        Exposures, times what of the rate is in no factor.
    inputs_2N
        The network's inputs.
    """

    rows: Rows
    count_N: Floats | Ints
    exposure_N: Floats
    inputs_2N: Floats
    backend: str = "auto"

    @classmethod
    def of_axis(
        cls,
        rows: AxisRows,
        counts_N: Ints,
        rate_N: Floats,
        exposure_N: Floats,
    ) -> AxisEvidence:
        """Return the evidence on an axis, given the cells' rates and scaled exposures."""
        geo_N = kernels.cell_rates(rows.geo, rows.indices_NM, backend=rows.backend)
        share_N = counts_N / np.maximum(geo_N, LEAST_RATE)
        return cls(rows, share_N, exposure_N, network_inputs(counts_N, rate_N), rows.backend)

    def take(self, rows: DerivedRows, which: slice | Array) -> AxisEvidence:
        """Return the evidence of some cells of a derived axis, summed over other rows."""
        if isinstance(which, slice):
            return AxisEvidence(rows, self.count_N, self.exposure_N, self.inputs_2N, self.backend)
        inputs_2N = np.ascontiguousarray(self.inputs_2N[:, which])
        return AxisEvidence(
            rows, self.count_N[which], self.exposure_N[which], inputs_2N, self.backend
        )

    def sums(self, params: Floats) -> tuple[Floats, Floats]:
        """Return the weighted counts and exposures of each row, of this process's cells."""
        weight_2N = evidence_weights(params[N_PRIOR:], self.inputs_2N, backend=self.backend)
        counted_DK = self.rows.counts(weight_2N[0] * self.count_N)
        return counted_DK, self.rows.exposures(weight_2N[1] * self.exposure_N)

    def gradient(self, params: Floats, by_count_DK: Floats, by_exposure_DK: Floats) -> Floats:
        """Turn a gradient by the rows' sums into one by the network's parameters."""
        slope_2N = np.stack(
            [
                self.count_N * self.rows.counts_transpose(by_count_DK),
                self.exposure_N * self.rows.exposures_transpose(by_exposure_DK),
            ]
        )
        return evidence_gradient(params[N_PRIOR:], self.inputs_2N, slope_2N, backend=self.backend)


@dataclass(frozen=True)
class AxisPrior:
    """The Gamma prior of an axis's rows: shape a; rate a b c, or c alone without b.

    Attributes
    ----------
    rate
        b, one over the mean that the prior gives before c; None for a derived axis.
    """

    rate: float | None

    def at(self, params: Floats) -> tuple[float, float]:
        """Return shape and rate."""
        a, c = float(np.exp(params[0])), float(np.exp(params[1]))
        return a, c if self.rate is None else a * self.rate * c

    def gradient(self, params: Floats, by_shape: float, by_rate: float) -> list[float]:
        """Turn a gradient by shape and rate into one by ln a and ln c."""
        a, rate = self.at(params)
        by_log_a = a * by_shape if self.rate is None else a * by_shape + rate * by_rate
        return [by_log_a, rate * by_rate]

    def posterior(
        self, params: Floats, sums: tuple[Floats, Floats], group: ProcessGroup = ALONE
    ) -> GammaTable:
        """Return the posterior, given this process's sums of counts and exposures."""
        a, rate = self.at(params)
        return GammaTable(a + group.all_reduce(sums[0]), rate + group.all_reduce(sums[1]))


def exposures(
    likelihood: CountLikelihood, rate_N: Floats, counts_N: Ints, dispersion: float | None
) -> Floats:
    """Return how much of each cell's rate counts as seen, given its rate."""
    r_N = np.full(len(rate_N), 1.0 if dispersion is None else dispersion)
    rate_N = np.maximum(rate_N, LEAST_RATE)
    return np.asarray(expected_exposure(likelihood.name, rate_N, counts_N, r_N))


def with_factor(factors: Sequence[Floats], axis: int, replaced: Floats) -> list[Floats]:
    """Return factors, that of one axis replaced."""
    return [replaced if m == axis else factor for m, factor in enumerate(factors)]
