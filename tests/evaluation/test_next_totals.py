"""Totals of labels and of periods: their intervals hold what comes."""

import numpy as np
import pytest
from scipy import stats
from tests.models.test_forecasting import days

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.evaluation.period_scores import crps_of, share_inside
from tallyfold.posterior.past_totals import TotalFeatures, TotalNumbers


@pytest.fixture(scope="module")
def model():
    return tf.SmoothedPast().fit(days())


def drawn(walk, n_users=60, n_days=30, seed=0):
    """Draw counts of users whose levels walk by themselves."""
    rng = np.random.default_rng(seed)
    log_UT = rng.normal(1.0, 1.0, (n_users, 1)) + walk * np.cumsum(
        rng.standard_normal((n_users, n_days)), axis=1
    )
    counts = rng.poisson(np.exp(log_UT)[:, None, :] * rng.dirichlet(np.ones(4))[:, None])
    names = [list(range(size)) for size in counts.shape]
    axes = [tf.Axis("user", names[0]), tf.Axis("item", names[1])]
    axes.append(tf.Axis("day", names[2], tf.AxisOrder("ordered")))
    cells = np.argwhere(counts).astype(np.int32)
    return tf.CountTensor(axes, cells, counts[counts > 0])


@pytest.mark.parametrize("walk", [0.0, 0.25])
def test_intervals_of_labels_hold_as_many_as_they_say(walk):
    tensor = drawn(walk)
    rows = tf.backtest(tensor, {"past": tf.SmoothedPast()}, horizon=3, origins=3)
    inside = rows[(rows["metric"] == "label inside") & (rows["combinations"] == "user")]
    for _, part in inside.groupby("ahead"):
        assert 0.72 < part["value"].mean() < 0.88


def test_labels_whose_levels_walk_are_less_sure_the_further_away():
    told = tf.next_totals(tf.SmoothedPast().fit(drawn(0.25)), 4, axis="user")
    width = (told["high"] - told["low"]).groupby(told["day"]).mean()
    assert (np.diff(width) > 0).all()
    assert width.iloc[-1] > 1.3 * width.iloc[0]


def test_labels_are_those_with_counts_and_the_largest_come_first(model):
    told = tf.next_totals(model, 2, axis="item")
    for _, part in told.groupby("day", sort=False):
        assert sorted(part["item"]) == sorted(days().axes[1].labels.to_pylist())
        assert (np.diff(part["mean"]) <= 0).all()
    assert (told["low"] <= told["high"]).all()


def test_periods_in_all_grow_less_sure(model):
    told = tf.next_totals(model, 3)
    assert list(told.columns) == ["day", "mean", "low", "high"]
    assert (told["low"] < told["mean"]).all()
    assert (told["mean"] < told["high"]).all()
    assert (np.diff(told["high"] - told["low"]) >= 0).all()
    narrow = tf.next_totals(model, 3, level=0.5)
    assert (narrow["high"] < told["high"]).all()
    assert tf.next_totals(model, 3, axis="day").equals(told)


def test_bad_input(model):
    with pytest.raises(LabelError, match="nothing"):
        tf.next_totals(model, axis="nothing")
    with pytest.raises(ParameterError, match="horizon"):
        tf.next_totals(model, 0)
    with pytest.raises(ParameterError, match="does not remember"):
        tf.next_totals(tf.Constant().fit(days()))
    with pytest.raises(ParameterError, match="zeros='observed'"):
        tf.next_totals(tf.SmoothedPast(zeros="missing").fit(days()))


def test_totals_are_negative_binomial_of_the_mean_and_variance_learned():
    sums, periods, average, recent = (np.array([each]) for each in (40.0, 8.0, 2.0, 0.3))
    numbers = TotalNumbers(-1.0, 0.1, 0.5, -0.5, -1.0, -2.0, -3.0)
    told = numbers.distribution(TotalFeatures(sums, periods, average, recent), np.array([3]))
    pull = np.exp(-1.0)
    mean = (40 + 2 * pull) / (8 + pull) * np.exp(0.1 + 0.15)
    rate = np.exp(-1.0) / 41 + np.exp(-2.0) + 2 * np.exp(-3.0)
    variance = mean + np.exp(-0.5) * mean + rate * mean**2
    true = stats.nbinom(mean**2 / (variance - mean), mean / variance)
    for total in (0, 1, 7):
        less, upto = told.below(np.array([total]))
        assert told.log_pmf(np.array([total]))[0] == pytest.approx(true.logpmf(total))
        assert (less[0], upto[0]) == pytest.approx((true.cdf(total - 1), true.cdf(total)))
    assert told.quantile(0.9)[0] == true.ppf(0.9)
    draws = told.sample(np.random.default_rng(0), 20_000)
    assert draws.mean() == pytest.approx(mean, rel=0.02)
    assert draws.var() == pytest.approx(variance, rel=0.05)


def test_scores_of_labels_are_those_of_their_definition():
    """Whatever is told rightly has `LEVEL` inside, also where most totals are zero."""
    true = stats.nbinom(0.4, 0.4)
    came = true.rvs(40_000, random_state=0)
    assert share_inside(true.cdf(came - 1), true.cdf(came)) == pytest.approx(0.8, abs=0.01)
    draws = np.sort(true.rvs((400, 3), random_state=1), axis=0).astype(float)
    actual = np.array([0.0, 1.0, 4.0])
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / (400 * 399)
    wanted = (np.abs(draws - actual).mean(axis=0) - pairs / 2).mean()
    assert crps_of(draws, actual) == pytest.approx(wanted)


@pytest.mark.parametrize("axis", [None, "user"])
def test_totals_are_of_all_cells_where_a_part_was_hidden(axis, tmp_path):
    tensor = drawn(0.0)
    part = tf.split(tensor, 0.4, cells="all", random_state=0)[0]
    tf.SmoothedPast().fit(part).save(tmp_path / "model")
    told = tf.next_totals(tf.load(tmp_path / "model"), axis=axis)["mean"].sum()
    of_all = tf.next_totals(tf.SmoothedPast().fit(tensor), axis=axis)["mean"].sum()
    assert told == pytest.approx(of_all, rel=0.1)
