"""Times cut into bins: the same from frames, files and queries, in any zone, of any kind."""

import datetime as dt
import sqlite3
import zoneinfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tallyfold as tf
from tallyfold import Axis, AxisOrder, CountTensor
from tallyfold.data import bins
from tallyfold.data.bins import bin_labels, bin_starts
from tallyfold.data.problems import ALL_ROWS, Problems
from tallyfold.data.time_units import CYCLES, UNITS
from tallyfold.errors import LabelError, ParameterError

ZONES = [None, "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
MOMENTS = st.datetimes(dt.datetime(1890, 1, 1), dt.datetime(2200, 1, 1))
NEAR_CHANGES = st.datetimes(
    dt.datetime(2024, 3, 30, 20), dt.datetime(2024, 3, 31, 6)
) | st.datetimes(dt.datetime(2024, 10, 26, 20), dt.datetime(2024, 10, 27, 6))
OFFSETS = st.sampled_from(["", "Z", "+00:00", "+05:30", "-09:30"])


def label_of(moment, unit, tz):
    """Return the label of a moment, by Python alone."""
    if moment.tzinfo is not None:
        zone = dt.UTC if tz is None else zoneinfo.ZoneInfo(tz)
        moment = moment.astimezone(zone).replace(tzinfo=None)
    if unit in UNITS:
        return UNITS[unit].write(moment)
    place = {
        "weekday": moment.weekday(),
        "hour-of-day": moment.hour,
        "month-of-year": moment.month - 1,
    }
    return CYCLES[unit][place[unit]]


@pytest.mark.parametrize("unit", [*UNITS, *CYCLES])
@given(
    moments=st.lists(MOMENTS | NEAR_CHANGES, min_size=1, max_size=8),
    tz=st.sampled_from(ZONES),
    zoned=st.booleans(),
    kind=st.sampled_from(["us", "ns"]),
)
def test_times_are_cut_as_python_cuts_them(unit, moments, tz, zoned, kind):
    order = AxisOrder.of_unit(unit, tz)
    values = pa.array(moments, pa.timestamp("us")).cast(pa.timestamp(kind))
    if zoned:
        moments = [moment.replace(tzinfo=dt.UTC) for moment in moments]
        values = values.cast(pa.timestamp(kind, "UTC"))
    found = bin_labels(bin_starts(values, order, "time"), unit, "time")
    assert found.to_pylist() == [label_of(moment, unit, tz) for moment in moments]


@settings(max_examples=25, deadline=None)
@given(
    moments=st.lists(st.tuples(MOMENTS | NEAR_CHANGES, OFFSETS), min_size=1, max_size=6),
    unit=st.sampled_from([*UNITS, *CYCLES]),
    tz=st.sampled_from(ZONES),
    form=st.sampled_from(["texts", "naive", "zoned", "dates", "nanoseconds"]),
)
def test_frames_files_and_queries_agree(tmp_path_factory, moments, unit, tz, form):
    folder = tmp_path_factory.mktemp("times")
    texts = [moment.isoformat(" ") + offset for moment, offset in moments]
    plain = pa.array([moment for moment, _ in moments], pa.timestamp("us"))
    values = {
        "texts": pa.array(texts),
        "naive": plain,
        "zoned": plain.cast(pa.timestamp("us", "Asia/Tokyo")),
        "dates": plain.cast(pa.date32(), safe=False),
        "nanoseconds": plain.cast(pa.timestamp("ns")),
    }[form]
    table = pa.table({"who": ["x"] * len(values), "time": values})
    cut = {"axes": ["who", "time"], "bins": {"time": unit}, "tz": tz}
    frame = CountTensor.from_frame(table, **cut)
    read = [fromisoformat(text) for text in texts] if form == "texts" else None
    if read is not None:
        wanted = {label_of(moment, unit, tz) for moment in read}
        assert set(frame.axis("time").labels.to_pylist()) == wanted
    pq.write_table(table, folder / "rows.parquet")
    found = [tf.read_counts(folder / "rows.parquet", **cut)]
    if form == "texts":
        table.to_pandas().to_csv(folder / "rows.csv", index=False)
        table.to_pandas().to_json(folder / "rows.jsonl", orient="records", lines=True)
        found += [tf.read_counts(folder / f"rows.{ending}", **cut) for ending in ("csv", "jsonl")]
        connection = sqlite3.connect(":memory:")
        table.to_pandas().to_sql("rows", connection, index=False)
        found.append(tf.read_query(connection, "SELECT * FROM rows", **cut))
        connection.close()
    for tensor in found:
        assert tensor == frame
        assert tensor.axis("time").order == frame.axis("time").order == AxisOrder.of_unit(unit, tz)


def fromisoformat(text):
    return dt.datetime.fromisoformat(text)


def test_an_evening_in_berlin_falls_on_its_own_day():
    frame = pd.DataFrame({"who": "x", "time": ["2024-06-01T23:30+02:00", "2024-06-01 22:30Z"]})
    cut = {"axes": ["who", "time"], "bins": {"time": "day"}}
    days = CountTensor.from_frame(frame, tz="Europe/Berlin", **cut).axis("time")
    assert days.labels.to_pylist() == ["2024-06-01", "2024-06-02"]
    assert days.order == AxisOrder("time", "day", "Europe/Berlin")
    utc = CountTensor.from_frame(frame, **cut).axis("time")
    assert (utc.labels.to_pylist(), utc.order.tz) == (["2024-06-01"], None)
    assert CountTensor.from_frame(frame, tz="UTC", **cut).axis("time").order == utc.order
    naive = frame.assign(time="2024-06-01 23:30")
    assert (
        CountTensor.from_frame(naive, tz="Europe/Berlin", **cut).axis("time").label(0)
        == "2024-06-01"
    )


def test_hours_that_come_twice_are_one_and_the_one_that_is_left_out_is_a_gap():
    twice = pd.to_datetime(["2024-10-27 00:30", "2024-10-27 01:30"], utc=True)
    frame = pd.DataFrame({"who": "x", "time": twice})
    cut = {"axes": ["who", "time"], "bins": {"time": "hour"}, "tz": "Europe/Berlin"}
    assert CountTensor.from_frame(frame, **cut).to_frame().to_dict("records") == [
        {"who": "x", "time": "2024-10-27T02", "count": 2}
    ]
    spring = frame.assign(time=pd.to_datetime(["2024-03-31 00:30", "2024-03-31 01:30"], utc=True))
    hours = CountTensor.from_frame(spring, **cut).axis("time")
    assert hours.labels.to_pylist() == ["2024-03-31T01", "2024-03-31T03"]
    assert hours.gaps() == 1


def test_cycles_begin_at_their_beginning():
    days = pd.date_range("2024-01-04", periods=400, freq="D")  # a Thursday
    frame = pd.DataFrame({"who": "x", "time": days})
    cut = {"axes": ["who", "time"], "bins": {"time": ["month", "weekday", "month-of-year"]}}
    tensor = CountTensor.from_frame(frame, **cut)
    assert tensor.names == ("who", "time-month", "time-weekday", "time-month-of-year")
    assert tensor.axis("time-weekday").labels.to_pylist() == list(CYCLES["weekday"])
    assert tensor.axis("time-month-of-year").labels.to_pylist() == list(CYCLES["month-of-year"])
    assert tensor.axis("time-weekday").order == AxisOrder("cyclic", "weekday", column="time")
    assert tensor.total == 400
    hours = pd.DataFrame(
        {"who": "x", "time": pd.to_datetime(["2024-01-01 23:05", "2024-01-02 04:00"])}
    )
    tensor = CountTensor.from_frame(hours, ["who", "time"], bins={"time": "hour-of-day"})
    assert tensor.axis("time").labels.to_pylist() == ["04h", "23h"]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_several_bins_of_one_column_in_files(ending, tmp_path):
    frame = pd.DataFrame(
        {"who": list("xyx"), "time": ["2024-05-01 12:30", "2024-05-02 03:00", "2024-05-08 12:00"]}
    )
    path = tmp_path / f"rows{ending}"
    {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
    }[ending]()
    cut = {"axes": ["who", "time"], "bins": {"time": ["day", "weekday"]}, "tz": "Europe/Berlin"}
    tensor = tf.read_counts(path, **cut, top={"time-weekday": 1})
    assert tensor == CountTensor.from_frame(frame, **cut, top={"time-weekday": 1})
    assert tensor.names == ("who", "time-day", "time-weekday")
    assert tensor.axis("time-weekday").labels.to_pylist()[0] == "Wed"
    frame.loc[1, "time"] = None
    {
        ".csv": lambda: frame.to_csv(path, index=False),
        ".parquet": lambda: frame.to_parquet(path),
        ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
    }[ending]()
    left = tf.read_counts(path, **cut, missing="drop")
    assert left == CountTensor.from_frame(frame, **cut, missing="drop")
    assert list(map(str, left.dropped)) == ["missing in time (1): dropped 1 row"]
    named = tf.read_counts(path, **cut, missing="label")
    assert named == CountTensor.from_frame(frame, **cut, missing="label")
    assert named.axis("time-weekday").labels.to_pylist() == ["Wed", "(missing)"]


LABELS = {
    "year": ["2003", "2005"],
    "quarter": ["2024-Q3", "2025-Q1"],
    "month": ["2024-05", "2024-12"],
    "week": ["2024-W07", "2024-W52"],
    "day": ["2024-05-01", "2024-05-09"],
    "hour": ["2024-05-01T13", "2024-05-01T15"],
    "weekday": ["Mon", "Sun"],
    "hour-of-day": ["00h", "13h"],
    "month-of-year": ["Feb", "Jan"],
}


@pytest.mark.parametrize("unit", LABELS)
def test_labels_of_bins_are_taken_as_they_are(unit, tmp_path):
    frame = pd.DataFrame({"who": "x", "time": LABELS[unit]})
    cut = {"axes": ["who", "time"], "bins": {"time": unit}, "tz": "Asia/Tokyo"}
    tensor = CountTensor.from_frame(frame, **cut)
    assert sorted(tensor.axis("time").labels.to_pylist()) == sorted(LABELS[unit])
    assert len(tensor.axis("time").steps()) == 2
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert tf.read_counts(tmp_path / "x.csv", **cut) == tensor


def test_whole_numbers_are_years_only_where_years_are_asked_for(tmp_path):
    frame = pd.DataFrame({"who": "x", "time": [2003, 2005]})
    frame.to_parquet(tmp_path / "x.parquet")
    cut = {"axes": ["who", "time"], "bins": {"time": "year"}}
    tensor = CountTensor.from_frame(frame, **cut)
    assert tensor.axis("time").labels.to_pylist() == ["2003", "2005"]
    assert tf.read_counts(tmp_path / "x.parquet", **cut) == tensor
    for bad in (frame.assign(time=[2003, 1700000000]), frame):
        bad.to_parquet(tmp_path / "bad.parquet")
        unit = "year" if bad is not frame else "month"
        cut = {"axes": ["who", "time"], "bins": {"time": unit}}
        for read in (
            lambda cut=cut, bad=bad: CountTensor.from_frame(bad, **cut),
            lambda cut=cut: tf.read_counts(tmp_path / "bad.parquet", **cut),
        ):
            with pytest.raises(LabelError, match="'time'.*must hold"):
                read()


@pytest.mark.parametrize("ending", ["frame", ".csv", ".parquet", ".jsonl", "query"])
def test_labels_of_other_bins_are_refused_with_both_units(ending, tmp_path):
    texts = ["2024-05", "2024-W07", "never", "2024-13-45", "Tue"]
    frame = pd.DataFrame({"who": "x", "time": texts})
    cut = {"axes": ["who", "time"], "bins": {"time": "month"}}
    path = tmp_path / f"rows{ending}"
    if ending == "frame":
        read = lambda: CountTensor.from_frame(frame, **cut)  # noqa: E731
    elif ending == "query":
        connection = sqlite3.connect(":memory:")
        frame.to_sql("rows", connection, index=False)
        read = lambda: tf.read_query(connection, "SELECT * FROM rows", **cut)  # noqa: E731
    else:
        write = {
            ".csv": lambda: frame.to_csv(path, index=False),
            ".parquet": lambda: frame.to_parquet(path),
            ".jsonl": lambda: frame.to_json(path, orient="records", lines=True),
        }
        write[ending]()
        read = lambda: tf.read_counts(path, **cut)  # noqa: E731
    with pytest.raises(LabelError) as refused:
        read()
    words = str(refused.value)
    for part in (
        "is cut by month",
        "bins by week",
        "2024-W07",
        "bins by weekday",
        "Tue",
        "never",
        "2024-13-45",
    ):
        assert part in words
    assert "3 problems" in words


@pytest.mark.parametrize(
    ("bins", "tz", "words"),
    [
        ({"time": "days"}, None, "Did you mean 'day'"),
        ({"time": "hour of day"}, None, "Did you mean 'hour-of-day'"),
        ({"time": []}, None, "at least one unit"),
        ({"time": ["day", "day"]}, None, "each once"),
        ({"time": ["day", 3]}, None, "must be one of year"),
        ({"time": "day"}, "Europe/Berln", "Did you mean 'Europe/Berlin'"),
        ({"time": "day"}, "berlin", "Did you mean 'Europe/Berlin'"),
        ({"time": "day"}, "", "name of a time zone"),
        ({"time": "day"}, 3, "name of a time zone"),
        (None, "Europe/Berlin", "there are no bins"),
    ],
)
def test_bins_and_zones_that_there_are_not_are_refused(bins, tz, words):
    frame = pd.DataFrame({"who": "x", "time": ["2024-05-01"]})
    with pytest.raises(ParameterError, match=words):
        CountTensor.from_frame(frame, ["who", "time"], bins=bins, tz=tz)


def test_a_second_axis_of_one_name_is_refused():
    frame = pd.DataFrame({"time-day": "x", "time": ["2024-05-01"]})
    with pytest.raises(ParameterError, match="second axis 'time-day'"):
        CountTensor.from_frame(frame, ["time-day", "time"], bins={"time": ["day", "weekday"]})


def test_orders_are_declared(tmp_path):
    frame = pd.DataFrame({"size": list("MSLS"), "year": [2003, 2001, 2003, 2006]})
    sizes = {"size": ["S", "M", "L", "XL"], "year": None}
    tensor = CountTensor.from_frame(frame, ["size", "year"], ordered=sizes)
    assert tensor.axis("size").labels.to_pylist() == ["S", "M", "L"]
    assert tensor.axis("year").gaps() == 3
    pd.testing.assert_frame_equal(
        tensor.to_frame().sort_values(["size", "year"], ignore_index=True),
        CountTensor.from_frame(frame, ["size", "year"]).to_frame(),
    )
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert tf.read_counts(tmp_path / "x.csv", ["size", "year"], ordered=sizes) == tensor
    tf.write_counts(CountTensor.from_frame(frame, ["size", "year"]), tmp_path / "own.npz")
    own = tf.read_counts(tmp_path / "own.npz", ordered=["year"])
    assert [axis.order for axis in own.axes] == [None, AxisOrder("ordered")]
    papers = pd.DataFrame({"text": ["a bee", "a cow cow"], "year": [2003, 2005]})
    words = CountTensor.from_documents(papers, "text", ["year"], ordered=["year"])
    assert words.axis("year").following(1).to_pylist() == [2006]
    papers["time"] = ["2024-05-01", "2024-06-07"]
    words = CountTensor.from_documents(
        papers, "text", ["time"], bins={"time": ["month", "weekday"]}
    )
    assert words.names == ("time-month", "time-weekday", "word")


@pytest.mark.parametrize(
    ("ordered", "words"),
    [
        ("year", "must name axes"),
        (["month"], "names 'month'"),
        ({"size": "SML"}, "list of its labels"),
        ({"size": ["S", "S"]}, "each once"),
        ({"size": ["S", "M"]}, "lacks 'L'"),
        ({"year": [2003, 2001]}, "order is that of their values"),
        (["day"], "in order already"),
    ],
)
def test_orders_that_cannot_be_are_refused(ordered, words):
    frame = pd.DataFrame({"size": list("ML"), "year": [2003, 2001], "day": "2024-05-01"})
    with pytest.raises((ParameterError, LabelError), match=words):
        CountTensor.from_frame(frame, ["size", "year", "day"], bins={"day": "day"}, ordered=ordered)


def test_axes_may_be_given_in_the_place_of_names(tmp_path):
    frame = pd.DataFrame(
        {"who": "x", "time": pd.to_datetime(["2024-06-01 22:30", "2024-06-07 00:00"], utc=True)}
    )
    cut = {"bins": {"time": ["day", "weekday"]}, "tz": "Europe/Berlin"}
    tensor = CountTensor.from_frame(frame, ["who", "time"], **cut)
    again = CountTensor.from_frame(frame, tensor.axes)
    assert again == tensor
    assert [axis.order for axis in again.axes] == [axis.order for axis in tensor.axes]
    assert CountTensor.from_frame(frame, tensor.axes, **cut) == tensor
    with pytest.raises(ParameterError, match="by day, Asia/Tokyo; it must be day, Europe/Berlin"):
        CountTensor.from_frame(frame, tensor.axes, bins=cut["bins"], tz="Asia/Tokyo")
    frame.to_parquet(tmp_path / "x.parquet")
    assert tf.read_counts(tmp_path / "x.parquet", tensor.axes) == tensor
    labels = tensor.to_frame()
    labels.to_csv(tmp_path / "labels.csv", index=False)
    found = tf.read_counts(tmp_path / "labels.csv", tensor.axes, value="count")
    assert found == tensor  # columns of labels stand for the times
    assert CountTensor.from_frame(labels, tensor.axes, value="count") == tensor
    with pytest.raises(LabelError, match="no column 'time'"):
        CountTensor.from_frame(labels.drop(columns="time-day"), tensor.axes, value="count")


def test_axes_without_bins_take_none():
    frame = pd.DataFrame({"who": ["x", "y"], "year": [2003, 2004]})
    axes = [Axis("who", ["x"]), Axis("year", [2003], AxisOrder("ordered"))]
    tensor = CountTensor.from_frame(frame, axes)
    assert np.array_equal(tensor.axis("year").steps(), [2003, 2004])


def test_notebooks_show_the_order_of_axes():
    frame = pd.DataFrame({"year": [2003, 2006], "time": ["2024-01-05", "2024-04-05"]})
    cut = {"bins": {"time": "month"}, "tz": "Europe/Berlin", "ordered": ["year"]}
    shown = CountTensor.from_frame(frame, ["year", "time"], **cut)._repr_html_()
    assert "month, Europe/Berlin, 2024-01 to 2024-04, 2 gaps" in shown
    assert "ordered, 2003 to 2006, 2 gaps" in shown


def test_times_that_arrow_reads_and_others_stand_in_one_column():
    """As if each text was read by itself; `_SURE` must hold nothing that is no time."""
    listed = (
        "2024-06-08 21:12:28, 2024-02-29, 2023-02-29, never, 2024-06-08T21:12, 2024-05, 2024-5-1"
    )
    listed += ", 2024-06-08 22:12:28Z, 2024-06-08 22:12:28-0530, 0000-01-01, 2024-06-31, 1999-05-31"
    listed += ", 2024-06-08Z, 2024-06-08 24:00, 2024-12-31 23:59:59.999999"
    texts = pa.array([*listed.split(", "), None], pa.large_string())
    order = AxisOrder.of_unit("hour", tz="Europe/Berlin")
    for some in (texts, texts[1:], texts.filter(pc.is_valid(texts))):
        given = some, order, "day", ALL_ROWS, Problems(), ""
        assert bins._parsed(*given).equals(bins._one_by_one(*given))
