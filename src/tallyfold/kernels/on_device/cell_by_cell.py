"""Rates of cells, and the cells' part of the bound; see :mod:`tallyfold.kernels.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.likelihoods import dispersion_array, log_constants
from tallyfold.kernels.on_device.cells import cell_columns, tables, weights
from tallyfold.kernels.on_device.likelihoods import log_normaliser
from tallyfold.kernels.on_device.products import Products
from tallyfold.kernels.on_device.tensors import (
    array_of,
    chunks,
    floats,
    kept_if_fixed,
    on_one_thread,
)

if TYPE_CHECKING:
    from torch import Tensor


@on_one_thread
def cell_rates(factors: Factors, indices_NM: Positions) -> Floats:
    """Sum over components the product of the axes' factors at each cell."""
    columns, given = cell_columns(indices_NM, factors), tables(factors)
    rate_N = given[0].new_empty(len(indices_NM))
    for part in chunks(len(indices_NM), factors[0].shape[1]):
        rate_N[part] = Products(given, columns, part).rate_P
    return array_of(rate_N)


@on_one_thread
def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    likelihood: str,
    dispersion: float | None,
    cell_weight_N: Floats | None,
) -> float:
    """Sum over cells the collapsed bound, every constant in it."""
    r = float(dispersion_array(likelihood, dispersion, 1)[0])
    columns = cell_columns(indices_NM, geo, mean)
    geo_tables, mean_tables = tables(geo), tables(mean)
    count_N, weight_N = kept_if_fixed(counts_N, floats), weights(cell_weight_N, len(counts_N))
    total = count_N.new_zeros(())
    for part in chunks(len(counts_N), geo[0].shape[1]):
        by_geo = Products(geo_tables, columns, part)
        by_mean = by_geo if mean is geo else Products(mean_tables, columns, part)
        weight_P = count_N.new_ones(()) if weight_N is None else weight_N[part]
        total += _bound(by_geo, by_mean, count_N[part], weight_P, likelihood, r)
    return float(total) + log_constants(counts_N, likelihood, r, cell_weight_N)


def _bound(
    by_geo: Products,
    by_mean: Products,
    count_P: Tensor,
    weight_P: Tensor,
    likelihood: str,
    r: float,
) -> Tensor:
    """Sum count * ln(geo rate) - normaliser(mean rate); without counts the gain is zero."""
    gain_P = by_geo.rate_P.log() if by_geo.safe else by_geo.log_rate_P
    gain_P = gain_P.where((count_P > 0) & (weight_P > 0), 0.0)
    normaliser_P = log_normaliser(likelihood, by_mean.bounded_rate_P, count_P, r)
    return (weight_P * (count_P * gain_P - normaliser_P)).sum()
