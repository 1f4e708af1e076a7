"""Sums over cells per entity of an axis; see :mod:`tallyfold.kernels.dispatch`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Ints
from tallyfold.kernels.layout import AxisLayout, check_factors, check_weights
from tallyfold.kernels.likelihoods import checked_dispersion, likelihood_code
from tallyfold.kernels.on_device.products import Products
from tallyfold.kernels.on_device.tensors import (
    array_of,
    chunks,
    floats,
    int32_columns,
    int64,
    kept,
    on_one_thread,
)

if TYPE_CHECKING:
    from torch import Tensor

CAP = 1e290
"""Sums are kept below it, so that they stay finite."""


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
    r = checked_dispersion(likelihood, dispersion)
    count_N = kept(layout.counts_N, floats)

    def exposures(found: Products, part: slice) -> Tensor:
        return found.times(_exposure(likelihood, found.bounded_rate_P, count_N[part], r))

    exposure_DK = _by_entity(mean, layout, exposures)
    return share_sums(geo, layout, 0.0), array_of(exposure_DK.clamp(max=CAP))


def _exposure(likelihood: str, rate_P: Tensor, count_P: Tensor, r: float) -> Tensor:
    """Return :func:`tallyfold.kernels.likelihoods.expected_exposure`."""
    code = likelihood_code(likelihood)
    if code == 0:
        return rate_P.new_ones(rate_P.shape)
    if code == 1:
        return -1 / (-rate_P).expm1()
    seen_P = r + count_P
    if code == 3:
        seen_P = seen_P + r / (r * (rate_P / r).log1p()).expm1()
    return seen_P / (r + rate_P)


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
