"""Scores over all cells of a part, zeros included, and rankings within combinations."""

import numpy as np
import pytest
from scipy import stats

import tallyfold as tf
from tallyfold.data import empty_cells
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.errors import ParameterError
from tallyfold.evaluation.experiment import Experiment
from tallyfold.evaluation.holding_out import hidden_from, zeros_of
from tallyfold.evaluation.metrics import METRICS, scores_of
from tallyfold.evaluation.predictions import Predictions
from tallyfold.evaluation.ranking import ranked_lists, ranking
from tallyfold.models import scoring
from tallyfold.models.scoring import say_counts_only

pytestmark = pytest.mark.usefixtures("brief_heads")

SHAPE = (14, 11, 8)
ALL = np.stack(np.unravel_index(np.arange(np.prod(SHAPE)), SHAPE), axis=1)
WITH_ZEROS = ["log-score", "occurrence", "amount"]


@pytest.fixture(scope="module")
def whole():
    return tf.simulate(SHAPE, n_components=3, density=0.25, random_state=2).tensor


@pytest.fixture(scope="module")
def parts(whole):
    return tf.split(whole, 0.3, cells="all", random_state=1)


def observed_models():
    given = {"n_components": 2, "zeros": "observed"}
    return {
        "poisson": tf.BPTF(max_iter=15, **given),
        "hurdle": tf.Margins(zeros="observed"),
        "histogram": tf.Constant(zeros="observed"),
        "negative binomial": tf.Constant(zeros="observed", likelihood="negative-binomial"),
        "draws": tf.GibbsBPTF(burn_in=5, n_draws=4, thin=1, **given),
    }


def brute_force(model, test):
    """Return the sum of the log pmf over every cell of the part, per non-zero; and its parts."""
    cells = ALL[test.part.contains(test.axes, ALL)]
    count = test.to_dense()[tuple(cells.T)]
    predictive = model.predictive(cells)
    some = np.log(-np.expm1(predictive.log_pmf(0)))
    total = predictive.log_pmf(count).sum() / test.nnz
    occurrence = np.where(count > 0, some, predictive.log_pmf(0)).sum() / test.nnz
    return total, occurrence, (predictive.log_pmf(count) - some)[count > 0].mean()


@pytest.mark.parametrize("name", observed_models())
def test_scores_are_sums_over_every_cell(parts, name):
    train, test = parts
    model = observed_models()[name].fit(train)
    found = scores_of(model, test, [*WITH_ZEROS, "zeros-error"])
    total, occurrence, amount = brute_force(model, test)
    assert found["log-score"] == pytest.approx(total, rel=1e-9)
    assert found["occurrence"] == pytest.approx(occurrence, rel=1e-9)
    assert found["amount"] == pytest.approx(amount, rel=1e-9)
    assert found["log-score"] == found["occurrence"] + found["amount"]
    assert found["zeros-error"] == 0
    assert model.score(test) == pytest.approx(total, rel=1e-9)


def test_drawn_cells_agree_with_all_within_their_error(parts, monkeypatch):
    train, test = parts
    model = observed_models()["poisson"].fit(train)
    exact = Predictions(model, test).over_all_cells

    def drawn(tensor, n, seed=0):
        return draw_empty_cells(tensor, n, seed, most_listed=0)

    monkeypatch.setattr("tallyfold.evaluation.predictions.draw_empty_cells", drawn)
    for n in (300, 3000, 30000):
        found = Predictions(model, test, n_empty=n).over_all_cells
        assert 0 < found.error < 2 / np.sqrt(n) * abs(exact.occurrence)
        assert abs(found.occurrence - exact.occurrence) < 4 * found.error
        assert found.amount == exact.amount
    monkeypatch.setattr(scoring, "draw_empty_cells", drawn)
    assert model.score(test) == pytest.approx(exact.total, rel=0.05)


def test_a_part_by_label_is_scored_with_its_zeros(whole):
    train, test = tf.split_time(whole, "axis_2", after="axis_2-5")
    model = observed_models()["histogram"].fit(train)
    total, *_ = brute_force(model, test)
    assert model.score(test) == pytest.approx(total, rel=1e-9)


def test_the_order_of_axes_does_not_matter(parts):
    train, test = parts
    model = observed_models()["poisson"].fit(train)
    turned = tf.CountTensor(test.axes[::-1], test.indices[:, ::-1], test.counts)
    turned = turned.with_part(test.part)
    assert scores_of(model, turned, WITH_ZEROS) == pytest.approx(scores_of(model, test, WITH_ZEROS))


def test_models_of_missing_zeros_have_the_amount_only(parts):
    train, test = parts
    for model in (
        tf.BPTF(n_components=2, max_iter=10),
        tf.BPTF(n_components=2, max_iter=10, truncated=False),
        tf.Margins(),
    ):
        found = scores_of(model.fit(train), test, [*WITH_ZEROS, "zeros-error", "log-pmf-positive"])
        assert found["amount"] == found["log-pmf-positive"]
        assert [name for name, value in found.items() if value is None] == [
            "log-score", "occurrence", "zeros-error",
        ]  # fmt: skip
        assert model.score(test) == pytest.approx(model.score(test.with_part(None)))


def test_without_a_part_nothing_is_known_of_zeros(whole):
    train, test = tf.split(whole)
    model = observed_models()["poisson"].fit(train)
    found = scores_of(model, test, WITH_ZEROS)
    assert found["log-score"] is found["occurrence"] is None
    assert model.score(test) == pytest.approx(np.mean(model.log_pmf(test)))


def test_labels_that_the_model_lacks_are_refused_or_averaged(parts):
    train, test = parts
    known = train.sel(axis_0=train.axis("axis_0").labels[:-1])
    model = observed_models()["poisson"].fit(known)
    held_out = test.with_cells(test.indices[:, 0] < SHAPE[0] - 1, test.part)
    with pytest.raises(tf.errors.LabelError, match="with unknown='prior'"):
        model.score(held_out)
    assert np.isfinite(model.score(held_out, unknown="prior"))
    same = held_out.sel(axis_0=known.axis("axis_0").labels)
    assert np.isfinite(model.score(same))


class Known:
    """A model whose rates are given, cell by cell."""

    def __init__(self, axes, rate):
        self.axes_, self.dense = axes, np.asarray(rate, float)

    def rate(self, cells):
        return self.dense[tuple(np.asarray(cells).T)]


@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("along", ["axis_0", "axis_1", "axis_2", None])
def test_lists_agree_with_sorting_each(whole, parts, along, k):
    train, test = parts
    rate = np.random.default_rng(0).gamma(1.0, size=SHAPE) + (whole.to_dense() > 0)
    axis = 0 if along is None else whole.axis_number(along)
    moved = [np.moveaxis(t, axis, -1).reshape(-1, SHAPE[axis])
             for t in (rate, train.to_dense(), test.to_dense())]  # fmt: skip
    hits, possible, gains = 0, 0, []
    for values, seen, held_out in zip(*moved, strict=True):
        wanted = np.flatnonzero(held_out)
        if len(wanted) == 0:
            continue
        order = [n for n in np.argsort(-values) if not seen[n]][:k]
        places = [place for place, label in enumerate(order) if label in wanted]
        hits += len(places)
        possible += min(k, len(wanted))
        best = np.sum(1 / np.log2(np.arange(min(k, len(wanted))) + 2))
        gains.append(np.sum([1 / np.log2(place + 2) for place in places]) / best)
    found = ranked_lists(Known(whole.axes, rate), test, train, k=k, along=along)
    assert found.recall == pytest.approx(hits / possible)
    assert found.ndcg == pytest.approx(np.mean(gains))
    assert found.n_lists == len(gains)
    some = ranked_lists(Known(whole.axes, rate), test, train, k=k, along=along, most_lists=9)
    assert some.n_lists == min(9, len(gains))


def test_perfect_lists_and_ties(whole, parts):
    train, test = parts
    best = ranked_lists(Known(whole.axes, test.to_dense() > 0), test, train)
    assert best[:2] == (1.0, 1.0)
    worst = ranked_lists(Known(whole.axes, test.to_dense() == 0), test, train, k=1)
    assert worst.recall == worst.ndcg < 0.2
    nothing = test.with_cells(np.zeros(test.nnz, bool))
    assert ranked_lists(Known(whole.axes, whole.to_dense()), nothing, train) == (None, None, 0)


def test_rankings_are_by_the_probability_of_a_count(parts):
    train, test = parts
    model = observed_models()["poisson"].fit(train)
    chance = -np.expm1(model.predictive(ALL).log_pmf(0)).reshape(SHAPE)
    found = scores_of(model, test, ["auc", "auc-within", "recall-20", "ndcg-20"], train)
    same = Known(train.axes, chance)
    assert found["auc-within"] == ranking(same, test, train, zeros_per_cell=10, along="axis_0").auc
    assert found["auc"] == ranking(same, test, train, zeros_per_cell=10).auc
    assert found["recall-20"] == ranked_lists(same, test, train).recall
    along = scores_of(model, test, ["auc-within", "ndcg-20"], train, along="axis_1")
    assert along["ndcg-20"] == ranked_lists(same, test, train, along="axis_1").ndcg
    assert along["auc-within"] != found["auc-within"]
    with pytest.raises(ParameterError, match="`by` must be 'rate' for a model that takes empty"):
        ranking(tf.Constant().fit(train), test, train, by="probability")
    with pytest.raises(ParameterError, match="`by` must be 'rate' or 'probability'; got 'luck'"):
        ranking(model, test, train, by="luck")


def test_within_a_combination_busy_entities_do_not_help(whole, parts):
    train, test = parts
    busy = whole.marginal("axis_1")[None, :, None] * np.ones(SHAPE)
    model = Known(whole.axes, busy)
    assert ranking(model, test, train, zeros_per_cell=10, along="axis_0").auc == 0.5
    assert ranking(model, test, train, zeros_per_cell=10).auc > 0.5


def test_what_is_held_out_follows_from_the_models(whole):
    missing, observed = tf.BPTF(), tf.BPTF(zeros="observed")
    assert hidden_from([missing], whole) == "nonzero"
    assert hidden_from([missing, observed], whole) == "all"
    assert zeros_of([missing], whole) == "missing"
    assert zeros_of([observed], whole) == "observed"
    models = {"missing": tf.Constant(), "observed": tf.Constant(zeros="observed")}
    rows = Experiment({"a": whole}, models, ["log-score", "amount"]).run(announce=None)
    value = rows.set_index(["model", "metric"])["value"]
    assert rows["zeros"].unique().tolist() == ["missing", "observed"]
    assert value.isna().tolist() == [True, False, False, False]
    assert value["missing", "amount"] == pytest.approx(value["observed", "amount"])
    few = Experiment({"a": whole}, {"missing": tf.Constant()}, ["amount"]).run(announce=None)
    assert few["test_cells"][0] == round(0.2 * whole.nnz)


def test_a_true_distribution_scores_best():
    rng = np.random.default_rng(0)
    dense = rng.poisson(0.3, (60, 50))
    tensor = tf.CountTensor.from_array(dense, ["a", "b"])
    test = tf.split(tensor, 0.5, cells="all").test
    cells = np.stack(np.unravel_index(np.arange(3000), (60, 50)), axis=1)
    held_out = dense.reshape(-1)[test.part.contains(test.axes, cells)]
    wanted = stats.poisson(0.3).logpmf(held_out).sum() / test.nnz
    assert empty_cells.draw_empty_cells(test).exact
    model = tf.Constant(zeros="observed", likelihood="poisson").fit(tensor)
    assert METRICS["log-score"].compute(model, test) == pytest.approx(wanted, abs=0.02)


def test_a_score_without_zeros_says_so_once(caplog):
    tensor = tf.simulate((12, 10, 8), 2, density=0.3).tensor
    model = tf.MainEffects(zeros="observed", max_iter=5)
    say_counts_only.cache_clear()
    train, test = tf.split(tensor, 0.2, cells="all")
    model.fit(train).score(test)
    tf.MainEffects(zeros="missing", max_iter=5).fit(train).score(tensor)
    assert "split" not in caplog.text
    model.score(tensor)
    model.score(tensor)
    assert caplog.text.count("split(tensor, cells='all')") == 1
