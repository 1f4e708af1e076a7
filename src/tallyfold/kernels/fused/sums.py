"""Weighted products and multinomial shares, summed per entity of one axis."""

import math

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.logs import CAP, HIGH, LOW, add_in_logs, log_rate, safe_log
from tallyfold.kernels.fused.pack import frozen, pack
from tallyfold.kernels.fused.pieces import sum_pieces
from tallyfold.kernels.fused.prefetch import ask_for_weight, prefetch_rows
from tallyfold.kernels.fused.products import add_scaled, multiply, multiply_rest
from tallyfold.kernels.layout import AxisLayout, check_weights


def axis_sums(factors: Factors, layout: AxisLayout, weight_N: Floats) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.axis_sums`."""
    table_RW, first_M = pack([factors], layout.reach_M)
    check_weights(weight_N, layout)
    weights = frozen(weight_N, np.float64)
    sums_DW = sum_pieces(_add_products, layout, table_RW, first_M, weights)
    return sums_DW[:, : factors[0].shape[1]].copy()


def share_sums(factors: Factors, layout: AxisLayout, floor: float) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.share_sums`."""
    table_RW, first_M = pack([factors], layout.reach_M)
    sums_DW = sum_pieces(_add_shares, layout, table_RW, first_M, float(floor))
    return np.asarray(np.minimum(sums_DW[:, : factors[0].shape[1]], CAP))


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
            prefetch_rows(table_RW, first_J, others_NJ, n)
            ask_for_weight(weight_N, order_N, n)
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
