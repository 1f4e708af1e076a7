"""One fused pass over an axis's cells for BPTF: multinomial shares and exposures."""

import math

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.fused.exposure import exposure
from tallyfold.kernels.fused.jit import jit, jit_sums
from tallyfold.kernels.fused.logs import CAP, HIGH, LOG_CAP, LOW, add_in_logs, log_rate
from tallyfold.kernels.fused.pack import pack
from tallyfold.kernels.fused.pieces import sum_pieces
from tallyfold.kernels.fused.prefetch import prefetch_rows
from tallyfold.kernels.fused.products import add_scaled, multiply, multiply_rest
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.likelihoods import checked_dispersion, likelihood_code


def bptf_axis_sums(
    geo: Factors, mean: Factors, layout: AxisLayout, likelihood: str, dispersion: float | None
) -> tuple[Floats, Floats]:
    """Compiled form of :func:`tallyfold.kernels.reference.bptf_axis_sums`."""
    sets = [geo] if geo is mean else [geo, mean]
    table_RW, first_M = pack(sets, layout.reach_M)
    half, n_components = table_RW.shape[1] // len(sets), geo[0].shape[1]
    family = likelihood_code(likelihood), checked_dispersion(likelihood, dispersion)
    sums_DW = sum_pieces(_visit, layout, table_RW, first_M, family, width=2 * half)
    np.minimum(sums_DW, CAP, out=sums_DW)
    return sums_DW[:, :n_components].copy(), sums_DW[:, half : half + n_components].copy()


@jit_sums
def _visit(start, stop, cells, table, sums_SW, family):  # type: ignore[no-untyped-def]
    """Sum the pieces start..stop: shares in the left half of a row of sums, exposures in the right.

    So it is in the table, geo left and mean right, unless both are one and the same half.
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
                _visit_in_logs(table_RW, own_W, first_J, others_NJ, n, family, count, sums_W)


@jit
def _visit_in_logs(table_RW, own_W, first_J, others_NJ, n, family, count, sums_W):  # type: ignore[no-untyped-def]
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
