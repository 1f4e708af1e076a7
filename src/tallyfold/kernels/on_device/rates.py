"""Rates of cells, and the cells' part of the bound; see :mod:`tallyfold.kernels.dispatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.layout import check_factors, reach_of
from tallyfold.kernels.likelihoods import checked_dispersion, likelihood_code, log_constants
from tallyfold.kernels.on_device.products import Products
from tallyfold.kernels.on_device.tensors import (
    array_of,
    chunks,
    floats,
    int32_columns,
    kept_if_fixed,
    on_one_thread,
)

if TYPE_CHECKING:
    from torch import Tensor


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
    """Sum over cells the collapsed bound, every constant in it."""
    r = checked_dispersion(likelihood, dispersion)
    columns, count_N = _cells(indices_NM, geo, mean), kept_if_fixed(counts_N, floats)
    geo_tables, mean_tables = ([floats(factor) for factor in each] for each in (geo, mean))
    total = count_N.new_zeros(())
    for part in chunks(len(counts_N), geo[0].shape[1]):
        by_geo = Products(geo_tables, columns, part)
        by_mean = by_geo if mean is geo else Products(mean_tables, columns, part)
        gain_P = by_geo.rate_P.log() if by_geo.safe else by_geo.log_rate_P
        gain_P = count_N[part] * gain_P.where(count_N[part] > 0, 0.0)
        total += (gain_P - _normaliser(likelihood, by_mean.bounded_rate_P, count_N[part], r)).sum()
    return float(total) + log_constants(counts_N, likelihood, r)


def _normaliser(likelihood: str, rate_P: Tensor, count_P: Tensor, r: float) -> Tensor:
    """Return :func:`tallyfold.kernels.likelihoods.log_normaliser`."""
    code = likelihood_code(likelihood)
    minus_log_p0_P = rate_P if code < 2 else r * (rate_P / r).log1p()
    total_P = rate_P if code < 2 else (1 + count_P / r) * minus_log_p0_P
    if code in (1, 3):
        total_P = total_P + (-(-minus_log_p0_P).expm1()).log()
    return total_P


def _cells(indices_NM: Positions, *sets: Factors) -> tuple[Tensor, ...]:
    """Return cells' positions on each axis; refuse factors that do not cover them."""
    columns, reach_M = kept_if_fixed(indices_NM, _columns_and_reach)
    for factors in sets:
        check_factors([factors], reach_M)
    return columns


def _columns_and_reach(indices_NM: NDArray[Any]) -> tuple[tuple[Tensor, ...], list[int]]:
    return int32_columns(indices_NM), reach_of(indices_NM)
