"""Bins, zones, orders and unknown labels on the command line."""

import io

import pandas as pd
import pytest

import tallyfold as tf

AXES = ["user", "time"]
CUT = ("--bin", "time=month,weekday", "--tz", "Europe/Berlin")


@pytest.fixture(scope="module")
def events():
    times = pd.date_range("2024-01-01", periods=300, freq="13h", tz="UTC").astype(str)
    return pd.DataFrame({"user": [f"u{n % 7}" for n in range(300)], "time": times})


@pytest.fixture(scope="module")
def folder(events, tmp_path_factory):
    tensor = tf.CountTensor.from_frame(
        events, AXES, bins={"time": ["month", "weekday"]}, tz="Europe/Berlin"
    )
    place = tmp_path_factory.mktemp("model") / "model"
    tf.Margins(random_state=0).fit(tensor).save(place)
    return place


@pytest.fixture
def table(events, tmp_path):
    path = tmp_path / "events.csv"
    events.to_csv(path, index=False)
    return path


def test_several_bins_in_a_zone(run, table, tmp_path):
    out = tmp_path / "counts.npz"
    result = run("convert", table, out, "--axes", "user,time", *CUT, "--top", "time-month=3")
    assert result.code == 0
    tensor = tf.read_counts(out)
    assert tensor.names == ("user", "time-month", "time-weekday")
    assert tensor.axis("time-month").order == tf.AxisOrder("time", "month", "Europe/Berlin", "time")
    told = " ".join(run("describe", table, "--axes", "user,time").out.split())
    assert "time: looks like times; --ordered time says so, --bin time=month cuts them" in told
    told = run("describe", out).out
    assert "time-month: month, Europe/Berlin, 2024-01 to" in told
    assert "time-weekday: weekday, Europe/Berlin, Mon to Sun" in told


def test_orders_are_declared(run, tmp_path):
    pd.DataFrame({"who": list("ab"), "year": [2003, 2006]}).to_csv(tmp_path / "x.csv", index=False)
    result = run("describe", tmp_path / "x.csv", "--axes", "who,year", "--ordered", "year")
    assert "year: ordered, 2003 to 2006, 2 gaps" in result.out
    told = run("describe", tmp_path / "x.csv", "--axes", "who,year").out
    assert "year: looks like times; --ordered year says so\n" in told
    assert "who: looks" not in told
    assert "looks like" not in result.out
    result = run("describe", tmp_path / "x.csv", "--axes", "who,year", "--ordered", "month")
    assert (result.code, "`ordered` names 'month'" in result.err) == (2, True)
    result = run("describe", tmp_path / "x.csv", "--axes", "who,year", "--tz", "Europe/Berlin")
    assert (result.code, "there are no bins" in result.err) == (2, True)


def test_a_model_reads_raw_times(run, folder, table, events, tmp_path):
    out = run("predict", folder, table)
    assert out.code == 0
    found = pd.read_csv(io.StringIO(out.out))
    model = tf.load(folder)
    assert found["mean"].tolist() == model.predict(events).tolist()
    assert "unknown" not in found
    again = run("predict", folder, table, *CUT)
    assert again.out == out.out
    for verb in ("score", "surprise"):
        assert run(verb, folder, table, "--count-rows").code == 0
    new = events.tail(5).assign(time="2024-08-01T22:30Z", user="u0")
    new.to_csv(tmp_path / "new.csv", index=False)
    for given in (("update",), ("fold-in", "--axis", "time-month")):
        place = tmp_path / given[0]
        result = run(given[0], folder, tmp_path / "new.csv", *given[1:], "--out", place)
        assert "time-month has 1 new label" in result.out
        assert tf.load(place).axes_[1].following(1).to_pylist() == ["2024-09"]


@pytest.mark.parametrize("verb", ["predict", "score", "surprise"])
def test_other_units_and_what_is_no_time_are_refused(run, folder, events, tmp_path, verb):
    count = () if verb == "predict" else ("--count-rows",)
    unknown = ("--unknown", "skip" if verb == "score" else "prior")
    for text, words in (
        ("2024-W07", "cut by month"),
        ("2024-13-45", "must hold dates or times"),
        ("never", "'never'" if verb == "predict" else "never"),
    ):
        events.head(3).assign(time=text).to_csv(tmp_path / "bad.csv", index=False)
        result = run(verb, folder, tmp_path / "bad.csv", *count, *unknown)
        assert (result.code, result.out) == (2, "")
        assert words in result.err
        assert text in result.err
    events.head(3).to_csv(tmp_path / "good.csv", index=False)
    result = run(verb, folder, tmp_path / "good.csv", *count, *unknown, "--bin", "time=week")
    assert result.code == 2
    assert "by week, UTC; it must be month, Europe/Berlin" in result.err


def test_unknown_labels_by_axis(run, folder, events, tmp_path):
    rows = events.head(3).assign(time=["2024-01-05", "2025-01-05", "2024-01-05"])
    rows["user"] = ["u0", "u0", "zed"]
    rows.to_csv(tmp_path / "x.csv", index=False)
    both = ("--unknown", "time-month=prior", "--unknown", "user=prior")
    found = pd.read_csv(io.StringIO(run("predict", folder, tmp_path / "x.csv", *both).out))
    assert found["unknown"].fillna("").tolist() == ["", "time-month", "user"]
    result = run("predict", folder, tmp_path / "x.csv", *both[:2])
    assert (result.code, "no label 'zed'" in result.err) == (2, True)
    given = ("surprise", folder, tmp_path / "x.csv", "--count-rows")
    result = run(*given, "--unknown", "user=skip", "--unknown", "time-month=prior")
    assert result.code == 0
    assert "1 of 3 cells have labels that the model does not know, such as user 'zed'" in result.err
    assert "time-month" in result.out
    assert "zed" not in result.out
    result = run(*given, "--unknown", "user=skip")
    assert result.code == 2
    assert "such as time-month '2025-01'. --unknown skip leaves them out" in result.err
    for bad, words in (
        (("--unknown", "prior", "--unknown", "user=skip"), "one choice for all axes"),
        (("--unknown", "month=prior"), "names 'month'"),
        (("--unknown", "user=maybe"), "of 'user' must be"),
    ):
        result = run(*given, *bad)
        assert (result.code, words in result.err) == (2, True)
