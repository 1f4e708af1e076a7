"""Backtests: rolling origins that know nothing of what comes, scored on all cells."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from tests.models.test_forecasting import N_DAYS, days

import tallyfold as tf
from tallyfold.data.period_cells import period_cells
from tallyfold.errors import DataError, LabelError, ParameterError, StorageError
from tallyfold.evaluation.period_scores import crps

MODELS = {"past": tf.SmoothedPast(), "last": tf.LastValue()}


@pytest.fixture(scope="module")
def tensor():
    return days()


@pytest.fixture(scope="module")
def rows(tensor):
    return tf.backtest(tensor, MODELS, horizon=2, origins=3)


def test_rows_are_tidy(rows):
    assert rows["error"].isna().all()
    assert sorted(rows["origin"].unique()) == ["19", "20", "21"]
    assert set(rows["model"]) == {"past", "last"}
    assert (rows["period"].astype(int) - rows["origin"].astype(int) == rows["ahead"]).all()
    keys = ["origin", "period", "model", "combinations", "metric"]
    assert not rows.duplicated(keys).any()
    wide = rows[rows["combinations"] == "all"].pivot(
        index=["origin", "period", "model"], columns="metric", values="value"
    )
    assert np.allclose(wide["total"], wide["occurrence"] + wide["amount"])
    assert (wide["period low"] < wide["period high"]).all()
    past, last = (wide.xs(name, level="model")["total"].mean() for name in MODELS)
    assert past > last


def test_scores_are_those_of_every_cell(tensor, rows):
    """Against brute force over the dense period."""
    model = tf.SmoothedPast().fit(tensor.with_cells(tensor.indices[:, 2] <= 21).compact())
    ahead = model.forecast(1)
    dense = tensor.to_dense(most_cells=tensor.size)[..., 22]
    frame = pd.MultiIndex.from_product([axis.labels.to_pylist() for axis in tensor.axes[:2]])
    cells = frame.to_frame(index=False, name=["user", "item"]).assign(day=22)
    known = np.ones(len(cells), bool)
    for axis in ahead.axes_[:2]:
        known &= cells[axis.name].isin(axis.labels.to_pylist()).to_numpy()
    told = ahead.predictive(cells[known]).log_pmf(dense.ravel()[known])
    wanted = told.sum() / (dense.ravel()[known] > 0).sum()
    asked = (rows["origin"] == "21") & (rows["ahead"] == 1) & (rows["model"] == "past")
    found = rows[asked & (rows["combinations"] == "all") & (rows["metric"] == "total")]
    assert found["value"].item() == pytest.approx(wanted, rel=1e-9)


@dataclass(kw_only=True, eq=False, repr=False)
class Spy(tf.SmoothedPast):
    """Keeps what each fit was given, and what its forecast says."""

    name = "spy"

    def fit(self, tensor, y=None, **given):
        super().fit(tensor, y, **given)
        cells = np.stack([np.arange(8), np.arange(8), np.full(8, len(self.axes_[2]))], axis=1)
        SEEN.append((tensor, self.forecast(1).probability(cells)))
        return self


SEEN = []


def test_nothing_of_the_future_is_in_any_fit(tensor):
    """Altered later cells, and labels that only come later, change no fit and no forecast."""
    rng = np.random.default_rng(0)
    later = tensor.indices[:, 2] > 20
    counts = tensor.counts.copy()
    counts[later] = rng.integers(1, 50, later.sum())
    keep = ~later | (rng.random(tensor.nnz) < 0.6)
    keep |= tensor.indices[:, 2] == N_DAYS - 1
    altered = tf.CountTensor(tensor.axes, tensor.indices[keep], counts[keep])
    SEEN.clear()
    for each in (tensor, altered):
        tf.backtest(each, {"spy": Spy()}, origins=[19, 20])
    (first, one), (second, two), (third, three), (fourth, four) = SEEN
    assert first == third
    assert second == fourth
    assert np.array_equal(one, three)
    assert np.array_equal(two, four)
    assert second.axes[2].labels.to_pylist() == list(range(21))  # no label of a later day
    SEEN.clear()
    tf.backtest(altered, {"spy": Spy()}, origins=[21])  # the detector sees what it is to see
    tf.backtest(tensor, {"spy": Spy()}, origins=[21])
    assert not np.array_equal(SEEN[0][1], SEEN[1][1])


def test_it_goes_on_from_what_was_kept(tensor, rows, tmp_path):
    told = []
    first = tf.backtest(tensor, {"last": tf.LastValue()}, origins=2, folder=tmp_path)
    again = tf.backtest(
        tensor, {"last": tf.LastValue()}, origins=2, folder=tmp_path, announce=told.append
    )
    assert [fit.done for fit in told] == [True, True]
    pd.testing.assert_frame_equal(first, again)
    with pytest.raises(StorageError, match=r"another 'last' at 21.*horizon"):
        tf.backtest(tensor, {"last": tf.LastValue()}, origins=[21], folder=tmp_path, horizon=2)


def test_a_model_that_fails_is_a_row(tensor):
    rows = tf.backtest(tensor, {"constant": tf.Constant(), "last": tf.LastValue()}, origins=1)
    (error,) = rows[rows["model"] == "constant"]["error"]
    assert "does not remember" in error
    assert rows[rows["model"] == "last"]["error"].isna().all()


def test_gaps_are_left_out_and_bad_input_is_refused(tensor):
    gappy = days(skip=(20,))
    rows = tf.backtest(gappy, {"last": tf.LastValue()}, horizon=2, origins=[19])
    assert set(rows["period"]) == {"21"}
    for origins, message in (
        (40, "do not fit into axis 'day': 22 do"),
        ([23], "an origin needs 2 periods before it and 1 after it; 23 .*from '1' to '22'"),
    ):
        with pytest.raises(DataError, match=message):
            tf.backtest(tensor, MODELS, origins=origins)
    with pytest.raises(ParameterError, match="`horizon` must be a positive integer; got 0"):
        tf.backtest(tensor, MODELS, horizon=0)
    with pytest.raises(ParameterError, match="`models` must be models by the name"):
        tf.backtest(tensor, {})
    with pytest.raises(ParameterError, match="`origins` must be a number of origins or a list"):
        tf.backtest(tensor, MODELS, origins="21")
    with pytest.raises(LabelError, match="axis 'user' has no order"):
        tf.backtest(tensor, MODELS, axis="user")


def test_crps_of_draws_is_that_of_the_distribution():
    draws = np.sort(np.random.default_rng(0).standard_normal(20_000))
    assert crps(draws, 0.0) == pytest.approx((np.sqrt(2) - 1) / np.sqrt(np.pi), abs=0.01)


def test_seen_and_new_are_told_apart(tensor, rows):
    cells = period_cells(tensor, 2, tensor.axes[2].steps(), 22, known=21)
    told = rows[(rows["origin"] == "21") & (rows["ahead"] == 1) & (rows["metric"] == "total")]
    n = told[told["model"] == "past"].set_index("combinations")["cells"]
    assert n["seen"] == (cells.filled_C & cells.seen_C).sum()
    assert n["seen"] + n["new"] == n["all"]


def test_next_periods_lists_the_most_expected(tensor):
    model = tf.SmoothedPast().fit(tensor)
    frame = tf.next_periods(model, 2, top=5)
    assert frame["day"].tolist() == [24] * 5 + [25] * 5
    assert (frame["mean"].diff().drop([0, 5]) <= 0).all()
    assert np.allclose(frame["probability"], model.forecast(2).probability(frame))
    missing = tf.SmoothedPast(zeros="missing").fit(tensor)
    assert "probability" not in tf.next_periods(missing, 1, top=2)
