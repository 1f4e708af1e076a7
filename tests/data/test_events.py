import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold import CountTensor
from tallyfold.errors import (
    CountError,
    DataError,
    DroppedWarning,
    LabelError,
    ParameterError,
    ShapeError,
)

ROWS = {"who": ["bob", "ann", "bob", "bob"], "what": ["mail", "call", "mail", "call"]}
rows = st.lists(
    st.tuples(st.sampled_from("abcde"), st.integers(-3, 3), st.integers(0, 9)), min_size=1
)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype("category"),
        pd.DataFrame(ROWS, index=[7, 7, 8, 9]),
        pl.DataFrame(ROWS),
        pl.LazyFrame(ROWS),
        pl.DataFrame(ROWS).with_columns(pl.all().cast(pl.Categorical)),
        pa.table(ROWS),
        pa.table({k: pa.array(v).dictionary_encode() for k, v in ROWS.items()}),
        pa.concat_tables([pa.table(ROWS).slice(0, 2), pa.table(ROWS).slice(2)]),
    ],
    ids=lambda frame: type(frame).__module__.split(".")[0],
)
def test_every_kind_of_frame_counts_rows_alike(frame):
    tensor = CountTensor.from_frame(frame, axes=["who", "what"])
    assert tensor.axis("who").labels.to_pylist() == ["ann", "bob"]
    assert tensor.to_dense().tolist() == [[1, 0], [1, 2]]


@given(rows=rows)
def test_counts_agree_with_a_plain_dictionary(rows):
    frame = pd.DataFrame(rows, columns=["a", "b", "n"])
    total: dict[tuple[str, int], int] = {}
    for a, b, n in rows:
        total[a, b] = total.get((a, b), 0) + n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedWarning)
        if not any(total.values()):
            with pytest.raises(DataError, match="every count is zero"):
                CountTensor.from_frame(frame, axes=["a", "b"], value="n")
            return
        tensor = CountTensor.from_frame(frame, axes=["a", "b"], value="n")
    found = {(a, b): n for a, b, n in tensor.to_frame().itertuples(index=False)}
    assert found == {cell: n for cell, n in total.items() if n}
    assert tensor.axis("b").labels.to_pylist() == sorted({b for _, b, _ in rows})


@given(rows=rows, seed=st.integers(0, 100))
def test_the_order_of_rows_does_not_matter(rows, seed):
    frame = pd.DataFrame(rows, columns=["a", "b", "n"])
    shuffled = frame.sample(frac=1, random_state=seed)
    axes = ["a", "b", "n"]
    assert CountTensor.from_frame(frame, axes) == CountTensor.from_frame(shuffled, axes)


def test_ordered_categories_keep_their_order():
    days = ["mon", "tue", "wed"]
    frame = pd.DataFrame({"a": ["x", "y"], "day": ["wed", "mon"]})
    ordered = frame.assign(day=pd.Categorical(frame["day"], days, ordered=True))
    tensor = CountTensor.from_frame(ordered, axes=["a", "day"])
    assert tensor.axis("day").labels.to_pylist() == ["mon", "wed"]
    enum = pl.DataFrame(frame).with_columns(pl.col("day").cast(pl.Enum(["wed", "tue", "mon"])))
    tensor = CountTensor.from_frame(enum, axes=["a", "day"])
    assert tensor.axis("day").labels.to_pylist() == ["wed", "mon"]


def test_more_axes_than_one_key_holds():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"a{m}": rng.integers(0, 2**20, 500) for m in range(5)})
    frame = pd.concat([frame, frame[:100]])
    tensor = CountTensor.from_frame(frame, axes=list(frame))
    assert tensor.nnz == 500
    assert sorted(tensor.counts) == [1] * 400 + [2] * 100
    expected = frame.drop_duplicates().sort_values(list(frame)).reset_index(drop=True)
    pd.testing.assert_frame_equal(tensor.to_frame().drop(columns="count"), expected)


def test_repeated_cells_may_be_an_error():
    with pytest.raises(LabelError, match=r"1 rows that repeat a cell, such as \('bob', 'mail'\)"):
        CountTensor.from_frame(pd.DataFrame(ROWS), axes=["who", "what"], repeated="error")
    with pytest.raises(ParameterError, match="'last' or 'max'; got 'median'"):
        CountTensor.from_frame(pd.DataFrame(ROWS), axes=["who", "what"], repeated="median")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, -2, 3, -4], r"'n' must be whole .* 2 below zero, row 1: -2, row 3: -4. A count"),
        ([1, 1.5, 2, 3], r"1 with a fraction, row 1: 1.5"),
        ([1, np.inf, 2, 3], r"1 that are NaN or infinite, row 1: inf"),
        ([1, None, 2, 3], r"row 1|missing"),
        ([2**53 + 2, 1, 1, 1], r"past 2\*\*53 - 1, row 0"),
        (["1", "2", "3", "4"], r"'n' must be numbers; got values such as '1', '2', '3'"),
        ([True, False, True, True], r"must be numbers"),
    ],
)
@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_bad_counts_name_the_rows_and_the_remedy(values, message, kind):
    frame = (
        kind(ROWS | {"n": values})
        if kind is pd.DataFrame
        else kind(ROWS | {"n": values}, strict=False)
    )
    with pytest.raises(CountError, match=message):
        CountTensor.from_frame(frame, axes=["who", "what"], value="n")


def test_whole_floats_and_decimals_are_counts():
    import decimal

    values = [decimal.Decimal("1.00"), decimal.Decimal("2.00"), decimal.Decimal("3"), 4]
    frame = pa.table(
        ROWS | {"n": pa.array(values, pa.decimal128(10, 2)), "f": [1.0, 2.0, 3.0, 4.0]}
    )
    one = CountTensor.from_frame(frame, axes=["who", "what"], value="n")
    assert one == CountTensor.from_frame(frame, axes=["who", "what"], value="f")
    assert one.counts.tolist() == [2, 4, 4]


def test_sums_past_the_exact_range_are_refused():
    frame = pd.DataFrame({"a": [1, 1], "b": [1, 1], "n": [2**53 - 1, 2**53 - 1]})
    with pytest.raises(CountError, match="add up past"):
        CountTensor.from_frame(frame, axes=["a", "b"], value="n")


def test_first_five_bad_rows_and_how_many_more():
    frame = pd.DataFrame({"a": range(9), "b": range(9), "n": [-1] * 9})
    with pytest.raises(CountError, match=r"9 below zero, row 0: -1, .*row 4: -1 and 4 more"):
        CountTensor.from_frame(frame, axes=["a", "b"], value="n")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": ["x", None, "y"], "b": [1, 2, 3]}), "at row 1"),
        (pd.DataFrame({"a": [1.0, np.nan, 2.0], "b": [1, 2, 3]}), "at row 1"),
        (pl.DataFrame({"a": ["x", None, None], "b": [1, 2, 3]}), "2 missing, at row 1, 2"),
        (pd.DataFrame({"a": ["x", 1, 2.5], "b": [1, 2, 3]}), "one type"),
        (pl.DataFrame({"a": [[1], [2], [3]], "b": [1, 2, 3]}), "got values of type"),
    ],
)
def test_bad_labels(frame, message):
    with pytest.raises(LabelError, match=message):
        CountTensor.from_frame(frame, axes=["a", "b"])


def test_bad_calls():
    frame = pd.DataFrame(ROWS | {"count": 1})
    with pytest.raises(ParameterError, match="value='count' .*value=None"):
        CountTensor.from_frame(frame, axes=["who", "what"])
    with pytest.raises(LabelError, match="no column 'when', 'n'; it has 'who', 'what', 'count'"):
        CountTensor.from_frame(frame, axes=["who", "when"], value="n")
    with pytest.raises(LabelError, match="no column 'who', 'what'; it has 0, 1"):
        CountTensor.from_frame(pd.DataFrame([["ann", "tea"]]), axes=["who", "what"])
    with pytest.raises(ShapeError, match="at least two axes; got 1"):
        CountTensor.from_frame(frame, axes=["who"], value=None)
    with pytest.raises(ShapeError, match="different columns"):
        CountTensor.from_frame(frame, axes=["who", "who"], value=None)
    with pytest.raises(ParameterError, match="list of column names"):
        CountTensor.from_frame(frame, axes="who", value=None)
    with pytest.raises(ParameterError, match="both an axis and the counts"):
        CountTensor.from_frame(frame, axes=["who", "count"], value="count")
    with pytest.raises(DataError, match="no rows"):
        CountTensor.from_frame(frame[:0], axes=["who", "what"], value=None)
    with pytest.raises(ParameterError, match="expected a data frame.*got list"):
        CountTensor.from_frame([1, 2], axes=["who", "what"])


def test_zeros_are_dropped_with_a_warning_that_points_at_the_caller():
    frame = pd.DataFrame(ROWS | {"n": [0, 1, 0, 0]})
    with pytest.warns(DroppedWarning, match="2 cells are listed with a count of 0") as caught:
        tensor = CountTensor.from_frame(frame, axes=["who", "what"], value="n")
    assert caught[0].filename == __file__
    assert tensor.nnz == 1
    assert tensor.shape == (2, 2)
    assert tensor.dropped[0].cells == 2


def test_bins_of_bad_columns_and_units():
    frame = pd.DataFrame({"who": ["a", "b"], "when": ["2020-01-01", "soon"], "n": [1, 2]})
    with pytest.raises(LabelError, match="column 'when' must hold dates.*row 1: 'soon'"):
        CountTensor.from_frame(frame, axes=["who", "when"], bins={"when": "month"})
    with pytest.raises(LabelError, match="column 'n' must hold dates"):
        CountTensor.from_frame(frame, axes=["who", "n"], bins={"n": "month"})
    with pytest.raises(ParameterError, match="one of year, quarter, .*got 'decade'"):
        CountTensor.from_frame(frame, axes=["who", "when"], bins={"when": "decade"})
    with pytest.raises(ParameterError, match="'n', which is not among the axes"):
        CountTensor.from_frame(frame, axes=["who", "when"], bins={"n": "month"})


def test_bins_have_iso_labels():
    frame = pd.DataFrame({"who": ["a", "b"], "when": pd.to_datetime(["2021-01-03", "2021-05-04"])})
    expected = {
        "year": ["2021"],
        "quarter": ["2021-Q1", "2021-Q2"],
        "month": ["2021-01", "2021-05"],
        "week": ["2020-W53", "2021-W18"],
        "day": ["2021-01-03", "2021-05-04"],
        "hour": ["2021-01-03T00", "2021-05-04T00"],
    }
    for unit, labels in expected.items():
        tensor = CountTensor.from_frame(frame, axes=["who", "when"], bins={"when": unit})
        assert tensor.axis("when").labels.to_pylist() == labels
