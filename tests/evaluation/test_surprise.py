"""Surprise: against brute force, uniform under the model itself, and finding what was planted."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.evaluation.surprise import surprise


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((25, 20, 8), 2, density=0.3, axes=("user", "page", "day")).tensor


@pytest.fixture(scope="module")
def model(tensor):
    return tf.BPTF(n_components=2, max_iter=15).fit(tensor)


def in_order(tensor, found):
    """Return the rows of a result in the order of the tensor's cells."""
    frame = tensor.to_frame("pandas").drop(columns="count")
    return frame.merge(found, on=list(tensor.names), how="left", validate="one_to_one")


@pytest.mark.parametrize("tail", ["upper", "lower", "both"])
def test_p_values_are_sums_of_the_pmf(model, tensor, tail):
    found = in_order(tensor, surprise(model, tensor, tail=tail))
    cells = np.arange(0, tensor.nnz, 40)
    said = model.predictive(tensor.indices[cells])
    counts = tensor.counts[cells]
    grid = np.arange(1, 400)
    pmf = np.stack([np.exp(said.log_pmf(np.full(len(cells), y))) for y in grid])
    upper = (pmf * (grid[:, None] >= counts)).sum(axis=0)
    lower = (pmf * (grid[:, None] <= counts)).sum(axis=0)
    half = pmf[counts - 1, np.arange(len(cells))] / 2
    both = 2 * np.minimum(upper - half, lower - half)
    wanted = {"upper": upper, "lower": lower, "both": np.minimum(both, 1)}[tail]
    np.testing.assert_allclose(found["p"].to_numpy()[cells], wanted, rtol=1e-6)
    np.testing.assert_allclose(10 ** found["log10_p"], found["p"], rtol=1e-9)
    np.testing.assert_array_equal(found["count"], tensor.counts)
    np.testing.assert_allclose(found["mean"], model.predict(tensor))
    np.testing.assert_array_equal(found[["low", "high"]], model.interval(tensor, 0.9))


def test_p_values_are_uniform_on_data_drawn_from_the_model():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": np.repeat(range(60), 40), "b": np.tile(range(40), 60)})
    busy = tf.CountTensor.from_frame(frame.assign(n=rng.poisson(3000.0, 2400)), ["a", "b"], "n")
    model = tf.Constant(likelihood="poisson").fit(busy)
    drawn = model.sample(busy, 1, random_state=1)[0]
    drawn_tensor = tf.CountTensor.from_frame(frame.assign(n=drawn), ["a", "b"], "n")
    for tail in ("upper", "lower", "both"):
        p = surprise(model, drawn_tensor, tail=tail)["p"]
        assert scipy.stats.kstest(p, "uniform").pvalue > 1e-3
    assert surprise(model, drawn_tensor)["by_chance"].iloc[9] == pytest.approx(10, rel=0.8)


def test_a_planted_anomaly_comes_first(model, tensor):
    frame = tensor.to_frame("pandas")
    odd = frame.assign(count=frame["count"].where(frame.index != 123, 4000))
    found = surprise(model, tf.CountTensor.from_frame(odd, tensor.names, "count"), top=5)
    first = found.iloc[0]
    assert len(found) == 5
    assert tuple(first[list(tensor.names)]) == tuple(frame.loc[123, list(tensor.names)])
    assert (first["count"], first["side"]) == (4000, "more")
    assert np.isfinite(found["log10_p"]).all()
    assert first["log10_p"] < -20
    assert first["high"] < 4000
    assert found["log10_p"].is_monotonic_increasing


def test_too_few_is_a_surprise_too():
    counts = np.full((12, 12), 900)
    counts[3, 4] = 1
    tensor = tf.CountTensor.from_array(counts)
    model = tf.Constant(likelihood="poisson").fit(tensor)
    first = surprise(model, tensor, tail="both", top=1).iloc[0]
    assert (first["count"], first["side"]) == (1, "fewer")
    assert first["p"] == 0  # below the smallest float: the logarithm still tells
    assert -400 < first["log10_p"] < -300
    assert surprise(model, tensor, tail="lower", top=1).iloc[0]["count"] == 1
    assert surprise(model, tensor, tail="upper", top=1).iloc[0]["count"] == 900


def test_the_cells_may_be_in_other_positions(model, tensor):
    part = tensor.with_cells(np.arange(tensor.nnz) % 5 == 0).filter(min_nonzeros={"user": 1})
    whole = surprise(model, tensor)
    found = surprise(model, part)
    both = found.merge(whole, on=list(tensor.names))
    assert len(both) == part.nnz
    np.testing.assert_allclose(both["p_x"], both["p_y"])


@pytest.mark.parametrize(
    ("given", "words"),
    [({"tail": "left"}, "`tail`"), ({"top": 0}, "`top`"), ({"level": 1.0}, "`level`")],
)
def test_bad_parameters_are_refused(model, tensor, given, words):
    with pytest.raises(ParameterError, match=words):
        surprise(model, tensor, **given)


def test_an_axis_named_like_a_column_is_refused():
    frame = pd.DataFrame({"mean": [1, 2, 3], "b": [1, 2, 1], "n": [1, 2, 3]})
    odd = tf.CountTensor.from_frame(frame, ["mean", "b"], "n")
    with pytest.raises(ParameterError, match="rename it"):
        surprise(tf.Constant().fit(odd), odd)


def test_a_model_without_a_distribution_is_refused(tensor):
    model = tf.NTFLS(n_components=1, max_iter=3).fit(tensor)
    with pytest.raises(ParameterError, match="means only"):
        surprise(model, tensor)
