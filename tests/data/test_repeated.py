"""Rows of the same cell: added up, or one count of them, whichever way they come in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.ways import WAYS

import tallyfold as tf
from tallyfold.data.cells import merge_cells
from tallyfold.errors import RepeatedWarning, RoundedWarning

STARS = pd.DataFrame(
    {
        "who": ["ann", "bob", "ann", "ann", "bob"],
        "film": ["Heat", "Heat", "Heat", "Alien", "Heat"],
        "stars": [5, 4, 3, 2, 1],
    }
)
GIVEN = {"sum": [2, 8, 5], "mean": [2, 4, 3], "last": [2, 3, 1], "max": [2, 5, 4]}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("repeated", GIVEN)
def test_one_count_of_several(way, repeated, tmp_path, recwarn):
    axes = ["who", "film"]
    tensor = way(STARS, tmp_path, axes=axes, value="stars", repeated=repeated)
    assert tensor.counts.tolist() == GIVEN[repeated]
    told = [str(one.message) for one in recwarn if one.category is RoundedWarning]
    if repeated == "mean":  # 5 and 4, 1 are 2.5
        assert len(told) == 1
        assert "the means of 1 of 2 cells with several rows are not whole" in told[0]
    else:
        assert told == []


RATED = pd.DataFrame(
    {"who": np.arange(60) % 30, "film": np.arange(60) // 30, "stars": 5 - (np.arange(60) % 3 == 0)}
)


@pytest.mark.parametrize("way", WAYS)
def test_ratings_that_were_added_up_are_said(way, tmp_path, recwarn):
    how = {"axes": ["who", "film"], "value": "stars"}
    twice = pd.concat([RATED, RATED[:3]])
    assert way(twice, tmp_path, **how).counts.max() == 10
    (told,) = [one for one in recwarn if one.category is RepeatedWarning]
    assert "look like ratings from 4 to 5, and 3 rows repeat a cell" in str(told.message)
    assert Path(told.filename).parent == Path(__file__).parent  # not a line of the library
    for table, asked in [(RATED, {}), (twice, {"repeated": "sum"}), (twice, {"repeated": "last"})]:
        recwarn.clear()
        way(table, tmp_path, **how, **asked)
        assert not [one for one in recwarn if one.category is RepeatedWarning]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("repeated", ["mean", "last", "max"])
def test_without_counts_each_row_has_one(way, repeated, tmp_path):
    tensor = way(STARS, tmp_path, axes=["who", "film"], repeated=repeated)
    assert tensor.counts.tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_a_count_are_not_the_last(way, tmp_path):
    table = pd.DataFrame({"a": ["x"] * 3, "b": ["y"] * 3, "n": [4, 2, None]})
    how = {"axes": ["a", "b"], "value": "n", "missing": "drop"}
    assert way(table, tmp_path, repeated="last", **how).total == 2
    assert way(table, tmp_path, repeated="mean", **how).total == 3


def test_the_last_file_has_the_last_row(tmp_path):
    headers = {"b": "n,who,film", "a": "who,film,n", "c": "n,who,film"}
    rows = {"b": "1,ann,Heat", "a": "ann,Heat,2", "c": "3,ann,Heat"}
    for name, header in headers.items():
        (tmp_path / f"{name}.csv").write_text(f"{header}\n{rows[name]}\n")
    in_order = [tmp_path / f"{name}.csv" for name in "bca"]
    how = {"axes": ["who", "film"], "value": "n", "repeated": "last"}
    assert tf.read_counts(in_order, **how).total == 2
    assert tf.read_counts(tmp_path, **how).total == 3  # sorted by name


def test_the_last_of_many_rows(tmp_path):
    n_rows = 300_000
    table = pd.DataFrame({"a": np.arange(n_rows) % 7, "b": 1, "n": np.arange(n_rows) + 1})
    last = [n_rows - (n_rows - 1 - k) % 7 for k in range(7)]
    for ending in ("parquet", "csv"):
        file = tmp_path / f"x.{ending}"
        getattr(table, f"to_{ending}")(file, index=False)
        found = tf.read_counts(file, ["a", "b"], "n", repeated="last")
        assert found.counts.tolist() == last


def test_lines_of_positions(tmp_path):
    (tmp_path / "x.tns").write_text("1 1 5\n1 2 1\n1 1 2\n")
    counts = {
        how: tf.read_counts(tmp_path / "x.tns", repeated=how).counts.tolist()
        for how in ("sum", "last", "max")
    }
    assert counts == {"sum": [7, 1], "last": [2, 1], "max": [5, 1]}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 9)), min_size=1))
@pytest.mark.filterwarnings("ignore::tallyfold.errors.RoundedWarning")
@pytest.mark.parametrize("shape", [(4, 3), (2**40, 2**40)])
def test_cells_are_merged_as_pandas_does(shape, rows):
    table = pd.DataFrame(rows, columns=["a", "b", "n"])
    codes = [table["a"].to_numpy(), table["b"].to_numpy()]
    groups = table.groupby(["a", "b"], sort=True)["n"]
    wanted = {
        "sum": groups.sum(),
        "max": groups.max(),
        "last": groups.last(),
        "mean": np.floor(groups.mean() + 0.5).astype(int),
    }
    for how, counts in wanted.items():
        cells = merge_cells(codes, table["n"].to_numpy(), shape, how)
        assert cells.counts_N.tolist() == counts.tolist()
