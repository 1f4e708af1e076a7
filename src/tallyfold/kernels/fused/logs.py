"""The same sums in logarithms, for the rare cell whose rate cannot be divided by."""

import math

import numpy as np

from tallyfold.kernels.fused.jit import jit

LOW, HIGH = 1e-200, 1e200
"""Rates in between are safe to divide by; outside, sums are taken in logarithms."""

CAP = 1e290
"""No cell adds more than this, so that sums stay finite."""

LOG_CAP = math.log(CAP)


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
