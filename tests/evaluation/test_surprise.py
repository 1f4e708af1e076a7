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


# -- observed zeros -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def complete():
    whole = tf.simulate((60, 40, 12), 3, density=0.06, axes=("user", "page", "day")).tensor
    return tf.split(whole, 0.5, cells="all")


@pytest.fixture(scope="module", params=["bptf", "vae-bptf"])
def knowing(request, complete):
    model = tf.VAEBPTF if request.param == "vae-bptf" else tf.BPTF
    return model(n_components=3, zeros="observed").fit(complete.train)


def drawn_from(model, part, seed):
    """Return the part with counts in all its cells, empty ones too, drawn from the model."""
    cells = np.stack(np.unravel_index(np.arange(part.size), part.shape), axis=1).astype(np.int32)
    cells = cells[part.part.contains(part.axes, cells)]
    counts = model.sample(cells, 1, random_state=seed)[0]
    some = counts > 0
    return tf.CountTensor(part.axes, cells[some], counts[some]).with_part(part.part)


@pytest.mark.parametrize("tail", ["upper", "both"])
def test_p_values_of_a_complete_log_are_right_under_the_model(knowing, complete, tail):
    found = pd.concat(
        surprise(knowing, drawn_from(knowing, complete.test, seed), tail=tail, absent=0)
        for seed in range(12)
    )
    assert len(found) > 8_000
    for level in (0.01, 0.05, 0.1, 0.2):
        error = (level * (1 - level) / len(found)) ** 0.5
        assert abs((found["p"] < level).mean() - level) < 4 * error + 0.1 * level
    # by_chance is the number of cells that are as unlikely: the tenth of each is about the tenth
    tenth = found.groupby(level=0)["by_chance"].mean()[9]
    assert 8 < tenth < 13


def test_an_unlikely_count_is_no_surprise_where_most_counts_are(knowing, complete):
    """P(Y >= y) is small for many counts, since cells with a count are selected ones."""
    test = complete.test
    naive = np.exp(knowing.predictive(test).log_at_least(test.counts))
    said = surprise(knowing, test, absent=0)["p"]
    assert (naive < 0.01).mean() > 2 * (said < 0.01).mean() > 0


def test_held_out_cells_of_the_demo_are_as_odd_as_they_should_be():
    busy = tf.load_demo().filter(top={"word": 500})
    train, test = tf.split(busy, 0.2, cells="all")
    model = tf.VAEBPTF(n_components=5, zeros="observed", max_iter=30).fit(train)
    found = surprise(model, test)
    counted, empty = found[found["count"] > 0], found[found["count"] == 0]
    assert len(counted) == test.nnz
    assert 0.005 < (counted["p"] < 0.01).mean() < 0.015
    assert 0.04 < (counted["p"] < 0.05).mean() < 0.06
    # of empty cells with a probability that high, as many were expected as there are
    assert len(empty) == 1_000
    assert empty["by_chance"].iloc[-1] == pytest.approx(1_000, rel=0.2)


def test_counts_by_themselves_are_judged_given_a_count(knowing, complete):
    test = complete.test
    found = in_order(test, surprise(knowing, test, given="nonzero", tail="upper"))
    positive = knowing.predictive(test).given_positive()
    np.testing.assert_allclose(found["p"], np.exp(positive.log_at_least(test.counts)), rtol=1e-9)
    np.testing.assert_allclose(found["mean"], knowing.predict(test, given="nonzero"))
    assert found["low"].min() >= 1
    assert "probability" not in found
    np.testing.assert_allclose(found["by_chance"], found["p"] * test.nnz)


def test_a_count_where_none_was_expected_and_a_large_one_come_first(knowing, complete):
    test = complete.test
    chance = pd.Series(knowing.probability(test))
    frame = test.to_frame("pandas")
    frame.loc[chance.idxmax(), "count"] = 500
    odd = tf.CountTensor(test.axes, test.indices, frame["count"]).with_part(test.part)
    first = surprise(knowing, odd, tail="upper").iloc[0]
    assert (first["count"], first["side"]) == (500, "more")
    assert first["probability"] == pytest.approx(chance.max())
    # a count of one in the least probable cell of all
    every = np.stack(np.unravel_index(np.arange(test.size), test.shape), axis=1).astype(np.int32)
    every = every[test.part.contains(test.axes, every)]
    least = every[np.argmin(knowing.probability(every))]
    cells = np.vstack([test.indices, least])
    planted = tf.CountTensor(test.axes, cells, np.append(test.counts, 1)).with_part(test.part)
    found = surprise(knowing, planted, tail="upper", top=3)
    labels = [axis.labels[int(at)].as_py() for axis, at in zip(test.axes, least, strict=True)]
    assert labels in found[list(test.names)].to_numpy().tolist()


def test_events_that_did_not_happen_are_the_most_probable_empty_cells(knowing, complete):
    test = complete.test
    every = np.stack(np.unravel_index(np.arange(test.size), test.shape), axis=1).astype(np.int32)
    inside = test.part.contains(test.axes, every)
    inside[np.ravel_multi_index(test.indices.T, test.shape)] = False
    log_zero = knowing.predictive(every[inside]).log_pmf(0)
    found = surprise(knowing, test, tail="lower", absent=30)
    empty = found[found["count"] == 0]
    assert len(found) == test.nnz + 30
    assert (empty["side"] == "fewer").all()
    np.testing.assert_allclose(empty["probability"], -np.expm1(np.sort(log_zero)[:30]))
    assert found["by_chance"].is_monotonic_increasing
    # none was counted in the other part
    whole = {*map(tuple, complete.train.to_frame("pandas")[list(test.names)].to_numpy())}
    assert not whole & {*map(tuple, empty[list(test.names)].to_numpy())}
    # expected: the sum of the probabilities of a zero over cells as probable, counted or not
    part = np.concatenate([log_zero, knowing.predictive(test).log_pmf(0)])
    wanted = [np.exp(part[part <= each]).sum() for each in np.sort(log_zero)[:30]]
    np.testing.assert_allclose(empty["by_chance"], wanted, rtol=1e-6)


def test_the_search_for_what_did_not_happen_finds_nearly_all(knowing, complete, monkeypatch):
    from tallyfold.data import empty_cells
    from tallyfold.evaluation import absent
    from tallyfold.evaluation import surprise as module

    exact = surprise(knowing, complete.test, tail="lower", absent=50)
    few = lambda tensor, n: empty_cells.draw_empty_cells(tensor, 500, most_listed=0)  # noqa: E731
    monkeypatch.setattr(module, "draw_empty_cells", few)
    monkeypatch.setattr(absent, "LOOKED_AT", 5_000)
    searched = surprise(knowing, complete.test, tail="lower", absent=50)
    both = searched[searched["count"] == 0].merge(
        exact[exact["count"] == 0], on=list(complete.test.names)
    )
    assert len(both) >= 40
    assert both["by_chance_x"].sum() == pytest.approx(both["by_chance_y"].sum(), rel=0.15)


def test_the_new_week_of_a_habit_that_broke_off(complete):
    rng = np.random.default_rng(1)
    rows = [(f"u{u}", f"p{p}", w) for u in range(30) for p in range(20) for w in range(8)]
    frame = pd.DataFrame(rows, columns=["user", "page", "week"])
    habit = (frame["user"].str[1:].astype(int) + frame["page"].str[1:].astype(int)) % 5 == 0
    frame = frame[rng.random(len(frame)) < np.where(habit, 0.97, 0.02)].assign(n=1)
    past, new = frame[frame["week"] < 7], frame[frame["week"] == 7].assign(week=70)
    new = new[~((new["user"] == "u0") & (new["page"] == "p5"))]
    model = tf.VAEBPTF(n_components=5, zeros="observed").fit(
        tf.CountTensor.from_frame(past, ["user", "page", "week"], "n")
    )
    week = tf.CountTensor.from_frame(new, ["user", "page", "week"], "n")
    found = surprise(model, week, absent=10, tail="lower", unknown="prior")
    missed = found[found["count"] == 0]
    assert ("u0", "p5", 70) in {*missed[["user", "page", "week"]].itertuples(index=False)}
    assert (missed["week"] == 70).all()


def test_a_tensor_that_may_be_a_sample_has_no_empty_cells_unless_asked_for(knowing, complete):
    sample = complete.test.with_part(None)
    assert surprise(knowing, sample)["count"].min() == 1
    assert (surprise(knowing, sample, absent=5)["count"] == 0).sum() == 5
    some = sample.sel(user=sample.labels("user")[:-3])
    without = len(knowing.axes_[0]) - len(some.compact().axis("user"))
    assert surprise(knowing, some, absent=5).attrs["not_looked_at"]["user"] == without > 2
    assert surprise(knowing, complete.test, tail="upper")["count"].min() == 1


def test_labels_that_the_model_does_not_know(knowing, complete):
    frame = complete.test.to_frame("pandas")
    frame.loc[:9, "user"] = "newcomer"
    new = tf.CountTensor.from_frame(frame, complete.test.names, "count")
    with pytest.raises(tf.errors.LabelError, match="unknown='prior'"):
        surprise(knowing, new)
    found = surprise(knowing, new, unknown="prior", absent=20)
    own = found[(found["user"] == "newcomer") & (found["count"] > 0)]
    assert len(own) == (frame["user"] == "newcomer").sum()
    positions = own[list(new.names)]
    np.testing.assert_allclose(own["mean"], knowing.predict(positions, unknown="prior"))


def test_missing_zeros_are_judged_as_ever(model, tensor):
    found = in_order(tensor, surprise(model, tensor, tail="upper"))
    wanted = np.exp(model.predictive(tensor).log_at_least(tensor.counts))
    np.testing.assert_array_equal(found["p"], wanted)
    np.testing.assert_array_equal(found["by_chance"], wanted * tensor.nnz)
    assert "probability" not in found


def test_what_absent_needs(model, tensor, knowing, complete):
    with pytest.raises(ParameterError, match="zeros='observed'"):
        surprise(model, tensor, absent=5)
    with pytest.raises(ParameterError, match="tail='upper'"):
        surprise(knowing, complete.test, tail="upper", absent=5)
    with pytest.raises(ParameterError, match="no `given`"):
        surprise(knowing, complete.test, given="nonzero", absent=5)
    with pytest.raises(ParameterError, match="`given`"):
        surprise(knowing, complete.test, given="zero")
    with pytest.raises(ParameterError, match="`unknown`"):
        surprise(knowing, complete.test, unknown="skip")
