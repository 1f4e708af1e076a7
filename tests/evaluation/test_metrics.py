from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import tallyfold as tf
from tallyfold.errors import DataError, NotFittedError, ParameterError
from tallyfold.evaluation.metrics import METRICS, coverage, scores_of
from tallyfold.evaluation.predictions import Predictions

OF_ZEROS = [name for name, metric in METRICS.items() if metric.needs == "part"]
LEVELS = {"coverage-50": 0.5, "coverage-80": 0.8, "coverage-95": 0.95}


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((30, 20, 10), n_components=3, density=0.3, random_state=1).tensor)


def tensor_of(counts):
    """Put counts in a matrix; zeros are left out."""
    return tf.CountTensor.from_array(counts, ["row", "column"])


def test_the_registry_says_what_is_better():
    assert METRICS["rmse"].loss(2.0) < METRICS["rmse"].loss(3.0)
    assert METRICS["log-pmf"].loss(-1.0) < METRICS["log-pmf"].loss(-2.0)
    assert METRICS["coverage-80"].loss(0.79) < METRICS["coverage-80"].loss(0.7)
    assert METRICS["coverage-80"].loss(0.79) < METRICS["coverage-80"].loss(0.9)
    for name, metric in METRICS.items():
        assert (metric.target is not None) == (metric.better == "nearest"), name


def test_scores_are_those_of_each_metric_alone(parts):
    train, test = parts
    model = tf.BPTF(n_components=2, max_iter=20).fit(train)
    together = scores_of(model, test, METRICS, train)
    assert together == {name: m.compute(model, test, train) for name, m in METRICS.items()}
    assert [name for name, value in together.items() if value is None] == OF_ZEROS
    assert all(np.isfinite(value) for value in together.values() if value is not None)


def test_predictions_are_worked_out_once(parts, monkeypatch):
    train, test = parts
    model = tf.BPTF(n_components=2, max_iter=5).fit(train)
    calls = []
    inner = type(model)._predictive
    monkeypatch.setattr(
        type(model), "_predictive", lambda self, at: calls.append(1) or inner(self, at)
    )
    scores_of(model, test, [name for name, m in METRICS.items() if m.needs != "train"])
    assert len(calls) == 3  # mean, median, and the distribution itself


def test_a_model_of_means_only_has_no_score_of_a_distribution(parts):
    train, test = parts
    model = tf.NTFLS(n_components=2, max_iter=5).fit(train)
    assert model.fitted_.likelihood is None
    found = scores_of(model, test, METRICS, train)
    for name, metric in METRICS.items():
        assert (found[name] is None) == (metric.needs in ("distribution", "part")), name


@pytest.mark.parametrize("level", LEVELS.values())
@pytest.mark.parametrize("rate", [0.01, 0.7, 6.0, 300.0])
def test_the_true_distribution_covers_its_level_exactly(level, rate):
    y = np.arange(1, 1000)
    seen = stats.poisson.sf(0, rate)
    pmf = stats.poisson.pmf(y, rate) / seen
    upto = np.minimum(np.cumsum(pmf), 1)
    covered = [
        coverage(SimpleNamespace(segments=one), level) for one in zip(pmf, upto, strict=True)
    ]
    assert pmf @ covered == pytest.approx(level, abs=1e-9)


def test_coverage_of_a_calibrated_model_and_of_one_too_narrow():
    rng = np.random.default_rng(0)
    counts = rng.negative_binomial(1.5, 0.3, (250, 200))
    train, test = tf.split(tensor_of(counts), 0.5)
    good, narrow = tf.Constant().fit(train), tf.Constant(likelihood="poisson").fit(train)
    for name, level in LEVELS.items():
        error = 4 * np.sqrt(level * (1 - level) / test.nnz)
        assert METRICS[name].compute(good, test) == pytest.approx(level, abs=error)
        assert METRICS[name].compute(narrow, test) < level - 0.08
    low, high = good.interval(test, 0.5).T  # an interval of whole counts covers more
    assert np.mean((low <= test.counts) & (test.counts <= high)) > 0.56


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_coverage_is_given_a_count_under_both_treatments(zeros):
    counts = np.random.default_rng(0).poisson(0.8, (200, 200))
    tensor = tensor_of(counts)
    model = tf.Constant(zeros=zeros, likelihood="poisson").fit(tensor)
    for name, level in LEVELS.items():
        assert METRICS[name].compute(model, tensor) == pytest.approx(level, abs=0.01)


def test_coverage_far_in_the_tail_is_none(parts):
    train, _ = parts
    model = tf.Constant(likelihood="poisson").fit(train)
    wild = train.with_cells(np.arange(3))
    wild = tf.CountTensor(train.axes, wild.indices, np.full(3, 10**6))
    assert scores_of(model, wild, LEVELS) == dict.fromkeys(LEVELS, 0.0)


def test_the_order_of_axes_and_rows_does_not_matter(parts):
    train, test = parts
    model = tf.BPTF(n_components=2, max_iter=20).fit(train)
    frame = test.to_frame("pandas").sample(frac=1, random_state=0)
    turned = tf.CountTensor.from_frame(frame, list(reversed(test.names)), "count")
    names = [n for n, metric in METRICS.items() if metric.needs != "train" and n not in OF_ZEROS]
    expected = scores_of(model, test, names)
    assert scores_of(model, turned, names) == pytest.approx(expected, rel=1e-12)


def test_perfect_predictions():
    frame = pd.DataFrame({"a": range(50), "b": range(50), "n": 3})
    tensor = tf.CountTensor.from_frame(frame, ["a", "b"], "n")
    found = scores_of(tf.Constant().fit(tensor), tensor, ["mae-mean", "mae-median", "rmse"])
    assert found == pytest.approx(dict.fromkeys(found, 0.0), abs=1e-9)


def test_what_cannot_be_scored_is_refused(parts):
    train, test = parts
    model = tf.Constant().fit(train)
    with pytest.raises(ParameterError, match="`metrics` must be among .*got 'luck'"):
        scores_of(model, test, ["luck"])
    with pytest.raises(ParameterError, match="must be a list of names; got the text 'rmse'"):
        scores_of(model, test, "rmse")
    with pytest.raises(ParameterError, match="`train` must be given .* rank cells"):
        scores_of(model, test, ["auc"])
    with pytest.raises(ParameterError, match="must be a CountTensor; got DataFrame"):
        Predictions(model, test.to_frame())
    with pytest.raises(DataError, match="nothing to score"):
        scores_of(model, test.with_cells(np.zeros(test.nnz, bool)), ["rmse"])
    with pytest.raises(NotFittedError):
        scores_of(tf.Constant(), test, ["rmse"])
