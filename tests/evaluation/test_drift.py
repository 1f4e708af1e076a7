"""Whether the last periods came as those before led one to expect."""

import numpy as np
import pytest
from tests.models.test_forecasting import N_DAYS, days

import tallyfold as tf
from tallyfold.errors import ParameterError


def test_a_memory_has_all_counts_and_scores_as_a_backtest():
    tensor = days()
    table = tf.drift(tf.SmoothedPast().fit(tensor), 3)
    assert table["day"].tolist() == [N_DAYS - 3, N_DAYS - 2, N_DAYS - 1]
    _, first_N = np.unique(tensor.indices[:, :2], axis=0, return_index=True)
    last_N = tensor.indices[:, 2] == N_DAYS - 1
    assert table["count"].iloc[-1] == tensor.counts[last_N].sum()
    assert len(first_N) > 100  # every label was there before, so that nothing is left out
    past = tensor.with_cells(~last_N).compact()
    told = tf.SmoothedPast().fit(past).update(tensor.with_cells(last_N).compact())
    rows = tf.backtest(tensor, {"past": tf.SmoothedPast()}, origins=1)
    score = rows[(rows["metric"] == "total") & (rows["combinations"] == "all")]["value"].item()
    assert tf.drift(told, 1)["total"].item() == pytest.approx(score, abs=0.01)


def test_a_period_of_other_pairs_is_told_worse_than_all_before():
    tensor = days()
    others = days(seed=1)
    new = others.with_cells(others.indices[:, 2] == N_DAYS - 1).compact()
    known = tensor.with_cells(tensor.indices[:, 2] < N_DAYS - 1).compact()
    table = tf.drift(tf.SmoothedPast().fit(known).update(new))
    assert table["total"].iloc[-1] < table["total"].iloc[:-1].min() - 0.2


def test_what_has_no_drift():
    tensor = days()
    with pytest.raises(ParameterError, match="zeros='observed'"):
        tf.drift(tf.SmoothedPast(zeros="missing").fit(tensor))
    with pytest.raises(ParameterError, match="does not remember"):
        tf.drift(tf.Constant().fit(tensor))
    with pytest.raises(ParameterError, match="periods"):
        tf.drift(tf.LastValue().fit(tensor), 0)


def test_a_period_ahead_is_judged_on_all_labels_that_are_known():
    """Who did not come is a zero: labels of the new counts alone would be those that did."""
    tensor = days()
    past = tensor.with_cells(tensor.indices[:, 2] < N_DAYS - 1).compact()
    new = tensor.with_cells(tensor.indices[:, 2] == N_DAYS - 1)
    ahead = tf.SmoothedPast().fit(past).forecast(1)
    keep = new.indices[:, 0] != new.indices[0, 0]
    gone = tensor.axes[0].label(int(new.indices[0, 0]))
    fewer = new.with_cells(keep).compact()
    assert gone not in fewer.axes[0].labels.to_pylist()
    found = tf.surprise(ahead, fewer, absent=200)
    assert gone in found.loc[found["count"] == 0, "user"].tolist()
    assert found.attrs["not_looked_at"].keys() <= {"day"}
    odd = np.mean(tf.surprise(ahead, new, absent=0)["p"] < 0.05)
    assert odd < 0.15
