import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.parts import drawn, part_of, part_without_held_out, ranges, whole
from tallyfold.inference.cells.training import TrainingCells


@pytest.fixture(scope="module")
def both():
    parts = tf.split(tf.simulate((30, 20, 6), 2, density=0.2, random_state=3).tensor)
    return TrainingCells(parts.train), HeldOutCells(parts.test)


def rows(cells):
    return {(*cell, count) for *cell, count in np.column_stack([cells.indices_NM, cells.counts_N])}


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("entities", [slice(2, 5), np.array([4, 0, 3])])
def test_the_cells_of_some_entities_are_theirs_renumbered(both, axis, entities):
    cells, held_out = both
    part = part_of(cells, held_out, axis, entities)
    chosen = np.arange(cells.shape[axis])[entities]
    for own, places, all_of_them in (
        (part.cells, part.places, cells),
        (part.held_out, part.held_places, held_out),
    ):
        back = own.indices_NM.copy()
        back[:, axis] = chosen[back[:, axis]]
        assert np.array_equal(back, all_of_them.indices_NM[places])
        assert np.array_equal(own.counts_N, all_of_them.counts_N[places])
        assert len(own) == np.isin(all_of_them.indices_NM[:, axis], chosen).sum()
        assert own.shape[axis] == len(chosen)


def test_a_part_without_held_out_cells_has_the_same_training_cells(both):
    cells, held_out = both
    one, other = part_of(cells, held_out, 1, slice(0, 7)), part_without_held_out(cells, 1, slice(7))
    assert rows(one.cells) == rows(other.cells)
    assert len(other.held_out) == 0


def test_the_whole_is_all_there_is(both):
    part = whole(*both)
    assert (part.cells, part.held_out) == both
    assert len(np.arange(9)[part.entities]) == 9


@pytest.mark.parametrize("most", [1, 7, 50, 10_000])
def test_ranges_cover_every_entity_once_and_are_no_longer_than_allowed(most):
    number = np.random.default_rng(0).integers(0, 20, 40)
    found = list(ranges(number, most))
    assert np.array_equal(np.concatenate([np.arange(40)[r] for r in found]), np.arange(40))
    assert all(number[r].sum() <= most or r.stop - r.start == 1 for r in found)


def test_drawn_entities_are_candidates_and_within_the_limits():
    number = np.full(100, 10)
    rng = np.random.default_rng(0)
    found = drawn(rng, number, np.arange(20, 60), 15, 10**9)
    assert len(set(found)) == 15
    assert set(found) <= set(range(20, 60))
    assert len(drawn(rng, number, np.arange(100), 50, 95)) == 9  # 90 cells of 95
    assert len(drawn(rng, number, np.arange(100), 50, 3)) == 1  # one, however many cells it has
    assert len(drawn(rng, number, np.arange(5), 50, 10**9)) == 5


def test_every_candidate_is_drawn_equally_often():
    number = np.arange(1, 11) ** 3  # the busiest are as likely as the others
    times = np.zeros(10)
    for seed in range(4000):
        times[drawn(np.random.default_rng(seed), number, np.arange(10), 10, 950)] += 1
    assert times / 4000 == pytest.approx(np.full(10, 0.3), abs=0.03)
