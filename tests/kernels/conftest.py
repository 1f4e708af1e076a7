"""A tensor of several chunks, with skewed entities, empty ones and a large count."""

from typing import NamedTuple

import numpy as np
import pytest

from tallyfold.kernels import AxisLayout, axis_layout


class Problem(NamedTuple):
    indices_NM: np.ndarray
    counts_N: np.ndarray
    factors: list[np.ndarray]
    layouts: list[AxisLayout]


def make_problem(sizes: tuple[int, ...], n_cells: int, n_components: int, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    columns = [(size * rng.random(n_cells) ** 3).astype(np.int32) for size in sizes]
    indices_NM = np.asfortranarray(np.unique(np.column_stack(columns), axis=0))
    counts_N = rng.geometric(0.6, len(indices_NM))
    counts_N[::5000] = 10_000
    factors = [rng.gamma(0.5, 1.0, (size, n_components)) + 1e-6 for size in sizes]
    layouts = [axis_layout(indices_NM, counts_N, m, size) for m, size in enumerate(sizes)]
    return Problem(indices_NM, counts_N, factors, layouts)


@pytest.fixture(scope="session")
def problem() -> Problem:
    return make_problem((300, 200, 14), 60_000, 7, seed=0)


@pytest.fixture(scope="session")
def four_axes() -> Problem:
    return make_problem((50, 40, 30, 3), 30_000, 5, seed=1)
