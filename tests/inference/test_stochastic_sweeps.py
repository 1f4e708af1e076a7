import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import InterruptedWarning
from tallyfold.inference.cells.parts import Ints
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells, hold_out
from tallyfold.inference.fit.loop import State
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.inference.schemes.svi import SVIStep, _Factors
from tallyfold.probability.counts import COUNTS


def step_for(tensor, family="poisson", **rest):
    train, held_out = hold_out(tensor, 0.1, 0)
    return CAVIStep(
        TrainingCells(train),
        COUNTS[family, True],
        False,
        2,
        0.7,
        backend="numpy",
        validation=ValidationCells(held_out),
        **rest,
    )


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((60, 15, 6), 2, density=0.25, random_state=2).tensor


def rest_of(state: State, sweeps: SVIStep, entity: Ints) -> tuple[_Factors, TrainingCells]:
    cells, _ = sweeps.sweeps.cells.of_entities(sweeps.axis, entity)
    return _Factors.of(state, sweeps.axis, entity), cells


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_what_a_few_entities_say_of_the_other_axes_is_unbiased(tensor, family, axis):
    sweeps = SVIStep(step_for(tensor, family), 1, 10**9)
    state = sweeps.sweeps.start()
    seen = np.flatnonzero(sweeps.sweeps.cells.seen[0])
    single = [
        sweeps._updated(axis, *rest_of(state, sweeps, np.array([entity])), float(len(seen)))
        for entity in seen
    ]
    everything = sweeps._updated(axis, *rest_of(state, sweeps, slice(None)), 1.0)
    for one, other in zip(np.mean(single, axis=0), everything, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def test_the_bound_of_all_entities_is_the_bound(tensor):
    sweeps = SVIStep(step_for(tensor), 10**6, 10**9)
    state = sweeps.sweeps.start()
    now, cells = rest_of(state, sweeps, slice(None))
    assert sweeps._bound(now, cells, 1.0) == pytest.approx(sweeps.sweeps.bound(state), rel=1e-12)


def test_in_the_end_all_entities_have_the_update_that_their_cells_give(tensor, monkeypatch):
    sweeps = SVIStep(step_for(tensor), 5, 10**9)
    monkeypatch.setattr("tallyfold.inference.schemes.svi.ROUNDS", 1)
    monkeypatch.setattr(
        "tallyfold.inference.schemes.svi.ranges", lambda n: [slice(0, 17), slice(17, 60)]
    )
    state = sweeps.sweeps.start()
    expected, _ = sweeps.sweeps.advance(state, 1)  # a sweep begins with the first axis
    found = sweeps.finished(state)
    np.testing.assert_allclose(found["shape_0"], expected["shape_0"], rtol=1e-10)
    np.testing.assert_allclose(found["rate_0"], expected["rate_0"], rtol=1e-10)
    assert np.array_equal(found["shape_1"], state["shape_1"])


def test_an_iteration_leaves_the_old_state_and_other_entities_alone(tensor):
    sweeps = SVIStep(step_for(tensor), 5, 10**9, seed=3)
    state = sweeps.sweeps.start()
    before = {name: np.array(value) for name, value in state.items()}
    new, bound = sweeps.advance(state, 1)
    assert all(np.array_equal(state[name], value) for name, value in before.items())
    changed = np.any(new["shape_0"] != state["shape_0"], axis=1)
    assert changed.sum() == 5
    assert np.isfinite(bound)
    again, _ = sweeps.advance(state, 1)
    assert all(np.array_equal(new[name], again[name]) for name in new)
    assert np.any(sweeps.advance(state, 2)[0]["shape_1"] != new["shape_1"])


def test_a_dispersion_is_learnt(tensor):
    sweeps = SVIStep(step_for(tensor, "negative-binomial"), 30, 10**9)
    state = sweeps.sweeps.start()
    assert float(sweeps.advance(state, 2)[0]["dispersion"]) != float(state["dispersion"])
    fixed = SVIStep(step_for(tensor, "negative-binomial", dispersion=3.0), 30, 10**9)
    assert float(fixed.advance(fixed.sweeps.start(), 2)[0]["dispersion"]) == 3.0


def test_a_fit_by_a_few_entities_at_a_time_predicts_about_as_well():
    truth = tf.simulate((400, 30, 8), 3, density=0.15, random_state=5)
    train, test = tf.split(truth.tensor)
    whole = tf.VAEBPTF(n_components=3).fit(train)
    some = tf.VAEBPTF(n_components=3, batch_entities=40).fit(train)
    effects = tf.MainEffects().fit(train)
    assert some.score(test) > effects.score(test) + 0.6 * (whole.score(test) - effects.score(test))
    history = some.history_
    assert history["validation"].isna().sum() > 50  # no score before all entities were looked at
    assert np.all(np.isfinite(history["objective"]))


def test_an_interrupt_before_all_entities_were_looked_at_says_so(tensor):
    def press(progress):
        if progress.iteration.number == 5:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="had not looked at all entities"):
        tf.VAEBPTF(n_components=2, batch_entities=10).fit(tensor, callbacks=[press])
