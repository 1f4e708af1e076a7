"""The cells' part of the variational bound."""

import math

import numpy as np

from tallyfold.kernels.arrays import Factors, Ints, Positions
from tallyfold.kernels.fused.cells import chunk_count, chunk_edges, split_first_axis
from tallyfold.kernels.fused.exposure import normaliser
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.logs import HIGH, LOG_CAP, LOW, log_rate
from tallyfold.kernels.fused.pack import frozen
from tallyfold.kernels.fused.prefetch import prefetch_rows
from tallyfold.kernels.fused.products import multiply, multiply_rest
from tallyfold.kernels.likelihoods import checked_dispersion, likelihood_code, log_constants
from tallyfold.kernels.threads import run_chunks


def cell_bound(
    geo: Factors,
    mean: Factors,
    indices_NM: Positions,
    counts_N: Ints,
    likelihood: str,
    dispersion: float | None,
) -> float:
    """Compiled form of :func:`tallyfold.kernels.reference.cell_bound`."""
    r = checked_dispersion(likelihood, dispersion)
    sets = [geo] if geo is mean else [geo, mean]
    cells = *split_first_axis(sets, indices_NM), frozen(counts_N, np.int64)
    family = likelihood_code(likelihood), r
    sum_C = np.zeros(chunk_count(len(counts_N)))

    def visit(start: int, stop: int) -> None:
        for c in range(start, stop):
            sum_C[c] = _bound(*chunk_edges(c, c + 1, len(counts_N)), cells, family, len(sets))

    run_chunks(visit, len(sum_C))
    return float(sum_C.sum()) + log_constants(counts_N, likelihood, r)


@jit_sums
def _bound(start, stop, cells, family, n_sets):  # type: ignore[no-untyped-def]
    """Sum count * ln(geo rate) - normaliser(mean rate) over the cells start..stop.

    The table holds geo left and mean right, or one set that is both.
    """
    entity_N, others_NJ, table_RW, first_J, count_N = cells
    width = table_RW.shape[1]
    half = width // n_sets
    product_P, rest_W = np.empty(half), np.empty(width)
    total = 0.0
    for n in range(start, stop):
        prefetch_rows(table_RW, first_J, others_NJ, n)
        own_W = table_RW[entity_N[n]]
        one_W = table_RW[first_J[0] + others_NJ[n, 0]]
        if len(first_J) == 2:
            two_W = table_RW[first_J[1] + others_NJ[n, 1]]
        else:
            multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
            two_W = rest_W
        geo_rate = multiply(own_W, one_W, two_W, 0, product_P)
        mean_rate = geo_rate
        if half < width:
            mean_rate = multiply(own_W, one_W, two_W, half, product_P)
        if LOW < geo_rate < HIGH and LOW < mean_rate < HIGH:
            gain = math.log(geo_rate)
        else:
            gain = log_rate(table_RW, own_W, first_J, others_NJ, n, 0, half)
            logged = log_rate(table_RW, own_W, first_J, others_NJ, n, width - half, width)
            mean_rate = math.exp(min(max(logged, -LOG_CAP), LOG_CAP))
        if count_N[n] > 0:
            total += count_N[n] * gain
        total -= normaliser(family, mean_rate, count_N[n])
    return total
