import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError

events = st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=1, max_size=60)


@given(rows=events, least=st.integers(1, 4))
def test_the_core_is_stable_and_nothing_more_could_stay(rows, least):
    frame = pd.DataFrame(rows, columns=["a", "b", "c"])
    whole = CountTensor.from_frame(frame, axes=["a", "b", "c"])
    limits = {"a": least, "b": 2}
    try:
        core = whole.filter(min_nonzeros=limits)
    except DataError:
        core = None
    # the obvious way: rows of the table, dropped until nothing changes
    cells = frame.drop_duplicates()
    while True:
        keep = np.ones(len(cells), bool)
        for name, limit in limits.items():
            keep &= (cells.groupby(name)[name].transform("size") >= limit).to_numpy()
        if keep.all():
            break
        cells = cells[keep]
    if len(cells) == 0:
        assert core is None
        return
    assert core is not None
    expected = cells.sort_values(["a", "b", "c"]).reset_index(drop=True)
    pd.testing.assert_frame_equal(core.to_frame().drop(columns="count"), expected)
    dropped = sum(record.cells for record in core.dropped)
    assert dropped + core.nnz == whole.nnz
    assert sum(record.total for record in core.dropped) + core.total == whole.total


def test_top_keeps_the_largest_totals_and_reports_the_rest():
    frame = pd.DataFrame({"who": list("aabbc"), "word": list("xyxzz"), "n": [5, 1, 5, 2, 2]})
    tensor = CountTensor.from_frame(frame, axes=["who", "word"], value="n", top={"word": 2})
    assert tensor.axis("word").labels.to_pylist() == ["x", "z"]
    (record,) = tensor.dropped
    assert (
        str(record) == "beyond the top 2 of word: dropped 1 cell (total count 1) and 1 word label"
    )
    assert "dropped: see .dropped" in repr(tensor)


def test_top_keeps_the_earlier_of_labels_that_tie():
    frame = pd.DataFrame({"who": ["ann", "bob", "ann"], "word": ["cake", "apple", "bread"]})
    tensor = CountTensor.from_frame(frame, axes=["who", "word"], top={"word": 2})
    assert tensor.axis("word").labels.to_pylist() == ["apple", "bread"]


def test_filters_that_change_nothing_report_nothing():
    frame = pd.DataFrame({"who": list("ab"), "word": list("xy")})
    tensor = CountTensor.from_frame(
        frame, ["who", "word"], top={"word": 5}, min_nonzeros={"who": 1}
    )
    assert tensor.dropped == ()
    assert tensor.nnz == 2


def test_bad_filters():
    tensor = CountTensor.from_frame(pd.DataFrame({"a": [1], "b": [2]}), axes=["a", "b"])
    with pytest.raises(
        ParameterError, match=r"`top` of axis 'a' must be a positive integer; got 0"
    ):
        tensor.filter(top={"a": 0})
    with pytest.raises(ParameterError, match=r"`min_nonzeros` of axis 'a' .* got 1.5"):
        tensor.filter(min_nonzeros={"a": 1.5})
    with pytest.raises(LabelError, match="no axis 'c'"):
        tensor.filter(top={"c": 1})
    with pytest.raises(DataError, match=r"leave no cell: .*Loosen"):
        tensor.filter(min_nonzeros={"a": 2})


def test_compact_takes_away_labels_without_cells():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [1, 2, 3]})
    tensor = CountTensor.from_frame(frame, axes=["a", "b"]).with_cells(np.array([0, 2]))
    assert tensor.shape == (3, 3)
    assert tensor.compact().shape == (2, 2)
    assert tensor.compact().to_frame().equals(tensor.to_frame())
