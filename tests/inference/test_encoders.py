"""Training VAE-BPTF's encoders: its iterations, and the sweeps that come before them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.inference.pair_effects import simulate_pairs
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.combinations import candidate_axes, useful_combinations
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells, hold_out
from tallyfold.inference.encoders import trained_axes, trainer
from tallyfold.inference.encoders.step import EncoderStep
from tallyfold.inference.encoders.trained_axes import CombinationAxis, EntityAxis
from tallyfold.inference.encoders.trainer import EncoderTrainer
from tallyfold.inference.fit.loop import Best, Phase, Run, run_loop
from tallyfold.inference.fit.state_arrays import from_arrays, to_arrays
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.kernels import use_threads
from tallyfold.probability.counts import COUNTS

SWEEPS, VISITS = 6, 3


@pytest.fixture(scope="module")
def truth():
    return simulate_pairs()


def step_for(
    tensor, family="poisson", *, truncated=True, interactions=True, backend="numpy", **rest
):
    train, held_out = hold_out(tensor, 0.1, 0)
    cells, validation = TrainingCells(train), ValidationCells(held_out, backend)
    sweeps = CAVIStep(
        cells, COUNTS[family, truncated], False, 2, 1.0, backend=backend, validation=validation
    )
    sets = candidate_axes(cells.n_axes, cells.shape) if interactions else []
    found = useful_combinations(sets, cells.shape, cells.indices_NM, held_out.indices)
    return EncoderStep(sweeps, HeldOutCells(held_out), found, **({"steps": 3} | rest))


def phases_of(step, sweeps=SWEEPS, patience=10):
    """Return the phases of a fit: sweeps, then encoders."""
    rules = StoppingRules(sweeps, 0.0, patience)
    return [
        Phase("sweeps", step.sweeps, step.sweeps.start, rules),
        Phase("encoders", step, step.start, StoppingRules(patience=patience)),
    ]


def swept(step, n=SWEEPS):
    """Return the states of sweeps from the start on, and their objectives."""
    return _states(step.sweeps, step.sweeps.start(), n)


def trained(step, start, n):
    """Return the states of n iterations of training from the start on, and their objectives."""
    return _states(step, start, n)


def _states(step, start, n):
    states, objectives = [start], []
    for iteration in range(1, n + 1):
        state, objective = step.advance(states[-1], iteration)
        states.append(state)
        objectives.append(objective)
    return states, objectives


@pytest.fixture(scope="module")
def fitted(truth):
    """A step, and the states of a few iterations after some sweeps."""
    step = step_for(truth.tensor)
    return step, *trained(step, step.start(swept(step)[0][-1]), VISITS)


def trainer_at(step, state):
    found = EncoderTrainer(step, state, iteration=1)
    found.calibrate()
    return found


def copied(state):
    """Return a state of other arrays with the same numbers, as a checkpoint gives it back."""
    return from_arrays(state, {name: array.copy() for name, array in to_arrays(state).items()})


# -- an iteration ---------------------------------------------------------------------------------


def test_a_step_leaves_the_state_it_was_given_alone(fitted):
    step, states, _ = fitted
    for number, state in enumerate(states):
        before = copied(state)
        step.advance(state, number + 1)
        assert same_states(state, before)


def test_encoders_start_as_sweeps_end_with_multipliers_of_one(fitted):
    step, states, _ = fitted
    before = swept(step)[0][-1]
    assert same_states(replace(states[0].posterior, derived=()), before.posterior)
    assert len(states[0].posterior.derived) == len(step.combinations) == 3
    assert all(derived.idle for derived in states[0].posterior.derived)
    assert np.array_equal(states[0].prior_rate_M, before.prior_rate_M)
    assert states[0].dispersion is before.dispersion is None
    assert not any(states[0].visited)


def test_the_score_of_a_state_is_that_of_the_iteration_that_made_it(fitted):
    step, states, objectives = fitted
    assert [state.score for state in states[1:]] == objectives
    assert [step.validation_score(state) for state in states[1:]] == objectives


def test_training_improves_the_held_out_score(fitted):
    _, _, objectives = fitted
    assert objectives[-1] > objectives[0]
    assert np.all(np.diff(objectives) > -1e-3)  # a new calibration may cost very little


def test_every_visit_that_is_kept_predicts_better(fitted):
    step, states, _ = fitted
    now = trainer_at(step, states[0])
    scores = [now.state().score]
    axes = [CombinationAxis(now, number) for number in range(len(step.combinations))]
    for axis in [*axes, *(EntityAxis(now, axis) for axis in range(3))]:
        now._visit(axis)
        scores.append(now.state().score)
    least = trainer.LEAST_GAIN / len(step.held_out)
    gains = np.diff(scores)
    assert np.all((gains == 0) | (gains >= least - 1e-12))
    assert scores[-1] > scores[0] + 0.05  # there is an effect of pairs to find
    # what stands in the middle of an iteration is what a new one would find in the state
    again = EncoderTrainer(step, now.state(), iteration=2)
    for one, other in zip(again.mean, now.mean, strict=True):
        assert np.allclose(one, other, rtol=1e-12)
    assert np.allclose(again.held_rate_V, now.held_rate_V, rtol=1e-12)
    assert np.allclose(again.held_multiplier_V, now.held_multiplier_V, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_visit_whose_gain_is_not_a_number_is_not_kept(fitted, monkeypatch):
    step, states, _ = fitted
    monkeypatch.setattr(trainer, "train", lambda objective, params, *rest: params * np.nan)
    now = trainer_at(step, states[0])
    before = now.state()
    for axis in (EntityAxis(now, 0), CombinationAxis(now, 0)):
        now._visit(axis)
    assert same_states(now.state(), before)
    assert not any(now.visited)


def test_multipliers_that_stay_at_one_are_left_out_of_the_active_state(fitted):
    """And the parameters of their encoders with them."""
    _, states, _ = fitted
    start, last = states[0].active(), states[-1].active()
    assert start.posterior.derived == ()
    assert len(start.params) == len(start.visited) == 3
    posterior = states[-1].posterior
    idle = [number for number, each in enumerate(posterior.derived) if each.idle]
    kept = [number for number in range(3) if number not in idle]
    assert kept
    assert [each.axes for each in last.posterior.derived] == [
        posterior.derived[number].axes for number in kept
    ]
    assert all(
        one is other
        for one, other in zip(
            last.params, [states[-1].params[n] for n in (0, 1, 2, *(3 + k for k in kept))],
            strict=True,
        )
    )  # fmt: skip


def test_one_and_two_threads_give_the_same_bits(truth):
    found = []
    for n_threads in (1, 2):
        with use_threads(n_threads):
            step = step_for(truth.tensor, backend="numba")
            found.append(trained(step, step.start(swept(step, 3)[0][-1]), 2)[0][-1])
    assert same_states(*found)


def test_compiled_and_plain_kernels_give_about_the_same(fitted, truth):
    step = step_for(truth.tensor, backend="numba")
    states, _ = trained(step, step.start(swept(step)[0][-1]), 1)
    assert states[-1].score == pytest.approx(fitted[1][1].score, abs=1e-3)


@pytest.mark.parametrize(("family", "truncated"), [("poisson", False), ("negative-binomial", True)])
def test_other_likelihoods_learn_too(family, truncated, truth):
    step = step_for(truth.tensor, family, truncated=truncated)
    states, objectives = trained(step, step.start(swept(step)[0][-1]), 2)
    untrained = trainer_at(step, states[0]).state().score
    assert objectives[0] > untrained
    assert objectives[-1] > objectives[0] - 1e-3
    assert len(states[-1].active().posterior.derived)


# -- sweeps and iterations as phases of a fit -----------------------------------------------------


def test_the_state_with_the_best_validation_score_is_kept(truth, monkeypatch):
    """Not the last one, nor one of another iteration with the score of the best."""
    step, states, given = step_for(truth.tensor), [], iter([-2.0, -1.5, -1.9, -1.6])
    advance = EncoderStep.advance

    def noted(self, state, iteration):
        new, objective = advance(self, state, iteration)
        states.append(replace(new, score=next(given)))
        return states[-1], objective

    monkeypatch.setattr(EncoderStep, "advance", noted)
    outcome = run_loop(phases_of(step), max_iter=SWEEPS + 4)
    history = outcome.history
    assert [each.validation for each in history[SWEEPS:]] == [-2.0, -1.5, -1.9, -1.6]
    scores = [each.validation for each in history]
    assert outcome.n_iter == SWEEPS + 2 == 1 + int(np.argmax(scores))
    assert outcome.state is states[1]


def test_sweeps_come_first_and_are_those_of_bptf(fitted):
    step, states, objectives = fitted
    _, bounds = swept(step)
    outcome = run_loop(phases_of(step), max_iter=SWEEPS + VISITS)
    history = outcome.history
    assert [each.phase for each in history] == ["sweeps"] * SWEEPS + ["encoders"] * VISITS
    assert [each.objective for each in history] == bounds + objectives
    best = max(states[1:], key=lambda state: state.score)
    assert same_states(outcome.state, best)


@pytest.fixture
def begun_at(monkeypatch):
    """Where the training of encoders begins: the states of sweeps that it was given."""
    found, start = [], EncoderStep.start

    def noted(self, swept):
        found.append(swept)
        return start(self, swept)

    monkeypatch.setattr(EncoderStep, "start", noted)
    return found


def give_scores(monkeypatch, scores):
    """Give sweeps these validation scores, one after the other."""
    given = iter(scores)
    monkeypatch.setattr(CAVIStep, "validation_score", lambda self, state: next(given))


def test_training_goes_on_from_the_best_sweep(truth, monkeypatch, begun_at):
    step = step_for(truth.tensor)
    give_scores(monkeypatch, [-5.0, -2.0, -3.0, -4.0, -3.5, -2.5])
    history = run_loop(phases_of(step), max_iter=SWEEPS + 1).history
    assert [each.phase for each in history[-2:]] == ["sweeps", "encoders"]
    assert same_states(begun_at[0], swept(step)[0][2])


def test_sweeps_end_early_if_they_no_longer_help(truth, monkeypatch, begun_at):
    step, patience = step_for(truth.tensor), 10
    give_scores(monkeypatch, [-2.0, *[-3.0] * 100])
    history = run_loop(phases_of(step, 100, patience), max_iter=patience + 2).history
    assert [each.phase for each in history] == ["sweeps"] * (1 + patience) + ["encoders"]
    assert same_states(begun_at[0], swept(step, 1)[0][1])


@pytest.mark.parametrize(("patience", "swept_through"), [(9, False), (10, True)])
def test_a_dip_shorter_than_the_patience_is_gone_through(
    truth, monkeypatch, begun_at, patience, swept_through
):
    step = step_for(truth.tensor)
    give_scores(monkeypatch, [-2.0, *[-3.0] * 9, -1.0, -4.0])
    n_sweeps = 12 if swept_through else 10
    history = run_loop(phases_of(step, 12, patience), max_iter=n_sweeps + 1).history
    assert [each.phase for each in history] == ["sweeps"] * n_sweeps + ["encoders"]
    assert same_states(begun_at[0], swept(step, 11)[0][11 if swept_through else 1])


def test_sweeps_that_predict_nothing_do_no_harm(truth, monkeypatch):
    step = step_for(truth.tensor)
    monkeypatch.setattr(CAVIStep, "validation_score", lambda self, state: -np.inf)
    outcome = run_loop(phases_of(step), max_iter=SWEEPS + 2)
    assert all(np.all(np.isfinite(array)) for array in to_arrays(outcome.state).values())
    assert outcome.n_iter > SWEEPS


def test_a_fit_that_would_stop_at_once_visits_the_encoders_all_the_same(truth):
    """The first visit is better than sweeps, so that a second one is needed to see the end."""
    model = tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=2,
        tol=1e9,
        patience=1,
        max_iter=30,
    )
    phases = model.fit(truth.tensor).history_["phase"].tolist()
    assert phases.count("encoders") == 2
    assert phases[:-2] == ["sweeps"] * (len(phases) - 2)


@pytest.mark.parametrize("stop_at", [2, SWEEPS, SWEEPS + 1])
def test_a_run_taken_up_again_is_the_uninterrupted_run(stop_at, truth):
    kept, limit = [], SWEEPS + VISITS
    whole = run_loop(
        phases_of(step_for(truth.tensor)),
        max_iter=limit,
        every=1,
        keep=lambda run: kept.append(copied_run(run)),
    )
    phases = phases_of(step_for(truth.tensor))  # new steps, which know nothing of the run
    resumed = run_loop(phases, max_iter=limit, run=kept[stop_at - 1])
    assert len(kept[stop_at - 1].history) == limit  # it went on
    assert [i.objective for i in resumed.history] == [i.objective for i in whole.history]
    assert [i.validation for i in resumed.history] == [i.validation for i in whole.history]
    assert resumed.n_iter == whole.n_iter
    assert same_states(resumed.state, whole.state)


def copied_run(run):
    """Return a run of other arrays with the same numbers."""
    best = run.best and Best(copied(run.best.state), *run.best[1:])
    return Run(copied(run.state), run.phase, list(run.history), run.before, best)


# -- what is found --------------------------------------------------------------------------------


def test_an_effect_of_pairs_is_found_and_used(truth):
    train, test = tf.split(truth.tensor, 0.2, random_state=0)
    model = tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_components=2).fit(train)
    assert model.score(test) > tf.BPTF(n_components=2).fit(train).score(test) + 0.15
    found = next(each for each in model.fitted_.derived if each.axes == (1, 2))
    n_cells = np.bincount(found.rows_of(train.indices), minlength=len(found.mean_P1))[:-1]
    often = n_cells >= 5
    true = truth.multipliers.ravel()[found.keys_P]
    assert often.sum() > 100
    assert spearmanr(true[often], found.mean_P1[:-1][often])[0] > 0.6


@pytest.mark.parametrize("seed", [0, 1])
def test_where_there_is_no_such_effect_no_harm_is_done(seed):
    train, test = tf.split(simulate_pairs(strength=None, seed=seed).tensor, 0.2, random_state=0)
    plain, model = (
        kind(zeros="missing", n_components=2).fit(train) for kind in (tf.BPTF, tf.VAEBPTF)
    )
    assert model.score(test) > plain.score(test) - 0.01


# -- some rows at a time --------------------------------------------------------------------------


def sampling(monkeypatch, rows):
    """Have training draw these rows, whatever chance says."""
    monkeypatch.setattr(trained_axes, "sample_entities", lambda *rest: np.asarray(rows))


def assert_same_tables(one, other, tolerance=1e-10):
    np.testing.assert_allclose(one.shape_DK, other.shape_DK, rtol=tolerance)
    np.testing.assert_allclose(one.rate_DK, other.rate_DK, rtol=tolerance)


def test_posteriors_by_parts_of_the_cells_are_those_of_all_at_once(fitted, monkeypatch):
    step, states, _ = fitted
    whole = trainer_at(step, states[-1])
    by_parts = trainer_at(replace(step, batch_entities=2), states[-1])
    monkeypatch.setattr(trained_axes, "ranges", lambda number: [slice(0, 3), slice(3, len(number))])
    monkeypatch.setattr(trained_axes, "LARGEST_PART", 100)
    for kind in (EntityAxis, CombinationAxis):
        for number in range(3):
            one, other = kind(whole, number), kind(by_parts, number)
            params = whole.params[one.encoder]
            assert other.objective().n_cells < one.objective().n_cells  # it is trained on some
            assert_same_tables(other.posterior(params), one.posterior(params))
    for axis in range(3):
        one = EntityAxis(whole, axis)
        params = whole.params[axis]
        assert_same_tables(one.posterior(params), one.objective().posterior(params), 0.0)


def test_the_posterior_of_a_derived_axis_is_of_all_cells_whatever_it_is_trained_on(fitted):
    step, states, _ = fitted
    now = trainer_at(step, states[-1])
    for number, each in enumerate(step.combinations):
        hit = np.unique(each.held_row_V)[:4]
        used_N = np.flatnonzero(np.isin(each.row_N, hit))
        combinations = [replace(c, used_N=used_N) if c is each else c for c in step.combinations]
        some = trainer_at(replace(step, combinations=combinations), states[-1])
        one, other = (CombinationAxis(t, number) for t in (some, now))
        assert len(one.objective().evidence.count_N) == len(used_N) < len(step.cells)
        params = now.params[one.encoder]
        assert_same_tables(one.posterior(params), other.posterior(params), 0.0)


def test_what_drawn_entities_say_of_an_encoder_is_unbiased(fitted, monkeypatch):
    """One by one, the entities that have cells add up to the loss and the gradient of all."""
    step, states, _ = fitted
    now = trainer_at(replace(step, batch_entities=1), states[-1])
    params, seen = now.params[0], np.flatnonzero(now.cells.seen[0])

    def loss(entities):
        sampling(monkeypatch, entities)
        return EntityAxis(now, 0).objective().loss(params)

    value, gradient = loss(seen)
    single = [loss([d]) for d in seen]
    assert sum(v for v, _ in single) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(sum(g for _, g in single), gradient, rtol=1e-7, atol=1e-7)


def test_some_combinations_have_the_cells_of_these_alone(fitted, monkeypatch):
    step, states, _ = fitted
    now = trainer_at(replace(step, batch_entities=5), states[-1])
    for number, each in enumerate(step.combinations):
        some = np.unique(each.held_row_V[each.held_row_V < each.n_rows - 1])[:5]
        sampling(monkeypatch, some)
        axis = CombinationAxis(now, number)
        objective = axis.objective()
        assert len(objective.evidence.count_N) == np.isin(each.row_N, some).sum()
        known = objective.held_rows.row_N < 5
        assert known.sum() == np.isin(each.held_row_V, some).sum()
        assert np.all(np.isfinite(objective.loss(now.params[axis.encoder])[1]))


def test_a_fit_on_drawn_entities_improves_too(truth):
    model = tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=2,
        batch_entities=12,
        max_iter=18,
        tol=0.0,
    ).fit(truth.tensor)
    history = model.history_
    n_batches = int((history["phase"] == "svi").sum())
    scores = history["validation"].to_numpy(dtype=float)
    assert n_batches == 12
    # most entities were not looked at before the last one, which updates all
    assert np.isnan(scores[: n_batches - 1]).all()
    assert np.isfinite(scores[n_batches - 1 :]).all()
    assert (history["phase"][n_batches:] == "encoders").all()
    assert scores[-1] > scores[n_batches] + 0.02
    assert model.n_iter_ == 1 + int(np.nanargmax(scores))
