"""Models cut the times that they are asked, and say which labels they do not know."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.models.predicted_rows import predicted_rows

pytestmark = pytest.mark.usefixtures("brief_heads")

CUT = {"bins": {"time": ["month", "weekday"]}, "tz": "Europe/Berlin"}
BY_PRIOR = {"time-month": "prior"}


@pytest.fixture(scope="module")
def events():
    rng = np.random.default_rng(0)
    hours = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(
        rng.integers(0, 24 * 150, 1500), unit="h"
    )
    return pd.DataFrame({"user": rng.integers(0, 12, 1500).astype(str), "time": hours})


@pytest.fixture(scope="module")
def tensor(events):
    return tf.CountTensor.from_frame(events, ["user", "time"], **CUT)


@pytest.fixture(scope="module")
def model(tensor):
    return tf.BPTF(n_components=2, max_iter=20, random_state=0).fit(tensor)


@pytest.fixture(scope="module")
def margins(tensor):
    return tf.Margins(random_state=0).fit(tensor)


def test_frames_of_raw_times_are_cut_as_the_model_was(model, events):
    wanted = pd.DataFrame({"user": events["user"]})
    local = events["time"].dt.tz_convert("Europe/Berlin")
    wanted["time-month"] = local.dt.strftime("%Y-%m")
    wanted["time-weekday"] = local.dt.strftime("%a")
    said = model.predict(wanted)
    texts = events.assign(time=events["time"].astype(str))
    walls = events.assign(time=local.dt.tz_localize(None))
    for asked in (events, texts, walls, pa.Table.from_pandas(events)):
        np.testing.assert_array_equal(model.predict(asked), said)
    rows = next(predicted_rows(model, [pa.Table.from_pandas(texts)]))
    np.testing.assert_array_equal(rows["mean"], said)
    same = next(predicted_rows(model, [pa.Table.from_pandas(texts)], **CUT))
    assert same.equals(rows)


def test_tensors_of_raw_times_are_cut_as_the_model_was(model, events, tensor):
    raw = tf.CountTensor.from_frame(events, ["user", "time"])
    assert raw.nnz > tensor.nnz
    assert model.score(raw) == model.score(tensor)
    pd.testing.assert_frame_equal(tf.surprise(model, raw), tf.surprise(model, tensor))
    assert len(model.predict(raw)) == raw.nnz  # a prediction for each cell that is asked
    np.testing.assert_array_equal(
        model.log_pmf(tensor), model.predictive(tensor).log_pmf(tensor.counts)
    )
    with pytest.raises(ParameterError, match=r"make .* cells of .*axes=model.axes_"):
        model.log_pmf(raw)
    read = tf.CountTensor.from_frame(events, model.axes_)
    assert read == tensor


def test_new_cells_of_raw_times_are_cut_as_the_model_was(margins, tensor):
    later = pd.DataFrame({"user": ["0", "1"], "time": ["2024-07-31T22:30Z", "2024-08-02"]})
    cut = tf.CountTensor.from_frame(later, ["user", "time"], **CUT)
    raw = tf.CountTensor.from_frame(later, ["user", "time"])
    by_cut, by_raw = margins.update(cut), margins.update(raw)
    assert by_raw.axes_ == by_cut.axes_
    assert by_raw.card().facts["taken in"] == by_cut.card().facts["taken in"] == cut.nnz
    month = by_raw.axes_[1]
    assert month.labels.to_pylist()[-1] == "2024-08"
    assert month.order == tensor.axis("time-month").order
    np.testing.assert_array_equal(by_raw.predict(cut), by_cut.predict(cut))
    assert len(margins.fold_in(raw, "time-month").axes_[1]) == len(month)


def test_other_bins_are_refused_with_both_units(model, margins, events):
    weeks = tf.CountTensor.from_frame(events, ["user", "time"], bins={"time": ["week", "weekday"]})
    user, week, day = weeks.axes
    axes = [user, week.renamed("time-month"), day]
    weeks = tf.CountTensor(axes, weeks.indices, weeks.counts)
    tokyo = tf.CountTensor.from_frame(events, ["user", "time"], **CUT | {"tz": "Asia/Tokyo"})
    asks = (
        model.score,
        lambda counts: model.predict(counts, unknown="prior"),
        lambda counts: tf.surprise(model, counts, unknown="prior"),
        margins.update,
        lambda counts: margins.fold_in(counts, "time-month"),
    )
    for ask in asks:
        with pytest.raises(LabelError, match="is cut by week, UTC.*by month, Europe/Berlin"):
            ask(weeks)
        with pytest.raises(LabelError, match="by month, Asia/Tokyo.*by month, Europe/Berlin"):
            ask(tokyo)
    frame = pd.DataFrame({"user": ["0"], "time": ["2024-W07"]})
    with pytest.raises(LabelError, match="cut by month.*labels of bins by week"):
        model.predict(frame, unknown="prior")
    table = pa.Table.from_pandas(frame)
    with pytest.raises(LabelError, match="cut by month.*labels of bins by week.*row 1"):
        next(predicted_rows(model, [table], unknown="prior"))
    with pytest.raises(ParameterError, match="by week, Europe/Berlin; it must be month, Europe/B"):
        next(predicted_rows(model, [table], bins={"time-month": "week"}, tz="Europe/Berlin"))


@pytest.mark.parametrize("text", ["2024-13-45", "never", ""])
def test_what_is_no_time_is_never_an_average_month(model, text):
    frame = pd.DataFrame({"user": ["0", "1"], "time": ["2024-05-01", text]})
    for unknown in ("prior", BY_PRIOR):
        with pytest.raises(LabelError, match=f"'time' must hold dates or times.*row 1: '{text}'"):
            model.predict(frame, unknown=unknown)
        with pytest.raises(LabelError, match="must hold dates or times"):
            next(predicted_rows(model, [pa.Table.from_pandas(frame)], unknown=unknown))
        with pytest.raises(LabelError, match="must hold dates or times"):
            model.score(tf.CountTensor.from_frame(frame, ["user", "time"]), unknown=unknown)


def test_a_label_for_missing_times_stays_one(events):
    some = events.assign(time=events["time"].where(events.index > 5))
    cut = {"bins": {"time": "month"}, "missing": "label"}
    tensor = tf.CountTensor.from_frame(some, ["user", "time"], **cut)
    model = tf.BPTF(n_components=2, max_iter=5).fit(tensor)
    frame = pd.DataFrame({"user": ["0", "0"], "time": ["(missing)", "2024-01-09"]})
    found = model.predict(frame)
    labels = frame.assign(time=["(missing)", "2024-01"])
    np.testing.assert_array_equal(found, model.predict(labels))


def test_unknown_labels_are_allowed_by_axis_and_named(model):
    frame = pd.DataFrame(
        {"user": ["0", "nobody", "0", "nobody"], "time": ["2024-01-09"] * 2 + ["2025-01-09"] * 2}
    )
    known_users = frame.iloc[[0, 2]]
    found = model.predict(known_users, unknown=BY_PRIOR, output="frame")
    assert found["unknown"].tolist() == ["", "time-month"]
    both = model.predict(frame, unknown="prior", output="frame")
    assert both["unknown"].tolist() == ["", "user", "time-month", "user,time-month"]
    np.testing.assert_array_equal(both["mean"].iloc[[0, 2]], found["mean"])
    assert "unknown" not in model.predict(known_users.iloc[:1], output="frame")
    assert (
        model.predict(known_users.iloc[:1], unknown="prior", output="frame")["unknown"].item() == ""
    )
    (rows,) = predicted_rows(model, [pa.Table.from_pandas(frame)], unknown="prior", prefix="p_")
    assert rows["p_unknown"].to_pylist() == both["unknown"].tolist()
    tensor = tf.CountTensor.from_frame(frame, ["user", "time"])
    ranked = tf.surprise(model, tensor, unknown="prior")
    assert sorted(ranked["unknown"]) == sorted(both["unknown"])
    assert "unknown" not in tf.surprise(
        model, tf.CountTensor.from_frame(frame.iloc[:1], ["user", "time"])
    )
    for ask in (
        model.predict, model.rate, model.predictive, model.interval, model.sample, model.log_pmf,
        model.score, lambda cells, unknown: tf.surprise(model, cells, unknown=unknown),
    ):  # fmt: skip
        with pytest.raises(LabelError, match="'user' has no label 'nobody'.*unknown='prior'"):
            ask(tensor, unknown=BY_PRIOR)
        ask(tensor, unknown={"user": "prior", **BY_PRIOR})
    with pytest.raises(ParameterError, match="`unknown` names 'month'"):
        model.predict(frame, unknown={"month": "prior"})
    with pytest.raises(ParameterError, match="`unknown` of 'user' must be 'error' or 'prior'"):
        model.predict(frame, unknown={"user": "skip"})
    clash = frame.assign(unknown=1)
    with pytest.raises(ParameterError, match="'unknown' already"):
        model.predict(clash, unknown="prior", output="frame")


def test_positions_are_asked_as_ever(model):
    positions = np.zeros((2, 3), int)
    assert model.predict(positions).shape == (2,)
