"""Every kernel in torch, float64, on the device in use; see :mod:`tallyfold.kernels.device`.

Cells are taken in chunks, so that no array of cells times components is ever made. Arguments and
results are NumPy arrays; cells are copied to the device once, factors and weights at each call.

On the CPU one thread is used, and the bits do not depend on the chunks. On CUDA sums per entity
are taken by ``index_add_``, whose order varies: two runs agree to rounding only, unless
``torch.use_deterministic_algorithms(True)`` is set.

A chunk with a rate that is too small or too large to divide by is computed in logarithms as a
whole; the compiled kernels do so cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, reduce
from operator import add, mul
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.kernels.arrays import Array, Factors, Floats, Ints, Positions
from tallyfold.kernels.evidence import Layers
from tallyfold.kernels.layout import AxisLayout, check_factors, check_weights, reach_of
from tallyfold.kernels.likelihoods import (
    checked_dispersion,
    expected_exposure,
    log_constants,
    log_normaliser,
)
from tallyfold.kernels.reference import LOG_CAP
from tallyfold.kernels.tensors import (
    array_of,
    chunks,
    floats,
    int32_columns,
    int64,
    kept,
    kept_if_fixed,
    on_one_thread,
)

if TYPE_CHECKING:
    from torch import Tensor

LOW, HIGH = 1e-200, 1e200
"""Rates in between are safe to divide by."""

CAP = 1e290
"""Sums are kept below it, so that they stay finite."""


@on_one_thread
def cell_rates(factors: Factors, indices_NM: Positions) -> Floats:
    """Sum over components the product of the axes' factors at each cell."""
    columns, tables = _cells(indices_NM, factors), [floats(factor) for factor in factors]
    rate_N = tables[0].new_empty(len(indices_NM))
    for part in chunks(len(indices_NM), factors[0].shape[1]):
        rate_N[part] = Products(tables, columns, part).rate_P
    return array_of(rate_N)


@on_one_thread
def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    likelihood: str,
    dispersion: float | None,
) -> float:
    """Sum the collapsed bound over cells, including all constants."""
    import torch

    r = checked_dispersion(likelihood, dispersion)
    columns, count_N = _cells(indices_NM, geo, mean), kept_if_fixed(counts_N, floats)
    geo_tables, mean_tables = ([floats(factor) for factor in each] for each in (geo, mean))
    total = count_N.new_zeros(())
    for part in chunks(len(counts_N), geo[0].shape[1]):
        by_geo = Products(geo_tables, columns, part)
        by_mean = by_geo if mean is geo else Products(mean_tables, columns, part)
        gain_P = by_geo.rate_P.log() if by_geo.safe else by_geo.log_rate_P
        gain_P = count_N[part] * gain_P.where(count_N[part] > 0, 0.0)
        cost_P = log_normaliser(likelihood, by_mean.bounded_rate_P, count_N[part], r, torch)
        total += (gain_P - cost_P).sum()
    return float(total) + log_constants(counts_N, likelihood, r)


@on_one_thread
def axis_sums(factors: Factors, layout: AxisLayout, weight_N: Floats) -> Floats:
    """Sum, per entity, weight times the other axes' product."""
    check_weights(weight_N, layout)
    sorted_N = floats(weight_N[layout.order_N])
    return array_of(  # plain products: weights have any sign
        _by_entity(factors, layout, lambda found, part: sorted_N[part, None] * found.others_PK)
    )


@on_one_thread
def share_sums(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Sum, per entity, count / rate times the other axes' product."""
    count_N = kept(layout.counts_N, floats)
    sums_DK = _by_entity(factors, layout, lambda found, part: found.shares(count_N[part], floor))
    return array_of(sums_DK.clamp(max=CAP))


@on_one_thread
def bptf_axis_sums(
    geo: Factors, mean: Factors, layout: AxisLayout, likelihood: str, dispersion: float | None
) -> tuple[Floats, Floats]:
    """Sum, per entity, shares by `geo` and exposures by `mean`."""
    import torch

    r = checked_dispersion(likelihood, dispersion)
    count_N = kept(layout.counts_N, floats)

    def exposures(found: Products, part: slice) -> Tensor:
        rate_P = found.bounded_rate_P
        return found.times(expected_exposure(likelihood, rate_P, count_N[part], r, torch))

    exposure_DK = _by_entity(mean, layout, exposures)
    return share_sums(geo, layout, 0.0), array_of(exposure_DK.clamp(max=CAP))


@on_one_thread
def evidence_weights(net: Layers, x_2N: Floats) -> Floats:
    """Return the two weights of each cell, (2, N)."""
    given, x = [floats(array) for array in net], kept_if_fixed(x_2N, floats)
    weight_2N = x.new_empty(x.shape)
    for part in chunks(x.shape[1], len(net.hidden_H)):
        weight_2N[:, part] = _weights(given, x[:, part])
    return array_of(weight_2N)


@on_one_thread
def evidence_gradient(net: Layers, x_2N: Floats, slope_2N: Floats) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    given = [floats(array).requires_grad_() for array in net]
    x, slope = kept_if_fixed(x_2N, floats), floats(slope_2N)
    for part in chunks(x.shape[1], len(net.hidden_H)):
        _weights(given, x[:, part]).backward(slope[:, part])  # type: ignore[no-untyped-call]
    slopes = [each.new_zeros(each.shape) if each.grad is None else each.grad for each in given]
    return np.concatenate([array_of(each).ravel() for each in slopes])


class Products:
    """The factors at some cells, multiplied.

    Parameters
    ----------
    tables
        The factors, one (D, K) tensor per axis.
    columns
        The positions of all cells on each axis.
    part
        Which cells to take.
    axis
        The axis whose factors are left out of the product of the others.
    """

    def __init__(
        self, tables: Sequence[Tensor], columns: Sequence[Tensor], part: slice, axis: int = 0
    ) -> None:
        pairs = zip(tables, columns, strict=True)
        self.rows = [table_DK.index_select(0, column_N[part]) for table_DK, column_N in pairs]
        self.own_PK = self.rows.pop(axis)

    @cached_property
    def others_PK(self) -> Tensor:
        """The product over the other axes."""
        return reduce(mul, self.rows)

    @cached_property
    def rate_P(self) -> Tensor:
        """The rate of each cell, unbounded: perhaps zero, infinite or NaN."""
        return (self.own_PK * self.others_PK).sum(1)

    @cached_property
    def safe(self) -> bool:
        """Whether all rates can be divided by."""
        return bool(((self.rate_P > LOW) & (self.rate_P < HIGH)).all())

    @cached_property
    def log_others_PK(self) -> Tensor:
        """The logarithm of the product over the other axes, -inf where a factor is zero."""
        return reduce(add, [row_PK.log() for row_PK in self.rows])

    @cached_property
    def log_rate_P(self) -> Tensor:
        """The logarithm of the rate, -inf where it is zero."""
        return (self.own_PK.log() + self.log_others_PK).logsumexp(1)

    @cached_property
    def bounded_rate_P(self) -> Tensor:
        """The rate, kept away from zero and infinity."""
        return self.rate_P if self.safe else self.log_rate_P.clamp(-LOG_CAP, LOG_CAP).exp()

    def times(self, scale_P: Tensor) -> Tensor:
        """Return scales of cells (not negative) times the product over the other axes, capped."""
        if self.safe:
            return scale_P[:, None] * self.others_PK
        return (scale_P.log()[:, None] + self.log_others_PK).clamp(max=LOG_CAP).exp()

    def shares(self, count_P: Tensor, floor: float) -> Tensor:
        """Return count / rate times the others' product; zero where the rate is zero."""
        if self.safe:
            return self.times(count_P / self.rate_P.clamp(min=floor))
        log_rate_P = self.log_rate_P.clamp(min=math.log(floor) if floor > 0 else -math.inf)
        log_scale_P = count_P.log() - log_rate_P.where(log_rate_P > -math.inf, math.inf)
        return (log_scale_P[:, None] + self.log_others_PK).clamp(max=LOG_CAP).exp()


def _cells(indices_NM: Positions, *sets: Factors) -> tuple[Tensor, ...]:
    """Return cells' positions on each axis; refuse factors that do not cover them."""
    columns, reach_M = kept_if_fixed(indices_NM, _columns_and_reach)
    for factors in sets:
        check_factors([factors], reach_M)
    return columns


def _columns_and_reach(indices_NM: Array) -> tuple[tuple[Tensor, ...], list[int]]:
    return int32_columns(indices_NM), reach_of(indices_NM)


def _by_entity(
    factors: Factors, layout: AxisLayout, terms: Callable[[Products, slice], Tensor]
) -> Tensor:
    """Add up the (cells, components) terms of ranges of cells.

    One cell after the other on the CPU, so that the ranges do not matter; in any order on CUDA.
    """
    check_factors([factors], layout.reach_M)
    tables, entity_N = [floats(factor) for factor in factors], kept(layout.indptr_D1, _entities)
    columns = list(kept(layout.others_NJ, int32_columns))
    columns.insert(layout.axis, entity_N)
    n_components = factors[0].shape[1]
    sums_DK = tables[0].new_zeros((len(layout.indptr_D1) - 1, n_components))
    for part in chunks(len(layout.counts_N), n_components):
        found = Products(tables, columns, part, layout.axis)
        sums_DK.index_add_(0, entity_N[part], terms(found, part))
    return sums_DK


def _entities(indptr_D1: Ints) -> Tensor:
    """Return each cell's entity."""
    return int64(np.repeat(np.arange(len(indptr_D1) - 1), np.diff(indptr_D1)))


def _weights(given: list[Tensor], x_2P: Tensor) -> Tensor:
    """Return the weights of some cells, without a matrix product.

    Its gradient would sum over cells in an order that depends on the threads of torch's BLAS.
    """
    import torch

    into_2H, hidden_H, out_H2, bias_2 = given
    unit_PH = (x_2P[0, :, None] * into_2H[0] + x_2P[1, :, None] * into_2H[1] + hidden_H).relu()
    inner = [(unit_PH * out_H2[:, i]).sum(1) + bias_2[i] for i in range(2)]
    return torch.stack(inner).logaddexp(x_2P.new_zeros(()))
