"""The cells' part of the variational bound."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.fused.cells import chunk_count, chunk_edges, split_first_axis
from tallyfold.kernels.fused.exposure import normaliser
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.logs import HIGH, LOG_CAP, LOW, log_rate
from tallyfold.kernels.fused.pack import cell_weights, frozen
from tallyfold.kernels.fused.prefetch import prefetch_rows
from tallyfold.kernels.fused.products import multiply, multiply_rest
from tallyfold.kernels.fused.rates import write_rates
from tallyfold.kernels.likelihoods import dispersion_array, likelihood_code, log_constants
from tallyfold.kernels.threads import run_chunks


def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    likelihood: str,
    dispersion: float | None,
    cell_weight_N: Floats | None,
) -> float:
    """Compiled form of :func:`tallyfold.kernels.reference.cell_bound`."""
    spread = float(dispersion_array(likelihood, dispersion, 1)[0])
    count_N = frozen(counts_N, np.int64)
    weight_N = cell_weights(cell_weight_N, len(counts_N))
    terms = count_N, weight_N, likelihood_code(likelihood), spread
    total = _sum_at_rates(geo, indices_NM, terms) if geo is mean else np.nan
    if math.isnan(total):
        cells = split_first_axis([geo, mean], indices_NM)
        total = _sum_chunks(lambda *edges: _bound(*edges, *cells, *terms), len(counts_N))
    return total + log_constants(counts_N, likelihood, spread, cell_weight_N)


def _sum_at_rates(factors: Factors, indices_NM: Positions, terms: tuple[Any, ...]) -> float:
    """Return the sum for factors that are plain numbers; NaN if a rate is too large or small."""
    cells = split_first_axis([factors], indices_NM)
    rate_N = np.empty(len(indices_NM))

    def visit(start: int, stop: int) -> float:
        write_rates(start, stop, *cells, rate_N)
        return float(_at_rates(start, stop, rate_N, *terms))

    return _sum_chunks(visit, len(rate_N))


def _sum_chunks(visit: Callable[[int, int], float], n_cells: int) -> float:
    """Add up what the chunks of cells give, in their order."""
    sum_C = np.zeros(chunk_count(n_cells))

    def visit_all(start: int, stop: int) -> None:
        for c in range(start, stop):
            sum_C[c] = visit(*chunk_edges(c, c + 1, n_cells))

    run_chunks(visit_all, len(sum_C))
    return float(sum_C.sum())


@jit_sums
def _at_rates(start, stop, rate_N, count_N, weight_N, code, dispersion):  # type: ignore[no-untyped-def]
    """Sum count * ln(rate) - normaliser(rate) over the cells start..stop."""
    total = 0.0
    for n in range(start, stop):
        weight, rate = weight_N[n] if len(weight_N) > 0 else 1.0, rate_N[n]
        if weight == 0.0:
            continue
        if not LOW < rate < HIGH:
            return np.nan
        if count_N[n] > 0:
            total += weight * count_N[n] * math.log(rate)
        total -= weight * normaliser(code, rate, count_N[n], dispersion)
    return total


@jit_sums
def _bound(  # type: ignore[no-untyped-def]
    start, stop, entity_N, others_NJ, table_RW, first_J, count_N, weight_N, code, dispersion
):
    """Sum count * ln(geo rate) - normaliser(mean rate) over the cells start..stop."""
    width = table_RW.shape[1]
    half = width // 2
    product_P, rest_W = np.empty(half), np.empty(width)
    total = 0.0
    for n in range(start, stop):
        weight = weight_N[n] if len(weight_N) > 0 else 1.0
        if weight == 0.0:
            continue
        prefetch_rows(table_RW, first_J, others_NJ, n)
        own_W = table_RW[entity_N[n]]
        one_W = table_RW[first_J[0] + others_NJ[n, 0]]
        if len(first_J) == 2:
            two_W = table_RW[first_J[1] + others_NJ[n, 1]]
        else:
            multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
            two_W = rest_W
        geo_rate = multiply(own_W, one_W, two_W, 0, product_P)
        mean_rate = multiply(own_W, one_W, two_W, half, product_P)
        if LOW < geo_rate < HIGH and LOW < mean_rate < HIGH:
            gain = math.log(geo_rate)
        else:
            gain = log_rate(table_RW, own_W, first_J, others_NJ, n, 0, half)
            logged = log_rate(table_RW, own_W, first_J, others_NJ, n, half, width)
            mean_rate = math.exp(min(max(logged, -LOG_CAP), LOG_CAP))
        if count_N[n] > 0:
            total += weight * count_N[n] * gain
        total -= weight * normaliser(code, mean_rate, count_N[n], dispersion)
    return total
