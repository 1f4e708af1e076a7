"""VAE-BPTF, and the form of its paper: what the contract of all models does not have."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.base import clone
from tests.inference.pair_effects import simulate_pairs

import tallyfold as tf
from tallyfold import VAEBPTF, PaperVAEBPTF
from tallyfold.errors import (
    DataError,
    DivergedError,
    InterruptedWarning,
    LabelError,
    ParameterError,
)
from tallyfold.inference.encoders.step import EncoderStep
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.models.vae_presets import PAPER_PRESETS
from tallyfold.posterior.gamma_posterior import GammaTable
from tallyfold.posterior.predictive import matched_mixture


def with_encoders(**parameters):
    return VAEBPTF(**({"zeros": "missing", "amount": "negative-binomial"} | parameters))


@pytest.fixture(scope="module")
def truth():
    return simulate_pairs()


@pytest.fixture(scope="module")
def parts(truth):
    return tf.split(truth.tensor, 0.2, random_state=0)


def short(**parameters):
    """A fit of six sweeps and few visits."""
    return with_encoders(**({"n_components": 2, "max_iter": 12, "tol": 1e-2} | parameters))


@pytest.fixture(scope="module")
def fitted(parts):
    return short().fit(parts.train)


def part(tensor, keep):
    """Return the cells where `keep` is true, as a tensor that knows their labels only."""
    frame = tensor.to_frame()
    return tf.CountTensor.from_frame(frame[keep(frame)], axes=list(tensor.names), value="count")


def same_fit(one, other, cells):
    return np.array_equal(one.predict(cells), other.predict(cells))


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dataset", [None, *PAPER_PRESETS])
def test_presets_are_the_papers_model(dataset):
    model = VAEBPTF.paper(dataset)
    assert type(model) is PaperVAEBPTF
    assert (model.name, model.truncated) == ("vae-bptf-paper", False)
    for name, value in PAPER_PRESETS.get(dataset, {}).items():
        assert getattr(model, name) == value
    changed = VAEBPTF.paper(dataset, n_components=3, truncated=True)
    assert (changed.n_components, changed.truncated) == (3, True)
    assert changed.get_params() == model.get_params() | {"n_components": 3, "truncated": True}


def test_an_unknown_preset_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match=r"`dataset` must be one of dblp, .*; got 'imdb'"):
        VAEBPTF.paper("imdb")


def test_the_papers_model_fits_with_a_preset(parts):
    model = VAEBPTF.paper("game", max_iter=5, backend="numpy").fit(parts.train)
    assert np.isfinite(model.score(parts.test))
    assert model.fitted_.likelihood.name == "poisson"
    assert (model.fitted_.encoders, model.fitted_.derived) == (None, ())
    assert set(model.history_["phase"]) == {"encoders"}


@pytest.mark.parametrize(
    ("kind", "parameter"),
    [
        *((VAEBPTF, name) for name in ("encoder", "objective", "encoders", "steps", "theta")),
        *((VAEBPTF, name) for name in ("eta", "reweight", "hidden_layers", "dispersion_axis")),
        *((PaperVAEBPTF, name) for name in ("n_members", "patience", "likelihood", "dispersion")),
        *((PaperVAEBPTF, name) for name in ("interactions", "batch_entities", "learning_rate")),
    ],
)
def test_parameters_that_a_model_does_not_have_are_refused_by_name(kind, parameter):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{parameter}'"):
        kind(**{parameter: 1})


def test_a_relu_output_is_refused_with_the_reason(parts):
    with pytest.raises(ParameterError, match=r"got 'relu', whose zeros .* no Gamma distribution"):
        VAEBPTF.paper(output_activation="relu").fit(parts.train)


def test_the_papers_likelihood_with_observed_zeros_is_not_truncated(parts):
    with pytest.raises(ParameterError, match="must be a plain Poisson"):
        VAEBPTF.paper(zeros="observed", truncated=True).fit(parts.train)


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ([["user", "colour"]], LabelError, "no axis 'colour'; there are user, item, day"),
        ([["user"]], ParameterError, "two axes or more"),
        ([["user", "user"]], ParameterError, "two axes or more"),
        ([["user", "item", "day"]], ParameterError, "and not all 3"),
        ("user", ParameterError, "`interactions` must be"),
        (["user", "item"], ParameterError, "a list of lists of axis names"),
    ],
)
def test_sets_of_axes_that_cannot_be_are_refused(asked, error, words, parts):
    with pytest.raises(error, match=words):
        with_encoders(interactions=asked).fit(parts.train)


def test_multipliers_and_observed_zeros_do_not_go_together(parts):
    with pytest.raises(
        ParameterError, match="`interactions` as a list has no effect with observed"
    ):
        with_encoders(zeros="observed", interactions=[["user", "item"]]).fit(parts.train)
    with pytest.raises(ParameterError, match="must be a plain Poisson"):
        with_encoders(zeros="observed", likelihood="negative-binomial").fit(parts.train)


@pytest.mark.parametrize(
    ("kind", "given", "words"),
    [
        (tf.VAEBPTF, {"interactions": "none"}, "`interactions` has no effect with amount='head'"),
        (tf.VAEBPTF, {"interactions": [["user", "item"]]}, "no effect with amount='head'"),
        (
            tf.VAEBPTF,
            {"interactions": "none", "zeros": "observed", "amount": "negative-binomial"},
            "interactions='none' has no effect with observed zeros",
        ),
        (tf.VAEBPTF, {"dispersion": 2.0}, "`dispersion` has no effect with likelihood='poisson'"),
        (tf.BPTF, {"dispersion": 2.0}, "`dispersion` has no effect with likelihood='poisson'"),
        (tf.MainEffects, {"dispersion": 2.0}, "`dispersion` has no effect"),
        (tf.BPTF, {"patience": 3, "validation": None}, "`patience` has no effect without held-out"),
        (tf.VAEBPTF, {"patience": 3, "validation": None}, "`patience` has no effect"),
        (tf.BPTF, {"scale": (1, 5)}, "`scale` has no effect with amount='negative-binomial'"),
    ],
)
def test_parameters_without_an_effect_are_refused(kind, given, words, parts):
    with pytest.raises(ParameterError, match=words) as refused:
        kind(**{"zeros": "missing"} | given).fit(parts.train)
    assert "Leave it out, or " in str(refused.value)


# -- where nothing can be trained it is BPTF ------------------------------------------------------


def test_without_cells_to_train_on_it_is_bptf(parts):
    model = with_encoders(n_components=2, validation=None).fit(parts.train)
    plain = tf.BPTF(n_components=2, validation=None).fit(parts.train)
    found, expected = model.posterior_.gammas.axes, plain.posterior_.gammas.axes
    for one, other in zip(found, expected, strict=True):
        assert np.array_equal(one.shape_DK, other.shape_DK)
        assert np.array_equal(one.rate_DK, other.rate_DK)
    assert same_fit(model, plain, parts.test)
    assert model.history_["objective"].tolist() == plain.history_["objective"].tolist()
    assert set(model.history_["phase"]) == {"sweeps"}
    assert model.fitted_.derived == ()


def test_too_few_held_out_cells_leave_the_sweeps_alone(parts):
    few = tf.subsample(parts.train, 500 / parts.train.nnz)  # 50 are held out: no encoder is trained
    model = with_encoders(n_components=2).fit(few)
    plain = tf.BPTF(n_components=2).fit(few)
    assert model.fitted_.derived == ()
    assert set(model.history_["phase"]) == {"sweeps"}
    assert model.score(parts.test, unknown="prior") == plain.score(parts.test, unknown="prior")


def test_two_axes_have_no_multipliers():
    truth = tf.simulate((60, 50), 2, density=0.5, random_state=1)
    train, test = tf.split(truth.tensor)
    model = short().fit(train)
    assert model.fitted_.derived == ()
    assert model.score(test) > tf.Constant().fit(train).score(test)
    with pytest.raises(LabelError, match="there are none at all"):
        model.interaction_effects("axis_0", "axis_1")


@pytest.mark.parametrize("likelihood", ["auto", "negative-binomial"])
@pytest.mark.parametrize("shape", [(1, 1), (1, 1, 1), (2, 1, 3), (300, 2, 2)])
def test_strange_tensors_do_no_harm(shape, likelihood):
    axes = [tf.Axis.numbered(f"a{number}", size) for number, size in enumerate(shape)]
    every = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    for count in (1, 10**9):
        counts = np.full(len(every), count)
        counts[::7] = 1
        model = with_encoders(n_components=2, likelihood=likelihood, max_iter=7)
        assert np.all(np.isfinite(model.fit(tf.CountTensor(axes, every, counts)).predict(every)))


# -- likelihood and multipliers -------------------------------------------------------------------


def test_the_likelihood_follows_the_counts():
    """Bursts, which no factor explains, are for a negative binomial; without them it is Poisson."""
    rng = np.random.default_rng(0)
    factors = [rng.gamma(0.5, 2.0, (size, 2)) for size in (60, 40, 8)]
    rates = 0.2 * np.einsum("ik,jk,lk->ijl", *factors)
    bursts = np.where(rng.random(rates.shape) < 0.01, 300, 1)
    families = {}
    for name, these in (("bursts", rates * bursts), ("calm", rates)):
        tensor = tf.CountTensor.from_array(rng.poisson(these), ["a", "b", "c"])
        model = with_encoders(n_components=2, likelihood="auto", max_iter=1).fit(tensor)
        assert model.history_["phase"].tolist() == ["choice"] * 30 + ["sweeps"]
        families[name] = model.fitted_.likelihood.family
    assert families == {"bursts": "negative-binomial", "calm": "poisson"}


def test_only_the_multipliers_asked_for_are_learnt(parts):
    model = short(interactions=[("day", "item")]).fit(parts.train)
    assert [each.axes for each in model.fitted_.derived] == [(1, 2)]
    assert short(interactions="none").fit(parts.train).fitted_.derived == ()


def test_a_fit_with_multipliers_asked_for_as_tuples_can_be_resumed(parts, tmp_path):
    """JSON has no tuples: what is saved must still be known as the same fit."""
    model = short(interactions=(("item", "day"),), max_iter=4).fit(parts.train, checkpoint=tmp_path)
    again = short(interactions=(("item", "day"),), max_iter=4)
    assert same_fit(again.fit(parts.train, checkpoint=tmp_path, resume=True), model, parts.test)


def test_multipliers_are_told_with_labels(fitted, truth):
    table = fitted.interaction_effects("item", "day", top=20)
    assert list(table.columns) == ["item", "day", "multiplier", "low", "high"]
    assert len(table) == 20
    true = [
        truth.multipliers[item, day] for item, day in zip(table["item"], table["day"], strict=True)
    ]
    assert np.mean(true) > 1.5  # those said to be surely large are
    assert np.all((table["low"] < table["multiplier"]) & (table["multiplier"] < table["high"]))
    turned = fitted.interaction_effects("day", "item", top=20)
    assert turned.equals(table)


def test_multipliers_that_are_not_there(fitted):
    with pytest.raises(LabelError, match=r"no multipliers of \(item\); there are .*\(item, day\)"):
        fitted.interaction_effects("item")
    with pytest.raises(LabelError, match="there is no axis 'colour'"):
        fitted.interaction_effects("item", "colour")
    with pytest.raises(ParameterError, match="`top` must be a positive integer; got 0"):
        fitted.interaction_effects("item", "day", top=0)
    with pytest.raises(ParameterError, match="`level` must be"):
        fitted.interaction_effects("item", "day", level=1.5)


def test_a_fit_with_multipliers_is_saved_and_loaded_bit_by_bit(fitted, parts, tmp_path):
    assert fitted.fitted_.derived
    fitted.save(tmp_path / "model")
    loaded = tf.load(tmp_path / "model")
    assert same_fit(loaded, fitted, parts.test)
    assert loaded.interaction_effects("item", "day").equals(
        fitted.interaction_effects("item", "day")
    )
    assert np.array_equal(loaded.sample(parts.test, 2), fitted.sample(parts.test, 2))


# -- the course of a fit --------------------------------------------------------------------------


def test_posterior_is_what_predicts(fitted, parts):
    """Its moments, multipliers among them, give rates and predictive up to calibration."""
    assert fitted.fitted_.derived
    assert fitted.posterior_ is fitted.fitted_.factors
    cells = parts.test.indices
    mean, variance = fitted.posterior_.rate_moments(cells)
    assert np.array_equal(fitted.calibration_.rates(mean), fitted.rate(parts.test))
    without = replace(fitted.posterior_.gammas, derived=()).rate_moments(cells)[0]
    multipliers = fitted.posterior_.gammas.multipliers(cells)
    assert np.std(np.log(multipliers)) > 0.1
    np.testing.assert_allclose(mean, without * multipliers, rtol=1e-12)
    likelihood, r = fitted.fitted_.likelihood, fitted.fitted_.dispersion
    predictive = matched_mixture(mean, variance, likelihood, r, fitted.calibration_)
    assert np.array_equal(predictive.log_pmf(parts.test.counts), fitted.log_pmf(parts.test))


def test_the_iteration_with_the_best_validation_score_is_kept(parts):
    model = short(tol=0.0, max_iter=20).fit(parts.train)
    scores = model.history_["validation"].to_numpy()
    assert set(model.history_["phase"]) == {"sweeps", "encoders"}
    assert model.n_iter_ == 1 + int(np.argmax(scores))
    shorter = short(tol=0.0, max_iter=20)
    with pytest.warns(InterruptedWarning):
        shorter.fit(parts.train, callbacks=[stopping(model.n_iter_)])
    assert same_fit(shorter, model, parts.test)  # nothing after it had an effect


def stopping(number, error=KeyboardInterrupt):
    """Return a callback that ends a fit after an iteration."""

    def stop(progress):
        if progress.iteration.number == number:
            raise error

    return stop


def test_few_iterations_are_shared_between_sweeps_and_visits(truth):
    model = with_encoders(n_components=2, max_iter=8, tol=0.0).fit(truth.tensor)
    assert model.history_["phase"].tolist() == ["sweeps"] * 4 + ["encoders"] * 4


@pytest.fixture(scope="module")
def uninterrupted(parts):
    """Fits of eight iterations with a parameter changed, each made once."""
    return cache(lambda *given: short(max_iter=8, tol=0.0, **dict(given)).fit(parts.train))


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize(
    ("stop_at", "phase", "parameters"),
    [
        (3, "sweeps", {}),
        (4, "sweeps", {}),
        (7, "encoders", {}),
        (11, "choice", {"likelihood": "auto"}),
        (33, "sweeps", {"likelihood": "auto"}),
        (3, "svi", {"batch_entities": 10}),
        (7, "encoders", {"batch_entities": 10}),
    ],
)
def test_a_fit_stopped_in_any_phase_and_resumed_is_the_uninterrupted_one(
    stop_at, phase, parameters, error, parts, uninterrupted, tmp_path
):
    """By Ctrl-C, which saves the run, or by an error, which leaves an earlier checkpoint."""
    whole = uninterrupted(*parameters.items())
    model = clone(whole)
    assert whole.history_["phase"][stop_at - 1] == phase
    expected = pytest.raises(RuntimeError)
    if error is KeyboardInterrupt:
        expected = pytest.warns(InterruptedWarning)
    callbacks = [stopping(stop_at, error)]
    with expected:
        clone(model).fit(parts.train, checkpoint=tmp_path, every=2, callbacks=callbacks)
    numbers = []
    resumed = clone(model).fit(
        parts.train, checkpoint=tmp_path, every=2, resume=True,
        callbacks=[lambda progress: numbers.append(progress.iteration.number)],
    )  # fmt: skip
    saved = stop_at if error is KeyboardInterrupt else (stop_at - 1) // 2 * 2
    assert numbers == list(range(saved + 1, len(whole.history_) + 1))
    assert same_fit(resumed, whole, parts.test)
    assert resumed.n_iter_ == whole.n_iter_
    same = ["iteration", "objective", "validation", "phase"]
    assert resumed.history_[same].equals(whole.history_[same])


# -- members --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixture(parts):
    return short(n_members=2, max_iter=7).fit(parts.train)


def test_a_mixture_is_as_good_as_its_members_or_better(mixture, parts):
    members = [short(max_iter=7, random_state=seed).fit(parts.train) for seed in (0, 1)]
    scores = [member.score(parts.test) for member in members]
    assert mixture.score(parts.test) >= np.mean(scores)
    by_hand = np.logaddexp(*(member.log_pmf(parts.test) for member in members)) - np.log(2)
    assert mixture.log_pmf(parts.test) == pytest.approx(by_hand, rel=1e-6, abs=1e-6)
    mean = np.mean([member.predict(parts.test) for member in members], axis=0)
    assert mixture.predict(parts.test) == pytest.approx(mean, rel=1e-6)
    rate = np.mean([member.rate(parts.test) for member in members], axis=0)
    assert mixture.rate(parts.test) == pytest.approx(rate)
    low, high = mixture.interval(parts.test, 0.9).T
    assert np.mean((low <= parts.test.counts) & (parts.test.counts <= high)) > 0.85


def test_a_mixture_is_saved_and_loaded_bit_by_bit(mixture, parts, tmp_path):
    mixture.save(tmp_path / "model")
    loaded = tf.load(tmp_path / "model")
    assert loaded.n_members == 2
    assert same_fit(loaded, mixture, parts.test)
    assert loaded.score(parts.test) == mixture.score(parts.test)


@pytest.mark.parametrize("stop_at", [(1, 3), (2, 2)])
def test_a_mixture_interrupted_and_resumed_is_the_uninterrupted_one(
    stop_at, mixture, parts, tmp_path
):
    member, last = stop_at
    begun = []

    def stop(progress):
        begun.extend([1] if progress.iteration.number == 1 else [])
        if len(begun) == member and progress.iteration.number == last:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        partly = short(n_members=2, max_iter=7).fit(
            parts.train, checkpoint=tmp_path, every=2, callbacks=[stop]
        )
    assert len(begun) == member  # no member is begun after the one that was to stop
    assert np.all(np.isfinite(partly.predict(parts.test)))
    resumed = short(n_members=2, max_iter=7).fit(parts.train, checkpoint=tmp_path, resume=True)
    assert same_fit(resumed, mixture, parts.test)


# -- new entities and new cells -------------------------------------------------------------------


@pytest.fixture(scope="module")
def newcomers(truth):
    """A model of the first users; cells of the others, some to learn from and some to predict."""
    known = part(truth.tensor, lambda frame: frame["user"] < 22)
    new = tf.split(part(truth.tensor, lambda frame: frame["user"] >= 22), 0.4, random_state=1)
    return short(n_members=2).fit(known), new.train, new.test


def test_new_entities_are_predicted_better_than_average_ones(newcomers, truth):
    model, support, query = newcomers
    before = model.predict(query, unknown="prior")
    extended = model.fold_in(support, "user")
    assert extended.score(query) > model.score(query, unknown="prior") + 0.1
    assert len(extended.axes_[0]) == truth.tensor.shape[0]
    low, high = extended.interval(query, 0.9).T
    assert np.mean((low <= query.counts) & (query.counts <= high)) > 0.8
    assert np.array_equal(model.predict(query, unknown="prior"), before)  # the old one is as it was
    with pytest.raises(LabelError, match="no label"):
        model.predict(query)


def test_known_entities_stay_as_they_were_when_others_come(newcomers):
    model, support, _ = newcomers
    extended = model.fold_in(support, "user")
    old = model.axes_[0].labels
    cells = pd.DataFrame({"user": old, "item": [0] * len(old), "day": [1] * len(old)})
    assert np.array_equal(extended.predict(cells), model.predict(cells))


@pytest.mark.parametrize("axis", ["user", "item", "day"])
def test_multipliers_are_found_again_when_any_axis_grows(axis, truth):
    """Combinations get other numbers as an axis grows; each keeps what was learnt of it."""
    last = truth.tensor.to_frame()[axis].max()
    model = short(interactions=[("user", "item"), ("item", "day"), ("user", "day")])
    model.fit(part(truth.tensor, lambda frame: frame[axis] < last))
    new = part(truth.tensor, lambda frame: frame[axis] == last)
    extended, old = model.fold_in(new, axis), part(truth.tensor, lambda frame: frame[axis] < last)
    assert np.array_equal(extended.predict(old), model.predict(old))
    number = list(truth.tensor.names).index(axis)
    pairs = zip(model.fitted_.derived, extended.fitted_.derived, strict=True)
    for before, after in pairs:
        assert np.all(np.diff(after.keys_P) > 0)
        more = len(after.keys_P) - len(before.keys_P)
        cells = new.indices[:, [new.axis_number(truth.tensor.names[m]) for m in before.axes]]
        assert more == (len(np.unique(cells, axis=0)) if number in before.axes else 0)
        sizes = after.table.shape_DK.shape, after.table.rate_DK.shape, after.table.widest_DK.shape
        assert sizes == ((len(after.keys_P) + 1, 1),) * 3
        assert after.table.shape_DK[-1] == before.table.shape_DK[-1]
        assert after.table.rate_DK[-1] == before.table.rate_DK[-1]
    assert extended.score(new) > model.score(new, unknown="prior")


def test_an_extended_model_is_saved_loaded_and_extended_again(newcomers, tmp_path):
    model, support, query = newcomers
    at_once = model.fold_in(support, "user")
    at_once.save(tmp_path / "model")
    assert same_fit(tf.load(tmp_path / "model"), at_once, query)
    first = part(support, lambda frame: frame["user"] < 26)
    second = part(support, lambda frame: frame["user"] >= 26)
    model.fold_in(first, "user").save(tmp_path / "first")
    in_turn = tf.load(tmp_path / "first").fold_in(second, "user")
    assert set(in_turn.axes_[0].labels.to_pylist()) == set(at_once.axes_[0].labels.to_pylist())
    assert in_turn.predict(query) == pytest.approx(at_once.predict(query), rel=0.2)
    assert in_turn.score(query) == pytest.approx(at_once.score(query), abs=0.02)


def test_a_new_entity_without_a_cell_is_an_average_one(newcomers):
    model, support, _ = newcomers
    axes = [tf.Axis("user", [*support.axes[0].labels.to_pylist(), 999]), *support.axes[1:]]
    padded = tf.CountTensor(axes, support.indices, support.counts)
    extended = model.fold_in(padded, "user")
    table = extended.posterior_.gammas.axes[0]
    newest = list(extended.axes_[0].labels.to_pylist()).index(999)
    for array_DK in (table.shape_DK, table.rate_DK, table.widest_DK):
        np.testing.assert_array_equal(array_DK[newest], array_DK[-1])


def test_what_cannot_be_folded_in_is_refused(newcomers, parts):
    model, support, _ = newcomers
    with pytest.raises(LabelError, match=r"on axis 'user' is known already\. .*`partial`"):
        model.fold_in(parts.test, "user")
    with pytest.raises(LabelError, match="there is no axis 'colour' in both"):
        model.fold_in(support, "colour")
    frame = support.to_frame().assign(day=77)
    stranger = tf.CountTensor.from_frame(frame, axes=["user", "item", "day"], value="count")
    with pytest.raises(LabelError, match="does not know 77 on axis 'day'"):
        model.fold_in(stranger, "user")
    with pytest.raises(DataError, match="nothing to add"):
        model.fold_in(support.with_cells(np.zeros(support.nnz, bool)), "user")
    with pytest.raises(ParameterError, match="expected a CountTensor; got DataFrame as `counts`"):
        model.partial(frame)
    with pytest.raises(LabelError, match="does not know"):
        model.partial(support)
    with pytest.raises(LabelError, match="must have the model's axes"):
        model.update(support.collapse("day"))


def test_axes_may_come_in_another_order(newcomers):
    model, support, query = newcomers
    frame = support.to_frame()
    turned = tf.CountTensor.from_frame(frame, axes=["day", "user", "item"], value="count")
    found, expected = (model.fold_in(cells, "user").predict(query) for cells in (turned, support))
    assert found == pytest.approx(expected, rel=1e-9)


def test_new_cells_of_known_entities_move_a_model_toward_a_refit(parts):
    halves = tf.split(parts.train, 0.5, random_state=2)
    model = short().fit(halves.train)
    more = model.partial(halves.test)
    assert more.score(parts.test) > model.score(parts.test)
    # posteriors are surer, as those of a fit to all cells are
    for name in ("user", "item", "day"):
        spread = [np.median(m.posterior_.sd(name) / m.posterior_.mean(name)) for m in (more, model)]
        assert spread[0] < spread[1]
    refit = short().fit(parts.train).rate(parts.test)
    away = [np.mean(np.abs(np.log(m.rate(parts.test) / refit))) for m in (more, model)]
    assert away[0] < away[1]
    assert spearmanr(more.rate(parts.test), refit)[0] > spearmanr(model.rate(parts.test), refit)[0]


@pytest.mark.parametrize("amount", ["head", "negative-binomial"])
def test_new_labels_of_two_axes_and_known_ones_come_at_once(amount, parts, tmp_path):
    def is_new(frame):
        return (frame["user"] >= 25) | (frame["day"] >= 8)

    model = short(amount=amount, n_members=2).fit(part(parts.train, lambda f: ~is_new(f)))
    more = part(parts.train, is_new)
    known, new = tf.split(more, 0.5, random_state=0)
    updated = model.update(known)
    assert [len(axis) for axis in updated.axes_] == [len(a) for a in parts.train.axes]
    assert updated.score(new) > model.score(new, unknown="prior") + 0.05
    updated.save(tmp_path / "updated")
    assert same_fit(tf.load(tmp_path / "updated"), updated, new)


def test_an_update_of_known_labels_is_partial(parts):
    halves = tf.split(parts.train, 0.5, random_state=2)
    model = short().fit(halves.train)
    found, wanted = model.update(halves.test), model.partial(halves.test)
    assert np.array_equal(found.predict(parts.test), wanted.predict(parts.test))


@pytest.mark.parametrize("what", ["objective", "factors"])
def test_a_fit_that_diverges_hands_over_its_last_good_state(what, parts, monkeypatch):
    whole = EncoderStep.advance

    def diverges(self, state, iteration):
        new, objective = whole(self, state, iteration)
        if iteration == 1:
            return new, objective
        if what == "objective":
            return new, np.nan
        bad = GammaTable(new.posterior.axes[0].shape_DK * np.nan, new.posterior.axes[0].rate_DK)
        return replace(new, posterior=new.posterior.replace(0, bad)), objective

    monkeypatch.setattr(EncoderStep, "advance", diverges)
    with pytest.raises(DivergedError, match="iteration 6") as caught:
        short(max_iter=8, tol=0.0).fit(parts.train)
    model = caught.value.model
    assert model.fitted_.reason == "diverged"
    assert model.history_["phase"].tolist() == ["sweeps"] * 4 + ["encoders"]
    assert np.isfinite(model.score(parts.test))


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"interactions": [["axis_0", "axis_1"]], "validation": None}, "interactions"),
        ({"interactions": [["axis_0", "axis_1"]], "zeros": "observed"}, "interactions"),
        ({"batch_entities": 5, "validation": None}, "batch_entities"),
        ({"likelihood": "auto", "validation": None}, "likelihood='auto'"),
        ({"dispersion": 2.0}, "dispersion"),
    ],
)
def test_what_would_have_no_effect_is_refused(parameters, name):
    tensor = tf.simulate((20, 15, 8), 2, density=0.4).tensor
    with pytest.raises(ParameterError, match=name):
        with_encoders(n_components=2, **parameters).fit(tensor)


def test_a_known_label_without_a_cell_starts_from_the_prior():
    tensor = tf.simulate((25, 15, 8), 2, density=0.4).tensor
    old, new = tf.split_entities(tensor, "axis_0", 0.2)  # both keep all labels
    known = with_encoders(n_components=2).fit(old).partial(new)
    folded = with_encoders(n_components=2).fit(old.compact()).fold_in(new.compact(), "axis_0")
    label = new.compact().axis("axis_0").label(0)
    spread = {}
    for name, model in (("known", known), ("folded", folded)):
        place = int(model.axes_[0].positions([label])[0])
        factors = model.posterior_
        spread[name] = factors.sd("axis_0")[place] / factors.mean("axis_0")[place]
    np.testing.assert_allclose(spread["known"], spread["folded"], rtol=0.3)


def test_an_interrupt_keeps_the_members_that_are_whole(monkeypatch):
    tensor = tf.simulate((20, 15, 8), 2, density=0.4).tensor
    whole, calls = CAVIStep.start, []

    def interrupted(self, previous=None):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(self, previous)

    monkeypatch.setattr(CAVIStep, "start", interrupted)
    with pytest.warns(InterruptedWarning, match="has 2 of 3 members"):
        model = with_encoders(n_components=2, n_members=3, max_iter=6).fit(tensor)
    assert len(model.fitted_.others) == 1
    assert not model.converged_
    assert np.isfinite(model.score(tensor))


def test_axes_called_like_the_numbers_keep_their_labels():
    tensor = simulate_pairs((30, 20, 10), seed=0)[0]
    axes = [
        tf.Axis(name, axis.labels)
        for name, axis in zip(("user", "low", "high"), tensor.axes, strict=True)
    ]
    renamed = tf.CountTensor(axes, tensor.indices, tensor.counts)
    model = with_encoders(n_components=2, max_iter=20).fit(renamed)
    found = [tuple(axes[a].name for a in i.axes) for i in model.fitted_.derived]
    assert ("low", "high") in found
    table = model.interaction_effects("low", "high", top=5)
    assert list(table.columns) == ["low (axis)", "high (axis)", "multiplier", "low", "high"]
    assert (table["multiplier"] > 1).all()
