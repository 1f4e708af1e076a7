"""Rows that lack a label or a count: refused, left out or labelled, whichever way they come in."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.ways import (
    in_all,
)

import tallyfold as tf
from tallyfold.data.formats import grouping
from tallyfold.data.formats.files import FORMATS
from tallyfold.data.missing import MISSING_LABEL
from tallyfold.errors import CountError, DataError, LabelError, ParameterError

AXES = ["who", "day", "place"]
MONTHS = {"bins": {"day": "month"}}


def frame(**columns):
    known = {
        "who": ["ann", None, "bob", "ann", "ann"],
        "day": ["2024-01-03", "2024-02-01", None, "2024-03-01", "2024-01-09"],
        "place": ["x", "y", None, "x", "x"],
        "n": [1, 2, 3, None, 5],
    }
    return pd.DataFrame(known | columns)


@in_all
def test_all_that_is_wrong_is_said_at_once(way, tmp_path):
    table = frame(n=[1, 2, -3, 4.5, 5], day=["2024-01-03", "2024-02-01", None, "soon", "2024-01"])
    with pytest.raises(DataError) as refused:
        way(table, tmp_path, axes=AXES, value="n", **MONTHS)
    told = str(refused.value)
    assert type(refused.value) is DataError  # labels and counts
    wanted = [
        "the table has 6 problems",
        "labels of axis 'who' must not be missing",
        "labels of axis 'day' must not be missing",
        "labels of axis 'place' must not be missing",
        "column 'day' must hold dates",
        "soon",
        "4.5",
        "-3",
    ]
    assert [text for text in wanted if text not in told] == []


@in_all
def test_one_kind_of_problem_keeps_its_type(way, tmp_path):
    with pytest.raises(LabelError, match="the table has 2 problems"):
        way(frame(n=1), tmp_path, axes=["who", "place"], value="n")
    with pytest.raises(CountError, match="missing='drop'"):
        way(frame(who="ann", place="x"), tmp_path, axes=["who", "place"], value="n")


@in_all
def test_rows_are_left_out_and_counted(way, tmp_path):
    tensor = way(frame(), tmp_path, axes=AXES, value="n", missing="drop", **MONTHS)
    kept = frame().dropna()
    assert tensor == tf.CountTensor.from_frame(kept, AXES, "n", **MONTHS)
    (record,) = tensor.dropped
    assert str(record) == "missing in who (1), day (1), place (1), n (1): dropped 3 rows"
    assert record.rows == 3


@in_all
def test_what_is_left_out_may_be_wrong_in_other_columns(way, tmp_path):
    table = frame(
        day=["2024-01-03", "soon", None, "2024-03-01", "2024-01-09"], n=[1, -2, 3.5, 4, 5]
    )
    tensor = way(table, tmp_path, axes=AXES, value="n", missing="drop", **MONTHS)
    assert tensor.total == 10
    table["n"] = [1, -2, 3.5, -4, 5]
    with pytest.raises(CountError, match=r"(row|line) [345]: -4"):
        way(table, tmp_path, axes=AXES, value="n", missing="drop", **MONTHS)


@in_all
def test_no_row_is_left(way, tmp_path):
    with pytest.raises(DataError, match=r"no row is left \(missing in who \(2\)"):
        way(
            pd.DataFrame({"who": pd.Series([None, None], dtype="string"), "place": ["x", "y"]}),
            tmp_path,
            axes=["who", "place"],
            missing="drop",
        )


@in_all
def test_missing_labels_get_one(way, tmp_path):
    tensor = way(frame(n=1), tmp_path, axes=AXES, value="n", missing="label", **MONTHS)
    assert not tensor.dropped
    assert tensor.axis("who").labels.to_pylist() == ["ann", "bob", MISSING_LABEL]
    assert tensor.axis("day").labels.to_pylist() == ["2024-01", "2024-02", "2024-03", MISSING_LABEL]
    assert tensor.sel(who="bob").to_frame().values.tolist() == [[MISSING_LABEL, MISSING_LABEL, 1]]
    assert tensor.total == 5


@in_all
def test_numbers_become_text_in_their_order(way, tmp_path):
    years = pd.DataFrame({"who": list("abcd"), "year": pd.array([10, 9, None, 9], "Int64")})
    tensor = way(years, tmp_path, axes=["who", "year"], missing="label")
    assert tensor.axis("year").labels.to_pylist() == ["9", "10", MISSING_LABEL]
    assert tensor.indices[:, 1].tolist() == [1, 0, 2, 0]


@in_all
def test_a_clash_with_a_label_is_refused(way, tmp_path):
    table = pd.DataFrame({"who": ["ann", MISSING_LABEL, None], "place": ["x", "y", "x"]})
    with pytest.raises(LabelError, match=r"axis 'who' has a label '\(missing\)'.*missing='drop'"):
        way(table, tmp_path, axes=["who", "place"], missing="label")
    assert way(table, tmp_path, axes=["who", "place"], missing="drop").total == 2


@in_all
def test_counts_cannot_be_labelled(way, tmp_path):
    with pytest.raises(CountError, match="missing='drop'"):
        way(frame(), tmp_path, axes=AXES, value="n", missing="label", **MONTHS)


@in_all
def test_nothing_missing_is_nothing_changed(way, tmp_path):
    table = frame().dropna()
    plain = way(table, tmp_path, axes=AXES, value="n", **MONTHS)
    for missing in ("drop", "label"):
        same = way(table, tmp_path, axes=AXES, value="n", missing=missing, **MONTHS)
        assert (same, same.dropped) == (plain, ())


@pytest.mark.parametrize("missing", ["drop", "label"])
def test_nan_is_missing_among_numbers(missing, tmp_path):
    table = pl.DataFrame({"a": [1.5, float("nan"), None], "b": [1, 2, 3]})
    table.write_parquet(tmp_path / "x.parquet")
    framed = tf.CountTensor.from_frame(table, ["a", "b"], missing=missing)
    assert framed == tf.read_counts(tmp_path / "x.parquet", ["a", "b"], missing=missing)
    labels = [1.5] if missing == "drop" else ["1.5", MISSING_LABEL]
    assert framed.axis("a").labels.to_pylist() == labels


def test_categories_keep_their_order():
    kind = pd.CategoricalDtype(["low", "high"], ordered=True)
    table = pd.DataFrame({"a": pd.Series(["high", None, "low"], dtype=kind), "b": [1, 2, 3]})
    tensor = tf.CountTensor.from_frame(table, ["a", "b"], missing="label")
    assert tensor.axis("a").labels.to_pylist() == ["low", "high", MISSING_LABEL]
    assert tensor.indices[:, 0].tolist() == [0, 1, 2]


def test_faults_of_several_files_are_said_together(tmp_path):
    for name, rows in {"a": "ann,1,z\n", "b": ",1,z\nann,x,z\n", "c": ",2,z\n,3,z\n"}.items():
        (tmp_path / f"{name}.csv").write_text(f"who,n,what\n{rows}")
    with pytest.raises(DataError) as refused:
        tf.read_counts(tmp_path, ["who", "what"], "n")
    told = str(refused.value)
    assert "b.csv' has 1 row that does not comply, line 2: nothing; 1 other file has 2 such" in told
    assert "line 3: x. Write plain numbers" in told


def test_lines_are_looked_for_no_further_than_needed(tmp_path):
    file = tmp_path / "x.csv"
    file.write_bytes(b"who,what\n,x\n" + b"a,x\n" * 100_000 + b"\xff")
    assert FORMATS[".csv"].places(str(file), [1]) == ["line 2"]


def test_grouping_in_passes_drops_the_same(tmp_path, monkeypatch):
    frame().to_csv(tmp_path / "x.csv", index=False)
    how = {"axes": AXES, "value": "n", "missing": "drop", **MONTHS}
    whole = tf.read_counts(tmp_path / "x.csv", **how)
    begun = []

    def in_passes(connection, made, grouped, groups, passes, *, last):
        begun.append(passes)
        return passes > 1 and real(connection, made, grouped, groups, passes, last=last)

    real = grouping._group_in
    monkeypatch.setattr(grouping, "_group_in", in_passes)
    again = tf.read_counts(tmp_path / "x.csv", **how)
    assert begun == [1, grouping.PASSES_MORE]
    assert (again, again.dropped) == (whole, whole.dropped)


def test_whole_files_have_nothing_missing(tmp_path):
    tensor = tf.CountTensor.from_frame(frame().dropna(), ["who", "place"], "n")
    for name in ("x.npz", "x.csv"):
        tf.write_counts(tensor, tmp_path / name)
        with pytest.raises(ParameterError, match="`missing` is for tables whose `axes` are named"):
            tf.read_counts(tmp_path / name, missing="drop")
    with pytest.raises(ParameterError, match="'drop' or 'label'; got 'skip'"):
        tf.read_counts(tmp_path / "x.csv", ["who", "place"], "count", missing="skip")


PAPERS = pd.DataFrame(
    {
        "text": ["one two two", "three one", None, "one", "two"],
        "author": [["ann", "bob"], ["ann", None], ["ann"], [], ["cem"]],
        "year": pd.array([2001, 2002, 2003, 2004, None], "Int64"),
    }
)


def words(papers, **how):
    return tf.CountTensor.from_documents(
        papers, "text", ["author", "year"], explode="author", **how
    )


def test_documents_that_lack_something():
    with pytest.raises(DataError, match="the table has 3 problems") as refused:
        words(PAPERS)
    for told in ("column 'text' must hold text", "rows with no label, at row 3", "axis 'year'"):
        assert told in str(refused.value)
    tensor = words(PAPERS, missing="drop")
    assert [str(record) for record in tensor.dropped] == [
        "missing in author (1), year (1), text (1): dropped 3 documents",
        "missing inside lists: dropped 1 author label",
    ]
    whole = PAPERS.iloc[:2].assign(author=[["ann", "bob"], ["ann"]])
    assert tensor == words(whole)


def test_documents_get_labels():
    with pytest.raises(DataError, match="missing='drop'"):
        words(PAPERS, missing="label")
    tensor = words(PAPERS.dropna(subset="text"), missing="label")
    assert tensor.axis("author").labels.to_pylist() == ["ann", "bob", "cem", MISSING_LABEL]
    assert tensor.axis("year").labels.to_pylist() == ["2001", "2002", "2004", MISSING_LABEL]
    assert tensor.marginal("author").tolist() == [5, 3, 1, 3]
    with pytest.raises(ParameterError, match="`missing` must be"):
        words(PAPERS, missing="skip")


LABELS = st.sampled_from(["a", "b", "c", None])
ROWS = st.lists(st.tuples(LABELS, LABELS, st.integers(0, 3) | st.none()), min_size=1, max_size=20)


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_dropping_is_dropping_first(rows):
    table = pd.DataFrame(rows, columns=["a", "b", "n"]).astype({"n": "Int64"})
    table["a"], table["b"] = table["a"].astype("string"), table["b"].astype("string")
    whole = table.dropna()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tf.errors.DroppedWarning)
        if not len(whole) or not np.any(whole["n"] > 0):
            with pytest.raises(DataError):
                tf.CountTensor.from_frame(table, ["a", "b"], "n", missing="drop")
            return
        found = tf.CountTensor.from_frame(table, ["a", "b"], "n", missing="drop")
        assert found == tf.CountTensor.from_frame(whole, ["a", "b"], "n")
    assert sum(record.rows for record in found.dropped) == len(table) - len(whole)
