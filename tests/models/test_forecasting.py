"""Models that remember earlier periods: what they learn, refuse and forecast."""

import numpy as np
import pandas as pd
import pytest
from tests.models.quick import REMEMBER, quick

import tallyfold as tf
from tallyfold.errors import DataError, LabelError, ParameterError

N_USERS, N_ITEMS, N_DAYS = 40, 12, 24


def days(n_days=N_DAYS, seed=0, walk=0.0, skip=(), n_users=N_USERS):
    """Counts in which each pair has a rate of its own; their level walks."""
    rng = np.random.default_rng(seed)
    rate = rng.gamma(0.3, 1.0, (n_users, N_ITEMS))
    level = np.exp(np.cumsum(walk * rng.standard_normal(n_days)))
    counts = rng.poisson(rate[..., None] * 0.3 * np.clip(level, 0.05, 20))
    counts[..., list(skip)] = 0
    labels = np.arange(n_days)
    users = tf.Axis("user", [f"u{n}" for n in range(n_users)])
    axes = [users, tf.Axis("item", [f"i{n}" for n in range(N_ITEMS)])]
    cells = np.stack(np.nonzero(counts), axis=1)
    full = tf.CountTensor(
        [*axes, tf.Axis("day", labels, tf.AxisOrder("ordered"))], cells, counts[counts > 0]
    )
    return full.compact() if skip else full


@pytest.fixture(scope="module")
def tensor():
    return days()


@pytest.fixture(scope="module")
def models(tensor):
    return {name: quick(name, zeros="observed").fit(tensor) for name in REMEMBER}


def pairs(tensor, day):
    """All pairs on a day, as a frame."""
    grid = pd.MultiIndex.from_product([axis.labels.to_pylist() for axis in tensor.axes[:2]])
    return grid.to_frame(index=False, name=["user", "item"]).assign(day=day)


@pytest.mark.parametrize("name", REMEMBER)
def test_a_forecast_knows_the_next_labels_and_answers_everything(name, models, tensor, tmp_path):
    model = models[name].forecast(3)
    assert model.axes_[2].labels.to_pylist() == list(range(N_DAYS + 3))
    assert len(models[name].axes_[2]) == N_DAYS  # the model itself stays
    cells = pairs(tensor, N_DAYS + 1)
    chance = model.probability(cells)
    assert np.all((chance > 0) & (chance < 1))
    assert np.all(model.predict(cells) >= 0)
    assert model.sample(cells, 4).shape == (4, len(cells))
    assert np.all(np.diff(model.interval(cells), axis=1) >= 0)
    later = tf.CountTensor(model.axes_, [[0, 0, N_DAYS], [1, 2, N_DAYS + 2]], [1, 9])
    assert np.isfinite(model.score(later))
    assert len(tf.surprise(model, later, top=2)) == 2
    model.save(tmp_path / "m")
    loaded = tf.load(tmp_path / "m")
    assert np.array_equal(loaded.probability(cells), chance)
    assert np.array_equal(loaded.forecast(1).probability(cells), chance)


@pytest.mark.parametrize("name", REMEMBER)
def test_what_happened_before_is_more_probable(name, models, tensor):
    model = models[name].forecast(1)
    last = tensor.with_cells(tensor.indices[:, 2] == N_DAYS - 1)
    cells = pairs(tensor, N_DAYS)
    chance = model.probability(cells).reshape(N_USERS, N_ITEMS)
    had = np.zeros((N_USERS, N_ITEMS), bool)
    had[tuple(last.indices[:, :2].T)] = True
    assert chance[had].mean() > 1.2 * chance[~had].mean()


def test_memory_is_better_than_the_last_value_and_margins_alone(models):
    """On rates that stay what they are, the longest memory is right, and is chosen."""
    long = models["smoothed-past"].fitted_.forecaster
    assert long.rates.memory.length >= 0.98
    scores = {name: model.history_["objective"][0] for name, model in models.items()}
    best = models["smoothed-past"].history_.query("phase == 'past'")["objective"].max()
    assert best > scores["last-value"] + 0.05


def test_a_period_knows_only_what_came_before_it(models, tensor):
    """Later counts change no prediction of earlier ones, once numbers are learned."""
    model = models["smoothed-past"]
    fitted = model.fitted_
    past = tensor.indices[:, 2] < 15
    history = fitted.forecaster.history
    shorter = type(history).of(
        tensor.indices[past], tensor.counts[past], tensor.shape, 2, tensor.axes[2].steps()
    )
    cells = np.stack([np.arange(10), np.arange(10), np.full(10, 15)], axis=1)
    whole, part = (fitted.forecaster.rates.log_rates(h, h.asked(cells)) for h in (history, shorter))
    assert np.allclose(whole, part, rtol=1e-12)


def test_the_spread_of_a_walking_level_grows_with_distance():
    """Totals of a walk are less sure the further away; those of a level that stays are not."""
    walking, still = (
        [
            tf.SmoothedPast().fit(days(40, seed, walk, n_users=150)).fitted_.forecaster.spread
            for seed in range(3)
        ]
        for walk in (0.25, 0.0)
    )
    assert np.mean([spread.further for spread in walking]) > 0.003
    assert np.mean([spread.further for spread in still]) < 0.001
    assert np.mean([spread.first for spread in walking]) > 0.03
    assert np.mean([spread.first for spread in still]) < 0.003
    deviations = [walking[0].deviation(ahead) for ahead in range(1, 7)]
    assert deviations == sorted(deviations)


def test_draws_of_a_period_share_its_level():
    tensor = days(walk=0.25)
    model, cells = tf.SmoothedPast().fit(tensor).forecast(2), pairs(tensor, N_DAYS)
    draws_nN = model.sample(cells, 1_000)
    total_n = draws_nN.sum(axis=1)
    assert total_n.mean() == pytest.approx(model.predict(cells).sum(), rel=0.15)
    alone = np.sqrt(np.sum(draws_nN.var(axis=0)))
    assert total_n.std() > 1.5 * alone  # cells by themselves would say much less


def test_a_network_sees_what_a_rate_cannot_say():
    """Pairs come nearly every day until they end: two days without one say more than the sum."""
    rng = np.random.default_rng(0)
    last = rng.integers(-10, 30, (30, 20))
    on = (np.arange(20) <= last[..., None]) & (rng.random((30, 20, 20)) < 0.9)
    axes = [tf.Axis("a", list(range(30))), tf.Axis("b", list(range(20)))]
    axes.append(tf.Axis("day", list(range(20)), tf.AxisOrder("ordered")))
    cells = np.argwhere(on)
    tensor = tf.CountTensor(axes, cells, np.ones(len(cells), int))
    comes = np.ravel(last >= 20)
    next_day = np.column_stack([np.argwhere(last > -99), np.full(last.size, 20)])
    told = []
    for network in ("none", "auto"):
        model = tf.SmoothedPast(network=network).fit(tensor)
        chance = model.forecast(1).probability(next_day)
        told.append(np.mean(np.log(np.where(comes, chance, 1 - chance))))
    assert model.fitted_.forecaster.network is not None
    assert told[1] > told[0] + 0.05


def test_cells_are_less_sure_the_further_away_they_are():
    moving = tf.SmoothedPast().fit(days(60, 1, walk=0.25))
    ahead = moving.forecast(6)
    cells = pairs(days(60, 1), 60)
    near, far = (ahead.predictive(cells.assign(day=day)) for day in (60, 65))
    # as probable on average, less sure of each: strong pairs are zero more often
    strong = near.mean() > np.quantile(near.mean(), 0.9)
    assert far.log_pmf(0)[strong].mean() > near.log_pmf(0)[strong].mean()


def test_gaps_are_periods_without_counts(tensor):
    gappy = days(skip=(5, 6, 20))
    assert gappy.axes[2].gaps() == 3
    model = tf.LastValue().fit(gappy)
    history = model.fitted_.forecaster.history
    assert history.n_periods == N_DAYS
    # the day after a gap has seen nothing the day before
    after = gappy.axes[2].positions([21])[0]
    cells = np.stack(np.unravel_index(np.arange(30), (N_USERS, N_ITEMS)), axis=1)
    rates = model.rate(np.column_stack([cells, np.full(30, after)]))
    assert np.ptp(rates) == 0


def test_seasons_return():
    rng = np.random.default_rng(0)
    on = rng.random((30, 7)) < 0.3  # who comes on which day of the week
    counts = (on[:, np.arange(42) % 7] & (rng.random((30, 42)) < 0.9)).astype(int)
    axes = [tf.Axis("user", list(range(30))), tf.Axis("day", list(range(42)))]
    axes[1] = axes[1].with_order(tf.AxisOrder("ordered"))
    tensor = tf.CountTensor(axes, np.stack(np.nonzero(counts), axis=1), np.ones(counts.sum(), int))
    model = tf.SeasonalNaive(period=7).fit(tensor).forecast(14)
    for day in (42, 49, 55):
        chance = model.probability(pd.DataFrame({"user": range(30), "day": day}))
        assert chance[on[:, day % 7]].mean() > 5 * chance[~on[:, day % 7]].mean()


def test_zeros_missing_tell_how_many_alone(tensor):
    model = tf.SmoothedPast(zeros="missing").fit(tensor).forecast(1)
    cells = pairs(tensor, N_DAYS)
    assert np.all(model.predict(cells) >= 1)
    with pytest.raises(ParameterError, match="how many, not whether"):
        model.probability(cells)


@pytest.mark.parametrize("name", REMEMBER)
def test_an_axis_without_order_is_refused_and_the_remedy_works(name, tensor):
    plain = tf.CountTensor(
        [*tensor.axes[:2], tensor.axes[2].with_order(None)], tensor.indices, tensor.counts
    )
    with pytest.raises(LabelError, match=r"no axis has an order.*ordered=\['day'\]"):
        quick(name).fit(plain)
    with pytest.raises(LabelError, match="axis 'day' has no order"):
        quick(name, time="day").fit(plain)
    with pytest.raises(LabelError, match="no axis 'colour'"):
        quick(name, time="colour").fit(tensor)


def test_bad_input(tensor, models):
    one = tensor.with_cells(tensor.indices[:, 2] == 3)
    with pytest.raises(DataError, match="counts in one period only, 3"):
        tf.SmoothedPast().fit(one)
    with pytest.raises(ParameterError, match="`horizon` must be a positive integer; got 0"):
        models["last-value"].forecast(0)
    with pytest.raises(ParameterError, match="does not remember.*SmoothedPast"):
        tf.Constant().fit(tensor).forecast(1)
    cyclic = tf.Axis("day", ["Mon", "Tue"], tf.AxisOrder.of_unit("weekday"))
    week = tf.CountTensor([tensor.axes[0], cyclic], [[0, 0], [1, 1]], [1, 2])
    with pytest.raises(LabelError, match="comes back"):
        tf.LastValue(time="day").fit(week)
    with pytest.raises(DataError, match="season of 30 periods needs more.*counts over 24"):
        tf.SeasonalNaive(period=30).fit(tensor)
    with pytest.raises(ParameterError, match="`period` must be given.*no unit"):
        tf.SeasonalNaive().fit(tensor)
    two = [tensor.axes[0], *(tf.Axis(n, [1, 2], tf.AxisOrder("ordered")) for n in ("a", "b"))]
    both = tf.CountTensor(two, [[0, 0, 0], [1, 1, 1]], [1, 2])
    with pytest.raises(ParameterError, match="which of the axes 'a', 'b' is time.*time='a'"):
        tf.LastValue().fit(both)
    assert tf.LastValue(time="a").fit(both).fitted_.forecaster.history.axis == 1


def test_days_and_their_weekdays_make_no_forecast():
    frame = pd.DataFrame({"who": list("abcabc"), "time": pd.date_range("2024-01-01", periods=6)})
    both = tf.CountTensor.from_frame(frame, ["who", "time"], bins={"time": ["day", "weekday"]})
    with pytest.raises(DataError, match=r"'time-weekday' .* cut from the same times as 'time-day'"):
        tf.SmoothedPast().fit(both)
    days_alone = tf.CountTensor.from_frame(frame, ["who", "time"], bins={"time": "day"})
    assert tf.SmoothedPast().fit(days_alone).forecast(1).axes_[1].label(6) == "2024-01-07"


def test_periods_of_time_bins_follow_each_other():
    frame = pd.DataFrame(
        {"who": ["a", "b"] * 6, "date": pd.date_range("2024-09-03", periods=12, freq="9D")}
    )
    tensor = tf.CountTensor.from_frame(frame, ["who", "date"], bins={"date": "month"})
    model = tf.SmoothedPast().fit(tensor).forecast(2)
    assert model.axes_[1].labels.to_pylist()[-2:] == ["2025-01", "2025-02"]
    days = pd.DataFrame({"who": ["a", "b"], "date": pd.to_datetime(["2025-01-31", "2025-02-02"])})
    assert model.predict(days).shape == (2,)


def test_large_counts_that_stay_are_told_narrowly(tmp_path):
    """A tilted histogram cannot be narrow around a large count; a negative binomial can."""
    rng = np.random.default_rng(0)
    rate = rng.lognormal(1.0, 1.5, (12, 6, 1))
    dense = rng.poisson(rate, (12, 6, 16))
    axes = [tf.Axis("user", list(range(12))), tf.Axis("item", list(range(6)))]
    axes.append(tf.Axis("day", list(range(16)), tf.AxisOrder("ordered")))
    counts = tf.CountTensor(axes, np.argwhere(dense).astype(np.int32), dense[dense > 0])
    model = tf.SmoothedPast().fit(counts)
    assert model.fitted_.forecaster.amounts.sizes is not None
    ahead = model.forecast(1)
    user, item = np.unravel_index(np.argmax(rate), (12, 6))
    cell = [[user, item, 16]]
    ((low, high),) = ahead.interval(cell, 0.9)
    assert low < rate.max() < high
    assert high - low < 8 * np.sqrt(rate.max())
    cells = np.array([[u, i, 16] for u in range(12) for i in range(6)])
    assert ahead.predict(cells).sum() == pytest.approx(rate.sum(), rel=0.15)
    ahead.save(tmp_path / "m")
    again = tf.load(tmp_path / "m")
    assert np.array_equal(again.predict(cells), ahead.predict(cells))
