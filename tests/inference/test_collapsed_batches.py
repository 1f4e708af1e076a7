"""Stochastic collapsed variational Bayes: what a few entities say, and where it ends."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from tests.inference.states import same_states
from tests.models.test_complete_logs import occurrence, shopping

import tallyfold as tf
from tallyfold.errors import InterruptedWarning
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import hold_out
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.schemes import collapsed_batches
from tallyfold.inference.schemes.collapsed import CollapsedStep
from tallyfold.inference.schemes.collapsed_batches import BatchStep

pytestmark = pytest.mark.usefixtures("brief_heads")

GATES = [None, (0, 2), (1, 2)]
"""No gate, one of the axis whose entities are drawn, one of the other axes."""
NAMED = ["none", ("user", "day"), ("item", "day")]


@pytest.fixture(scope="module")
def tensor():
    whole = shopping(60, 12, 6, active=0.5)
    return whole.with_cells(whole.indices[:, 0] != 7)  # a label without a cell


def batches_for(tensor, gate, n_entities, n_iterations=10):
    train, held_out = hold_out(tensor, 0.3, 0, zeros=True)
    cells = TrainingCells(train)
    sweeps = CollapsedStep(
        cells,
        cells.share,
        GATES,
        2,
        0.1,
        gate=gate,
        backend="numpy",
        held_out=OccurrenceCells.of(held_out, cells.group, 0),
    )
    return BatchStep(sweeps, n_iterations, n_entities, 10**9)


def entities_with_cells(batches):
    return np.flatnonzero(batches.sweeps.cells.seen[0])


@pytest.mark.parametrize("gate", range(3))
def test_what_single_entities_say_of_other_axes_is_unbiased(tensor, gate):
    batches = batches_for(tensor, gate, 1)
    state, _ = batches.sweeps.advance(batches.sweeps.start(), 1)
    seen = entities_with_cells(batches)

    def said(entities, axis):
        drawn = batches._drawn(state, entities, len(seen) / len(entities))
        now = batches._rows(state, drawn)
        return batches._table(axis, now, drawn, batches._pass(now, drawn), drawn.weight)

    for axis in (1, 2):
        single = [said(np.array([entity]), axis) for entity in seen]
        everything = said(seen, axis)
        for name in ("shape_DK", "rate_DK"):
            mean_DK = np.mean([getattr(table, name) for table in single], axis=0)
            np.testing.assert_allclose(mean_DK, getattr(everything, name), rtol=1e-9)


@pytest.mark.parametrize("gate", range(3))
def test_all_entities_at_once_say_what_a_pass_says(tensor, gate, monkeypatch):
    """One round over all entities, with steps of size one, is a pass of the plain scheme."""
    monkeypatch.setattr(collapsed_batches, "ROUNDS", 1)
    monkeypatch.setattr(collapsed_batches, "FORGETTING", 0.0)
    batches = batches_for(tensor, gate, 10**6)
    state = batches.sweeps.start()
    wanted, wanted_objective = batches.sweeps.advance(state, 1)
    found, objective = batches.advance(batches.start(state), 1)
    assert objective == pytest.approx(wanted_objective, rel=1e-10)
    mine, theirs = found.factors, wanted
    seen = entities_with_cells(batches)
    one, other = mine.posterior.axes[0], theirs.posterior.axes[0]
    np.testing.assert_allclose(one.shape_DK[seen], other.shape_DK[seen], rtol=1e-9)
    np.testing.assert_allclose(one.rate_DK[seen], other.rate_DK[seen], rtol=1e-9)
    # the second axis sees the first one's new factors in both, so that it agrees as well
    np.testing.assert_allclose(
        mine.posterior.axes[1].shape_DK, theirs.posterior.axes[1].shape_DK, rtol=1e-9
    )
    if gate != 1:  # there, pairs are updated before the other axes, not after them
        np.testing.assert_allclose(
            mine.posterior.axes[1].rate_DK, theirs.posterior.axes[1].rate_DK, rtol=1e-9
        )


@pytest.mark.parametrize("gate", range(3))
def test_an_iteration_changes_the_drawn_entities_alone(tensor, gate):
    batches = replace(batches_for(tensor, gate, 5), seed=3)
    state = batches.start()
    before = deepcopy(state)
    new, objective = batches.advance(state, 1)
    assert same_states(state, before)
    assert np.isfinite(objective)
    old_axis, new_axis = state.factors.posterior.axes[0], new.factors.posterior.axes[0]
    changed_D = np.any(new_axis.shape_DK != old_axis.shape_DK, axis=1)
    assert changed_D.sum() == 5
    pairs = batches.sweeps.gate_of(state.factors).pairs
    if gate == 1:
        old_table, new_table = state.factors.gate_table, new.factors.gate_table
        changed_P = (new_table.rate_DK != old_table.rate_DK)[:, 0]
        assert changed_P[-1]  # that of pairs never seen, by a step
        assert np.array_equal(changed_P[:-1], changed_D[pairs.pairs_P2[:, 0]])
    again, _ = batches.advance(state, 1)
    assert same_states(new, again)
    other, _ = batches.advance(state, 2)
    assert not same_states(new.factors.posterior, other.factors.posterior)


@pytest.mark.parametrize("gate", range(3))
def test_the_last_iteration_updates_all_entities_and_has_the_only_score(tensor, gate, monkeypatch):
    batches, longer = (batches_for(tensor, gate, 5, n) for n in (3, 4))
    state = batches.start()
    for iteration in (1, 2):
        state, _ = batches.advance(state, iteration)
        assert batches.validation_score(state) is None
    last, _ = batches.advance(state, 3)
    score = batches.validation_score(last)
    assert score == batches.sweeps.validation_score(last.factors)
    before, _ = longer.advance(state, 3)  # the same iteration, were it not the last one
    monkeypatch.setattr(collapsed_batches, "ranges", lambda n: [slice(0, 17), slice(17, len(n))])
    by_parts = batches._finished(before.factors)
    for one, other in zip(by_parts.posterior.axes, last.factors.posterior.axes, strict=True):
        np.testing.assert_allclose(one.mean_DK, other.mean_DK, rtol=1e-9)
    tables = before.factors.posterior.axes[0], last.factors.posterior.axes[0]
    assert np.all(np.any(tables[0].shape_DK != tables[1].shape_DK, axis=1))


@pytest.fixture(scope="module")
def parts():
    return tf.split(shopping(400), 0.2, cells="all", random_state=1)


@pytest.mark.parametrize("gate", NAMED)
def test_a_fit_by_a_few_entities_at_a_time_predicts_about_as_well(parts, gate):
    given = {"zeros": "observed", "n_components": 3, "amount": "negative-binomial", "gate": gate}
    whole = tf.VAEBPTF(**given, max_iter=40).fit(parts.train)
    some = tf.VAEBPTF(**given, batch_entities=40, max_iter=80).fit(parts.train)
    scores = [occurrence(model, parts.test) for model in (some, whole)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    history = some.history_
    assert (history["phase"] == "svi").sum() == 80
    assert (history["phase"] == "all cells").sum() == 2
    swept = history[history["phase"] == "svi"]
    assert swept["validation"].isna().sum() == 79
    assert swept["objective"].iloc[-10:].mean() > swept["objective"].iloc[:5].mean() + 0.1


def test_a_gate_is_chosen_by_batches_too(parts):
    model = tf.VAEBPTF(
        zeros="observed", n_components=3, amount="negative-binomial", batch_entities=60, max_iter=20
    ).fit(parts.train)
    (gate,) = model.fitted_.derived
    assert [model.axes_[axis].name for axis in gate.axes] == ["user", "day"]


FEW = {"n_components": 2, "amount": "negative-binomial", "batch_entities": 30, "max_iter": 10}


@pytest.fixture(scope="module")
def uninterrupted(parts):
    return tf.VAEBPTF(**FEW).fit(parts.train)


@pytest.mark.parametrize("stop", [4, 27, 33])
def test_an_interrupted_fit_goes_on_as_if_it_had_not_been(parts, uninterrupted, tmp_path, stop):
    """In the choice of the gate, in the batches, and after them."""

    def press(progress):
        if progress.iteration.number == stop:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning, match="had not looked at all" if stop == 27 else ""):
        tf.VAEBPTF(**FEW).fit(parts.train, checkpoint=tmp_path / "run", callbacks=[press])
    resumed = tf.VAEBPTF(**FEW).fit(parts.train, checkpoint=tmp_path / "run", resume=True)
    assert len(resumed.history_) == len(uninterrupted.history_)
    assert np.array_equal(resumed.predict(parts.test), uninterrupted.predict(parts.test))


def test_batches_need_no_held_out_cells(parts):
    model = tf.VAEBPTF(
        zeros="observed", n_components=2, batch_entities=40, max_iter=20, validation=None,
        amount="negative-binomial",
    ).fit(parts.train)  # fmt: skip
    assert model.history_["phase"].tolist() == ["svi"] * 20 + ["all cells"] * 2
