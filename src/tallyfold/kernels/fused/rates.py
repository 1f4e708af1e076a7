"""The rate at each of a list of cells."""

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Positions
from tallyfold.kernels.fused.cells import chunk_count, chunk_edges, split_first_axis
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.prefetch import prefetch_rows
from tallyfold.kernels.fused.products import multiply, multiply_rest
from tallyfold.kernels.threads import run_chunks


def cell_rates(factors: Factors, indices_NM: Positions) -> Floats:
    """Compiled form of :func:`tallyfold.kernels.reference.cell_rates`."""
    cells = split_first_axis([factors], indices_NM)
    rate_N = np.empty(len(indices_NM))

    def visit(start: int, stop: int) -> None:
        _write_rates(*chunk_edges(start, stop, len(rate_N)), cells, rate_N)

    run_chunks(visit, chunk_count(len(rate_N)))
    return rate_N


@jit_sums
def _write_rates(start, stop, cells, rate_N):  # type: ignore[no-untyped-def]
    """Write the rates of the cells start..stop."""
    entity_N, others_NJ, table_RW, first_J = cells
    product_W, rest_W = np.empty(table_RW.shape[1]), np.empty(table_RW.shape[1])
    for n in range(start, stop):
        prefetch_rows(table_RW, first_J, others_NJ, n)
        own_W = table_RW[entity_N[n]]
        one_W = table_RW[first_J[0] + others_NJ[n, 0]]
        if len(first_J) == 2:
            two_W = table_RW[first_J[1] + others_NJ[n, 1]]
        else:
            multiply_rest(table_RW, first_J, others_NJ, n, rest_W)
            two_W = rest_W
        rate_N[n] = multiply(own_W, one_W, two_W, 0, product_W)
