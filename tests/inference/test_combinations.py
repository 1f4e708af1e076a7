import numpy as np
import pytest

from tallyfold.inference.cells.combinations import (
    Combinations,
    _estimated_number,
    candidate_axes,
    useful_combinations,
)
from tallyfold.inference.distributed.process_group import ALONE

SHAPE = (4, 3, 2)
CELLS = np.array([[0, 0, 0], [0, 0, 1], [1, 2, 0], [3, 1, 1], [3, 1, 0]])
HELD = np.array([[0, 0, 1], [3, 1, 1], [2, 2, 0], [1, 0, 0]])


def test_cells_find_their_combination_and_held_out_ones_those_they_share():
    found = Combinations.of((0, 1), SHAPE, CELLS, HELD)
    assert found.sizes == (4, 3)
    assert found.keys_P.tolist() == [0, 5, 10]  # 3 * first + second
    assert found.row_N.tolist() == [0, 0, 1, 2, 2]
    assert found.held_row_V.tolist() == [0, 2, 3, 3]  # 3: never seen
    assert found.n_rows == 4
    assert found.known_share == 0.5


def test_only_cells_that_share_a_combination_are_used_and_all_if_most_do():
    found = Combinations.of((0, 1), SHAPE, CELLS, HELD[:1])
    assert found.used_N.tolist() == [0, 1]
    assert Combinations.of((0, 1), SHAPE, CELLS, CELLS).used_N == slice(None)


def test_the_derived_axis_starts_with_every_multiplier_at_one():
    derived = Combinations.of((0, 1), SHAPE, CELLS, HELD).derived_axis()
    assert (derived.axes, derived.sizes) == ((0, 1), (4, 3))
    assert derived.keys_P.tolist() == [0, 5, 10]
    assert derived.table.shape_DK.shape == (4, 1)
    assert derived.idle
    assert derived.rows_of(HELD).tolist() == [0, 2, 3, 3]


def test_no_held_out_cell_shares_any():
    found = Combinations.of((0, 1), SHAPE, CELLS, HELD[2:])
    assert found.known_share == 0
    assert found.used_N.tolist() == []


@pytest.mark.parametrize(
    ("n_axes", "expected"),
    [
        (1, []),
        (2, []),
        (3, [(0, 1), (0, 2), (1, 2)]),
        (4, [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
    ],
)
def test_pairs_are_worth_trying_if_there_is_a_third_axis(n_axes, expected):
    found = candidate_axes(n_axes, (5,) * n_axes)
    assert found[: len(expected)] == expected
    assert len(found) == len(expected) + (4 if n_axes == 4 else 0)  # and all axes but one


def test_five_axes_have_pairs_and_all_but_one():
    assert sorted({len(axes) for axes in candidate_axes(5, (5,) * 5)}) == [2, 4]


def test_sets_of_axes_with_too_many_combinations_to_number_are_left_out():
    huge = 2**31
    assert candidate_axes(3, (huge, huge, 5)) == [(0, 2), (1, 2)]
    assert candidate_axes(4, (huge, huge - 1, 3, 2))[-1] == (1, 2, 3)
    assert (0, 1, 2) not in candidate_axes(4, (huge, huge - 1, 3, 2))


def test_sets_of_axes_that_no_held_out_cell_shares_are_left_out():
    rng = np.random.default_rng(0)
    cells = np.column_stack([np.arange(1000), rng.integers(0, 3, 1000), rng.integers(0, 3, 1000)])
    held = np.column_stack([np.arange(1000, 1200), *rng.integers(0, 3, (2, 200))])
    found = useful_combinations([(0, 1), (1, 2)], (1200, 3, 3), cells, held)
    assert [each.axes for each in found] == [(1, 2)]


def test_sets_with_too_many_combinations_are_left_out_unless_named(monkeypatch):
    monkeypatch.setattr("tallyfold.inference.cells.combinations.MOST_COMBINATIONS", 1000)
    rng = np.random.default_rng(0)
    cells = np.column_stack(
        [rng.integers(300, size=9000) for _ in range(2)] + [rng.integers(3, size=9000)]
    )
    cells = np.asfortranarray(np.unique(cells.astype(np.int32), axis=0))
    held = cells[::9]
    sets = [(0, 1), (0, 2)]  # about 8,000 combinations, and 900
    shape = (300, 300, 3)
    found = useful_combinations(sets, shape, cells, held)
    assert [each.axes for each in found] == [(0, 2)]
    named = useful_combinations(sets, shape, cells, held, least_known=0.0)
    assert [each.axes for each in named] == sets


def test_the_number_of_combinations_is_estimated_well(monkeypatch):
    monkeypatch.setattr("tallyfold.inference.cells.combinations.MOST_COMBINATIONS", 1000)
    rng = np.random.default_rng(0)
    cells = np.column_stack([(5000 * rng.random(200_000) ** 2).astype(np.int32) for _ in range(2)])
    true = len(np.unique(cells, axis=0))
    assert _estimated_number((0, 1), (5000, 5000), cells, ALONE) == pytest.approx(true, rel=0.1)
