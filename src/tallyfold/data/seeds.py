"""Seeds: an integer or a generator, never global state."""

from __future__ import annotations

import numpy as np

from tallyfold.errors import ParameterError

Seed = int | np.random.Generator


def generator(random_state: Seed) -> np.random.Generator:
    """Return a generator from a seed; one given is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise ParameterError(
            "`random_state` must be a non-negative integer or a NumPy Generator; got "
            f"{random_state!r}."
        )
    return np.random.default_rng(random_state)
