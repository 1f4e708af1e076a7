"""Which components other fits find again, and the model of those that recur."""

from dataclasses import replace

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import InferenceError, NoFactorsError, ParameterError
from tallyfold.evaluation.stability import _not_held_out
from tallyfold.inference.cells.validation import hold_out
from tallyfold.posterior.matching import Profiles, matched_overlaps, mutual_overlaps

pytestmark = pytest.mark.usefixtures("brief_heads")

GIVEN = {"n_components": 8, "zeros": "observed", "prior_shape": 0.1}


def made(seed):
    truth = tf.simulate((60, 50, 12), 4, density=0.08, random_state=seed)
    return tf.split(truth.tensor, 0.3, cells="all", random_state=1)


@pytest.fixture(scope="module")
def parts():
    return made(3)


@pytest.fixture(scope="module")
def found(parts):
    return tf.stability(parts.train, tf.BPTF(**GIVEN), runs=5)


@pytest.fixture(scope="module")
def consensus(found, parts):
    return found.consensus(parts.train)


def test_every_component_has_a_score_and_its_spread(found):
    table, model = found.table, found.model
    on = np.flatnonzero(~model.posterior_.switched_off())
    assert table["component"].tolist() == on.tolist()
    assert table["name"].tolist() == [model.component_names_[k] for k in on]
    assert table["stability"].between(0, 1).all()
    assert ((table["least"] <= table["stability"]) & (table["sd"] >= 0)).all()
    np.testing.assert_allclose(table["stability"], found.overlap_RK.mean(axis=0))
    np.testing.assert_allclose(table["recurs"], (found.overlap_RK >= 0.5).mean(axis=0))
    assert table["stability"].iloc[0] > table["stability"].min() + 0.2  # noise does not come back


def test_every_fit_has_another_seed_and_a_score(found):
    assert found.runs["seed"].tolist() == [1, 2, 3, 4, 5]
    assert np.isfinite(found.runs["score"]).all()
    assert found.metric == "log-score"
    assert found.runs["stability"].between(0.3, 1).all()


def test_the_same_call_gives_the_same(found, parts):
    again = tf.stability(parts.train, tf.BPTF(**GIVEN), runs=2)
    assert np.array_equal(again.overlap_RK, found.overlap_RK[:2])


def gains(consensus, parts):
    """Return by how much a consensus is better than the median fit to the same cells.

    In the score of hidden cells, and in the mean overlap of components with those of such fits.
    """
    fits = [tf.BPTF(**GIVEN, random_state=seed).fit(parts.train) for seed in range(1, 6)]
    profiles, own = [Profiles.of(fit.posterior_) for fit in fits], Profiles.of(consensus.posterior_)
    overlap = np.mean([matched_overlaps(own, each).mean() for each in profiles])
    score = consensus.score(parts.test) - np.median([fit.score(parts.test) for fit in fits])
    return score, overlap - np.median(mutual_overlaps(profiles))


def test_the_consensus_is_as_good_as_the_median_fit_and_more_stable(consensus, parts):
    other = made(0)
    found = tf.stability(other.train, tf.BPTF(**GIVEN), runs=5).consensus(other.train)
    hard, easy = gains(consensus, parts), gains(found, other)
    assert min(hard[0], easy[0]) >= 0
    assert min(hard[1], easy[1]) > 0
    assert easy[1] > 0.1  # on `hard` it rises by a few hundredths
    assert found.n_components <= 5  # there are four; each fit has up to eight


def test_lists_and_saved_models_have_it(found, consensus, tmp_path):
    for model in (found.model, consensus):
        listed = model.components("axis_0", 1).set_index("component")["stability"]
        wanted = [each for each in model.fitted_.component_stability if each is not None]
        assert listed.tolist() == wanted
        model.save(tmp_path)
        assert tf.load(tmp_path).fitted_.component_stability == model.fitted_.component_stability
    edited = found.model.merge([0, 1]).fitted_.component_stability
    known = found.model.fitted_.component_stability
    assert sorted(filter(None, edited)) == sorted(filter(None, known[2:]))  # of new ones, nothing
    plain = tf.BPTF(n_components=1, max_iter=2).fit(tf.simulate((9, 8, 7), 2).tensor)
    assert "stability" not in plain.components("axis_0")


def test_a_fitted_model_is_judged_as_it_is(parts):
    model = tf.BPTF(**GIVEN, max_iter=5).fit(parts.train).rename({0: "first"})
    seen = []
    found = tf.stability(parts.train, model, runs=2, callback=seen.append)
    assert found.table["name"].iloc[0] == "first"
    assert np.array_equal(found.model.predict(parts.test), model.predict(parts.test))
    assert [(step.number, step.total) for step in seen] == [(1, 2), (2, 2)]
    assert [step.score for step in seen] == found.runs["score"].tolist()


def test_the_flagship_has_a_consensus_with_its_gate(parts):
    model = tf.VAEBPTF(n_components=3, zeros="observed", max_iter=20).fit(parts.train)
    found = tf.stability(parts.train, model, runs=2)
    surer = found.consensus(parts.train)
    assert surer.gate_ == model.gate_
    assert np.isfinite(surer.score(parts.test))


def test_what_has_no_stability_says_so(parts):
    train = parts.train
    with pytest.raises(NoFactorsError, match="Margins has no factors"):
        tf.stability(train, tf.Margins(zeros="missing"), runs=2)
    with pytest.raises(ParameterError, match="`runs` must be an integer of at least 2"):
        tf.stability(train, "bptf", runs=1)
    with pytest.raises(ParameterError, match="`share` must be"):
        tf.stability(train, "bptf", share=1.0)
    with pytest.raises(ParameterError, match="finds the same each time"):
        tf.stability(train, tf.Constant(), runs=2)
    other = tf.BPTF(n_components=2, max_iter=2).fit(tf.simulate((9, 8, 7), 2).tensor)
    with pytest.raises(ParameterError, match="axes and labels that the model was fitted on"):
        tf.stability(train, other, runs=2)
    members = tf.VAEBPTF(n_components=2, zeros="missing", n_members=2, max_iter=2)
    with pytest.raises(ParameterError, match="use n_members=1"):
        tf.stability(tf.simulate((9, 8, 7), 2).tensor, members, runs=2)


def test_what_has_no_consensus_says_so(parts):
    found = tf.stability(parts.train, tf.PTFKL(n_components=2, max_iter=3), runs=2)
    with pytest.raises(ParameterError, match="BPTF and VAEBPTF can"):
        found.consensus(parts.train)
    noise = tf.stability(parts.train, tf.BPTF(n_components=2, max_iter=3), runs=2)
    rows = [np.arange(size) < size / 2 for size in parts.train.shape]
    apart = [
        Profiles(tuple(np.where(r == side, 1.0, 0.0)[:, None] for r in rows), np.ones(1))
        for side in (True, False)
    ]
    with pytest.raises(InferenceError, match="no component recurs in half of 2 fits"):
        replace(noise, fits=apart).consensus(parts.train)


def test_no_fit_sees_what_the_model_holds_out_for_itself(parts):
    model = tf.BPTF(**GIVEN, max_iter=3).fit(parts.train)
    kept = _not_held_out(model, parts.train)
    _, held_out = hold_out(parts.train, model.validation, model.random_state, None, zeros=True)
    assert kept.nnz + held_out.nnz == parts.train.nnz
    seen = {tuple(cell) for cell in kept.indices.tolist()}
    assert not seen & {tuple(cell) for cell in held_out.indices.tolist()}


def test_a_model_that_decided_about_zeros_is_judged_on_a_part_of_the_same_seed(parts):
    model = tf.VAEBPTF(n_components=3, zeros="auto", gate="none", max_iter=3).fit(parts.train)
    assert model.fitted_.parameters["zeros"] == "observed"
    assert len(tf.stability(parts.train, model, runs=2, random_state=1).runs) == 2
