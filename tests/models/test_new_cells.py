"""New cells of a complete log: empty cells of new entities are zeros."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.models.test_complete_logs import QUICK, shopping

import tallyfold as tf
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.models.scoring import log_zeros, scores_over_all_cells
from tallyfold.posterior.occurrence import CombinationCounts

pytestmark = pytest.mark.usefixtures("brief_heads")

AXES = ("user", "item", "day")


def fit(tensor, **given):
    return tf.VAEBPTF(**QUICK | {"max_iter": 40} | given).fit(tensor)


def occurrence(model, test, unknown="error"):
    """Return the mean log probability of whether cells have a count, per cell that has one."""
    empty = draw_empty_cells(test)
    none = log_zeros(model, test, empty.indices_ZM, unknown)
    return scores_over_all_cells(model.predictive(test, unknown=unknown), test, empty, none)[0]


def way(found, low, high):
    """Return the share of the way from one score to another."""
    return (found - low) / (high - low)


def labels(tensor, *names):
    return {name: tensor.axis(name).labels.to_pylist() for name in names}


@pytest.fixture(scope="module")
def whole():
    return shopping(n_users=160, n_items=40, n_days=40, seed=5)


@pytest.fixture(scope="module")
def parts(whole):
    return tf.split(whole, 0.3, cells="all", random_state=1)


@pytest.fixture(scope="module")
def refit(parts):
    return fit(parts.train)


@pytest.fixture(scope="module")
def newcomers(parts):
    """By axis, a model without a tenth of its labels, their cells, and held-out cells of theirs."""
    kept = {}

    def made(axis):
        if axis not in kept:
            old, new = (each.compact() for each in tf.split_entities(parts.train, axis, 0.1))
            kept[axis] = fit(old), new, parts.test.sel(**labels(new, axis))
        return kept[axis]

    return made


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("method", ["fold_in", "update"])
def test_new_labels_are_known_as_well_as_to_a_refit(axis, method, newcomers, refit):
    model, new, test = newcomers(axis)
    larger = model.fold_in(new, axis) if method == "fold_in" else model.update(new)
    mean, most = occurrence(model, test, "prior"), occurrence(refit, test)
    assert way(occurrence(larger, test), mean, most) > 0.95


@pytest.mark.parametrize("axis", AXES)
def test_a_fold_in_leaves_the_others_as_they_were(axis, newcomers):
    model, new, _ = newcomers(axis)
    larger = model.fold_in(new, axis)
    pairs = zip(model.posterior_.gammas.axes, larger.posterior_.gammas.axes, strict=True)
    for before, after in pairs:
        n_old = len(before.shape_DK) - 1
        assert np.array_equal(before.mean_DK[:n_old], after.mean_DK[:n_old])
        assert np.array_equal(before.mean_DK[-1], after.mean_DK[-1])
    before, after = model.fitted_.derived[0], larger.fitted_.derived[0]
    assert np.array_equal(before.table.rate_DK[-1], after.table.rate_DK[-1])
    assert np.all(np.diff(after.keys_P) > 0)
    more = len(np.unique(new.indices[:, [0, 2]], axis=0)) if axis != "item" else 0
    assert len(after.keys_P) == len(before.keys_P) + more


@pytest.mark.parametrize("method", ["fold_in", "update"])
@pytest.mark.parametrize("gate", [("user", "day"), ("item", "day"), "none"])
def test_rates_are_sums_over_all_cells(gate, method, parts):
    """The rates of new rows, of multipliers of their pairs too, against a sum over every cell."""
    old, new = (each.compact() for each in tf.split_entities(parts.train, "user", 0.1))
    model = fit(old, gate=gate, max_iter=3)
    larger = model.fold_in(new, "user") if method == "fold_in" else model.update(new)
    gammas, found = larger.posterior_.gammas, larger.fitted_.occurrence
    user, item, day = (mean_DK[:-1] for mean_DK in gammas.means)
    rate_UIDK = found.share * np.einsum("uk,ik,dk->uidk", user, item, day)
    if gate != "none":
        table, (first, second) = gammas.derived[0], gammas.derived[0].axes
        pairs = np.stack(np.unravel_index(table.keys_P, table.sizes), axis=1)
        rest = tuple({0, 1, 2} - {first, second})
        sums_AB = rate_UIDK.sum(axis=(*rest, 3))
        touched = pairs[:, 0] >= len(old.axes[0]) if first == 0 else slice(0)
        touched = slice(None) if method == "update" else touched
        rate_P = table.table.rate_DK[:-1, 0] - table.table.shape_DK[-1, 0]
        np.testing.assert_allclose(rate_P[touched], sums_AB[tuple(pairs.T)][touched], rtol=1e-9)
    if gate != ("user", "day"):  # nothing changed after the users did, but in an update
        shape = rate_UIDK.shape[1:3]
        every = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1)
        cells = np.column_stack([np.zeros(len(every), int), every])
        u_ID = gammas.multipliers(cells).reshape(shape)
        sum_K = found.share * np.einsum("id,ik,dk->k", u_ID, item, day)
        newest = gammas.axes[0].rate_DK[len(old.axes[0]) : -1]
        wanted = np.broadcast_to(found.prior_rate_M[0] + sum_K, newest.shape)
        np.testing.assert_allclose(newest, wanted, rtol=1e-9 if method == "fold_in" else 0.2)


def test_two_axes_at_once(whole, parts, refit):
    """A tenth of the users, and a tenth of the days: cells of either, and of both."""
    users = whole.axis("user").labels.to_pylist()[::10]
    days = whole.axis("day").labels.to_pylist()[::10]
    frame = parts.train.to_frame()
    late = frame["user"].isin(users) | frame["day"].isin(days)
    known = [name for name in labels(whole, "user")["user"] if name not in users]
    earlier = [day for day in labels(whole, "day")["day"] if day not in days]
    old = parts.train.sel(user=known, day=earlier)
    new = tf.CountTensor.from_frame(frame[late], list(AXES), "count").with_part(parts.train.part)
    model = fit(old)
    larger = model.update(new)
    # of known users and known days the new part has no cell: their share is as it was
    assert larger.fitted_.occurrence.share == pytest.approx(0.7)
    test = parts.test.sel(user=users, day=days)
    for some in (test, parts.test.sel(user=users), parts.test.sel(day=days)):
        mean, most = occurrence(model, some, "prior"), occurrence(refit, some)
        assert way(occurrence(larger, some), mean, most) > 0.9


def test_saved_and_loaded_bit_for_bit(tmp_path, newcomers):
    model, new, test = newcomers("user")
    model.save(tmp_path / "model")
    again = tf.load(tmp_path / "model").update(new)
    again.save(tmp_path / "again")
    wanted = model.update(new).probability(test)
    assert np.array_equal(again.probability(test), wanted)
    assert np.array_equal(tf.load(tmp_path / "again").probability(test), wanted)


def test_hidden_cells_come_with_their_zeros(parts, refit):
    first, second = tf.split(parts.train, 0.5, cells="all", random_state=3)
    model = fit(first)
    larger = model.partial(second)
    assert larger.fitted_.occurrence.share == pytest.approx(parts.train.part.share)
    low, high = occurrence(model, parts.test), occurrence(refit, parts.test)
    assert way(occurrence(larger, parts.test), low, high) > 0.9
    empty = draw_empty_cells(second).indices_ZM[::50]
    assert larger.probability(empty).mean() < model.probability(empty).mean() * 1.02
    every = np.concatenate([parts.test.indices, draw_empty_cells(parts.test).indices_ZM])
    assert larger.probability(every).sum() == pytest.approx(parts.test.nnz, rel=0.1)


def test_what_was_zero_now_has_a_count(whole):
    model = fit(whole)
    cells = draw_empty_cells(whole, 10_000, most_listed=0).indices_ZM
    cells = cells[np.unique(cells[:, 0], return_index=True)[1]][::4]  # of different users
    more = tf.CountTensor(whole.axes, cells, np.ones(len(cells), int))
    larger = model.partial(more)
    assert larger.fitted_.occurrence.share == model.fitted_.occurrence.share == 1
    before, after = model.probability(more), larger.probability(more)
    assert np.mean(np.log(after / before)) > 0.5
    both = tf.CountTensor(
        whole.axes,
        np.concatenate([whole.indices, more.indices]),
        np.concatenate([whole.counts, more.counts]),
    )
    wanted = fit(both).probability(more)
    away = [np.mean(np.abs(np.log(found / wanted))) for found in (before, after)]
    assert away[1] < 0.5 * away[0]
    others = draw_empty_cells(whole, 5_000, 1, most_listed=0).indices_ZM
    assert larger.probability(others).mean() == pytest.approx(
        model.probability(others).mean(), rel=0.1
    )
    same = model.update(more)
    assert np.array_equal(same.probability(others), larger.probability(others))


def test_counts_of_combinations_are_those_of_all_cells(whole):
    new_N = (whole.indices[:, 0] >= 150) | (whole.indices[:, 2] >= 37)
    old, new = whole.with_cells(~new_N).compact(), whole.with_cells(new_N).compact()
    larger = fit(old, max_iter=3).update(new)
    assert larger.axes_ == whole.axes
    for found in larger.fitted_.occurrence.sets:
        wanted = CombinationCounts.of(found.axes, whole.shape, whole.indices)
        assert np.array_equal(found.keys_P, wanted.keys_P)
        assert np.array_equal(found.counts_P, wanted.counts_P)
        assert found.counts_P.dtype.kind == "i"
    assert all(seen_D.all() for seen_D in larger.fitted_.occurrence.seen)


@pytest.mark.parametrize("axis", AXES)
def test_newcomers_may_be_a_part_of_another_share(axis, whole):
    """A model of all cells of its labels; of the new labels only a third of the cells is known."""
    old, new = (each.compact() for each in tf.split_entities(whole, axis, 0.2))
    some, rest = tf.split(new, 2 / 3, cells="all")
    model = fit(old)
    assert model.fitted_.occurrence.share == 1
    for larger in (model.fold_in(some, axis), model.update(some)):
        assert larger.fitted_.occurrence.share == 1
        every = np.concatenate([rest.indices, draw_empty_cells(rest).indices_ZM])
        cells = tf.CountTensor(rest.axes, every, np.ones(len(every), int))
        assert larger.probability(cells).sum() == pytest.approx(rest.nnz, rel=0.15)


def test_members_and_other_amounts(parts):
    old, new = (each.compact() for each in tf.split_entities(parts.train, "user", 0.1))
    model = tf.VAEBPTF(**QUICK, n_members=2, amount="negative-binomial").fit(old)
    larger = model.fold_in(new, "user")
    test = parts.test.sel(**labels(new, "user"))
    assert occurrence(larger, test) > occurrence(model, test, "prior") + 0.5
    one, two = larger._members
    zeros = [np.exp(-member.rates(test.indices)) for member in (one, two)]
    assert not np.array_equal(*zeros)


def test_answers_of_new_people_are_heard():
    rng = np.random.default_rng(0)
    rows = set()
    for week in range(20):
        for one, two in rng.integers(0, 60, (150, 2)).tolist():
            rows |= {(f"p{one:02}", f"p{two:02}", week), (f"p{two:02}", f"p{one:02}", week)}
    frame = pd.DataFrame(sorted(rows), columns=["sender", "receiver", "week"])
    is_new = (frame["sender"] >= "p55") | (frame["receiver"] >= "p55")
    names = ["sender", "receiver", "week"]
    model = tf.VAEBPTF(**QUICK).fit(tf.CountTensor.from_frame(frame[~is_new], names))
    new = frame[is_new]
    answers = new[(new["sender"] < "p55") & (np.arange(len(new)) % 3 == 0)]
    larger = model.update(tf.CountTensor.from_frame(new.drop(answers.index), names))
    mirror = larger.fitted_.occurrence.mirror
    assert mirror.sizes == tuple(len(axis) for axis in larger.axes_)
    later = answers.assign(week=(answers["week"] + 1) % 20)
    assert larger.probability(answers).mean() > 5 * larger.probability(later).mean()


def test_a_label_without_a_cell_is_not_taught_as_all_zeros(newcomers):
    model, new, _ = newcomers("day")
    axes = [*new.axes[:2], tf.Axis("day", [*new.axes[2].labels.to_pylist(), 999])]
    padded = tf.CountTensor(axes, new.indices, new.counts).with_part(new.part)
    larger = model.fold_in(padded, "day")
    assert len(larger.axes_[2]) == len(model.axes_[2]) + len(new.axes[2]) + 1
    cells = pd.DataFrame({"user": ["u000"], "item": ["i00"], "day": [999]})
    other = pd.DataFrame({"user": ["u000"], "item": ["i00"], "day": [-1]})
    assert larger.probability(cells)[0] == larger.probability(other, unknown="prior")[0]


def test_what_cannot_be_taken_in_is_refused(newcomers, whole):
    model, new, _ = newcomers("user")
    with pytest.raises(LabelError, match="is known already"):
        model.fold_in(whole, "user")
    with pytest.raises(LabelError, match="there is no axis 'colour' in both"):
        model.fold_in(new, "colour")
    with pytest.raises(LabelError, match="does not know"):
        model.partial(new)
    with pytest.raises(DataError, match="nothing to add"):
        model.update(new.with_cells(np.zeros(new.nnz, bool)))
    with pytest.raises(LabelError, match="must have the model's axes"):
        model.update(new.with_part(None).collapse("day"))
    frame = new.to_frame().assign(day=77)
    stranger = tf.CountTensor.from_frame(frame, list(AXES), value="count")
    with pytest.raises(LabelError, match=r"does not know 77 on axis 'day' .*`update`"):
        model.fold_in(stranger, "user")
    assert math.isfinite(model.update(stranger).probability(stranger).sum())


def test_a_model_saved_before_refuses_new_cells(tmp_path, newcomers):
    model, new, test = newcomers("user")
    before = tf.VAEBPTF(**model.get_params())
    old = replace(model.fitted_.occurrence, prior_rate_M=None)
    before._fitted = replace(model.fitted_, occurrence=old)
    before.save(tmp_path / "before")
    loaded = tf.load(tmp_path / "before")
    assert np.array_equal(
        loaded.probability(test, unknown="prior"), model.probability(test, unknown="prior")
    )
    with pytest.raises(ParameterError, match=r"earlier version.*Fit again"):
        loaded.fold_in(new, "user")
