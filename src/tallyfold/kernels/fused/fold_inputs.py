"""Inputs from the other cells of a combination; see :mod:`tallyfold.kernels.fold_inputs`."""

import math

import numpy as np

from tallyfold.kernels.fused.jit import jit
from tallyfold.kernels.fused.margins import CHUNKS, chunk_edges
from tallyfold.kernels.threads import run_chunks

LOGS = 256
"""Numbers of cells whose logarithms are looked up."""


def write_fold_inputs(cells, value_VF, n_folds, besides, pull, z_NF):  # type: ignore[no-untyped-def]
    """Compiled form of :func:`tallyfold.kernels.fold_inputs.write_fold_inputs`."""
    few_L = pull.scale * np.arange(LOGS)
    prior_F = pull.strength_F * pull.mean_F
    ratio = pull.scale, pull.scale * pull.unit, pull.strength_F, prior_F, np.log1p(few_L)
    standard = pull.centre_F, pull.spread_F, np.float32(pull.limit)
    edge_C1 = chunk_edges(cells.indptr_P1)
    left_out = besides.start, besides.stop
    fixed = edge_C1, *cells, value_VF, n_folds, left_out, ratio, standard
    run_chunks(_write, CHUNKS, *fixed, z_NF)


@jit
def _write(  # type: ignore[no-untyped-def]
    start, stop, edge_C1, order_N, indptr_P1, fold_N, row_N, value_VF, n_folds, left_out, ratio,
    standard, z_NF,
):  # fmt: skip
    """Write the inputs of the cells of some chunks; those of a fold are worked out once."""
    n_values = value_VF.shape[1]
    by_fold, total_F = np.zeros((n_folds, n_values), np.int64), np.zeros(n_values, np.int64)
    made_KF, made_for_K = np.empty((n_folds, n_values), np.float32), np.full(n_folds, -1)
    none_F = np.empty(n_values, np.float32)
    _make(total_F, total_F, ratio, standard, none_F)
    for combination in range(edge_C1[start], edge_C1[stop]):
        begin, end = indptr_P1[combination], indptr_P1[combination + 1]
        if end - begin == 1:
            for f in range(n_values):
                z_NF[order_N[begin], f] = none_F[f]
            continue
        total_F[:] = 0
        for n in range(begin, end):
            if not left_out[0] <= fold_N[n] < left_out[1]:
                for f in range(n_values):
                    value = value_VF[row_N[n], f]
                    by_fold[fold_N[n], f] += value
                    total_F[f] += value
        for n in range(begin, end):
            fold = fold_N[n]
            if made_for_K[fold] != combination:
                _make(total_F, by_fold[fold], ratio, standard, made_KF[fold])
                made_for_K[fold] = combination
            for f in range(n_values):
                z_NF[order_N[n], f] = made_KF[fold, f]
        for n in range(begin, end):
            for f in range(n_values):
                by_fold[fold_N[n], f] = 0


@jit
def _make(total_F, less_F, ratio, standard, input_F):  # type: ignore[no-untyped-def]
    """Write the inputs that come from total - less."""
    scale, scaled_unit, strength_F, prior_F, log_L = ratio
    centre_F, spread_F, limit = standard
    n_cells = total_F[0] - less_F[0]
    cells = scale * n_cells
    for f in range(len(input_F)):
        if f == 0:
            number = log_L[n_cells] if n_cells < len(log_L) else math.log1p(cells)
        else:
            number = (total_F[f] - less_F[f]) * scaled_unit + prior_F[f - 1]
            number /= cells + strength_F[f - 1]
        z = (np.float32(number) - centre_F[f]) / spread_F[f]
        input_F[f] = min(max(z, -limit), limit)
