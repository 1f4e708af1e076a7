"""The flagship remembers earlier periods beside its factors, and forecasts from that."""

import logging

import numpy as np
import pytest
from tests.models.test_forecasting import N_DAYS, days, pairs

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError

pytestmark = pytest.mark.usefixtures("brief_heads")


@pytest.fixture(scope="module")
def tensor():
    return days(walk=0.1)


@pytest.fixture(scope="module")
def model(tensor):
    return tf.VAEBPTF(n_components=2, max_iter=5).fit(tensor)


def test_time_is_chosen_and_said(tensor, caplog):
    with caplog.at_level(logging.INFO, "tallyfold"):
        model = tf.VAEBPTF(n_components=2, max_iter=2).fit(tensor)
    assert "forecasts: of day, from a memory of all combinations" in caplog.text
    assert model.fitted_.parameters["time"] == "day"
    assert "forecasts" in str(model.card())


def test_its_forecast_is_that_of_what_it_remembers(model, tensor, tmp_path):
    ahead = model.forecast(2)
    cells = pairs(tensor, N_DAYS + 1)
    alone = tf.SmoothedPast(network="auto").fit(tensor).forecast(2)
    assert np.array_equal(ahead.probability(cells), alone.probability(cells))
    assert isinstance(ahead, tf.SmoothedPast)
    model.save(tmp_path / "m")
    loaded = tf.load(tmp_path / "m")
    assert np.array_equal(loaded.forecast(2).probability(cells), ahead.probability(cells))
    ahead.save(tmp_path / "ahead")
    assert np.array_equal(tf.load(tmp_path / "ahead").probability(cells), ahead.probability(cells))


def test_known_periods_stay_what_the_factors_say(model, tensor):
    static = tf.VAEBPTF(n_components=2, max_iter=5, time="none").fit(tensor)
    assert static.fitted_.forecaster is None
    assert np.array_equal(static.predict(tensor), model.predict(tensor))
    with pytest.raises(ParameterError, match="does not remember"):
        static.forecast(1)


def test_update_moves_time_on_without_a_fit(model):
    longer = days(N_DAYS + 2, walk=0.1)  # other counts: only its last days are taken
    new = longer.with_cells(longer.indices[:, 2] >= N_DAYS).compact()
    moved = model.update(new)
    assert len(moved.axes_[2]) == N_DAYS + 2
    history = moved.fitted_.forecaster.history
    assert history.n_periods == N_DAYS + 2
    assert moved.forecast(1).axes_[2].label(N_DAYS + 2) == N_DAYS + 2
    cells = pairs(longer, N_DAYS + 2)
    chance, before = (each.probability(cells) for each in (moved.forecast(1), model.forecast(3)))
    had = {(u, i) for u, i, _ in new.indices.tolist()}
    labels = [axis.labels for axis in new.axes[:2]]
    active = {(labels[0][u].as_py(), labels[1][i].as_py()) for u, i in had}
    among = np.array([pair in active for pair in zip(cells["user"], cells["item"], strict=True)])
    assert (chance / before)[among].mean() > (chance / before)[~among].mean()


def test_a_memory_that_is_updated_is_the_memory_of_all(tensor):
    past = tensor.with_cells(tensor.indices[:, 2] < 20).compact()
    rest = tensor.with_cells(tensor.indices[:, 2] >= 20).compact()
    moved = tf.SmoothedPast().fit(past).update(rest)
    whole = tf.SmoothedPast().fit(tensor).fitted_.forecaster.history
    history = moved.fitted_.forecaster.history
    assert history.n_periods == whole.n_periods
    assert np.array_equal(history.tables[0].sums_E2[:, 0], whole.tables[0].sums_E2[:, 0])
    assert history.whole.sums_E2.sum() == pytest.approx(whole.whole.sums_E2.sum())


def test_time_that_is_none_is_refused(tensor):
    with pytest.raises(LabelError, match="axis 'user' has no order"):
        tf.VAEBPTF(time="user").fit(tensor)
    with pytest.raises(ParameterError, match="`time` has an effect with observed zeros"):
        tf.VAEBPTF(time="day", zeros="missing").fit(tensor)
    plain = tf.CountTensor(
        [axis.with_order(None) for axis in tensor.axes], tensor.indices, tensor.counts
    )
    model = tf.VAEBPTF(n_components=2, max_iter=2).fit(plain)
    assert model.fitted_.parameters["time"] == "none"
