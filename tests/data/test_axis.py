import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tallyfold import Axis
from tallyfold.data import axis as axis_module
from tallyfold.errors import LabelError, ShapeError


def test_positions_and_labels_are_inverse():
    axis = Axis("word", ["b", "a", "ç"])
    assert axis.positions(["ç", "b"]).tolist() == [2, 0]
    assert [axis.label(position) for position in range(3)] == ["b", "a", "ç"]
    assert len(axis) == 3


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["a", "b"], pa.large_string()),
        (np.array(["a", "b"]), pa.large_string()),
        (pd.Series(["a", "b"]), pa.large_string()),
        (pd.Categorical(["a", "b"]), pa.large_string()),
        (pa.array(["a", "b"], pa.string_view()), pa.large_string()),
        (pa.chunked_array([["a"], ["b"]]), pa.large_string()),
        (range(2), pa.int64()),
        (np.array([1, 2], np.uint8), pa.uint8()),
        ([1.5, 2.5], pa.float64()),
        ([dt.date(2020, 1, 1), dt.date(2021, 1, 1)], pa.date32()),
        (pd.date_range("2020", periods=2, unit="us"), pa.timestamp("us")),
        ([True, False], pa.bool_()),
    ],
)
def test_labels_of_many_kinds(labels, kind):
    axis = Axis("x", labels)
    assert axis.labels.type == kind
    assert axis.positions(axis.labels.to_pylist()).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "a", "b"], r"distinct labels; got 'a' more than once"),
        (["a", None], r"must not be missing; got 1 missing, at position 1"),
        ([1.0, float("nan")], r"must not be missing; got 1 missing, at position 1"),
        (["a", 1], r"must all be of one type"),
        ([b"a"], r"got values of type binary"),
        ([[1], [2]], r"got values of type list"),
    ],
)
def test_unusable_labels(labels, message):
    with pytest.raises(LabelError, match=message):
        Axis("x", labels)


def test_unknown_labels_are_named_with_a_suggestion():
    axis = Axis("author", ["Hinton", "Bengio", "LeCun"])
    with pytest.raises(LabelError, match=r"no label 'Hintin' \(2 of 3 .*Did you mean 'Hinton'\?"):
        axis.positions(["Bengio", "Hintin", "Hintin"])
    with pytest.raises(LabelError, match=r"has 3 labels such as 'Hinton', 'Bengio', 'LeCun'"):
        axis.positions(["zzz"])
    found, known = axis.find(["zzz", "LeCun"])
    assert found.tolist() == [-1, 2]
    assert known.tolist() == [False, True]


def test_labels_of_the_wrong_type_are_refused_not_cast():
    with pytest.raises(LabelError, match="labels of type int64.*got '2003'"):
        Axis("year", [2003, 2004]).positions(["2003"])
    with pytest.raises(LabelError, match=r"labels of type large_string.*got 2003"):
        Axis("year", ["2003"]).positions([2003])
    with pytest.raises(LabelError, match=r"Put it in a list: \['2003'\]"):
        Axis("year", ["2003"]).positions("2003")
    assert Axis("year", np.array([2003], np.int16)).positions([2003]).tolist() == [0]


def test_equality_takes_in_name_order_and_type():
    assert Axis("x", [1, 2]) == Axis("x", [1, 2])
    assert Axis("x", [1, 2]) != Axis("y", [1, 2])
    assert Axis("x", [1, 2]) != Axis("x", [2, 1])
    assert Axis("x", [1, 2]) != Axis("x", [1.0, 2.0])
    assert hash(Axis("x", [1, 2])) == hash(Axis("x", [1, 2]))


def test_too_many_labels_and_bad_names(monkeypatch):
    monkeypatch.setattr(axis_module, "MAX_LABELS", 2)
    with pytest.raises(ShapeError, match="axis 'x' has 3 labels; positions are 32-bit"):
        Axis("x", [1, 2, 3])
    with pytest.raises(ShapeError, match="non-empty text; got ''"):
        Axis("", [1])


def test_a_time_of_day_is_not_cut_off_to_find_a_date() -> None:
    axis = Axis("day", [dt.date(2024, 1, 3), dt.date(2024, 1, 4)])
    assert axis.positions([dt.datetime(2024, 1, 4)]).tolist() == [1]
    with pytest.raises(LabelError, match="bin"):
        axis.positions([dt.datetime(2024, 1, 4, 23, 0)])
