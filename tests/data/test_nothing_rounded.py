"""No count and no label is taken for another that is near to it."""

import datetime as dt

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallyfold as tf
from tallyfold.errors import CountError, LabelError

WHOLE = {
    "5": 5, "5.0": 5, "5.000000000000000000000": 5, "1.5e1": 15, "1.50E+01": 15, "150e-1": 15,
    "+7": 7, "12.34e2": 1234,
}  # fmt: skip
FRACTIONS = [
    "5.00000000000000000001", "5.00000000000000000001e3", "0.00000000000000000000001", "1.25e1",
    "15e-1", "4503599627370496.1", "1.0000000000000000000001e-0",
]  # fmt: skip


def written(count, ending, folder):
    file = folder / f"x{ending}"
    if ending == ".csv":
        file.write_text(f"a,b,n\nx,y,{count}\n")
    else:
        file.write_text(f'{{"a": "x", "b": "y", "n": "{count}"}}\n')
    return file


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("text", WHOLE)
def test_whole_numbers_however_written(text, ending, tmp_path):
    assert tf.read_counts(written(text, ending, tmp_path), ["a", "b"], "n").total == WHOLE[text]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("text", FRACTIONS)
def test_fractions_that_a_float_would_lose(text, ending, tmp_path):
    with pytest.raises(CountError, match="whole numbers.*choose a unit") as refused:
        tf.read_counts(written(text, ending, tmp_path), ["a", "b"], "n")
    assert text in str(refused.value)


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_durations_are_neither_counts_nor_labels(unit, tmp_path):
    spans = pa.array([1, 2], pa.duration(unit))
    pq.write_table(pa.table({"a": ["x", "y"], "b": ["u", "v"], "n": spans}), tmp_path / "x.parquet")
    with pytest.raises(CountError, match="'n' must be numbers; the table has DURATION there"):
        tf.read_counts(tmp_path / "x.parquet", ["a", "b"], "n")
    with pytest.raises(LabelError, match="labels of axis 'n' .* durations there. Write them"):
        tf.read_counts(tmp_path / "x.parquet", ["a", "n"], None)
    assert tf.read_counts(tmp_path / "x.parquet", ["a", "b"], None).total == 2


def test_durations_of_frames_and_queries_are_refused_as_well(tmp_path):
    frame = pd.DataFrame({"a": ["x"], "b": ["y"], "n": [dt.timedelta(seconds=3)]})
    with pytest.raises(CountError, match="must be numbers"):
        tf.CountTensor.from_frame(frame, ["a", "b"], "n")
    with pytest.raises(LabelError, match="must be text, numbers"):
        tf.CountTensor.from_frame(frame, ["a", "n"], None)
    duckdb = pytest.importorskip("duckdb")
    query = "SELECT 'x' AS a, 'y' AS b, INTERVAL 3 SECOND AS n"
    with duckdb.connect() as connection, pytest.raises(CountError, match="must be numbers"):
        tf.read_query(connection, query, ["a", "b"], "n")


def test_the_schema_of_one_file_among_many_is_seen(tmp_path):
    for number, kind in enumerate([pa.int64(), pa.duration("s")]):
        table = pa.table({"a": ["x"], "b": ["y"], "n": pa.array([1], kind)})
        pq.write_table(table, tmp_path / f"{number}.parquet")
    with pytest.raises(CountError, match="DURATION"):
        tf.read_counts(tmp_path, ["a", "b"], "n")
