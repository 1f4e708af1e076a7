import numpy as np
import pytest
from scipy import stats

import tallyfold as tf
from tallyfold.errors import DataError, ParameterError
from tallyfold.evaluation.compare import compare, floors
from tallyfold.evaluation.metrics import METRICS

pytestmark = pytest.mark.usefixtures("brief_heads")


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((30, 20, 10), n_components=3, density=0.3, random_state=1).tensor)


def test_a_row_per_model_and_errors_are_rows_too(parts):
    announced = []
    table = compare(
        {"constant": tf.MainEffects(max_iter=2), "broken": tf.BPTF(n_components=0)},
        *parts,
        announce=announced.append,
    )
    assert announced == ["constant", "broken"]
    assert table["model"].tolist() == ["constant", "broken"]
    assert "`n_components` must be a positive integer" in table["error"][1]
    assert table.loc[0, [n for n, m in METRICS.items() if m.needs != "part"]].notna().all()
    assert table.loc[1, list(METRICS)].isna().all()
    with pytest.raises(ParameterError, match="`metrics` must be among .*got 'luck'"):
        compare({}, *parts, metrics=["luck"])
    with pytest.raises(DataError, match="counts in both parts; got .* and 0 to test on"):
        compare(
            {"constant": tf.Constant()}, parts[0], parts[1].with_cells(np.zeros(parts[1].nnz, bool))
        )


def test_metrics_of_a_constant_agree_with_scipy(parts):
    train, test = parts
    model = tf.Constant(likelihood="poisson", truncated=False).fit(train)
    rate, y = train.counts.mean(), test.counts
    poisson = stats.poisson(rate)
    expected = {
        "mae-mean": np.abs(y - rate).mean(),
        "mae-median": np.abs(y - np.median(train.counts)).mean(),
        "rmse": np.sqrt(((y - rate) ** 2).mean()),
        "log-pmf": poisson.logpmf(y).mean(),
        "log-pmf-positive": (poisson.logpmf(y) - np.log1p(-poisson.pmf(0))).mean(),
        "log-pmf-plug-in": (poisson.logpmf(y) - np.log1p(-poisson.pmf(0))).mean(),
        "paper-form": (y * np.log(rate) - rate).mean(),
        "paper-form-at-mean": (y * np.log(rate) - rate).mean(),
        "amount": (poisson.logpmf(y) - np.log1p(-poisson.pmf(0))).mean(),
        "auc": 0.5,
        "auc-within": 0.5,
        "recall-10": 10 / 101,
        **by_chance(train, test),
    } | {f"coverage-{percent}": covered(y, poisson, percent / 100) for percent in (50, 80, 95)}
    assert set(expected) == {n for n, metric in METRICS.items() if metric.needs != "part"}
    for name, value in expected.items():
        assert METRICS[name].compute(model, test, train) == pytest.approx(value, rel=1e-9), name


def by_chance(train, test, k=20):
    """Return the scores of lists of all labels of the longest axis in which all are tied."""
    axis = int(np.argmax(test.shape))
    left = test.shape[axis] - (train.to_dense() > 0).sum(axis=axis)
    held_out = (test.to_dense() > 0).sum(axis=axis)
    left, held_out = left[held_out > 0], held_out[held_out > 0]
    discount = np.append(0, np.cumsum(1 / np.log2(np.arange(2, k + 2))))
    gain = held_out * discount[np.minimum(left, k)] / left / discount[np.minimum(held_out, k)]
    hits = held_out * np.minimum(left, k) / left
    return {"recall-20": hits.sum() / np.minimum(held_out, k).sum(), "ndcg-20": gain.mean()}


def covered(y, distribution, level):
    """Return the mean share of each count's probability that is in the central interval."""
    seen = distribution.sf(0)
    upto, below = ((distribution.cdf(at) - distribution.pmf(0)) / seen for at in (y, y - 1))
    inside = np.minimum(upto, (1 + level) / 2) - np.maximum(below, (1 - level) / 2)
    width = np.maximum(distribution.pmf(y) / seen, 1e-300)
    return np.mean(np.maximum(inside, 0) / width)


def test_a_truncated_model_is_scored_both_ways(parts):
    train, test = parts
    model = tf.Constant(likelihood="negative-binomial").fit(train)
    given_seen = METRICS["log-pmf-positive"].compute(model, test)
    assert given_seen == pytest.approx(model.score(test))
    assert METRICS["log-pmf"].compute(model, test) < given_seen


def test_a_model_that_says_nothing_of_zeros_has_no_score_with_them(parts):
    train, test = parts
    assert METRICS["log-pmf"].compute(tf.Constant().fit(train), test) is None
    assert METRICS["log-pmf"].compute(tf.Constant(zeros="observed").fit(train), test) < 0


def test_the_axis_of_lists_is_named():
    tensor = tf.simulate((30, 20, 5), 2, density=0.2, axes=["user", "item", "day"]).tensor
    train, test = tf.split(tensor, 0.2)
    assert compare(floors(), train, test, ["auc-within"]).attrs["along"] == "user"
