"""The model of margins alone, and the count head in models with factors."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.inference.margin_counts import simulate_busy_days, simulate_margins, tensor_of
from tests.models.quick import quick

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.evaluation.metrics import scores_of
from tallyfold.inference.fit.folder import write_folder
from tallyfold.models import members, storage
from tallyfold.models.completion import say_margins
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.margin_effects import _pulled
from tallyfold.posterior.margins import UNIT, MarginTable
from tallyfold.posterior.whole_sums import WholeSums


@pytest.fixture(scope="module")
def parts():
    return tf.split(simulate_margins(n_cells=3_000, pairs=0.8), random_state=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return {
        "margins": tf.Margins().fit(parts.train),
        "vae-bptf": tf.VAEBPTF(zeros="missing", n_components=2, max_iter=10).fit(parts.train),
    }


@pytest.fixture(scope="module")
def floor(parts):
    return tf.Constant().fit(parts.train).score(parts.test)


HEADS = ["margins", "vae-bptf"]


@pytest.mark.parametrize("name", HEADS)
def test_margins_are_better_than_the_constant(name, fitted, parts, floor):
    assert fitted[name].fitted_.head.stages
    assert fitted[name].score(parts.test) > floor + 0.15


@pytest.fixture(scope="module")
def words():
    return tf.split(tf.subsample(tf.load_demo(), 0.04), random_state=0)


def test_they_are_better_on_words_too(words):
    floor = tf.Constant().fit(words.train).score(words.test)
    assert tf.Margins().fit(words.train).score(words.test) > floor + 0.01


@pytest.mark.parametrize("name", HEADS)
def test_intervals_hold_what_they_say(name, words):
    settings = {} if name == "margins" else {"n_components": 2, "max_iter": 6}
    model = tf.MODELS[name](zeros="missing", **settings).fit(words.train)
    inside = scores_of(model, words.test, ["coverage-80"])["coverage-80"]
    assert inside == pytest.approx(0.8, abs=0.02)


def test_where_rates_are_low_rank_the_flagship_has_no_head_and_is_as_good_as_bptf():
    tensor = tf.simulate((30, 20, 10), 2, density=0.3, random_state=1).tensor
    train, test = tf.split(tensor, random_state=0)
    model = tf.VAEBPTF(zeros="missing", n_components=2).fit(train)
    assert model.fitted_.head is None
    score = tf.BPTF(n_components=2).fit(train).score(test)
    assert model.score(test) == pytest.approx(score, abs=0.01)


def test_members_with_and_without_a_head_are_mixed_by_their_rates(parts):
    model = tf.VAEBPTF(zeros="missing", n_components=2, max_iter=6, n_members=2).fit(parts.train)
    first, second = model.fitted_, model.fitted_.others[0]
    assert first.head is not None
    assert second.head is not None
    cells = parts.test.indices
    rates = [members.replace(each, head=None) for each in (first, second)]
    wanted = members.mixed_predictive(rates, cells).log_pmf(parts.test.counts)
    for mixture in ([first, rates[1]], [rates[0], second]):
        found = members.mixed_predictive(mixture, cells).log_pmf(parts.test.counts)
        assert np.array_equal(found, wanted)


# -- new cells ------------------------------------------------------------------------------------


def table_of(model, cells, counts, axes):
    """Sum one, ln y and the steps over cells by hand: a dict from labels to sums."""
    sums = {}
    for cell, count in zip(cells[:, list(axes)].tolist(), counts.tolist(), strict=True):
        steps = [count > t for t in model.fitted_.head.statistics.thresholds_T]
        values = [1, int(np.round(np.log(count) * UNIT)), *(UNIT * int(s) for s in steps)]
        before = sums.get(tuple(cell), [0] * len(values))
        sums[tuple(cell)] = [a + b for a, b in zip(before, values, strict=True)]
    return sums


def assert_margins_are_of(model, tensor):
    for table in model.fitted_.head.tables:
        positions = np.stack(np.unravel_index(table.keys_P, table.sizes), axis=1).tolist()
        found = dict(zip(map(tuple, positions), table.sums_PF.tolist(), strict=True))
        assert found == table_of(model, tensor.indices, tensor.counts, table.axes)


@pytest.mark.parametrize("name", HEADS)
def test_new_cells_are_added_to_the_margins_exactly(name, fitted, parts):
    model = fitted[name].partial(parts.test)
    assert_margins_are_of(fitted[name], parts.train)
    assert_margins_are_of(model, simulate_margins(n_cells=3_000, pairs=0.8))


@pytest.mark.parametrize("name", HEADS)
def test_new_entities_are_added_to_the_margins_and_their_later_cells_predicted_better(name):
    tensor = simulate_margins((30, 30, 10), 4_000, pairs=0.8)
    new_N = tensor.indices[:, 1] >= 20
    train, new = tensor.with_cells(~new_N).compact(), tensor.with_cells(new_N)
    first, later = (part.compact() for part in tf.split(new, 0.5, random_state=0))
    settings = {} if name == "margins" else {"n_components": 2, "max_iter": 6}
    model = tf.MODELS[name](zeros="missing", **settings).fit(train)
    assert model.fitted_.head is not None
    folded = model.fold_in(first, "item")
    both = tf.CountTensor(
        folded.axes_,
        np.concatenate([train.indices, first.indices + np.array([0, len(train.axes[1]), 0])]),
        np.concatenate([train.counts, first.counts]),
    )
    assert_margins_are_of(folded, both)
    assert folded.score(later) > model.score(later, unknown="prior") + 0.05


@pytest.mark.parametrize("name", HEADS)
def test_an_update_takes_new_labels_of_all_axes(name):
    tensor = simulate_margins((30, 30, 10), 4_000, pairs=0.8)
    new_N = (tensor.indices[:, 1] >= 25) | (tensor.indices[:, 2] >= 8)
    train, new = tensor.with_cells(~new_N).compact(), tensor.with_cells(new_N).compact()
    settings = {} if name == "margins" else {"n_components": 2, "max_iter": 6}
    updated = tf.MODELS[name](**settings).fit(train).update(new)
    assert updated.axes_ == tensor.axes
    assert_margins_are_of(updated, tensor)


def test_sums_beyond_32_bits_are_kept():
    sums = WholeSums.of([np.array([[1, 2**31 - 2]], np.int32)])
    table = MarginTable((0,), (3,), np.array([1]), sums, np.ones(1))
    small = table.added(np.array([0, 1]), np.array([[1, 1], [1, 1]]))
    assert small.sums_PF.dtype == np.int32
    large = small.added(np.array([2, 1]), np.array([[1, 1], [1, 5]]))
    assert large.sums_PF.tolist() == [[1, 1], [3, 2**31 + 4], [1, 1]]
    assert large.added(np.array([0]), np.array([[1, 1]])).sums_PF.tolist()[1] == [3, 2**31 + 4]


def zero(model):
    """Return the probability of a zero, the same in all cells."""
    return float(np.exp(model.predictive(np.zeros((1, 3), np.int32)).log_pmf(0))[0])


def test_new_cells_with_observed_zeros_bring_the_zeros_that_were_hidden():
    whole = simulate_margins((30, 30, 10), 4_000, pairs=0.8)
    model = tf.Margins(zeros="observed")
    train, test = tf.split(whole, 0.2, cells="all")
    hidden = model.fit(train).partial(test)
    assert zero(hidden) == pytest.approx(1 - whole.nnz / whole.size)
    assert_margins_are_of(hidden, whole)
    complete = tf.CountTensor(train.axes, train.indices, train.counts)
    more = tf.CountTensor(test.axes, test.indices, test.counts)  # they were zeros before
    assert zero(model.fit(complete).partial(more)) == pytest.approx(1 - whole.nnz / whole.size)


@pytest.mark.parametrize("method", ["fold_in", "update"])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_empty_cells_of_new_labels_are_zeros(method, share):
    whole = simulate_margins((30, 30, 10), 4_000, pairs=0.8)
    first, new = (part.compact() for part in tf.split_entities(whole, "item", 0.3))
    if share < 1:
        new = tf.subsample(new, share, cells="all")
    model = tf.Margins(zeros="observed").fit(first)
    larger = model.fold_in(new, "item") if method == "fold_in" else model.update(new)
    n_new = len(larger.axes_[1]) - len(model.axes_[1])
    n_known = first.size + share * n_new * 30 * 10
    assert zero(larger) == pytest.approx(1 - (first.nnz + new.nnz) / n_known)
    assert larger.fitted_.head is not None


def test_new_cells_go_in_again_after_saving(parts, tmp_path):
    model = tf.Margins(zeros="observed").fit(parts.train)
    model.save(tmp_path)
    assert zero(tf.load(tmp_path).partial(parts.test)) == zero(model.partial(parts.test))


def test_models_of_earlier_versions_refuse_new_cells(parts):
    model = tf.Margins(zeros="observed").fit(parts.train)
    model.fitted_.extra.pop("n_known")
    with pytest.raises(ParameterError, match=r"earlier version.*Fit again"):
        model.partial(parts.test)


@pytest.mark.parametrize("name", HEADS)
def test_unknown_labels_are_predicted_between_the_others(name, fitted, parts):
    model = fitted[name]
    frame = pd.DataFrame({"user": [999] * 2, "item": [999] * 2, "day": [999] * 2})
    found = model.predict(frame, unknown="prior")
    known = model.predict(parts.train)
    assert found[0] == found[1]
    assert np.quantile(known, 0.01) < found[0] < np.quantile(known, 0.99)
    assert np.all(model.interval(frame, unknown="prior") >= 1)


@pytest.mark.parametrize("seed", range(2))
def test_a_new_day_is_predicted_from_the_users(seed):
    """All days that networks saw had hundreds of cells, and counts grow with them."""
    whole = simulate_busy_days(seed)
    old_N = whole.indices[:, 2] != 2
    train, new = whole.with_cells(old_N).compact(), whole.with_cells(~old_N)
    model, floor = tf.Margins().fit(train), tf.Constant().fit(train)
    assert model.fitted_.head.averaged == (0, 1, 2)
    scores = [each.score(new, unknown={"day": "prior"}) for each in (model, floor)]
    assert scores[0] > scores[1] + 0.05
    nobody = pd.DataFrame([{"user": 99, "item": 99, "day": 99}])
    score_V = [each.predictive(nobody, unknown="prior").log_pmf(1) for each in (model, floor)]
    assert score_V[0] == pytest.approx(score_V[1], abs=0.3)


def test_heads_of_before_predict_new_labels_as_they_did(fitted, parts):
    head = fitted["margins"].fitted_.head
    arrays = head.arrays()
    del arrays["averaged"]
    before = CountHead.from_arrays(arrays)
    assert before.averaged == ()
    cells = parts.test.indices
    found = [each.distribution(cells).log_pmf(parts.test.counts) for each in (head, before)]
    assert np.array_equal(*found)
    new = [each.distribution(cells * [1, 1, 0] - [0, 0, 1]).log_pmf(1) for each in (head, before)]
    assert not np.allclose(*new)


# -- saving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEADS)
def test_a_head_is_saved_and_loaded_bit_by_bit(name, fitted, parts, tmp_path):
    model = fitted[name]
    model.save(tmp_path)
    loaded = tf.load(tmp_path)
    assert loaded.fitted_.head.stages
    assert np.array_equal(loaded.log_pmf(parts.test), model.log_pmf(parts.test))
    assert np.array_equal(loaded.interval(parts.test), model.interval(parts.test))
    one, other = model.fitted_.head.arrays(), loaded.fitted_.head.arrays()
    assert set(one) == set(other)
    assert all(np.array_equal(one[key], other[key]) for key in one)
    later = loaded.partial(parts.test)
    assert np.array_equal(later.predict(parts.test), model.partial(parts.test).predict(parts.test))


def test_a_cell_has_the_same_bits_beside_any_others(fitted, parts):
    model, cells = fitted["margins"], parts.test.indices
    whole = model.predict(cells)
    assert np.array_equal([model.predict(cells[n : n + 1])[0] for n in range(20)], whole[:20])
    assert np.array_equal(model.predict(cells[::-1]), whole[::-1])


@pytest.mark.parametrize("name", ["vae-bptf", "bptf", "bptf-gibbs"])
def test_a_model_of_version_2_has_a_negative_binomial(name, parts, tmp_path):
    settings = {"amount": "negative-binomial"}
    model = quick(name, **settings).fit(parts.train)
    model.save(tmp_path / "now")
    document, arrays = storage.read_folder(tmp_path / "now", storage.KIND, storage.VERSION)
    document["version"] = 2
    for key in ("amount", "scale"):
        del document["parameters"][key]
    write_folder(tmp_path / "then", document, arrays)
    assert json.loads((tmp_path / "then" / "model.json").read_text())["version"] == 2
    loaded = tf.load(tmp_path / "then")
    assert loaded.amount == "negative-binomial"
    assert loaded.fitted_.head is None
    assert np.array_equal(loaded.log_pmf(parts.test), model.log_pmf(parts.test))
    assert loaded.fitted_.parameters["amount"] == "negative-binomial"


# -- effects of combinations ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def planted():
    """Counts around e to the third, times a multiplier for each item on each day."""
    rng, shape = np.random.default_rng(0), (40, 12, 10)
    pair = rng.normal(0, 0.4, shape[1:])
    pair += pair.mean() - pair.mean(axis=0) - pair.mean(axis=1, keepdims=True)
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    cells = cells[rng.random(len(cells)) < 0.5]
    level = 3 + pair[cells[:, 1], cells[:, 2]] + rng.normal(0, 0.5, len(cells))
    counts = np.maximum(np.round(np.exp(level)), 1).astype(int)
    model = tf.VAEBPTF(n_components=2, max_iter=5, zeros="observed")
    return model.fit(tensor_of(shape, cells, counts)), pair


def test_planted_effects_of_pairs_are_inside_their_intervals(planted):
    model, pair = planted
    found = model.interaction_effects("day", "item", top=1_000)
    first = found.iloc[0]
    assert pair[int(first["item"]), int(first["day"])] > np.quantile(pair, 0.9)
    assert first["low"] > 1.5
    assert found["low"].is_monotonic_decreasing
    true = np.exp(pair[found["item"], found["day"]])
    assert 0.8 < np.mean((true > found["low"]) & (true < found["high"])) < 0.99
    assert len(found) > 40
    head = model.fitted_.head
    item, day, both = head.tables[1], head.tables[2], head.tables[-1]
    at = [[0, int(first["item"]), int(first["day"])]]
    own = [table.sums_at(table.rows_of(np.array(at)))[0] for table in (item, day, both)]
    centre, pulls = head.statistics.mean_F[0], [t.strength_F[0] for t in (item, day, both)]
    said = [
        (sums[1] / UNIT - sums[0] * centre) / (sums[0] + pull)
        for sums, pull in zip(own[:2], pulls[:2], strict=True)
    ]
    cells, total = own[2][0], own[2][1] / UNIT
    left = total - cells * (centre + sum(said))
    assert left / (cells + pulls[2]) <= np.log(first["multiplier"]) <= left / (cells + 1)
    assert np.corrcoef(np.log(true), np.log(found["multiplier"]))[0, 1] > 0.8


def test_effects_of_a_higher_level_have_wider_intervals(planted):
    model, _ = planted
    wide = model.interaction_effects("item", "day", top=3, level=0.99).iloc[0]
    narrow = model.interaction_effects("item", "day", top=3, level=0.5).iloc[0]
    assert wide["low"] < narrow["low"] < narrow["multiplier"] < narrow["high"] < wide["high"]


@pytest.mark.parametrize("axes", [("user", "item", "day"), ("item",)])
def test_axes_without_margins_are_an_error_with_those_there_are(axes, planted):
    words = r"\(user, item\) and \(user, day\) and \(item, day\)"
    with pytest.raises(
        LabelError, match=rf"no margins of \({', '.join(axes)}\); there are {words}"
    ):
        planted[0].interaction_effects(*axes)
    with pytest.raises(LabelError, match="no axis 'colour'"):
        planted[0].interaction_effects("item", "colour")


def test_two_axes_have_no_margins_of_several(parts):
    model = tf.VAEBPTF(n_components=2, max_iter=3, zeros="observed").fit(
        parts.train.collapse("day")
    )
    with pytest.raises(LabelError, match="none of several axes"):
        model.interaction_effects("user", "item")


def test_a_single_strong_pair_is_found_at_its_size():
    rng, shape = np.random.default_rng(0), (30, 20, 10)
    cells = np.argwhere(rng.random(shape) < 0.5)
    own = (cells[:, 1] == 4) & (cells[:, 2] == 6)
    level = 2 + np.log(4) * own + rng.normal(0, 0.6, len(cells))
    tensor = tensor_of(shape, cells, np.maximum(np.round(np.exp(level)), 1).astype(int))
    model = tf.VAEBPTF(n_components=2, max_iter=5, zeros="missing").fit(tensor)
    found = model.interaction_effects("item", "day")
    first, others = found.iloc[0], found.iloc[1:]
    assert (int(first["item"]), int(first["day"])) == (4, 6)
    assert 2.5 < first["low"] < 4 < first["high"]
    assert (others["low"] < 1).all()


def test_one_large_count_does_not_make_a_pair_stand_out():
    cells_P = np.array([1.0, 4.0, 20.0])
    sums_P = np.array([3.0, 3.0, 3.0])
    mean_P, spread_P = _pulled(sums_P, cells_P, inside=0.2, pull=100.0)
    assert np.exp(mean_P) == pytest.approx(np.exp(sums_P / (cells_P + 100)), rel=0.02)
    assert (mean_P < 2 * spread_P).all()


# -- sets of axes ---------------------------------------------------------------------------------


def test_a_fit_says_once_which_combinations_it_leaves_out(caplog):
    cells = np.unique(np.random.default_rng(0).integers(3, size=(150, 5)), axis=0)
    tensor = tensor_of((3,) * 5, cells, 1 + cells[:, 0] * 3, names="abcde")
    say_margins.cache_clear()
    for _ in range(2):
        model = tf.Margins().fit(tensor)
    told = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(told) == 1
    assert told[0].startswith(
        "how many: learned from the margins of 20 of 30 combinations of axes."
    )
    assert "learned from margins of 20 of 30 combinations of axes" in str(model.card())


def test_with_four_axes_all_combinations_are_learned_from(caplog):
    cells = np.unique(np.random.default_rng(0).integers(4, size=(150, 4)), axis=0)
    model = tf.Margins().fit(tensor_of((4,) * 4, cells, 1 + cells[:, 0] * 3, names="abcd"))
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    assert model.card().facts["how many"] == "learned from margins, on the scale 1 to 10"


# -- observed zeros -------------------------------------------------------------------------------


def test_the_probability_of_a_zero_is_the_share_of_zeros(parts):
    train = parts.train
    model = tf.Margins(zeros="observed").fit(train)
    share = 1 - train.nnz / np.prod(train.shape)
    predictive = model.predictive(parts.test)
    assert np.exp(predictive.log_pmf(0)) == pytest.approx(np.full(parts.test.nnz, share))
    given = tf.Margins().fit(train)
    wanted = given.log_pmf(parts.test) + np.log(1 - share)
    assert predictive.log_pmf(parts.test.counts) == pytest.approx(wanted, rel=1e-12)
    assert model.predict(parts.test) == pytest.approx((1 - share) * given.predict(parts.test))


def test_factors_say_how_probable_a_zero_is(parts):
    model = tf.VAEBPTF(n_components=2, max_iter=10, zeros="observed").fit(parts.train)
    assert model.fitted_.head is not None
    every = np.stack(np.unravel_index(np.arange(6_000), parts.train.shape), axis=1)
    zero = np.exp(model.predictive(every).log_pmf(0))
    assert zero.std() > 0.005
    assert zero == pytest.approx(1 - model.probability(every))
