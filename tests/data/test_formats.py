import gzip
import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from tests.data.strategies import tensors

from tallyfold import CountTensor, read_counts, write_counts
from tallyfold.data.axis import Axis
from tallyfold.data.formats import FORMATS
from tallyfold.data.formats.grouping import group_rows
from tallyfold.data.formats.sql import connected, duckdb_errors
from tallyfold.data.request import Request
from tallyfold.errors import (
    CountError,
    DataError,
    DroppedWarning,
    FormatError,
    LabelError,
    ParameterError,
    ShapeError,
)

TEXT = [".csv", ".tsv", ".jsonl", ".ndjson", ".tns"]
ENDINGS = [*FORMATS, *(ending + z for ending in TEXT for z in (".gz", ".zst"))]
TABLES = [".parquet", ".csv", ".tsv", ".jsonl", ".csv.gz", ".csv.zst", ".jsonl.gz", ".jsonl.zst"]

LABEL = 'çé, "x"'
EVENTS = pd.DataFrame(
    {
        "who": ["ann", "bob", "ann", "ann", LABEL],
        "what": ["call", "mail", "call", "mail", "call"],
        "year": [2003, 2004, 2003, 2010, 999],
    }
)


def write_table(frame: pd.DataFrame, path) -> None:
    """Write a table without any of our own code."""
    name = path.name
    if name.endswith(".parquet"):
        frame.to_parquet(path)
    elif ".csv" in name:
        frame.to_csv(path, index=False)
    elif ".tsv" in name:
        frame.to_csv(path, index=False, sep="\t")
    else:
        frame.to_json(path, orient="records", lines=True, force_ascii=False)


@pytest.mark.parametrize("ending", ENDINGS)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tensor=tensors())
def test_round_trip_keeps_labels_order_and_types(tensor, ending, tmp_path):
    path = tmp_path / f"counts{ending}"
    write_counts(tensor, path)
    back = read_counts(path)
    assert back == tensor
    assert [axis.labels.type for axis in back.axes] == [axis.labels.type for axis in tensor.axes]
    assert not [file for file in tmp_path.iterdir() if file.name.startswith(".")]


@pytest.mark.parametrize("ending", TABLES)
def test_events_are_counted_alike_from_every_kind_of_file(ending, tmp_path):
    path = tmp_path / f"my 'events'{ending}"
    write_table(EVENTS, path)
    tensor = read_counts(path, axes=["who", "what", "year"])
    assert tensor == CountTensor.from_frame(EVENTS, axes=["who", "what", "year"])
    assert tensor.axis("year").labels.to_pylist() == [999, 2003, 2004, 2010]
    assert tensor.total == 5
    assert tensor.nnz == 4


@pytest.mark.parametrize("ending", TABLES)
def test_counts_are_summed_from_the_value_column(ending, tmp_path):
    path = tmp_path / f"counts{ending}"
    frame = EVENTS.assign(n=[1, 2, 3, 4, 5])
    write_table(frame, path)
    tensor = read_counts(path, axes=["who", "what"], value="n")
    assert tensor == CountTensor.from_frame(frame, axes=["who", "what"], value="n")
    assert tensor.total == 15
    with pytest.raises(LabelError, match="repeated='sum'"):
        read_counts(path, axes=["who", "what"], value="n", repeated="error")


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour"])
@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_time_bins_are_those_of_a_frame(ending, unit, tmp_path):
    moments = ["2019-12-30 23:59:59", "2020-01-01 00:00:00", "2020-03-31 12:30:00", "2021-01-03"]
    frame = pd.DataFrame({"who": list("abab"), "date": moments})
    path = tmp_path / f"events{ending}"
    write_table(frame, path)
    tensor = read_counts(path, axes=["who", "date"], bins={"date": unit})
    assert tensor == CountTensor.from_frame(frame, axes=["who", "date"], bins={"date": unit})
    parsed = frame.assign(date=pd.to_datetime(frame["date"], format="mixed"))
    assert tensor == CountTensor.from_frame(parsed, axes=["who", "date"], bins={"date": unit})


def test_times_with_a_zone_are_binned_in_utc(tmp_path):
    frame = pl.DataFrame({"who": ["a"], "date": ["2020-01-01T00:30:00+02:00"]}).with_columns(
        pl.col("date").str.to_datetime(time_zone="Europe/Helsinki")
    )
    frame.write_parquet(tmp_path / "x.parquet")
    for tensor in (
        read_counts(tmp_path / "x.parquet", axes=["who", "date"], bins={"date": "day"}),
        CountTensor.from_frame(frame, axes=["who", "date"], bins={"date": "day"}),
    ):
        assert tensor.axis("date").labels.to_pylist() == ["2019-12-31"]


def test_many_files_patterns_and_folders(tmp_path):
    for part in range(3):
        write_table(EVENTS, tmp_path / f"part-{part}.csv")
    axes = ["who", "what"]
    thrice = CountTensor.from_frame(pd.concat([EVENTS] * 3), axes=axes)
    assert read_counts(str(tmp_path / "part-*.csv"), axes=axes) == thrice
    assert read_counts(tmp_path, axes=axes) == thrice
    assert read_counts([tmp_path / f"part-{n}.csv" for n in range(3)], axes=axes) == thrice


def test_files_with_columns_in_another_order_are_read_by_name(tmp_path):
    write_table(EVENTS, tmp_path / "a.csv")
    write_table(EVENTS[["year", "what", "who"]], tmp_path / "b.csv")
    twice = CountTensor.from_frame(pd.concat([EVENTS] * 2), axes=["who", "what"])
    assert read_counts(tmp_path, axes=["who", "what"]) == twice


def test_labels_of_text_files_become_numbers_only_if_nothing_is_lost(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,d,e\n007,9,2020-01-01,1.5,99999999999999999999\n8,10,2020-02-30,2,1\n")
    tensor = read_counts(path, axes=["a", "b", "c", "d", "e"])
    labels = {axis.name: axis.labels.to_pylist() for axis in tensor.axes}
    assert labels["a"] == ["007", "8"]
    assert labels["b"] == [9, 10]
    assert labels["c"] == ["2020-01-01", "2020-02-30"]
    assert labels["d"] == ["1.5", "2"]
    assert labels["e"] == ["1", "99999999999999999999"]


def test_a_grouping_larger_than_its_memory_limit_spills(tmp_path):
    rng = np.random.default_rng(0)
    users = [f"user with a rather long name {number:07d}" for number in range(200_000)]
    table = pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(
                pa.array(rng.integers(0, len(users), 1_000_000)), pa.array(users)
            ).dictionary_decode(),
            "item": rng.integers(0, 1000, 1_000_000),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    small = read_counts(tmp_path / "x.parquet", axes=["user", "item"], memory_limit="60MB")
    assert small == CountTensor.from_frame(table, axes=["user", "item"])


class Short:
    """A connection that runs out of memory, early or late, until there are 64 passes."""

    def __init__(self, connection):
        self.connection, self.tried = connection, []

    def execute(self, query):
        if "GROUP BY" in query:
            self.tried.append(query)
            if "hash(" not in query or "% 8 = 3" in query:
                raise duckdb.OutOfMemoryException("failed to allocate")
        return self.connection.execute(query)


def test_a_grouping_too_large_for_one_pass_takes_several(tmp_path):
    file = tmp_path / "x.parquet"
    EVENTS.rename(columns={"who": "{who}"}).to_parquet(file)
    asked = ["{who}", "what"]
    with connected() as connection:
        source = FORMATS[".parquet"].source(connection, [str(file)], asked)
        short = Short(connection)
        request = Request(asked, None, {}, "sum")
        grouped = group_rows(short, source, request)
        cells = sorted(connection.execute("SELECT x0, x1, n FROM cells").fetchall())
        assert len(short.tried) == 1 + 4 + 64
        with pytest.raises(duckdb.OutOfMemoryException):
            group_rows(Short(connection), source, request, most_passes=8)
    assert grouped == (4, 2, False)
    assert cells == [("ann", "call", 2), ("ann", "mail", 1), ("bob", "mail", 1), (LABEL, "call", 1)]


def test_too_little_memory_is_said_with_what_to_do(tmp_path):
    labels = [f"a rather long label {number:07d}" for number in range(200_000)]
    pl.DataFrame({"a": labels, "b": labels}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(FormatError, match="Out of Memory.* Allow more with memory_limit="):
        read_counts(tmp_path / "x.parquet", axes=["a", "b"], memory_limit="4MB")


def test_what_goes_wrong_while_rows_are_fetched_is_said_alike():
    words = "Out of Memory Error: failed to pin block\n\nPossible solutions:\n* none"
    said = "'x.parquet' could not be read: Out of Memory"
    with pytest.raises(FormatError, match=said), duckdb_errors("x.parquet"):
        raise OSError(words)
    with pytest.raises(FileNotFoundError), duckdb_errors("x.parquet"):
        raise FileNotFoundError(2, "no such file")


def test_tns_without_axes_has_numbers_for_labels(tmp_path):
    path = tmp_path / "x.tns"
    path.write_text("# a comment\n1 2 1 3.0\n\n2\t2  3 1\n")
    tensor = read_counts(path)
    assert tensor.names == ("axis_0", "axis_1", "axis_2")
    assert tensor.shape == (2, 1, 2)
    assert tensor.axis("axis_2").labels.to_pylist() == [1, 3]
    assert tensor.counts.tolist() == [3, 1]
    assert read_counts(path, axes=["a", "b", "c"]).names == ("a", "b", "c")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("1 2 3\n1 2\n", FormatError, "line 2: '1 2'"),
        ("1 2 3\n# x\n1 b 3\n", FormatError, "line 3: '1 b 3'"),
        ("1 2 3 4\n1 2 3 4 5\n1 2 3\n", FormatError, "line 2: .*line 3: "),
        ("1 0 3\n", FormatError, "line 1: 1 0 3"),
        ("# x\n1 1.5 3\n", FormatError, "line 2: 1 1.5 3"),
        ("\n1 1 2.5\n", CountError, "line 2: 1 1 2.5"),
        ("1 1 -2\n", CountError, "line 1: 1 1 -2"),
        ("1 1 nan\n", CountError, "nan"),
        (f"1 1 {2**53 + 1}\n", CountError, "line 1"),
        ("1 2\n", FormatError, "at least two positions"),
        ("# nothing\n", DataError, "no rows"),
        (f"{2**31} 1 1\n", FormatError, "2,147,483,647"),
    ],
)
def test_malformed_tns(text, error, message, tmp_path):
    path = tmp_path / "x.tns"
    path.write_text(text)
    with pytest.raises(error, match=message):
        read_counts(path)


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize(
    ("value", "message"),
    [(-1, "negative"), (1.5, "1.5"), (None, "nothing|NaN|missing|nan"), (2**53 + 2, "coarser")],
)
def test_bad_counts_name_their_rows(ending, value, message, tmp_path):
    path = tmp_path / f"x{ending}"
    frame = pd.DataFrame({"a": list("xyz"), "b": list("uvw"), "n": [1, value, 3]})
    write_table(frame, path)
    place = {"p": "row 1:", "c": "line 3:", "t": "line 3:", "j": "line 2:"}[ending[1]]
    with pytest.raises(CountError, match=message) as caught:
        read_counts(path, axes=["a", "b"], value="n")
    assert place in str(caught.value)
    assert "x" + ending in str(caught.value)


@pytest.mark.parametrize("ending", TABLES)
def test_missing_labels_name_their_rows(ending, tmp_path):
    path = tmp_path / f"x{ending}"
    write_table(pd.DataFrame({"a": ["x", None, None], "b": list("uvw")}), path)
    with pytest.raises(LabelError, match=r"2 rows that do not comply, (row 1|line [23]):"):
        read_counts(path, axes=["a", "b"])


def test_empty_text_is_a_label_when_quoted_and_missing_when_not(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('a,b\n"",1\nx,2\n')
    assert read_counts(path, axes=["a", "b"]).axis("a").labels.to_pylist() == ["", "x"]
    path.write_text("a,b\n,1\nx,2\n")
    with pytest.raises(LabelError, match="line 2: nothing"):
        read_counts(path, axes=["a", "b"])


@pytest.mark.parametrize("ending", TABLES)
def test_missing_columns_and_ambiguous_counts(ending, tmp_path):
    path = tmp_path / f"x{ending}"
    write_table(pd.DataFrame({"a": ["x"], "b": ["u"], "count": [3]}), path)
    with pytest.raises(LabelError, match=r"no column 'c'; it has 'a', 'b', 'count'"):
        read_counts(path, axes=["a", "c"], value=None)
    with pytest.raises(ParameterError, match="value='count'.*value=None"):
        read_counts(path, axes=["a", "b"])
    assert read_counts(path, axes=["a", "b"], value="count").total == 3
    assert read_counts(path, axes=["a", "b"], value=None).total == 1
    with pytest.raises(LabelError, match=r"axes=\[...\]. It has the columns 'a', 'b', 'count'"):
        read_counts(path)
    with pytest.raises(ShapeError, match="at least two axes"):
        read_counts(path, axes=["a"])


def test_zero_counts_are_dropped_with_a_warning_and_keep_their_labels(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b,n\nx,u,0\ny,v,2\ny,v,0\n")
    with pytest.warns(DroppedWarning, match="1 cells are listed with a count of 0"):
        tensor = read_counts(path, axes=["a", "b"], value="n")
    assert tensor.nnz == 1
    assert tensor.shape == (2, 2)
    assert [str(record) for record in tensor.dropped] == [
        "listed with a count of 0, labels kept: dropped 1 cell (total count 0)"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nx\n", "x.csv"),
        ("a,b\nx,y,z\n", "x.csv"),
        ('a,b\n"x,y\n', "x.csv"),
        ("", "empty"),
        ("a,a\n1,2\n", "repeats 'a'"),
        ("a,b\n", "no rows"),
    ],
)
def test_malformed_csv(text, message, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises((FormatError, DataError), match=message):
        read_counts(path, axes=["a", "b"])


def test_another_delimiter(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a;b\nx;1,5\n")
    with pytest.raises(LabelError, match="it has 'a;b'. If ';' separates .*delimiter=';'"):
        read_counts(path, axes=["a", "b"])
    tensor = read_counts(path, axes=["a", "b"], delimiter=";")
    assert tensor.axis("b").labels.to_pylist() == ["1,5"]


@pytest.mark.parametrize(
    "ending", [".parquet", ".npz", ".csv.gz", ".csv.zst", ".tns.gz", ".jsonl.gz"]
)
@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.95])
def test_truncated_files_are_typed_errors(ending, keep, tmp_path):
    tensor = CountTensor.from_frame(EVENTS, axes=["who", "what", "year"])
    path = tmp_path / f"x{ending}"
    write_counts(tensor, path)
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data)) if keep < 1 else keep])
    with pytest.raises((FormatError, DataError)):
        read_counts(path)


def test_foreign_and_unknown_files(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(FormatError, match="no tensor written by tallyfold.*it holds 'a'"):
        read_counts(tmp_path / "x.npz")
    (tmp_path / "x.xlsx").write_text("")
    with pytest.raises(FormatError, match=r"\.parquet, \.csv.*got '\.xlsx'"):
        read_counts(tmp_path / "x.xlsx")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_counts(tmp_path / "none.csv", axes=["a", "b"])
    with pytest.raises(FileNotFoundError, match="no file matches"):
        read_counts(str(tmp_path / "none*.csv"), axes=["a", "b"])
    (tmp_path / "y.jsonl").write_text('{"a": 1, "b": 2}\n{"a": \n')
    with pytest.raises(FormatError, match=r"y\.jsonl"):
        read_counts(tmp_path / "y.jsonl", axes=["a", "b"])


def test_a_newer_npz_is_refused(tmp_path):
    tensor = CountTensor.from_frame(EVENTS, axes=["who", "what"])
    write_counts(tensor, tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "x.npz", **(arrays | {"tallyfold": np.array(2)}))
    with pytest.raises(FormatError, match="Upgrade tallyfold"):
        read_counts(tmp_path / "x.npz")


def test_a_text_file_changed_after_writing_does_not_fit_its_axes(tmp_path):
    tensor = CountTensor.from_frame(EVENTS, axes=["who", "what"])
    path = tmp_path / "x.csv"
    write_counts(tensor, path)
    path.write_text(path.read_text().replace("ann", "zoe"))
    with pytest.raises(FormatError, match="holds the axes of another file"):
        read_counts(path)
    assert "zoe" in read_counts(path, ["who", "what"], "count").axis("who").labels.to_pylist()


def test_written_text_is_plain_for_other_programs(tmp_path):
    tensor = CountTensor.from_frame(EVENTS, axes=["who", "what", "year"])
    write_counts(tensor, tmp_path / "x.csv")
    write_counts(tensor, tmp_path / "x.jsonl.gz")
    write_counts(tensor, tmp_path / "x.parquet", value="n")
    frame = tensor.to_frame()
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "x.csv"), frame)
    with gzip.open(tmp_path / "x.jsonl.gz", "rt") as lines:
        assert [json.loads(line) for line in lines] == frame.to_dict("records")
    plain = pd.read_parquet(tmp_path / "x.parquet").rename(columns={"n": "count"})
    pd.testing.assert_frame_equal(plain, frame)


def test_writing_fails_whole(tmp_path, monkeypatch):
    tensor = CountTensor.from_frame(EVENTS, axes=["who", "what"])
    path = tmp_path / "x.csv"
    write_counts(tensor, path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(FORMATS[".csv"], "write", fail)
    with pytest.raises(OSError, match="disk full"):
        write_counts(tensor.sel(who=["ann"]), path)
    assert path.read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.csv", "x.csv.axes"]


def test_writing_to_nowhere_and_over_an_axis(tmp_path):
    tensor = CountTensor([Axis("count", [1]), Axis("b", [2])], [[0, 0]], [1])
    with pytest.raises(ParameterError, match="must differ from the axes"):
        write_counts(tensor, tmp_path / "x.csv")
    write_counts(tensor, tmp_path / "x.csv", value="n")
    assert read_counts(tmp_path / "x.csv") == tensor
    with pytest.raises(FileNotFoundError, match="no folder"):
        write_counts(tensor, tmp_path / "no" / "x.csv", value="n")
