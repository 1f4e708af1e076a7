"""Sums over cells per entity of an axis; see :mod:`tallyfold.kernels.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.likelihoods import dispersion_array
from tallyfold.kernels.on_device.cells import sorted_cells, sums_by_entity, tables, weights
from tallyfold.kernels.on_device.likelihoods import expected_exposure
from tallyfold.kernels.on_device.products import Products
from tallyfold.kernels.on_device.tensors import array_of, floats, on_one_thread

if TYPE_CHECKING:
    from torch import Tensor

CAP = 1e290
"""Sums are kept below it, so that they stay finite."""


@on_one_thread
def axis_sums(factors: Factors, layout: AxisLayout, weight_N: Floats) -> Floats:
    """Sum, per entity, weight times the other axes' product."""
    cells, given = sorted_cells(layout), tables(factors, layout)
    weight_original_N = weights(weight_N, len(layout.counts_N))
    assert weight_original_N is not None
    sorted_N = weight_original_N[cells.order_N]

    def terms(part: slice) -> Tensor:
        found = Products(given, cells.columns, part, layout.axis)
        return sorted_N[part, None] * found.others_PK  # plain: weights have any sign

    return array_of(sums_by_entity(cells, factors[0].shape[1], terms))


@on_one_thread
def share_sums(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Sum, per entity, count / rate times the other axes' product."""
    return _shares(factors, layout, None, floor)


@on_one_thread
def bptf_axis_sums(
    geo: Factors,
    mean: Factors,
    layout: AxisLayout,
    likelihood: str,
    dispersion: float | Floats | None,
    cell_weight_N: Floats | None,
) -> tuple[Floats, Floats]:
    """Sum, per entity, shares by `geo` and exposures by `mean`."""
    r_D = dispersion_array(likelihood, dispersion, len(layout.indptr_D1) - 1)
    weight_N = weights(cell_weight_N, len(layout.counts_N))
    sorted_N = None if weight_N is None else weight_N[sorted_cells(layout).order_N]
    return (
        _shares(geo, layout, sorted_N, 0.0),
        _exposures(mean, layout, sorted_N, likelihood, floats(r_D)),
    )


def _shares(factors: Factors, layout: AxisLayout, weight_N: Tensor | None, floor: float) -> Floats:
    cells, given = sorted_cells(layout), tables(factors, layout)
    count_N = cells.counts_N if weight_N is None else weight_N * cells.counts_N

    def terms(part: slice) -> Tensor:
        return Products(given, cells.columns, part, layout.axis).shares(count_N[part], floor)

    return array_of(sums_by_entity(cells, factors[0].shape[1], terms).clamp(max=CAP))


def _exposures(
    mean: Factors, layout: AxisLayout, weight_N: Tensor | None, likelihood: str, r_D: Tensor
) -> Floats:
    cells, given = sorted_cells(layout), tables(mean, layout)
    entity_N = cells.columns[layout.axis]

    def terms(part: slice) -> Tensor:
        found = Products(given, cells.columns, part, layout.axis)
        r_P = r_D[entity_N[part]]
        seen_P = expected_exposure(likelihood, found.bounded_rate_P, cells.counts_N[part], r_P)
        return found.times(seen_P if weight_N is None else weight_N[part] * seen_P)

    return array_of(sums_by_entity(cells, mean[0].shape[1], terms).clamp(max=CAP))
