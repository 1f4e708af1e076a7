"""Memory of combinations against brute force, period by period."""

import numpy as np
import pytest

from tallyfold.posterior.history import History, sets_of
from tallyfold.posterior.past_rates import Memory

SHAPE, N_PERIODS = (4, 3), 9


@pytest.fixture(scope="module")
def dense():
    rng = np.random.default_rng(1)
    counts = rng.poisson(0.6, (*SHAPE, N_PERIODS))
    counts[0, 0, 0] = counts[0, 0, -1] = 1
    counts[..., 4] = 0  # a gap
    return counts


@pytest.fixture(scope="module")
def history(dense):
    cells = np.stack(np.nonzero(dense), axis=1)
    steps = np.arange(100, 100 + N_PERIODS)
    return History.of(cells, dense[dense > 0], dense.shape, 2, steps)


def weights(memory, known, ahead):
    """How much each period counts."""
    step = np.arange(N_PERIODS)
    if memory.kind == "decayed":
        return np.where(step <= known, memory.length ** np.maximum(known - step, 0.0), 0.0)
    if memory.kind == "window":
        return ((step <= known) & (step > known - memory.length)) * 1.0
    back = known + ahead - memory.length * -(-ahead // memory.length)
    return (step == back) * 1.0


@pytest.mark.parametrize(
    "memory",
    [Memory("decayed", 0.7), Memory("decayed", 1.0), Memory("window", 3), Memory("season", 2)],
)
@pytest.mark.parametrize("known", [-1, 0, 3, 4, 8])
@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_sums_are_those_of_the_dense_past(memory, known, ahead, dense, history):
    cells = np.stack(np.unravel_index(np.arange(12), SHAPE), axis=1)
    asked = history.asked(np.column_stack([cells, np.zeros(12, int)]))._replace(
        known_N=np.full(12, known), ahead_N=np.full(12, ahead)
    )
    weight = weights(memory, known, ahead)
    values = np.stack([dense > 0, np.log(np.maximum(dense, 1))], axis=-1) * 1.0
    for table in history.tables:
        gone = tuple(axis for axis in range(2) if axis not in table.axes)
        summed = values.sum(axis=gone, keepdims=True)
        wanted = np.broadcast_to(np.tensordot(summed, weight, ([2], [0])), (*SHAPE, 2))
        assert np.allclose(memory.sums(table, asked), wanted.reshape(12, 2))
    assert np.allclose(memory.periods(asked), weight.sum())


def test_saved_as_arrays_it_is_the_same(history):
    again = History.from_arrays(history.arrays())
    assert again.sizes == history.sizes
    for table, other in zip(history.tables, again.tables, strict=True):
        assert np.array_equal(table.place_E, other.place_E)
        assert np.allclose(table.sums_E2, other.sums_E2)


def test_sets_of_axes():
    assert sets_of(1) == [(), (0,)]
    assert len(sets_of(4)) == 16
    assert sets_of(5)[-1] == (0, 1, 2, 3, 4)
    assert max(map(len, sets_of(6)[:-1])) == 2
