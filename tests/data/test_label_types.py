"""The same labels in another type, and what is no label of that type."""

import datetime as dt

import pandas as pd
import pyarrow as pa
import pytest

import tallyfold as tf
from tallyfold.data.axis import Axis
from tallyfold.data.labels import label_from_text, labels_in_type, with_types_of
from tallyfold.errors import LabelError


@pytest.mark.parametrize(
    ("labels", "text", "wanted"),
    [
        ([2003, 2010], "2010", 2010),
        ([-1, 5], "-1", -1),
        (["a=b", "-x"], "-x", "-x"),
        ([dt.date(2024, 1, 3)], "2024-01-03", dt.date(2024, 1, 3)),
        ([dt.datetime(2024, 1, 3, 10)], "2024-01-03 10:00:00", dt.datetime(2024, 1, 3, 10)),
        ([0.5, 2.0], "0.50", 0.5),
        ([True, False], "true", True),
    ],
)
def test_text_becomes_a_label_of_the_axis(labels, text, wanted):
    axis = Axis("x", labels)
    found = label_from_text(axis, text)
    assert found == wanted
    assert axis.label(axis.positions([found])[0]) == wanted


@pytest.mark.parametrize(
    ("labels", "text"),
    [([2003], "MMIII"), ([7], "007"), ([7], "7.0"), ([dt.date(2024, 1, 3)], "2024-01-33")],
)
def test_text_that_is_no_such_label_is_refused(labels, text):
    with pytest.raises(LabelError, match="which is none"):
        label_from_text(Axis("x", labels), text)


def test_texts_that_do_not_fit_are_missing():
    texts = pa.array(["3", "x", "04", "5", "x"], pa.large_string())
    assert labels_in_type(texts, pa.int64()).to_pylist() == [3, None, None, 5, None]
    assert labels_in_type(pa.array([3, 5]), pa.large_string()).to_pylist() == ["3", "5"]


def test_an_axis_that_does_not_fit_stays_as_it_is():
    frame = pd.DataFrame({"who": ["a", "b", "c"], "year": ["2003", "2004", "?"], "n": [1, 2, 3]})
    tensor = tf.CountTensor.from_frame(frame, ["who", "year"], "n")
    assert with_types_of(tensor, [Axis("year", [2003])]) == tensor
    fine = tensor.sel(year=["2003", "2004"])
    found = with_types_of(fine, [Axis("year", [2003])])
    assert found.axis("year").labels.to_pylist() == [2003, 2004]
    assert (found.counts == fine.counts).all()
    same = pd.DataFrame({"who": ["a", "b"], "x": ["0.5", "0.50"], "n": [1, 2]})
    twice = tf.CountTensor.from_frame(same, ["who", "x"], "n")
    assert with_types_of(twice, [Axis("x", [0.5])]) == twice  # both would be one label
