"""The inner loops: products of factors over axes, and their sum over components.

Rates that cannot be divided by are rare: their cells are summed in logarithms.
"""

import math

import numpy as np

from tallyfold.kernels.fused.jit import jit, jit_sums

LOW, HIGH = 1e-200, 1e200
"""Rates in between are safe to divide by; outside, sums are taken in logarithms."""

CAP = 1e290
"""No cell adds more than this, so that sums stay finite."""

LOG_CAP = math.log(CAP)


@jit_sums
def multiply_rest(table_RW, first_J, others_NJ, n, rest_W):  # type: ignore[no-untyped-def]
    """Write the product of all rows of cell n but the first: ones when there are none."""
    rest_W[:] = 1.0
    for j in range(1, len(first_J)):
        row_W = table_RW[first_J[j] + others_NJ[n, j]]
        for k in range(len(rest_W)):
            rest_W[k] *= row_W[k]


@jit
def safe_log(x):  # type: ignore[no-untyped-def]
    """Return ln x, or -inf at zero."""
    return math.log(x) if x > 0.0 else -np.inf


@jit
def log_others(table_RW, first_J, others_NJ, n, column):  # type: ignore[no-untyped-def]
    """Return the logarithm of the product over the other axes in one column."""
    total = 0.0
    for j in range(len(first_J)):
        total += safe_log(table_RW[first_J[j] + others_NJ[n, j], column])
    return total


@jit
def log_rate(table_RW, own_W, first_J, others_NJ, n, start, stop):  # type: ignore[no-untyped-def]
    """Return ln of the sum over columns start..stop of own factor times the others'."""
    top = -np.inf
    total = 0.0
    for k in range(start, stop):
        term = safe_log(own_W[k]) + log_others(table_RW, first_J, others_NJ, n, k)
        if term > top:
            total = total * math.exp(top - term) + 1.0
            top = term
        elif term > -np.inf:
            total += math.exp(term - top)
    return top + math.log(total) if total > 0.0 else -np.inf


@jit
def add_in_logs(table_RW, first_J, others_NJ, n, start, stop, log_scale, sums_W):  # type: ignore[no-untyped-def]
    """Add exp(log_scale) times the others' product to the columns start..stop, capped."""
    for k in range(start, stop):
        term = log_scale + log_others(table_RW, first_J, others_NJ, n, k)
        sums_W[k] += math.exp(min(term, LOG_CAP))
