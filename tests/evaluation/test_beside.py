"""What labels are ranked by beside others: what is predicted, summed over the axes left out."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.evaluation.beside import PREDICTIONS, AxisBeside

MODELS = {
    "complete": (tf.VAEBPTF, {"zeros": "observed"}),
    "missing": (tf.VAEBPTF, {"zeros": "missing"}),
    "gate": (tf.BPTF, {"zeros": "observed", "gate": ("axis_0", "axis_2")}),
    "points": (tf.PTFKL, {"zeros": "missing"}),
    "means": (tf.NTFLS, {}),
    "drawn": (tf.GibbsBPTF, {"burn_in": 5, "n_draws": 6, "thin": 1}),
}


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((20, 30, 6), 3, density=0.3, random_state=4).tensor


@pytest.fixture(scope="module", params=MODELS)
def model(tensor, request):
    make, given = MODELS[request.param]
    few = {} if make is tf.GibbsBPTF else {"max_iter": 12}
    return make(n_components=3, **given, **few).fit(tensor)


def all_cells(model, **fixed):
    grids = np.meshgrid(*(np.arange(len(axis)) for axis in model.axes_), indexing="ij")
    cells = np.stack([grid.ravel() for grid in grids], axis=1).astype(np.int32)
    frame = model.predict(cells, output="frame")
    for name, label in fixed.items():
        frame = frame[frame[name] == label]
    return frame


@pytest.mark.parametrize("fixed", [(), ("axis_0",), ("axis_0", "axis_2")])
def test_the_order_is_that_of_sums_of_predictions(model, fixed):
    given = {name: model.axes_[int(name[-1])].label(2) for name in fixed}
    brute = all_cells(model, **given).groupby("axis_1")["mean"].mean()
    found = tf.top(model, "axis_1", given, top=30)
    assert found.attrs["by"] == "count"
    assert found.attrs["error"] == 0
    assert found["mean"].is_monotonic_decreasing
    np.testing.assert_allclose(found["mean"], brute[found["label"]], rtol=1e-9)
    assert np.isfinite(found["sd"]).all()


def test_probabilities_are_ranked_on_request(tensor):
    model = tf.VAEBPTF(zeros="observed", n_components=3, max_iter=12).fit(tensor)
    found = tf.top(model, "axis_1", {"axis_2": "axis_2-1"}, by="probability", top=30)
    cells = all_cells(model, axis_2="axis_2-1").drop(columns="mean")
    brute = cells.assign(p=model.probability(cells)).groupby("axis_1")["p"].mean()
    np.testing.assert_allclose(found["mean"], brute[found["label"]], rtol=1e-9)
    missing = tf.VAEBPTF(zeros="missing", n_components=3, max_iter=5).fit(tensor)
    with pytest.raises(ParameterError, match="whether there is any"):
        tf.top(missing, "axis_1", by="probability")
    with pytest.raises(ParameterError, match="`by` must be 'count' or 'probability'"):
        tf.top(missing, "axis_1", by="rate")


def test_too_many_cells_are_estimated_and_the_error_is_said(model):
    brute = all_cells(model).groupby("axis_1")["mean"].mean()
    own = AxisBeside(model, 1, {}, PREDICTIONS["count"])
    found = [own.strongest(5, np.random.default_rng(seed), 2_000) for seed in range(20)]
    places = np.array([each.labels_C for each in found])
    true = brute[[f"axis_1-{place:02d}" for place in places.ravel()]].to_numpy().reshape(20, 5)
    error = np.array([each.error_C for each in found])
    if not model.fitted_.has_distribution:  # the rate, whose sums are exact
        np.testing.assert_allclose([each.mean_C for each in found], true)
        return
    assert (error > 0).all()
    z = (np.array([each.mean_C for each in found]) - true) / error
    assert np.abs(z).mean() < 1.6  # 0.8 of a normal one; the largest are chosen, which biases
    assert true.mean() > 0.9 * np.sort(brute)[-5:].mean()


def test_sums_are_exact_where_a_prediction_is_the_factors_rate(tensor):
    model = tf.NTFLS(n_components=3, max_iter=12).fit(tensor)
    own = AxisBeside(model, 0, {2: 1}, PREDICTIONS["count"])
    every = np.arange(20)
    drawn = own.predicted(every, own.base(), 7, np.random.default_rng(0))
    whole = own.predicted(every, own.base(), 10_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean_C, whole.mean_C, rtol=1e-9)


def test_spread_follows_the_factors_as_far_as_predictions_do(tensor):
    model = tf.VAEBPTF(zeros="missing", n_components=3, max_iter=12).fit(tensor)
    if model.fitted_.head is not None:  # how many, whatever the factors' rates are
        given = {"axis_0": "axis_0-02", "axis_2": "axis_2-2"}
        np.testing.assert_allclose(tf.top(model, "axis_1", given)["sd"], 0, atol=1e-9)
