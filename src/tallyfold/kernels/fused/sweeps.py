"""One pass over cells: rates, the bound, and sums per entity of one axis.

The rows of a cell are looked up in each kernel: from a function, even one that is inlined, numba
counts references to the rows it returns, which takes longer than the sums.
"""

import math

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Ints, Positions
from tallyfold.kernels.fused.exposure import exposure, normaliser
from tallyfold.kernels.fused.jit import jit, jit_sums
from tallyfold.kernels.fused.prefetch import ask_for_weight, prefetch_rows
from tallyfold.kernels.fused.products import (
    CAP,
    HIGH,
    LOG_CAP,
    LOW,
    add_in_logs,
    log_rate,
    multiply_rest,
    safe_log,
)
from tallyfold.kernels.fused.vectors import add_scaled, multiply
from tallyfold.kernels.fused.visits import frozen, pack, sum_cells, sum_pieces, visit_cells
from tallyfold.kernels.layout import AxisLayout, check_weights, reach_of
from tallyfold.kernels.likelihoods import checked_dispersion, likelihood_code, log_constants


def cell_rates(factors: Factors, indices_NM: Positions) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.cell_rates`."""
    table, rate_N = pack([factors], reach_of(indices_NM), 0), np.empty(len(indices_NM))
    visit_cells(_write_rates, len(rate_N), _by_first_axis(indices_NM), table, rate_N)
    return rate_N


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
    cells = *_by_first_axis(indices_NM), frozen(counts_N, np.int64)
    table, family = pack(sets, reach_of(indices_NM), 0), (likelihood_code(likelihood), r)
    (total,) = sum_cells(_add_bound, len(counts_N), 1, cells, table, family, len(sets))
    return float(total) + log_constants(counts_N, likelihood, r)


def axis_sums(factors: Factors, layout: AxisLayout, weight_N: Floats) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.axis_sums`."""
    table = pack([factors], layout.reach_M, layout.axis)
    check_weights(weight_N, layout)
    sums_DW = sum_pieces(_add_products, layout, table, frozen(weight_N, np.float64))
    return sums_DW[:, : factors[0].shape[1]].copy()


def share_sums(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.share_sums`."""
    table = pack([factors], layout.reach_M, layout.axis)
    sums_DW = sum_pieces(_add_shares, layout, table, float(floor))
    return np.asarray(np.minimum(sums_DW[:, : factors[0].shape[1]], CAP))


def bptf_axis_sums(
    geo: Factors, mean: Factors, layout: AxisLayout, likelihood: str, dispersion: float | None
) -> tuple[Floats, Floats]:
    """Compiled form of :func:`tallyfold.kernels.reference.bptf_axis_sums`."""
    sets = [geo] if geo is mean else [geo, mean]
    table = pack(sets, layout.reach_M, layout.axis)
    half, n_components = table[0].shape[1] // len(sets), geo[0].shape[1]
    family = likelihood_code(likelihood), checked_dispersion(likelihood, dispersion)
    sums_DW = sum_pieces(_add_bptf, layout, table, family, width=2 * half)
    np.minimum(sums_DW, CAP, out=sums_DW)
    return sums_DW[:, :n_components].copy(), sums_DW[:, half : half + n_components].copy()


def _by_first_axis(indices_NM: Positions) -> tuple[Positions, Positions]:
    """Return positions on axis 0 and on the others: kernels of cells in any order visit axis 0."""
    indices = frozen(indices_NM, np.int32, "F")
    return indices[:, 0], indices[:, 1:]


@jit_sums
def _write_rates(start, stop, cells, table, rate_N):  # type: ignore[no-untyped-def]
    """Write the rates of the cells start..stop."""
    entity_N, others_NJ = cells
    table_RW, _, first_J = table
    product_W, rest_W = np.empty(table_RW.shape[1]), np.empty(table_RW.shape[1])
    for n in range(start, stop):
        prefetch_rows(table_RW, first_J, others_NJ, n)
        one_W = table_RW[first_J[0] + others_NJ[n, 0]]
        if len(first_J) == 2:
            two_W = table_RW[first_J[1] + others_NJ[n, 1]]
        else:
            multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
            two_W = rest_W
        rate_N[n] = multiply(table_RW[entity_N[n]], one_W, two_W, 0, product_W)


@jit_sums
def _add_bound(start, stop, cells, table, family, n_sets, sum_1):  # type: ignore[no-untyped-def]
    """Add count * ln(geo rate) - normaliser(mean rate) of the cells start..stop.

    The table has geo in its left half and mean in its right, or one set of factors that is both.
    """
    entity_N, others_NJ, count_N = cells
    table_RW, _, first_J = table
    width = table_RW.shape[1]
    half = width // n_sets
    product_P, rest_W = np.empty(half), np.empty(width)
    total = 0.0
    for n in range(start, stop):
        own_W = table_RW[entity_N[n]]
        prefetch_rows(table_RW, first_J, others_NJ, n)
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
    sum_1[0] += total


@jit_sums
def _add_products(start, stop, cells, table, sums_SW, weight_N):  # type: ignore[no-untyped-def]
    """Sum weight times the others' product over the pieces start..stop."""
    piece_cell_S1, piece_entity_S, others_NJ, order_N, _ = cells
    table_RW, own_first, first_J = table
    product_W, rest_W = np.empty(table_RW.shape[1]), np.empty(table_RW.shape[1])
    for s in range(start, stop):
        own_W = table_RW[own_first + piece_entity_S[s]]
        sums_W = sums_SW[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            ask_for_weight(weight_N, order_N, n)
            prefetch_rows(table_RW, first_J, others_NJ, n)
            one_W = table_RW[first_J[0] + others_NJ[n, 0]]
            if len(first_J) == 2:
                two_W = table_RW[first_J[1] + others_NJ[n, 1]]
            else:
                multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
                two_W = rest_W
            multiply(own_W, one_W, two_W, 0, product_W)
            add_scaled(weight_N[order_N[n]], product_W, 0, sums_W)


@jit_sums
def _add_shares(start, stop, cells, table, sums_SW, floor):  # type: ignore[no-untyped-def]
    """Sum count / rate times the others' product over the pieces start..stop."""
    piece_cell_S1, piece_entity_S, others_NJ, _, counts_N = cells
    table_RW, own_first, first_J = table
    width = table_RW.shape[1]
    product_W, rest_W = np.empty(width), np.empty(width)
    for s in range(start, stop):
        own_W = table_RW[own_first + piece_entity_S[s]]
        sums_W = sums_SW[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            prefetch_rows(table_RW, first_J, others_NJ, n)
            one_W = table_RW[first_J[0] + others_NJ[n, 0]]
            if len(first_J) == 2:
                two_W = table_RW[first_J[1] + others_NJ[n, 1]]
            else:
                multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
                two_W = rest_W
            rate = multiply(own_W, one_W, two_W, 0, product_W)
            if LOW < rate < HIGH:
                add_scaled(counts_N[n] / max(rate, floor), product_W, 0, sums_W)
            elif counts_N[n] > 0.0:
                logged = log_rate(table_RW, own_W, first_J, others_NJ, n, 0, width)
                logged = max(logged, safe_log(floor))
                if logged > -np.inf:
                    scale = math.log(counts_N[n]) - logged
                    add_in_logs(table_RW, first_J, others_NJ, n, 0, width, scale, sums_W)


@jit_sums
def _add_bptf(start, stop, cells, table, sums_SW, family):  # type: ignore[no-untyped-def]
    """Sum the pieces start..stop: shares in the left half of a row of sums, exposures in the right.

    The table too has geo in its left half and mean in its right, unless both are the same factors.
    """
    piece_cell_S1, piece_entity_S, others_NJ, _, counts_N = cells
    table_RW, own_first, first_J = table
    width, half = table_RW.shape[1], sums_SW.shape[1] // 2
    geo_P, rest_W = np.empty(half), np.empty(width)
    mean_P = np.empty(half) if half < width else geo_P
    for s in range(start, stop):
        own_W = table_RW[own_first + piece_entity_S[s]]
        sums_W = sums_SW[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            prefetch_rows(table_RW, first_J, others_NJ, n)
            one_W = table_RW[first_J[0] + others_NJ[n, 0]]
            if len(first_J) == 2:
                two_W = table_RW[first_J[1] + others_NJ[n, 1]]
            else:
                multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
                two_W = rest_W
            geo_rate = multiply(own_W, one_W, two_W, 0, geo_P)
            mean_rate = geo_rate
            if half < width:
                mean_rate = multiply(own_W, one_W, two_W, half, mean_P)
            count = counts_N[n]
            if LOW < geo_rate < HIGH and LOW < mean_rate < HIGH:
                add_scaled(count / geo_rate, geo_P, 0, sums_W)
                add_scaled(exposure(family, mean_rate, count), mean_P, half, sums_W)
            else:
                _add_bptf_in_logs(table_RW, own_W, first_J, others_NJ, n, family, count, sums_W)


@jit
def _add_bptf_in_logs(table_RW, own_W, first_J, others_NJ, n, family, count, sums_W):  # type: ignore[no-untyped-def]
    """Add one cell whose rates are too large or too small to divide by."""
    width, half = len(own_W), len(sums_W) // 2
    geo_rate = log_rate(table_RW, own_W, first_J, others_NJ, n, 0, half)
    if geo_rate > -np.inf and count > 0.0:
        scale = math.log(count) - geo_rate
        add_in_logs(table_RW, first_J, others_NJ, n, 0, half, scale, sums_W)
    mean_rate = log_rate(table_RW, own_W, first_J, others_NJ, n, width - half, width)
    rate = math.exp(min(max(mean_rate, -LOG_CAP), LOG_CAP))
    scale = math.log(exposure(family, rate, count))
    right_W = sums_W[2 * half - width :]  # its column k is the table's
    add_in_logs(table_RW, first_J, others_NJ, n, width - half, width, scale, right_W)
