"""Functions that are given something else than they expect say so, and what to do."""

import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.evaluation.profiles import profile, top
from tallyfold.evaluation.scaling import scaling
from tallyfold.evaluation.words.coherence import coherence_by_word
from tallyfold.report import plots


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((12, 10, 6), 2, density=0.3).tensor


@pytest.fixture(scope="module")
def model(tensor):
    return tf.BPTF(n_components=2, max_iter=3).fit(tensor)


FOLDER_FOR_A_MODEL = {
    "surprise": lambda t: tf.surprise("model", t),
    "profile": lambda t: profile("model", "axis_0", "x"),
    "top": lambda t: top("model", "axis_0", {}),
    "scaling": lambda t: scaling("model", "axis_0"),
    "coherence": lambda t: coherence_by_word("model", "axis_0", t),
    "component_bars": lambda t: plots.component_bars("model", 0, "axis_0"),
    "calibration": lambda t: plots.calibration("model", t),
    "convergence": lambda t: plots.convergence("model"),
    "compare": lambda t: tf.compare({"a": "model"}, t, t),
    "write_report": lambda t: tf.write_report("model", "x.html"),
}


@pytest.mark.parametrize("name", FOLDER_FOR_A_MODEL)
def test_a_folder_in_the_place_of_a_model(name, tensor):
    with pytest.raises(ParameterError, match="must be a fitted model; got str.*load"):
        FOLDER_FOR_A_MODEL[name](tensor)


FRAME_FOR_A_TENSOR = {
    "surprise": lambda m, f: tf.surprise(m, f),
    "compare": lambda m, f: tf.compare({"a": m}, f, f),
    "experiment": lambda m, f: tf.Experiment({"a": f}, {"m": m}, ["rmse"]),
    "experiment, later": lambda m, f: tf.Experiment({"a": lambda: f}, {"m": m}, ["rmse"]).run(),
    "pit": lambda m, f: plots.pit_histogram(m, f),
}


@pytest.mark.parametrize("name", FRAME_FOR_A_TENSOR)
def test_a_frame_in_the_place_of_a_tensor(name, model):
    with pytest.raises(ParameterError, match="CountTensor.*DataFrame"):
        FRAME_FOR_A_TENSOR[name](model, pd.DataFrame({"a": [1]}))


@pytest.mark.parametrize(
    "call",
    [
        lambda m, t: tf.Experiment({"a": t}, {"m": m}, ["rmse"], seeds=2),
        lambda m, t: tf.Experiment({"a": t}, [m], ["rmse"]),
        lambda m, t: tf.Experiment([t], {"m": m}, ["rmse"]),
        lambda m, t: tf.compare([m], t, t),
        lambda m, t: tf.compare({}, t, t),
        lambda m, t: top(m, "axis_0", ["axis_1"]),
        lambda m, t: tf.write_report(m, 3),
        lambda m, t: tf.write_report(m, "x.html", title=3),
    ],
)
def test_other_things_of_the_wrong_kind(call, model, tensor):
    with pytest.raises(ParameterError, match="must be"):
        call(model, tensor)
