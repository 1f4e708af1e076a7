"""Comparing the typed states of fits."""

import numpy as np

from tallyfold.inference.fit.state_arrays import to_arrays


def same_states(one, other):
    """Return whether two states have the same arrays and numbers, bit for bit."""
    arrays, others = to_arrays(one), to_arrays(other)
    return arrays.keys() == others.keys() and all(
        array.dtype == others[name].dtype and np.array_equal(array, others[name])
        for name, array in arrays.items()
    )
