"""Sums of rates over all cells, zeros too, without visiting them.

A rate is a sum over components of products of the axes' factors, times the multiplier u of a gate:
a combination of two axes. Over all cells such products sum axis by axis; the gate adds a sum over
the combinations that were seen, since all others share one multiplier u0:

    sum over i, j of u_ij A_i B_j = sum over seen pairs of (u_ij - u0) A_i B_j + u0 (sum A) (sum B)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints, Mask, OverRows, Positions, all_here
from tallyfold.kernels.layout import AxisLayout, axis_layout
from tallyfold.posterior.factors import rates_at

if TYPE_CHECKING:
    from tallyfold.posterior.derived_axis import DerivedAxis

Masks = Sequence[Mask]


@dataclass(frozen=True)
class GatePairs:
    """The combinations of two axes that were seen.

    Attributes
    ----------
    axes
        The two axes.
    keys_P
        The combinations, as in `DerivedAxis`.
    pairs_P2
        Their positions on both axes.
    layouts
        The same in the order of either axis.
    """

    axes: tuple[int, int]
    keys_P: Ints
    pairs_P2: Positions
    layouts: tuple[AxisLayout, AxisLayout]

    @classmethod
    def of(cls, axes: tuple[int, int], sizes: Sequence[int], keys_P: Ints) -> GatePairs:
        """Take combinations apart; keys count them in the radix of the axes' `sizes`."""
        pairs_P2 = np.asfortranarray(
            np.stack(np.unravel_index(keys_P, tuple(sizes)), axis=1), dtype=np.int32
        )
        one_P = np.ones(len(keys_P), dtype=np.int64)
        layouts = tuple(axis_layout(pairs_P2, one_P, m, sizes[m]) for m in (0, 1))
        return cls(axes, keys_P, pairs_P2, (layouts[0], layouts[1]))


def gate_pairs(gate: DerivedAxis) -> tuple[GatePairs, Floats]:
    """Return a gate's combinations, and its mean multipliers."""
    pairs = GatePairs.of((gate.axes[0], gate.axes[1]), gate.sizes, gate.keys_P)
    return pairs, gate.mean_P1


@dataclass(frozen=True)
class ClosedSums:
    """Sums over all cells of the labels that were seen.

    Attributes
    ----------
    means
        The factors of every axis, a row per label; there may be a last one for unknown labels.
    seen
        Which rows have a cell: the others are left out of the sums.
    share
        The share of all cells that the sums are meant for.
    pairs, gate_P1
        The gate's combinations and multipliers, the last one that of combinations never seen; None
        without a gate.
    over_rows
        For each axis, what makes sums over all labels of those over the labels that are here.
    """

    means: Sequence[Floats]
    seen: Masks
    share: float = 1.0
    pairs: GatePairs | None = None
    gate_P1: Floats | None = None
    over_rows: Sequence[OverRows] | None = None

    @classmethod
    def of_all(cls, means: Sequence[Floats]) -> ClosedSums:
        """Return sums over all cells of all labels.

        Examples
        --------
        >>> sums = ClosedSums.of_all([np.ones((5, 1)), np.array([[1.0], [2.0]]), np.eye(1) * 10])
        >>> sums.exposure(0)
        array([[30.]])
        """
        return cls(means, [np.ones(len(mean_DK), dtype=bool) for mean_DK in means])

    @cached_property
    def totals(self) -> list[Floats]:
        """The sum of each axis's factors over the labels seen."""
        over_rows = self.over_rows or [all_here] * len(self.means)
        rows = zip(self.means, self.seen, over_rows, strict=True)
        return [total(mean_DK[seen_D].sum(axis=0)) for mean_DK, seen_D, total in rows]

    def exposure(self, axis: int) -> Floats:
        """Return, per label and component, the sum over its cells of the others' product.

        One row for all labels where they have the same.
        """
        factor_K = self._rest(axis)
        if self.pairs is None or self.gate_P1 is None:
            return factor_K[None]
        if axis in self.pairs.axes:
            return self._gated(self.pairs.axes.index(axis)) * factor_K
        return (self._gate_total_K * factor_K)[None]

    def gate_exposure(self) -> tuple[Floats, float]:
        """Return the sums of rates over each combination's cells, and their mean over the others.

        Both without the gate's own multiplier.
        """
        assert self.pairs is not None
        first, second = self.pairs.axes
        factor_K = self._rest()
        tables = [self.means[first] * factor_K, self.means[second]]
        exposure_P = kernels.cell_rates(tables, self.pairs.pairs_P2)
        total = float((self.totals[first] * self.totals[second] * factor_K).sum())
        number = self.n_combinations - len(exposure_P)
        return exposure_P, max(total - float(exposure_P.sum()), 0.0) / max(number, 1.0)

    @property
    def n_combinations(self) -> float:
        """The number of combinations of labels seen that the gate could have."""
        assert self.pairs is not None
        first, second = self.pairs.axes
        return float(self.seen[first].sum()) * float(self.seen[second].sum())

    def total(self) -> Floats:
        """Return the sum of all rates, per component."""
        if self.pairs is None or self.gate_P1 is None:
            return np.asarray(self._rest())
        return np.asarray(self._gate_total_K * self._rest())

    def of_combinations(
        self, axes: Sequence[int], positions_NM: Positions, gate_N: Floats
    ) -> Floats:
        """Return, for each cell, the sum of rates over all cells that agree with it on some axes.

        `gate_N` are the cells' own multipliers. Position -1 is an unknown label.
        """
        tables, constant_K = [], np.full(self.means[0].shape[1], self.share)
        gate = () if self.pairs is None else self.pairs.axes
        held = [axis for axis in gate if axis in axes]
        for axis, mean_DK in enumerate(self.means):
            if axis in axes:
                alone = len(held) == 1 and axis == held[0]
                tables.append(mean_DK * self._gated(gate.index(axis)) if alone else mean_DK)
            elif axis not in gate:
                constant_K = constant_K * self.totals[axis]
        if gate and not held:
            constant_K = constant_K * self._gate_total_K
        tables[0] = tables[0] * constant_K
        own = positions_NM[:, list(axes)]
        if len(tables) == 1:  # kernels want two axes
            tables.append(np.ones((1, len(constant_K))))
            own = np.column_stack([own, np.zeros(len(own), dtype=np.int32)])
        rate_N = rates_at(tables, own)
        return rate_N * gate_N if len(held) == 2 else rate_N

    def _rest(self, *besides: int) -> Floats:
        """Return the product of the totals of all axes but these and the gate's, and the share."""
        gate = () if self.pairs is None else self.pairs.axes
        product_K = np.full(self.means[0].shape[1], self.share)
        for axis, total_K in enumerate(self.totals):
            if axis not in besides and axis not in gate:
                product_K = product_K * total_K
        return product_K

    def _gated(self, side: int) -> Floats:
        """Return, per label of one of the gate's axes, the sum over the other with multipliers."""
        if side not in self._sides:
            self._sides[side] = self._sums_of_side(side)
        return self._sides[side]

    @cached_property
    def _sides(self) -> dict[int, Floats]:
        return {}

    def _sums_of_side(self, side: int) -> Floats:
        assert self.pairs is not None
        assert self.gate_P1 is not None
        factors = [self.means[axis] for axis in self.pairs.axes]
        base = float(self.gate_P1[-1])
        layout, n_rows = self.pairs.layouts[side], len(factors[side])
        sums_DK = kernels.axis_sums(factors, layout, self.gate_P1[:-1] - base)
        sums_DK = np.concatenate([sums_DK, np.zeros((n_rows - len(sums_DK), sums_DK.shape[1]))])
        return sums_DK + base * self.totals[self.pairs.axes[1 - side]]

    @cached_property
    def _gate_total_K(self) -> Floats:
        assert self.pairs is not None
        first = self.pairs.axes[0]
        rows = self.seen[first]
        return np.asarray((self.means[first][rows] * self._gated(0)[rows]).sum(axis=0))
