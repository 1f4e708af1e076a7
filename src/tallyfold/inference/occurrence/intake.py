"""New cells taken into the factors of whether there is a count, without the old ones.

The passes are those of a fit (`schemes.collapsed`), over the new cells alone: their latent counts
are added to the shapes that known labels and pairs of the gate have, and to the prior's for new
ones. Rates are closed sums over all cells, so that empty cells of new labels count as zeros. All of
a cell's own count is in the rows that these passes change, and it is taken out of these only.

If new labels of one axis alone are sought, everything else stays as it is and enters as sums: the
cost is that of the new cells. Otherwise all labels and all pairs of the gate are visited.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tallyfold.inference.cells.training import touched_cells
from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.collapsed import collapsed_sums
from tallyfold.posterior.closed_sums import ClosedSums, GatePairs
from tallyfold.posterior.derived_axis import DerivedAxis, combination_keys, rows_of_keys
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.occurrence import NewCells, Occurrence

PASSES = 3
"""Over the new cells: more change little."""


@dataclass(frozen=True)
class KnownFit:
    """What a fit, and cells taken in since, have left.

    Attributes
    ----------
    gammas, occurrence
        Its posteriors and all else that tells whether there is a count.
    prior_shape
        Of the factors.
    """

    gammas: GammaPosterior
    occurrence: Occurrence
    prior_shape: float


def take_in(
    fit: KnownFit, longer: GammaPosterior, cells: NewCells, axes: Sequence[int]
) -> tuple[GammaPosterior, Occurrence]:
    """Return what a fit has left, with new cells.

    Parameters
    ----------
    fit
        What it has left.
    longer
        Its posteriors with rows for new labels, each as an unknown one.
    cells
        The new cells.
    axes
        The axes whose factors may change: one, if all its labels are new, or all.
    """
    occurrence = fit.occurrence.added(cells)
    alone = len(axes) == 1
    intake = OneAxis(fit, longer, cells, axes) if alone else AllAxes(fit, longer, cells, axes)
    return intake.result(), occurrence


class Intake:
    """New cells on their way into the factors; what all sums are is for its two kinds to say."""

    def __init__(
        self, fit: KnownFit, longer: GammaPosterior, cells: NewCells, axes: Sequence[int]
    ) -> None:
        self.fit, self.changed, self.share = fit, axes, cells.share
        assert fit.occurrence.prior_rate_M is not None
        self.prior_rate_M = fit.occurrence.prior_rate_M
        self.longer, self.tables = longer, list(longer.axes)
        self.derived = longer.derived
        one_N = np.ones(len(cells.indices_NM), dtype=np.int64)
        self.rows, self.cells = touched_cells(cells.indices_NM, one_N)
        self.known = [  # the last row is for unknown labels
            np.append(seen_D, np.zeros(size + 1 - len(seen_D), dtype=bool))
            for seen_D, size in zip(fit.occurrence.seen, cells.shape, strict=True)
        ]
        self.weights = [
            np.where(known_D, 1.0, cells.new_share / cells.share)[:, None] for known_D in self.known
        ]
        self.base = [
            np.where(known_D[rows, None], table.shape_DK[rows], fit.prior_shape)
            for table, rows, known_D in zip(self.tables, self.rows, self.known, strict=True)
        ]
        self.seen = [known_D.copy() for known_D in self.known]
        for seen_D, rows in zip(self.seen, self.rows, strict=True):
            seen_D[rows] = True
        self.gate_N = longer.multipliers(cells.indices_NM)
        self.gate: DerivedAxis | None = None
        if longer.derived and set(longer.derived[0].axes) & set(axes):
            self._extend_gate(longer.derived[0], cells)

    def _extend_gate(self, gate: DerivedAxis, cells: NewCells) -> None:
        """Give pairs without a row one."""
        key_N = combination_keys(cells.indices_NM, gate.axes, gate.sizes)
        keys_U, self.pair_N = np.unique(key_N, return_inverse=True)
        self.gate = gate.with_keys(keys_U)
        self.pair_rows = rows_of_keys(keys_U, self.gate.keys_P)
        self.gate_base = self.gate.table.shape_DK[self.pair_rows, 0]

    def result(self) -> GammaPosterior:
        """Pass over the cells some times; return the posteriors."""
        self._update_gate(np.ones(len(self.cells)))
        for number in range(PASSES):
            found = collapsed_sums(
                [table.mean_DK[rows] for table, rows in zip(self.tables, self.rows, strict=True)],
                [self._scale(axis, number) for axis in range(len(self.tables))],
                self.cells.layouts[int(np.argmax(self.cells.shape))],
                self.fit.prior_shape,
                self.gate_N,
            )
            for axis in self.changed:
                self.tables[axis] = self._table(axis, self.base[axis] + found.sums[axis])
            self._update_gate(found.latent_N)
        derived = self.derived if self.gate is None else (self.gate,)
        for axis in self.changed:
            self.tables[axis] = self._with_widths(axis)
        return GammaPosterior(tuple(self.tables), derived)

    def _with_widths(self, axis: int) -> GammaTable:
        """Return posteriors whose rows with new cells are as wide, for their counts, as others."""
        before, rows = self.longer.axes[axis], self.rows[axis]
        known_D = self.known[axis]
        if before.widest_DK is None or not known_D.any():
            return self.tables[axis]
        ratio_DK = np.minimum(before.widest_DK[known_D] / before.shape_DK[known_D], 1.0)
        widest_DK = before.widest_DK.copy()
        widest_DK[rows] = self.tables[axis].shape_DK[rows] * np.median(ratio_DK, axis=0)
        return replace(self.tables[axis], widest_DK=widest_DK)

    def _scale(self, axis: int, number: int) -> Floats:
        """Return what a latent count adds to means: nothing where the cells are not part of it."""
        rate_UK = self.tables[axis].rate_DK[self.rows[axis]]
        return 1 / rate_UK if number and axis in self.changed else np.zeros_like(rate_UK)

    def _table(self, axis: int, shape_UK: Floats) -> GammaTable:
        raise NotImplementedError

    def _update_gate(self, latent_N: Floats) -> None:
        """Add the cells' latent counts to the multipliers of their pairs."""
        if self.gate is None:
            return
        table = self.gate.table
        shape_P1, rate_P1 = table.shape_DK.copy(), self._gate_rates(table.rate_DK.copy())
        shape_P1[self.pair_rows, 0] = self.gate_base + np.bincount(self.pair_N, latent_N)
        self.gate = replace(self.gate, table=GammaTable(shape_P1, rate_P1))
        self.gate_N = self.gate.mean_P1[self.pair_rows][self.pair_N]

    def _gate_rates(self, rate_P1: Floats) -> Floats:
        raise NotImplementedError

    @property
    def _gate_shape(self) -> float:
        assert self.gate is not None
        return float(self.gate.table.shape_DK[-1, 0])


class OneAxis(Intake):
    """New labels of one axis: their own rows and pairs, and the sums of all others, as they are."""

    def __init__(
        self, fit: KnownFit, longer: GammaPosterior, cells: NewCells, axes: Sequence[int]
    ) -> None:
        super().__init__(fit, longer, cells, axes)
        self.axis = axes[0]
        one_1K = np.ones((1, self.tables[0].shape_DK.shape[1]))
        self.others = [one_1K for _ in self.tables]
        if self.gate is not None:
            self._sum_others(self.gate.axes)
        else:  # one sum for all new labels
            sums = fit.occurrence.closed_sums(fit.gammas)
            self.others[0 if self.axis else 1] = sums.exposure(self.axis) / fit.occurrence.share

    def _sum_others(self, gate: tuple[int, ...]) -> None:
        """Sum over the labels of other axes: all, or those that the gate has no new pair with."""
        for axis, (table, rows) in enumerate(zip(self.tables, self.rows, strict=True)):
            own = rows if axis in gate else rows[:0]
            rest_D = self.seen[axis].copy()
            rest_D[own] = False
            rest_1K = table.mean_DK[rest_D].sum(axis=0)[None]
            self.others[axis] = np.concatenate([table.mean_DK[own], rest_1K])
        sizes = [len(self.others[axis]) - (axis == self.axis) for axis in gate]
        key_N = combination_keys(self.cells.indices_NM, gate, sizes)
        self.pairs = GatePairs.of((gate[0], gate[1]), sizes, np.unique(key_N))

    def _sums(self) -> ClosedSums:
        """Return sums over the cells of the new labels."""
        means, rows = list(self.others), self.rows[self.axis]
        means[self.axis] = self.tables[self.axis].mean_DK[rows] * self.weights[self.axis][rows]
        seen = [np.ones(len(mean_DK), dtype=bool) for mean_DK in means]
        if self.gate is None:
            return ClosedSums(means, seen, self.share)
        gate_U1 = self.gate.mean_P1[np.append(self.pair_rows, -1)]
        return ClosedSums(means, seen, self.share, self.pairs, gate_U1)

    def _table(self, axis: int, shape_UK: Floats) -> GammaTable:
        rows = self.rows[axis]
        exposure_UK = self._sums().exposure(axis) * self.weights[axis][rows]
        table = GammaTable(shape_UK, self.prior_rate_M[axis] + exposure_UK)
        return self.tables[axis].with_rows(rows, table)

    def _gate_rates(self, rate_P1: Floats) -> Floats:
        rate_P1[self.pair_rows, 0] = self._gate_shape + self._sums().gate_exposure()[0]
        return rate_P1


class AllAxes(Intake):
    """New cells of any labels: all rows and pairs, since the sums over their cells have changed."""

    def __init__(
        self, fit: KnownFit, longer: GammaPosterior, cells: NewCells, axes: Sequence[int]
    ) -> None:
        super().__init__(fit, longer, cells, axes)
        if self.gate is not None:
            gate = self.gate
            self.pairs = GatePairs.of((gate.axes[0], gate.axes[1]), gate.sizes, gate.keys_P)

    def _sums(self) -> ClosedSums:
        """Return sums over all cells; those of new labels have a share of their own."""
        means = [table.mean_DK * w for table, w in zip(self.tables, self.weights, strict=True)]
        if self.gate is None:
            return ClosedSums(means, self.seen, self.share)
        return ClosedSums(means, self.seen, self.share, self.pairs, self.gate.mean_P1)

    def _table(self, axis: int, shape_UK: Floats) -> GammaTable:
        table, seen_D = self.tables[axis], self.seen[axis]
        shape_DK, rate_DK = table.shape_DK.copy(), table.rate_DK.copy()
        shape_DK[self.rows[axis]] = shape_UK
        exposure_DK = self._sums().exposure(axis) * self.weights[axis]
        rate_DK[seen_D] = self.prior_rate_M[axis] + exposure_DK[seen_D]
        return GammaTable(shape_DK, rate_DK)

    def _gate_rates(self, rate_P1: Floats) -> Floats:
        exposure_P, rest = self._sums().gate_exposure()
        return np.asarray(self._gate_shape + np.append(exposure_P, rest)[:, None])
