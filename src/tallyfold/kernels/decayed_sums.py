"""Sums of what came before, in which the past fades: one factor for every step of time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints


def decayed_sums_reference(key_E: Ints, step_E: Ints, value_EF: Floats, decay: float) -> Floats:
    """Return, for each entry, the decayed sum of its key's values up to its step: a plain loop.

    Entries are sorted by key, then by step.

    Examples
    --------
    >>> steps, values = np.array([0, 1, 3]), np.ones((3, 1))
    >>> decayed_sums_reference(np.zeros(3, int), steps, values, 0.5).ravel().tolist()
    [1.0, 1.5, 1.375]
    """
    sums_EF = value_EF.astype(np.float64)
    for entry in range(1, len(key_E)):
        if key_E[entry] == key_E[entry - 1]:
            faded = decay ** float(step_E[entry] - step_E[entry - 1])
            sums_EF[entry] += faded * sums_EF[entry - 1]
    return sums_EF


def decayed_sums(key_E: Ints, step_E: Ints, value_EF: Floats, decay: float) -> Floats:
    """Return the same, for all keys at once: first their first entries, then their second ones.

    Examples
    --------
    >>> steps, values = np.array([0, 1, 3]), np.ones((3, 1))
    >>> decayed_sums(np.zeros(3, int), steps, values, 0.5).ravel().tolist()
    [1.0, 1.5, 1.375]
    """
    sums_EF = value_EF.astype(np.float64)
    if len(key_E) < 2:
        return sums_EF
    number_E = np.arange(len(key_E))
    first_E = np.maximum.accumulate(np.where(np.append(True, np.diff(key_E) != 0), number_E, 0))
    rank_E = number_E - first_E
    order_E = np.argsort(rank_E, kind="stable")
    ends = np.cumsum(np.bincount(rank_E))
    faded_E = decay ** np.append(0, np.diff(step_E)).clip(0).astype(np.float64)
    for start, end in pairwise(ends):
        rows = order_E[start:end]
        sums_EF[rows] += faded_E[rows, None] * sums_EF[rows - 1]
    return sums_EF
