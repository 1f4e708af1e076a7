"""Whole numbers in narrow columns: nothing is lost, whatever the numbers are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold.posterior import whole_sums
from tallyfold.posterior.whole_sums import UNIT, WholeSums

NUMBERS = st.one_of(
    st.integers(-3, 300), st.integers(-(2**33), 2**33), st.integers(-200, 70_000).map(UNIT.__mul__)
)
PARTS = st.lists(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=6), min_size=1, max_size=4)


def arrays(parts):
    return [np.array(part, dtype=np.int64).reshape(-1, 2) for part in parts]


@given(PARTS)
def test_numbers_come_back_as_they_were(parts):
    parts = arrays(parts)
    whole = np.concatenate(parts)
    sums = WholeSums.of(iter(parts))
    assert len(sums) == len(whole)
    assert np.array_equal(sums.dense(), whole)
    assert np.array_equal(sums.at(np.arange(len(whole))[::-1]), whole[::-1])
    doubled = sums.beside(WholeSums.of([whole[:, :1]]))
    assert np.array_equal(doubled.dense(), np.hstack([whole, whole[:, :1]]))


@given(PARTS, st.data())
def test_numbers_are_added_to_old_rows_and_to_new_ones(parts, data):
    whole = np.concatenate(arrays(parts))
    before = np.sort(np.array(data.draw(st.lists(st.integers(0, len(whole)), max_size=3)), int))
    longer = np.insert(whole, before, 0, axis=0)
    rows = st.lists(st.integers(0, max(len(longer) - 1, 0)), unique=True, max_size=len(longer))
    row = np.array(data.draw(rows), int)
    added = np.array([data.draw(st.tuples(NUMBERS, NUMBERS)) for _ in row], np.int64).reshape(-1, 2)
    found = WholeSums.of([whole]).added(before, row, added)
    longer[row] += added
    assert np.array_equal(found.dense(), longer)


def test_few_bytes_are_used_and_blocks_are_all_rows(monkeypatch):
    rows = np.array([[1, 7 * UNIT, -40_000], [2, 0, 9]])
    sums = WholeSums.of([rows])
    assert [column.dtype for column in sums.columns] == [np.uint8, np.uint8, np.int32]
    assert sums.dense().dtype == np.int32
    monkeypatch.setattr(whole_sums, "ROWS_AT_ONCE", 1)
    assert [block.tolist() for block in sums.blocks()] == [[row] for row in rows.tolist()]
    assert np.array_equal(sums.dense(), rows)


@pytest.mark.parametrize("broken", [np.zeros((2, 2)), np.zeros(3, int)])
def test_what_is_no_table_of_whole_numbers_is_refused(broken):
    with pytest.raises(ValueError, match="sums that cannot be"):
        WholeSums.of([broken])
