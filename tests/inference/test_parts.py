import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.parts import ranges, sample_entities
from tallyfold.inference.cells.training import TrainingCells


@pytest.fixture(scope="module")
def both():
    parts = tf.split(tf.simulate((30, 20, 6), 2, density=0.2, random_state=3).tensor)
    return TrainingCells(parts.train), HeldOutCells(parts.test)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("entities", [slice(2, 5), np.array([4, 0, 3])])
@pytest.mark.parametrize("kind", [TrainingCells, HeldOutCells])
def test_the_cells_of_some_entities_are_theirs_renumbered(both, kind, axis, entities):
    all_of_them = next(cells for cells in both if type(cells) is kind)
    own, where = all_of_them.of_entities(axis, entities)
    assert type(own) is kind
    chosen = np.arange(all_of_them.shape[axis])[entities]
    back = own.indices_NM.copy()
    back[:, axis] = chosen[back[:, axis]]
    assert np.array_equal(back, all_of_them.indices_NM[where])
    assert np.array_equal(own.counts_N, all_of_them.counts_N[where])
    assert len(own) == np.isin(all_of_them.indices_NM[:, axis], chosen).sum()
    assert own.shape[axis] == len(chosen)


@pytest.mark.parametrize("most", [1, 7, 50, 10_000])
def test_ranges_cover_every_entity_once_and_are_no_longer_than_allowed(most):
    number = np.random.default_rng(0).integers(0, 20, 40)
    found = list(ranges(number, most))
    assert np.array_equal(np.concatenate([np.arange(40)[r] for r in found]), np.arange(40))
    assert all(number[r].sum() <= most or r.stop - r.start == 1 for r in found)


def test_sampled_entities_are_candidates_and_within_the_limits():
    number = np.full(100, 10)
    rng = np.random.default_rng(0)
    found = sample_entities(rng, number, np.arange(20, 60), 15, 10**9)
    assert len(set(found)) == 15
    assert set(found) <= set(range(20, 60))
    assert len(sample_entities(rng, number, np.arange(100), 50, 95)) == 9  # 90 cells of 95
    assert (
        len(sample_entities(rng, number, np.arange(100), 50, 3)) == 1
    )  # one, however many cells it has
    assert len(sample_entities(rng, number, np.arange(5), 50, 10**9)) == 5


def test_every_candidate_is_sampled_equally_often():
    number = np.arange(1, 11) ** 3  # the busiest are as likely as the others
    times = np.zeros(10)
    for seed in range(4000):
        times[sample_entities(np.random.default_rng(seed), number, np.arange(10), 10, 950)] += 1
    assert times / 4000 == pytest.approx(np.full(10, 0.3), abs=0.03)
