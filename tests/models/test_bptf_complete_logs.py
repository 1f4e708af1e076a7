"""BPTF and its relatives where cells without an entry are zeros."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from tests.models.test_complete_logs import shopping

import tallyfold as tf
from tallyfold.errors import InterruptedWarning, LabelError, ParameterError
from tallyfold.inference.schemes.gate import GateChoice

QUICK = {"zeros": "observed", "n_components": 2, "max_iter": 15}


@pytest.fixture(scope="module")
def parts():
    return tf.split(shopping(), 0.2, cells="all", random_state=1)


@pytest.fixture(scope="module")
def gated(parts):
    return tf.BPTF(**QUICK, gate="auto").fit(parts.train)


def dispersed(shape=(40, 30, 20), seed=0):
    """Return a complete log of counts far more dispersed than a Poisson's."""
    rng = np.random.default_rng(seed)
    truth = tf.simulate(shape, 2, prior_shape=1.0, random_state=2)
    rates = 0.3 * np.einsum("ik,jk,lk->ijl", *truth.factors)
    counts = rng.negative_binomial(0.2, 0.2 / (0.2 + rates))
    return tf.CountTensor.from_array(counts, ["a", "b", "c"])


@pytest.mark.parametrize("kind", [tf.BPTF, tf.MainEffects])
def test_calibration_predicts_held_out_cells_better(kind):
    train, test = tf.split(dispersed(), 0.2, cells="all")
    calibrated = kind(zeros="observed").fit(train)
    plain = kind(zeros="observed", validation=None).fit(train)
    assert calibrated.score(test) > plain.score(test) + 0.2
    assert 0.1 < calibrated.calibration_.dispersion < 0.4
    assert calibrated.fitted_.validation_score == pytest.approx(calibrated.score(test), abs=0.15)


def test_the_best_sweep_is_kept(parts):
    model = tf.BPTF(**QUICK | {"n_components": 8, "max_iter": 60}, patience=5).fit(parts.train)
    history = model.history_
    assert model.n_iter_ == history["validation"].argmax() + 1
    assert len(history) <= model.n_iter_ + 5


def test_without_validation_nothing_is_held_out_or_calibrated(parts):
    model = tf.BPTF(**QUICK, validation=None).fit(parts.train)
    assert model.history_["validation"].isna().all()
    assert model.fitted_.validation_score is None
    assert model.calibration_.dispersion is None
    assert model.calibration_.scale == 1


@pytest.mark.parametrize("gate", ["none", ("user", "item")])
def test_days_to_come_are_not_taught_as_empty(gate):
    train = tf.split_time(shopping(), "day", after=14).train
    model = tf.BPTF(**QUICK, gate=gate).fit(train)
    cells = train.indices[:200].copy()
    known = model.rate(cells).mean()
    cells[:, 2] = 17
    assert known / 3 < model.rate(cells).mean() < 3 * known


def test_the_gate_that_was_there_is_chosen_and_predicts_better(parts, gated):
    (derived,) = gated.fitted_.derived
    assert derived.axes == (0, 2)
    plain = tf.BPTF(**QUICK).fit(parts.train)
    assert plain.fitted_.derived == ()
    assert gated.score(parts.test) > plain.score(parts.test) + 0.3
    assert list(dict.fromkeys(gated.history_["phase"])) == ["gate", "sweeps"]


def test_a_gate_may_be_named(parts):
    named = tf.BPTF(**QUICK, gate=("day", "user")).fit(parts.train)
    assert named.fitted_.derived[0].axes == (0, 2)
    assert named.fitted_.parameters["gate"] == ["day", "user"]
    without = tf.BPTF(**QUICK, gate=["day", "user"], validation=None).fit(parts.train)
    assert without.fitted_.derived[0].axes == (0, 2)


def test_of_two_axes_there_is_no_gate():
    model = tf.BPTF(**QUICK, gate="auto").fit(shopping().collapse("day"))
    assert model.fitted_.derived == ()


def test_gates_that_cannot_be(parts):
    wrong = [
        (LabelError, "no axis 'shop'", {"gate": ("shop", "day")}),
        (ParameterError, "two different axes", {"gate": ("day", "day")}),
        (ParameterError, "no effect with zeros='missing'", {"gate": "auto", "zeros": "missing"}),
        (ParameterError, "a `validation` share", {"gate": "auto", "validation": None}),
        (ParameterError, "`gate` must be", {"gate": "some"}),
    ]
    for error, words, given in wrong:
        with pytest.raises(error, match=words):
            tf.BPTF(**QUICK | given).fit(parts.train)


def test_a_negative_binomial_is_refused_with_the_remedy(parts):
    with pytest.raises(ParameterError, match="calibration makes the predictive distribution neg"):
        tf.BPTF(**QUICK, likelihood="negative-binomial").fit(parts.train)


def test_saved_and_loaded_bit_for_bit(tmp_path, parts, gated):
    gated.save(tmp_path / "model")
    again = tf.load(tmp_path / "model")
    assert again.get_params() == gated.get_params()
    cells = parts.test.indices
    assert np.array_equal(gated.predict(cells), again.predict(cells))
    assert again.score(parts.test) == gated.score(parts.test)
    frame = pd.DataFrame({"user": ["u000"], "item": ["i00"], "day": [99]})
    assert 0 < again.probability(frame, unknown="prior")[0] < 1


@pytest.mark.parametrize("stop_at", [3, 8, 12])
def test_resumed_equals_uninterrupted(stop_at, tmp_path, parts, gated):
    def stop(progress):
        if progress.iteration.number == stop_at:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        early = tf.BPTF(**QUICK, gate="auto").fit(
            parts.train, checkpoint=tmp_path, every=2, callbacks=[stop]
        )
    assert np.all(np.isfinite(early.predict(parts.test)))
    resumed = tf.BPTF(**QUICK, gate="auto").fit(parts.train, checkpoint=tmp_path, resume=True)
    assert np.array_equal(resumed.predict(parts.test), gated.predict(parts.test))


def test_a_run_goes_on_with_its_own_gate(tmp_path, parts, gated):
    """Whichever gate the untrained models of a resumed fit would choose."""
    quick = QUICK | {"max_iter": 5}
    whole = tf.BPTF(**quick, gate="auto").fit(parts.train, checkpoint=tmp_path)
    with patch.object(GateChoice, "chosen", lambda *_: 0):
        resumed = tf.BPTF(**quick, gate="auto").fit(parts.train, checkpoint=tmp_path, resume=True)
    assert resumed.fitted_.derived[0].axes == (0, 2)
    assert np.array_equal(resumed.predict(parts.test), whole.predict(parts.test))


def test_backends_agree(parts):
    found = [
        tf.BPTF(**QUICK, gate=("user", "day"), backend=backend, tol=0.0, patience=99)
        .fit(parts.train)
        .rate(parts.test)
        for backend in ("numpy", "numba", "torch")
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-5)


def test_a_head_says_how_many_and_the_factors_whether(parts):
    model = tf.BPTF(**QUICK, gate=("user", "day"), amount="head").fit(parts.train)
    share = model.probability(parts.test)
    assert np.all((share > 0) & (share < 1))
    assert model.fitted_.validation_score == pytest.approx(model.score(parts.test), abs=0.3)


@pytest.mark.parametrize("given", [{}, {"validation": None}, {"gate": "auto"}])
def test_tiny_tensors_fit(given):
    tensor = tf.simulate((5, 4, 3), n_components=1, density=0.4).tensor
    model = tf.BPTF(**QUICK | given).fit(tensor)
    assert np.all(np.isfinite(model.predict(tensor)))


def test_the_gate_has_a_public_name(parts, gated, tmp_path):
    names = parts.train.names
    assert gated.gate_ is None or set(gated.gate_) < set(names)
    for model in (tf.BPTF, tf.VAEBPTF):
        named = model(n_components=2, max_iter=2, zeros="observed", gate=["day", "user"])
        named.fit(parts.train).save(tmp_path / model.name)
        assert named.gate_ == tf.load(tmp_path / model.name).gate_ == ("user", "day")
    assert named.partial(parts.test).gate_ == named.update(parts.test).gate_ == ("user", "day")
    assert tf.MainEffects(max_iter=2, zeros="observed").fit(parts.train).gate_ is None
    fitted = replace(named.fitted_, parameters={"zeros": "missing"})
    assert fitted.derived
    assert fitted.gate is None  # multipliers of combinations, as encoders have them
