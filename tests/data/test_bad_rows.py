"""Rows with times or counts that are none: refused or left out, whichever way they come in."""

import duckdb
import pandas as pd
import pyarrow as pa
import pytest
from tests.data.ways import in_all

import tallyfold as tf
from tallyfold.data.formats import grouping
from tallyfold.errors import DataError, LabelError, ParameterError

AXES = ["who", "day"]
HOW = {"axes": AXES, "value": "n", "bins": {"day": "month"}}


def table(**columns):
    known = {
        "who": ["ann", "ann", "bob", "bob", "eve", "eve"],
        "day": ["2024-01-03", "2024-13-45", "2024-02-01", "never", "2024-01-09", "2024-01-05"],
        "n": [1.0, 2.0, -3.0, 4.0, 0.5, 6.0],
    }
    return pd.DataFrame(known | columns)


@in_all
def test_bad_rows_are_left_out_and_counted(way, tmp_path):
    tensor = way(table(), tmp_path, bad="drop", **HOW)
    assert tensor == tf.CountTensor.from_frame(table().iloc[[0, 5]], **HOW)
    assert [str(record) for record in tensor.dropped] == [
        "bad times or counts in day (2), n (2): dropped 4 rows"
    ]


@in_all
def test_bad_rows_are_refused_in_lines_that_name_the_way_out(way, tmp_path):
    with pytest.raises(DataError) as refused:
        way(table(), tmp_path, **HOW)
    first, *lines = str(refused.value).splitlines()
    assert first == "the table has 3 problems:"
    assert [line[:6] for line in lines] == ["  (1) ", "  (2) ", "  (3) "]
    assert all("bad='drop'" in line for line in lines)


@in_all
def test_what_lacks_something_is_missing_not_bad(way, tmp_path):
    rows = table(who=["ann", "ann", None, "bob", "eve", "eve"], n=[1, 2, 3, None, 0.5, 6])
    rows.loc[3, "day"] = "2024-02-02"
    with pytest.raises(DataError, match="must not be missing") as refused:
        way(rows, tmp_path, bad="drop", **HOW)
    assert "2 problems" in str(refused.value)
    assert "0.5" not in str(refused.value)
    tensor = way(rows, tmp_path, bad="drop", missing="drop", **HOW)
    assert tensor.total == 7
    assert [str(record) for record in tensor.dropped] == [
        "missing in who (1), n (1): dropped 2 rows",
        "bad times or counts in day (1), n (1): dropped 2 rows",
    ]


@in_all
def test_no_row_is_left(way, tmp_path):
    with pytest.raises(DataError, match=r"no row is left \(bad times or counts in n \(6\)"):
        way(table(n=-1.0), tmp_path, bad="drop", axes=AXES, value="n")


@in_all
def test_the_last_row_is_the_last_good_one(way, tmp_path):
    rows = pd.DataFrame({"who": "ann", "film": "Heat", "n": [3.0, 4.0, -1.0]})
    given = {"axes": ["who", "film"], "value": "n", "bad": "drop", "repeated": "last"}
    assert way(rows, tmp_path, **given).counts.tolist() == [4]


@in_all
def test_good_rows_are_all_kept(way, tmp_path):
    good = table().iloc[[0, 5]]
    tensor = way(good, tmp_path, bad="drop", **HOW)
    assert tensor.dropped == ()
    assert tensor == way(good, tmp_path, **HOW)


@in_all
def test_a_row_that_lacks_something_and_holds_something_bad(way, tmp_path):
    """It is missing where such rows are left out, and else bad."""
    rows = table(who=["ann", None, "bob", "bob", "eve", "eve"])  # row 1 has no day either
    both = way(rows, tmp_path, bad="drop", missing="drop", **HOW)
    assert [str(record) for record in both.dropped] == [
        "missing in who (1): dropped 1 row",
        "bad times or counts in day (1), n (2): dropped 3 rows",
    ]
    one = way(rows, tmp_path, bad="drop", **HOW)
    assert str(one.dropped[0]) == "bad times or counts in day (2), n (2): dropped 4 rows"
    assert one == both


def test_objects_that_are_no_numbers_are_bad_counts():
    rows = table(n=[1, 2, "three", True, None, 6])
    given = {"axes": AXES, "value": "n", "missing": "drop"}
    with pytest.raises(DataError, match="bad='drop'"):
        tf.CountTensor.from_frame(rows, **given)
    tensor = tf.CountTensor.from_frame(rows, bad="drop", **given)
    assert tensor.total == 9
    assert [record.rows for record in tensor.dropped] == [1, 2]


@in_all
def test_halves_are_to_be_doubled(way, tmp_path):
    with pytest.raises(DataError, match="Double the column") as refused:
        way(table(n=[0.5, 2, 4.5, 3, 1, 1]), tmp_path, axes=AXES, value="n")
    assert "scale=(1, 10)" in str(refused.value)
    with pytest.raises(DataError, match="choose a unit") as refused:
        way(table(n=[0.5, 2, 4.25, 3, 1, 1]), tmp_path, axes=AXES, value="n")
    assert "Double" not in str(refused.value)


def test_text_that_spells_no_number(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("who,day,n\nann,2024-01-01,5\nann,2024-01-02,n/a\nbob,2024-01-01,1e400\n")
    tensor = tf.read_counts(file, bad="drop", **HOW)
    assert tensor.counts.tolist() == [5]
    assert tensor.dropped[0].rows == 2


def test_numbers_past_all_types_of_arrow():
    """PostgreSQL's numeric comes as text."""
    from tallyfold.data.bad_rows import BadRows
    from tallyfold.data.query.reading import _fine_rows
    from tallyfold.data.request import Request

    field = pa.field("n", pa.string(), metadata={"tallyfold:type": "numeric"})
    schema = pa.schema([pa.field("who", pa.string()), pa.field("day", pa.string()), field])
    columns = [["a"] * 4, ["2024-01-01"] * 4, ["1", "2.5", "NaN", "1e30"]]
    batch = pa.record_batch([pa.array(c) for c in columns], schema=schema)
    request = Request(AXES, "n", {"day": tf.AxisOrder.of_unit("month")}, bad="drop")
    assert _fine_rows(batch, request, BadRows()).tolist() == [True, False, False, False]


def test_counted_over_batches():
    with duckdb.connect() as connection:
        query = "SELECT i % 3 AS a, i % 5 AS b, CASE WHEN i % 10 = 3 THEN -1 ELSE 1 END AS n "
        query += "FROM range(300000) AS t(i)"
        tensor = tf.read_query(connection, query, ["a", "b"], "n", bad="drop")
    assert tensor.total == 270_000
    assert str(tensor.dropped[0]) == "bad times or counts in n (30,000): dropped 30,000 rows"


def test_grouping_in_passes_drops_the_same(tmp_path, monkeypatch):
    table().to_csv(tmp_path / "x.csv", index=False)
    whole = tf.read_counts(tmp_path / "x.csv", bad="drop", **HOW)
    group_in = grouping._group_in

    def in_more(connection, made, grouped, groups, passes, *, last):
        return passes > 1 and group_in(connection, made, grouped, groups, passes, last=last)

    monkeypatch.setattr(grouping, "_group_in", in_more)
    some = tf.read_counts(tmp_path / "x.csv", bad="drop", **HOW)
    assert some == whole
    assert some.dropped == whole.dropped


def test_documents_with_a_time_that_is_none():
    papers = pd.DataFrame(
        {"text": ["a word", "two words"], "author": ["ann", "bob"], "day": ["2024-01-01", "soon"]}
    )
    given = {"axes": ["author", "day"], "bins": {"day": "month"}}
    with pytest.raises(LabelError, match="bad='drop'"):
        tf.CountTensor.from_documents(papers, "text", **given)
    tensor = tf.CountTensor.from_documents(papers, "text", **given, bad="drop")
    assert tensor.axis("author").labels.to_pylist() == ["ann"]
    assert str(tensor.dropped[0]) == "bad times or counts in day (1): dropped 1 document"


def test_it_is_for_tables_and_one_of_two(tmp_path):
    with pytest.raises(ParameterError, match="`bad` must be 'error' or 'drop'; got 'skip'"):
        tf.CountTensor.from_frame(table(), bad="skip", **HOW)
    tensor = tf.simulate((4, 3), 1, density=0.5).tensor
    tf.write_counts(tensor, tmp_path / "x.npz")
    with pytest.raises(ParameterError, match="`bad` is for tables whose `axes` are named"):
        tf.read_counts(tmp_path / "x.npz", bad="drop")


@in_all
def test_labels_of_other_bins_are_refused_not_left_out(way, tmp_path):
    frame = table(day=["2024-W07", "2024-05-01", "never", *["2024-01-05"] * 3])
    with pytest.raises(LabelError, match="labels of bins by week"):
        way(frame, tmp_path, bad="drop", **HOW)
