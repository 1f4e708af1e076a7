from copy import deepcopy

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.errors import InterruptedWarning
from tallyfold.inference.cells.parts import Ints
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells, hold_out
from tallyfold.inference.fit.loop import Phase, run_loop
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIState, CAVIStep
from tallyfold.inference.schemes.svi import SVIStep
from tallyfold.probability.counts import COUNTS

pytestmark = pytest.mark.usefixtures("brief_heads")


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


ALL = slice(None)


def svi_for(sweeps, n_entities, n_iterations=10, **rest):
    return SVIStep(sweeps, n_iterations, n_entities, 10**9, **rest)


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((60, 15, 6), 2, density=0.25, random_state=2).tensor


def part_of(
    state: CAVIState, svi: SVIStep, entities: slice | Ints
) -> tuple[CAVIState, TrainingCells]:
    cells, _ = svi.sweeps.cells.of_entities(svi.axis, entities)
    return svi._part(state, entities), cells


@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
def test_what_a_few_entities_say_of_the_other_axes_is_unbiased(tensor, family, axis):
    svi = svi_for(step_for(tensor, family), 1)
    state = svi.sweeps.start()
    seen = np.flatnonzero(svi.sweeps.cells.seen[0])
    single = [
        svi._updated(axis, *part_of(state, svi, one), one, float(len(seen)))
        for one in seen[:, None]
    ]
    everything = svi._updated(axis, *part_of(state, svi, ALL), ALL, 1.0)
    for name in ("shape_DK", "rate_DK"):
        mean_DK = np.mean([getattr(table, name) for table in single], axis=0)
        np.testing.assert_allclose(mean_DK, getattr(everything, name), rtol=1e-9)


def test_the_bound_of_all_entities_is_the_bound(tensor):
    svi = svi_for(step_for(tensor), 10**6)
    state = svi.sweeps.start()
    now, cells = part_of(state, svi, ALL)
    assert svi._bound(now, cells, ALL, 1.0) == pytest.approx(svi.sweeps.bound(state), rel=1e-12)


def test_in_the_end_all_entities_have_the_update_that_their_cells_give(tensor, monkeypatch):
    svi = svi_for(step_for(tensor), 5)
    monkeypatch.setattr("tallyfold.inference.schemes.svi.ROUNDS", 1)
    monkeypatch.setattr(
        "tallyfold.inference.schemes.svi.ranges", lambda n: [slice(0, 17), slice(17, 60)]
    )
    state = svi.sweeps.start()
    expected, _ = svi.sweeps.advance(state, 1)  # a sweep begins with the first axis
    found, wanted = svi._finished(state), expected.posterior.axes[0]
    np.testing.assert_allclose(found.posterior.axes[0].shape_DK, wanted.shape_DK, rtol=1e-10)
    np.testing.assert_allclose(found.posterior.axes[0].rate_DK, wanted.rate_DK, rtol=1e-10)
    assert found.prior_rate_M[0] == pytest.approx(expected.prior_rate_M[0], rel=1e-10)
    assert same_states(found.posterior.axes[1:], state.posterior.axes[1:])


def test_the_last_iteration_updates_all_entities_and_has_the_only_score(tensor):
    svi = svi_for(step_for(tensor), 5, n_iterations=6)
    outcome = run_loop([Phase("svi", svi, svi.start, StoppingRules(6))])
    assert [each.validation is None for each in outcome.history] == [True] * 5 + [False]
    assert outcome.state.complete
    assert outcome.history[-1].validation == svi.sweeps.validation_score(outcome.state.sweep)
    start = svi.start(None)
    assert not start.complete
    before = start
    for iteration in range(1, 6):
        before, _ = svi.advance(before, iteration)
        assert not before.complete
    longer = svi_for(step_for(tensor), 5, n_iterations=7)
    last, _ = longer.advance(before, 6)  # the same iteration, were it not the last one
    assert same_states(svi._finished(last.sweep), outcome.state.sweep)
    table, finished = last.sweep.posterior.axes[0], outcome.state.sweep.posterior.axes[0]
    seen = svi.sweeps.cells.seen[0]
    assert np.all(np.any(finished.rate_DK != table.rate_DK, axis=1)[seen])


def test_it_begins_at_the_sweeps_that_came_before(tensor):
    svi = svi_for(step_for(tensor), 5)
    swept, _ = svi.sweeps.advance(svi.sweeps.start(), 1)
    assert same_states(svi.start(swept).sweep, swept)
    assert same_states(svi.start(None).sweep, svi.sweeps.start())


def test_an_iteration_leaves_the_old_state_and_other_entities_alone(tensor):
    svi = svi_for(step_for(tensor), 5, seed=3)
    state = svi.start(None)
    before = deepcopy(state)
    new, bound = svi.advance(state, 1)
    assert same_states(state, before)
    old_axes, new_axes = state.sweep.posterior.axes, new.sweep.posterior.axes
    changed = np.any(new_axes[0].shape_DK != old_axes[0].shape_DK, axis=1)
    assert changed.sum() == 5
    assert np.isfinite(bound)
    again, _ = svi.advance(state, 1)
    assert same_states(new, again)
    other, _ = svi.advance(state, 2)
    assert np.any(other.sweep.posterior.axes[1].shape_DK != new_axes[1].shape_DK)


def test_a_dispersion_is_learnt(tensor):
    svi = svi_for(step_for(tensor, "negative-binomial"), 30)
    state = svi.start(None)
    assert svi.advance(state, 2)[0].sweep.dispersion != state.sweep.dispersion
    fixed = svi_for(step_for(tensor, "negative-binomial", dispersion=3.0), 30)
    assert fixed.advance(fixed.start(None), 2)[0].sweep.dispersion == 3.0


def test_a_fit_by_a_few_entities_at_a_time_predicts_about_as_well():
    truth = tf.simulate((400, 30, 8), 3, density=0.15, random_state=5)
    train, test = tf.split(truth.tensor)
    whole = tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_components=3).fit(train)
    some = tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, batch_entities=40
    ).fit(train)
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
        tf.VAEBPTF(
            zeros="missing", amount="negative-binomial", n_components=2, batch_entities=10
        ).fit(tensor, callbacks=[press])
