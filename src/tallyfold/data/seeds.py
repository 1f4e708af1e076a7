"""Seeds: an integer, a generator or None for a fresh one, never global state."""

from __future__ import annotations

import numpy as np

from tallyfold.errors import ParameterError

Seed = int | np.random.Generator | None


def generator(random_state: Seed) -> np.random.Generator:
    """Return a generator from a seed, None being a fresh one; one given is used as it is."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None:
        return np.random.default_rng()
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise ParameterError(
            "`random_state` must be a non-negative integer, None or a NumPy Generator; got "
            f"{random_state!r}."
        )
    return np.random.default_rng(random_state)


def fixed_seed(random_state: int | None) -> int:
    """Return a seed as it is; for None a fresh one, short enough to be written down."""
    return int(np.random.default_rng().integers(2**32)) if random_state is None else random_state
