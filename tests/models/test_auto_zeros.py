"""``zeros="auto"``: what empty cells are is decided by the counts, said, and kept."""

import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from tests.models.test_complete_logs import shopping

import tallyfold as tf
from tallyfold.errors import ParameterError, StorageError
from tallyfold.evaluation.holding_out import _say
from tallyfold.inference.distributed.process_group import ProcessGroup, use_group
from tallyfold.inference.fit.folder import _checksum
from tallyfold.models.complete_logs import _say_zeros, say_zeros

pytestmark = pytest.mark.usefixtures("brief_heads")


def stars(n_cells=1500, seed=0):
    """Return ratings, 4 the most frequent."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"user": rng.integers(0, 60, n_cells)})
    frame["film"] = rng.integers(0, 40, n_cells)
    frame = frame.drop_duplicates()
    frame["stars"] = rng.choice([1, 2, 3, 4, 5], len(frame), p=[0.05, 0.1, 0.2, 0.4, 0.25])
    return tf.CountTensor.from_frame(frame, ["user", "film"], value="stars")


@pytest.fixture
def said(caplog):
    """Give a function that returns the lines that were logged so far."""
    _say_zeros.cache_clear()
    _say.cache_clear()
    with caplog.at_level(logging.WARNING, "tallyfold"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield lambda: [
            record.getMessage() for record in caplog.records if "zeros" in record.getMessage()
        ]
    _say_zeros.cache_clear()
    _say.cache_clear()


AUTO = {"n_components": 2, "max_iter": 3}
TREATED = {"missing": stars, "observed": shopping}


@pytest.mark.parametrize("zeros", TREATED)
def test_by_default_counts_say_what_empty_cells_are(zeros, said, tmp_path):
    tensor = TREATED[zeros]()
    model = tf.VAEBPTF(**AUTO)
    assert model.zeros == "auto"
    assert model.zeros_for(tensor) == zeros
    model.fit(tensor)
    tf.VAEBPTF(**AUTO).fit(tensor)
    (line,) = said()
    assert f"zeros='{'missing' if zeros == 'observed' else 'observed'}'" in line
    assert model.get_params()["zeros"] == "auto"
    assert model.fitted_.parameters["zeros"] == zeros
    told = tf.VAEBPTF(zeros=zeros, **AUTO).fit(tensor)
    assert np.array_equal(model.predict(tensor), told.predict(tensor))
    model.save(tmp_path / "m")
    loaded = tf.load(tmp_path / "m")
    assert loaded.zeros == zeros
    part = tf.split(tensor, 0.3, cells="all").test
    assert loaded.score(part) == model.score(part) == told.score(part)


def test_of_many_processes_the_first_speaks(said):
    with use_group(ProcessGroup.at(1, 2)):
        say_zeros("observed", ("user", "item"))
    assert said() == []
    with use_group(ProcessGroup.at(0, 2)):
        say_zeros("observed", ("user", "item"))
    assert len(said()) == 1


def test_a_saved_model_has_decided(tmp_path):
    tf.VAEBPTF(**AUTO).fit(shopping()).save(tmp_path)
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["parameters"]["zeros"] == "observed"
    document["parameters"]["zeros"] = "auto"
    document["checksum"] = _checksum({n: v for n, v in document.items() if n != "checksum"})
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(StorageError, match="`zeros` must be what a fit decided on"):
        tf.load(tmp_path)


def test_a_given_scale_is_for_ratings():
    assert tf.VAEBPTF(scale=(1, 9)).zeros_for(shopping()) == "missing"


def test_a_wide_range_is_no_scale():
    few = stars()
    counts = few.counts.copy()
    counts[0] = 1000
    assert tf.VAEBPTF().zeros_for(tf.CountTensor(few.axes, few.indices, counts)) == "observed"


def test_who_chooses_is_not_told(said):
    tf.VAEBPTF(zeros="observed", **AUTO).fit(shopping())
    assert said() == []


@pytest.mark.parametrize(
    "given",
    [
        {"likelihood": "auto"},
        {"interactions": [("user", "item")], "amount": "negative-binomial"},
    ],
)
def test_what_needs_missing_zeros_says_so_where_auto_chose_others(given):
    with pytest.raises(ParameterError, match=r"use zeros='missing'.*zeros='auto' chose: .*compl"):
        tf.VAEBPTF(**given).fit(shopping())
    fitted = tf.VAEBPTF(zeros="missing", **AUTO | given).fit(shopping())
    assert fitted.fitted_.parameters["zeros"] == "missing"


def test_a_gate_says_so_where_auto_chose_missing():
    with pytest.raises(ParameterError, match=r"use zeros='observed'.*zeros='auto' chose: .*ratin"):
        tf.VAEBPTF(gate="none").fit(stars())


# -- comparisons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("zeros", TREATED)
def test_all_models_that_are_compared_have_the_same_zeros(zeros, said):
    other = "missing" if zeros == "observed" else "observed"
    train, test = tf.split(TREATED[zeros](), 0.2, cells="all")
    ours, metrics = tf.VAEBPTF(**AUTO), ["mae-mean"]
    rivals = {"constant": tf.Constant(zeros=other), "main effects": tf.MainEffects(zeros=other)}
    table = tf.compare(rivals | {"ours": ours}, train, test, metrics)
    assert table["zeros"].tolist() == [other] * 3
    assert ours.fitted_.parameters["zeros"] == other
    assert ours.zeros == "auto"
    (line,) = said()
    assert f"ours is compared with models whose zeros are {other}" in line
    alone = tf.compare({"ours": ours, "again": tf.VAEBPTF(**AUTO)}, train, test, metrics)
    assert alone["zeros"].tolist() == [zeros] * 2
    assert len(said()) == 2


def test_different_zeros_are_said(said):
    train, test = tf.split(shopping(), 0.2, cells="all")
    models = {"a": tf.Constant(zeros="missing"), "b": tf.Constant(zeros="observed")}
    table = tf.compare(models, train, test, ["mae-mean"])
    assert table["zeros"].tolist() == ["missing", "observed"]
    (line,) = said()
    assert "do not compare: missing to a; observed zeros to b" in line


def test_an_experiment_decides_on_the_whole_data_set(said, tmp_path):
    models = {"ours": tf.VAEBPTF(**AUTO)}
    experiment = tf.Experiment({"stars": stars(), "log": shopping()}, models, ["mae-mean"])
    rows = experiment.run(tmp_path, announce=None)
    assert rows["zeros"].tolist() == ["missing", "observed"]
    assert rows["error"].isna().all()
    with pytest.raises(StorageError, match="another 'ours'"):  # beside others it is another model
        tf.Experiment(
            {"log": shopping()}, models | {"b": tf.Constant(zeros="missing")}, ["mae-mean"]
        ).run(tmp_path, announce=None)


def test_a_search_decides_once_for_all_folds(said):
    found = tf.tune(tf.VAEBPTF(**AUTO), shopping(), {"n_components": [1, 2]}, folds=2, storage=None)
    assert found.metric == "log-score"
    assert found.model().zeros == "observed"
    assert found.document()["parameters"]["zeros"] == "observed"
    assert len(said()) == 1
