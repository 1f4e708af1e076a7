"""Hashes of cells: of what a cell is, not of where it stands."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyfold.data.hashing import cell_hashes, mixed

CELLS = np.stack(np.unravel_index(np.arange(20 * 15 * 10), (20, 15, 10)), axis=1)


def hashes(cells, seed=3):
    return cell_hashes(np.full(len(cells), seed, dtype=np.uint64), cells.T)


@given(st.permutations(range(40)))
def test_they_do_not_depend_on_a_cells_place(order):
    assert np.array_equal(hashes(CELLS[:40][order]), hashes(CELLS[:40])[order])


def test_they_do_not_depend_on_the_type_or_layout_of_positions():
    wanted = hashes(CELLS)
    assert np.array_equal(hashes(CELLS.astype(np.int32)), wanted)
    assert np.array_equal(hashes(np.asfortranarray(CELLS)), wanted)
    assert np.array_equal(hashes(CELLS[::3]), wanted[::3])


def test_other_cells_and_other_seeds_have_others():
    found = hashes(CELLS)
    assert len(np.unique(found)) == len(CELLS)
    assert not np.any(found == hashes(CELLS, 4))
    turned = hashes(CELLS[:, [1, 0, 2]])
    assert np.all((found == turned) == (CELLS[:, 0] == CELLS[:, 1]))


def test_every_bit_is_as_often_set_as_not():
    bits = np.unpackbits(mixed(np.arange(4096, dtype=np.uint64)).view(np.uint8)).reshape(-1, 64)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 0.05)
