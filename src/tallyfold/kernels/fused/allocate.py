"""Gibbs allocation: every count split over components at random, summed per entity."""

import math

import numpy as np

from tallyfold.kernels.arrays import Factors, Ints
from tallyfold.kernels.fused.draws import component_at, split, uniform_at
from tallyfold.kernels.fused.jit import jit, jit_inline, jit_sums
from tallyfold.kernels.fused.prefetch import prefetch_rows
from tallyfold.kernels.fused.products import HIGH, LOW, safe_log
from tallyfold.kernels.fused.visits import pack, sum_pieces
from tallyfold.kernels.layout import AxisLayout


def allocate_axis(factors: Factors, layout: AxisLayout, seed: int, iteration: int) -> Ints:
    """Compiled form of :func:`tallyfold.kernels.reference.allocate_axis`."""
    table, n_components = pack([factors], layout.reach_M, layout.axis), factors[0].shape[1]
    extra = layout.axis, n_components, (np.uint64(seed), np.uint64(iteration))
    counts_DW = sum_pieces(_allocate, layout, table, *extra, dtype=np.int64)
    return counts_DW[:, :n_components].copy()


@jit
def _allocate(start, stop, cells, table, sums_SW, axis, n_components, address):  # type: ignore[no-untyped-def]
    """Draw every cell of the pieces start..stop: small counts by event, others by binomials."""
    piece_cell_S1, piece_entity_S, others_NJ, order_N, counts_N = cells
    table_RW, own_first, first_J = table
    seed, iteration = address
    weight_K, rest_W = np.empty(n_components), np.empty(table_RW.shape[1])
    row_M = np.empty(len(first_J) + 1, dtype=np.int64)
    for s in range(start, stop):
        sums_W = sums_SW[s]
        row_M[axis] = own_first + piece_entity_S[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            prefetch_rows(table_RW, first_J, others_NJ, n)
            for j in range(len(first_J)):
                row_M[j + (j >= axis)] = first_J[j] + others_NJ[n, j]
            total = _weigh(table_RW, row_M, rest_W, weight_K)
            if not LOW < total < HIGH:
                total = _weigh_in_logs(table_RW, row_M, weight_K)
            count = int(counts_N[n])
            cell = np.uint64(order_N[n])
            if count > 2 * n_components:
                split(seed, iteration, cell, count, weight_K, sums_W)
                continue
            for draw in range(count):
                target = total * uniform_at(seed, iteration, cell, np.uint64(draw))
                sums_W[component_at(target, weight_K)] += 1


@jit_inline
def _weigh(table_RW, row_M, rest_W, weight_K):  # type: ignore[no-untyped-def]
    """Write each component's unnormalised share of a cell; return their sum.

    Products are taken in axis order, so that every axis's visit gets the same bits.
    """
    one_W, two_W = table_RW[row_M[0]], table_RW[row_M[1]]
    if len(row_M) == 3:
        three_W = table_RW[row_M[2]]
    else:
        _multiply_from_third(table_RW, row_M, rest_W)
        three_W = rest_W
    total = 0.0
    for k in range(len(weight_K)):
        weight = one_W[k] * two_W[k] * three_W[k]
        weight_K[k] = weight
        total += weight
    return total


@jit_sums
def _multiply_from_third(table_RW, row_M, rest_W):  # type: ignore[no-untyped-def]
    """Write the product of all rows but the first two: ones when there are no more."""
    rest_W[:] = 1.0
    for m in range(2, len(row_M)):
        row_W = table_RW[row_M[m]]
        for k in range(len(rest_W)):
            rest_W[k] *= row_W[k]


@jit
def _weigh_in_logs(table_RW, row_M, weight_K):  # type: ignore[no-untyped-def]
    """As `_weigh`, in logarithms, for products of any size; equal shares where all are zero."""
    top = -np.inf
    for k in range(len(weight_K)):
        weight_K[k] = 0.0
        for m in range(len(row_M)):
            weight_K[k] += safe_log(table_RW[row_M[m], k])
        top = max(top, weight_K[k])
    total = 0.0
    for k in range(len(weight_K)):
        weight_K[k] = math.exp(weight_K[k] - top) if top > -np.inf else 1.0
        total += weight_K[k]
    return total
