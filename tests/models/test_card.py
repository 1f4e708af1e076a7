"""What a model remembers of its data and its fit, and its card."""

import json
import platform

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError, StorageError
from tallyfold.evaluation.metrics import scores_of

pytestmark = pytest.mark.usefixtures("brief_heads")

TENSOR = tf.simulate((12, 10, 6), n_components=2, density=0.3).tensor
QUICK = {"n_components": 2, "max_iter": 4}


@pytest.fixture
def model():
    return tf.BPTF(**QUICK).fit(TENSOR)


@pytest.fixture(scope="module")
def events():
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 150, 300), unit="D")
    users = [f"user-{n}" for n in rng.integers(0, 8, 300)]
    return pd.DataFrame({"user": users, "day": days})


def test_a_fingerprint_is_of_the_counts_and_not_of_their_order():
    frame = TENSOR.to_frame()
    shuffled = frame.sample(frac=1, random_state=1)
    again = tf.CountTensor.from_frame(shuffled, list(TENSOR.names), "count")
    assert again.fingerprint() == TENSOR.compact().fingerprint()
    backwards = TENSOR.sel(axis_0=TENSOR.axes[0].labels.to_pylist()[::-1])
    assert backwards != TENSOR
    assert backwards.fingerprint() == TENSOR.fingerprint()


def test_a_fingerprint_tells_labels_counts_names_and_parts():
    frame = TENSOR.to_frame()
    names = list(TENSOR.names)
    other_count = frame.assign(count=frame["count"].where(frame.index != 3, 99))
    other_label = frame.assign(axis_0=frame["axis_0"].replace("axis_0-03", "somebody"))
    other_name = frame.rename(columns={"axis_2": "day"})
    found = {tf.CountTensor.from_frame(f, names, "count").fingerprint() for f in (
        frame, other_count, other_label)}  # fmt: skip
    found.add(tf.CountTensor.from_frame(other_name, [*names[:2], "day"], "count").fingerprint())
    found |= {part.fingerprint() for part in tf.split(TENSOR, cells="all")}
    assert len(found) == 6


def test_a_model_keeps_what_it_was_fitted_to_and_by_what(model, tmp_path):
    record = model.fitted_.record
    assert record.data == TENSOR.fingerprint()
    assert (record.cells, record.total) == (TENSOR.nnz, TENSOR.total)
    wanted = {
        "tallyfold": tf.__version__, "numpy": np.__version__, "python": platform.python_version(),
    }  # fmt: skip
    assert record.versions == wanted
    model.save(tmp_path)
    again = tf.load(tmp_path)
    assert again.fitted_.record == record
    assert str(again.card()) == str(model.card())


def test_the_card_is_for_people_and_for_programs(model):
    text, facts = str(model.card()), model.card().facts
    assert f"data: {TENSOR.nnz:,} cells, total {TENSOR.total:,}, fingerprint " in text
    assert "zeros: missing: cells without an entry are not known" in text
    assert "seed: 0" in text
    assert "held-out" not in text
    assert json.loads(json.dumps(facts))["seed"] == 0
    assert facts["axes"] == {axis.name: len(axis) for axis in TENSOR.axes}
    assert facts["parameters"]["max_iter"] == 4


def test_scores_are_kept_with_the_model(model, tmp_path):
    train, test = tf.split(TENSOR)
    model.fit(train).keep_scores(scores_of(model, test, ["log-pmf-positive", "rmse"], train), test)
    model.save(tmp_path)
    held_out = tf.load(tmp_path).card().facts["held out"]
    assert held_out["cells"] == test.nnz
    assert held_out["scores"]["bptf"]["log-pmf-positive"] == pytest.approx(model.score(test))
    assert f"held-out scores: on {test.nnz} cells, which the fit has not seen" in str(model.card())
    model.fit(train)
    assert model.card().facts["held out"] is None


@pytest.mark.parametrize("scores", [{"rmse": np.inf}, {"rmse": "1"}, {1: 0.5}])
def test_scores_that_are_none_are_refused(model, scores):
    with pytest.raises(ParameterError, match="`scores` must be"):
        model.keep_scores(scores, TENSOR)


def test_new_cells_are_told_apart_from_those_of_the_fit():
    first, later = tf.split_entities(TENSOR, "axis_0", 0.2)
    model = tf.Margins().fit(first.compact())
    card = model.update(later.compact()).card()
    assert card.facts["taken in"] == later.nnz
    assert card.facts["data"]["fingerprint"] == first.compact().fingerprint()
    assert f"taken in since: {later.nnz} cells" in str(card)


def test_counts_are_taken_in_once(tmp_path):
    first, later = (part.compact() for part in tf.split_entities(TENSOR, "axis_0", 0.2))
    tf.Margins().fit(first).update(later).save(tmp_path / "m")
    model = tf.load(tmp_path / "m")
    for seen in (first, later):
        with pytest.raises(ParameterError, match=r"given to this model before .*again=True"):
            model.update(seen)
    assert model.update(later, again=True).card().facts["taken in"] == 2 * later.nnz


def test_a_model_saved_before_there_were_records_has_a_card(model, tmp_path):
    document = model.fitted_.document()
    del document["record"]
    old = type(model.fitted_).restored(document, model.fitted_.arrays(), "old")
    model._fitted = type(old)(**{**vars(old), "parameters": model.fitted_.parameters})
    assert "fingerprint" not in str(model.card())
    assert "versions" not in str(model.card())


@pytest.mark.parametrize(
    "damage",
    [
        {"cells": -1},
        {"cells": 1.5},
        {"data": 3},
        {"versions": ["1"]},
        {"versions": {"numpy": 2}},
        {"held_out": {"cells": 3, "scores": {"bptf": {"rmse": "much"}}}},
        {"held_out": {"cells": 3, "scores": {"bptf": 1}}},
        {"held_out": {"cells": "3", "scores": {}}},
        {"more": 1},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_is_refused(model, tmp_path, damage, monkeypatch):
    record = model.fitted_.record
    monkeypatch.setattr(type(record), "document", lambda self: vars(record) | damage)
    model.save(tmp_path)
    with pytest.raises(StorageError, match="is damaged"):
        tf.load(tmp_path)


def test_a_model_remembers_its_bins_and_cuts_what_it_is_asked(events, tmp_path):
    tensor = tf.CountTensor.from_frame(events, ["user", "day"], bins={"day": "month"})
    assert tensor.axis("day").unit == "month"
    tf.BPTF(**QUICK).fit(tensor).save(tmp_path)
    model = tf.load(tmp_path)
    assert model.card().facts["bins"] == {"day": "month"}
    assert "bins: day by month" in str(model.card())
    cells = events.head(20)
    by_day = model.predict(cells)
    by_text = model.predict(cells.assign(day=cells["day"].dt.strftime("%Y-%m-%d 10:00")))
    by_label = model.predict(cells.assign(day=cells["day"].dt.strftime("%Y-%m")))
    np.testing.assert_array_equal(by_day, by_label)
    np.testing.assert_array_equal(by_text, by_label)
    with pytest.raises(tf.errors.LabelError, match="2031-01"):
        model.predict(cells.assign(day=pd.Timestamp("2031-01-05")))
    with pytest.raises(tf.errors.LabelError, match="never"):
        model.predict(cells.assign(day="never"))


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour"])
def test_bins_survive_files_and_selections(events, tmp_path, unit):
    tensor = tf.CountTensor.from_frame(events, ["user", "day"], bins={"day": unit})
    for name in ("counts.npz", "counts.parquet", "counts.csv"):
        tf.write_counts(tensor, tmp_path / name)
        again = tf.read_counts(tmp_path / name)
        assert again == tensor
        assert again.axis("day").unit == unit
    labels = tensor.axis("day").labels.to_pylist()
    assert tensor.sel(day=labels[:1]).axis("day").unit == unit
    assert tf.split(tensor).test.axis("day").unit == unit
    events.to_csv(tmp_path / "events.csv", index=False)
    read = tf.read_counts(tmp_path / "events.csv", ["user", "day"], bins={"day": unit})
    assert read.axis("day").unit == unit
    assert read == tensor


def test_a_query_keeps_its_bins(events, tmp_path):
    import duckdb

    with duckdb.connect() as connection:
        connection.register("events", events)
        sql, axes = "SELECT * FROM events", ["user", "day"]
        tensor = tf.read_query(connection, sql, axes, bins={"day": "month"})
    assert tensor.axis("day").unit == "month"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (tf.VAEBPTF(n_components=2, scale=(1, 5)), "1, 5"),
        (tf.Constant(scale=(1, 5)), "1, 5"),
        (tf.BPTF(n_components=2, zeros="observed", gate=("person", "film")), "person"),
    ],
)
def test_parameters_of_several_values_are_told(model, told, tmp_path):
    rng = np.random.default_rng(0)
    names = ["person", "film", "day"]
    frame = pd.DataFrame(np.argwhere(rng.random((12, 10, 3)) < 0.5), columns=names)
    frame["stars"] = rng.integers(1, 6, len(frame))
    model = model.fit(tf.CountTensor.from_frame(frame, names, "stars"))
    assert told in str(model.card())
    model.save(tmp_path / "m")
    assert told in str(tf.load(tmp_path / "m").card())
    assert told in model._repr_html_()
