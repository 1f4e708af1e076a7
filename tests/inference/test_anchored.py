import numpy as np
import pytest
from scipy.stats import spearmanr
from tests.inference.pair_effects import simulate_pairs

import tallyfold as tf
from tallyfold.inference.cells.combinations import candidate_axes, useful_combinations
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.parts import part_of
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells, hold_out
from tallyfold.inference.encoders import anchored
from tallyfold.inference.encoders import trainer as place
from tallyfold.inference.encoders.anchored import AnchoredStep, warming_up
from tallyfold.inference.encoders.trainer import Place, interactions_of
from tallyfold.inference.fit.loop import Run, StoppingRules, run_loop
from tallyfold.inference.schemes.cavi import CAVIStep
from tallyfold.kernels import use_threads
from tallyfold.probability.counts import COUNTS

SWEEPS = 6


@pytest.fixture(scope="module")
def truth():
    return simulate_pairs()


def step_for(
    tensor,
    family="poisson",
    *,
    truncated=True,
    interactions=True,
    learn=True,
    backend="numpy",
    **rest,
):
    train, held_out = hold_out(tensor, 0.1, 0)
    cells, validation = TrainingCells(train), ValidationCells(held_out, backend)
    sweeps = CAVIStep(
        cells, COUNTS[family, truncated], False, 2, 1.0, backend=backend, validation=validation
    )
    if not learn:
        return AnchoredStep(sweeps, None)
    sets = candidate_axes(cells.n_axes, cells.shape) if interactions else []
    found = useful_combinations(sets, cells.shape, cells.indices_NM, held_out.indices)
    return AnchoredStep(
        sweeps, HeldOutCells(held_out), found, **({"start_sweeps": SWEEPS, "steps": 3} | rest)
    )


def after(step, n, state=None, done=0):
    """Return all states from the start to the n-th iteration, and the objectives."""
    states, objectives = [step.start() if state is None else state], []
    for iteration in range(done + 1, n + 1):
        state, objective = step.advance(states[-1], iteration)
        states.append(state)
        objectives.append(objective)
    return states, objectives


@pytest.fixture(scope="module")
def fitted(truth):
    """A step, and the states of a few sweeps and visits."""
    step = step_for(truth.tensor)
    return step, *after(step, SWEEPS + 3)


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[n], other[n]) for n in one)


def test_a_step_leaves_the_state_it_was_given_alone(fitted):
    step, states, _ = fitted
    for number in (0, SWEEPS - 1, SWEEPS, SWEEPS + 1):
        before = {name: np.array(value) for name, value in states[number].items()}
        step.advance(states[number], number + 1)
        assert same(states[number], before)


def test_sweeps_come_first_and_are_those_of_bptf(fitted):
    step, states, objectives = fitted
    state = step.sweeps.start()
    for iteration in range(1, SWEEPS):
        state, bound = step.sweeps.advance(state, iteration)
        assert bound == objectives[iteration - 1]
        assert all(np.array_equal(value, states[iteration][name]) for name, value in state.items())
    assert [int(state["visits"]) for state in states[SWEEPS - 1 :]] == [0, 1, 2, 3, 4]
    assert [warming_up(state) for state in states[SWEEPS:]] == [True, False, False, False]


def test_visits_go_on_from_the_best_sweep(truth, monkeypatch):
    step = step_for(truth.tensor)
    scores = iter([-5.0, -2.0, -3.0, -4.0, -3.5, -2.5])
    monkeypatch.setattr(step.sweeps, "validation_score", lambda state: next(scores), raising=False)
    states, _ = after(step, SWEEPS)
    assert np.array_equal(states[-1]["shape_0"], states[2]["shape_0"])
    assert not any(name.startswith(anchored.KEPT) for name in states[-1])


def test_sweeps_end_early_if_they_no_longer_help(truth, monkeypatch):
    step = step_for(truth.tensor, start_sweeps=100)
    scores = iter([-2.0, *[-3.0] * 100])
    monkeypatch.setattr(step.sweeps, "validation_score", lambda state: next(scores), raising=False)
    states, _ = after(step, 1 + step.patience)
    assert [int(state["visits"]) for state in states[-2:]] == [0, 1]
    assert np.array_equal(states[-1]["shape_0"], states[1]["shape_0"])


@pytest.mark.parametrize(("patience", "swept"), [(9, False), (10, True)])
def test_a_dip_shorter_than_the_patience_is_gone_through(truth, monkeypatch, patience, swept):
    step = step_for(truth.tensor, start_sweeps=12, patience=patience)
    scores = iter([-2.0, *[-3.0] * 9, -1.0, -4.0])
    monkeypatch.setattr(step.sweeps, "validation_score", lambda state: next(scores), raising=False)
    states, _ = after(step, 12 if swept else 10)
    assert [int(state["visits"]) for state in states[-2:]] == [0, 1]
    assert np.array_equal(states[-1]["shape_0"], states[11 if swept else 1]["shape_0"])


def test_a_first_sweep_that_predicts_nothing_does_no_harm(truth, monkeypatch):
    step = step_for(truth.tensor)
    monkeypatch.setattr(step.sweeps, "validation_score", lambda state: -np.inf, raising=False)
    states, _ = after(step, 2)
    assert all(np.all(np.isfinite(value)) for value in states[-1].values())


def test_the_held_out_score_never_falls_over_the_visits(fitted):
    step, states, objectives = fitted
    scores = [step.validation_score(state) for state in states[SWEEPS:]]
    assert np.all(np.diff(scores) >= 0)
    assert scores[-1] > scores[0] + 0.05  # there is an effect of pairs to find
    assert np.all(np.diff(objectives[SWEEPS:]) > -1e-3)  # a new calibration may cost very little


def test_every_visit_that_is_kept_predicts_better(fitted):
    step, states, _ = fitted
    here = Place(step, dict(states[SWEEPS]))
    here.calibrate()
    scores = [here.score]
    for number in range(len(step.combinations)):
        here.visit_interaction(number)
        scores.append(here.score)
    for axis in range(3):
        here.visit_axis(axis)
        scores.append(here.score)
    least = place.LEAST_GAIN / len(step.held_out)
    gains = np.diff(scores)
    assert np.all((gains == 0) | (gains >= least - 1e-12))
    # what stands in the middle of an iteration is what a new one would find in the state
    again = Place(step, here.state)
    for one, other in zip(again.effects, here.effects, strict=True):
        assert np.allclose(one, other, rtol=1e-12)
    assert np.allclose(again.held_rate_V, here.held_rate_V, rtol=1e-12)
    assert np.allclose(again.held_multiplier_V, here.held_multiplier_V, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_visit_whose_gain_is_not_a_number_is_not_kept(fitted, monkeypatch):
    step, states, _ = fitted
    monkeypatch.setattr(place, "train", lambda visit, numbers, *rest: numbers * np.nan)
    here = Place(step, dict(states[SWEEPS]))
    here.calibrate()
    score = here.score
    here.visit_axis(0)
    assert here.score == score
    assert np.array_equal(here.state["shape_0"], states[SWEEPS]["shape_0"])


@pytest.mark.parametrize("stop_at", [2, SWEEPS, SWEEPS + 1])
def test_a_run_taken_up_again_is_the_uninterrupted_run(stop_at, fitted, truth):
    _, states, objectives = fitted
    # as a checkpoint gives it back: other arrays of the same numbers, and a new step
    state = {name: np.array(value) for name, value in states[stop_at].items()}
    resumed, again = after(step_for(truth.tensor), SWEEPS + 3, state, stop_at)
    assert again == objectives[stop_at:]
    assert same(resumed[-1], states[-1])


def test_one_and_two_threads_give_the_same_bits(truth):
    found = []
    for n_threads in (1, 2):
        with use_threads(n_threads):
            step = step_for(truth.tensor, backend="numba", start_sweeps=3)
            found.append(after(step, 5)[0][-1])
    assert same(*found)


def test_compiled_and_plain_kernels_give_about_the_same(fitted, truth):
    states, _ = after(step_for(truth.tensor, backend="numba"), SWEEPS + 1)
    assert float(states[-1]["score"]) == pytest.approx(
        float(fitted[1][SWEEPS + 1]["score"]), abs=1e-3
    )


@pytest.mark.parametrize(("family", "truncated"), [("poisson", False), ("negative-binomial", True)])
def test_other_likelihoods_learn_too(family, truncated, truth):
    step = step_for(truth.tensor, family, truncated=truncated)
    states, objectives = after(step, SWEEPS + 2)
    assert objectives[-1] > objectives[SWEEPS] - 1e-3
    assert len(interactions_of(states[-1], truth.tensor.shape))


def test_without_held_out_cells_it_is_bptf(truth):
    step = step_for(truth.tensor, learn=False)
    states, objectives = after(step, 4)
    state = step.sweeps.start()
    for iteration in range(1, 5):
        state, bound = step.sweeps.advance(state, iteration)
    assert bound == objectives[-1]
    assert all(np.array_equal(value, states[-1][name]) for name, value in state.items())
    assert step.validation_score(states[-1]) == step.sweeps.validation_score(state)
    assert not warming_up(states[-1])
    assert interactions_of(states[-1], truth.tensor.shape) == []


def test_the_loop_does_not_stop_before_the_first_visit(truth):
    step = step_for(truth.tensor)
    rules = StoppingRules(
        max_iter=20, tol=1e9, patience=1, warm_up=warming_up
    )  # a loop that would stop
    outcome = run_loop(step, rules, run=Run(step.start()))
    assert len(outcome.history) == SWEEPS + 1


# -- what is found --------------------------------------------------------------------------------


def test_an_effect_of_pairs_is_found_and_used(truth):
    train, test = tf.split(truth.tensor, 0.2, random_state=0)
    model = tf.VAEBPTF(n_components=2).fit(train)
    assert model.score(test) > tf.BPTF(n_components=2).fit(train).score(test) + 0.15
    found = next(each for each in model.fitted_.interactions if each.axes == (1, 2))
    n_cells = np.bincount(found.places(train.indices), minlength=len(found.shape_P1))[:-1]
    often = n_cells >= 5
    true = truth.multipliers.ravel()[found.keys_P]
    assert often.sum() > 100
    assert spearmanr(true[often], found.mean_P1[:-1][often])[0] > 0.6


@pytest.mark.parametrize("seed", [0, 1])
def test_where_there_is_no_such_effect_no_harm_is_done(seed):
    train, test = tf.split(simulate_pairs(strength=None, seed=seed).tensor, 0.2, random_state=0)
    plain, model = (kind(n_components=2).fit(train) for kind in (tf.BPTF, tf.VAEBPTF))
    assert model.score(test) > plain.score(test) - 0.01


def test_posteriors_by_ranges_of_entities_are_those_of_all_at_once(fitted, monkeypatch):
    step, states, _ = fitted
    here = Place(step, dict(states[-1]))
    here.calibrate()
    monkeypatch.setattr(place, "ranges", lambda number: [slice(0, 3), slice(3, len(number))])
    monkeypatch.setattr(place, "LARGEST_PART", 100)
    for axis in range(3):
        numbers = here.state[f"encoder_{axis}"]
        visit = here._axis_visit(axis, here._part_to_train_on(axis))
        for one, other in zip(
            visit.posterior(numbers), here._axis_posterior(axis, numbers), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10)
    for number in range(len(step.combinations)):
        numbers = here.state[f"effect_encoder_{number}"]
        visit = here._interaction_visit(number, here.held_rate_V, None)
        for one, other in zip(
            visit.posterior(numbers), here._interaction_posterior(number, numbers), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-10)


def test_what_drawn_entities_say_of_an_encoder_is_unbiased(fitted):
    """One by one, the entities that have cells add up to the loss and the gradient of all."""
    step, states, _ = fitted
    here = Place(step, dict(states[-1]))
    here.calibrate()
    axis = 0
    numbers = np.asarray(here.state[f"encoder_{axis}"], dtype=float)
    seen = np.flatnonzero(here.cells.seen[axis])
    everything = here._axis_visit(axis, part_of(here.cells, here.held_out, axis, seen))
    value, gradient = everything.loss(numbers)
    single = [
        here._axis_visit(axis, part_of(here.cells, here.held_out, axis, np.array([d]))).loss(
            numbers
        )
        for d in seen
    ]
    assert sum(v for v, _ in single) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(sum(g for _, g in single), gradient, rtol=1e-7, atol=1e-7)


def test_some_combinations_have_the_cells_of_these_alone(fitted):
    step, states, _ = fitted
    here = Place(step, dict(states[-1]))
    here.calibrate()
    for number, each in enumerate(step.combinations):
        hit = np.unique(each.held_place_V[each.held_place_V < each.n_places - 1])
        visit = here._interaction_visit(number, here.held_rate_V, hit[:5])
        assert len(visit.counts_N) == np.isin(each.place_N, hit[:5]).sum()
        known = visit.held_place_V < 5
        assert known.sum() == np.isin(each.held_place_V, hit[:5]).sum()
        assert np.all(np.isfinite(visit.loss(here.state[f"effect_encoder_{number}"])[1]))


def test_a_fit_on_drawn_entities_improves_too(truth):
    step = step_for(truth.tensor, batch_entities=12)
    states, _ = after(step, SWEEPS + 4)
    scores = [step.validation_score(state) for state in states]
    assert scores[:SWEEPS] == [None] * SWEEPS
    assert np.all(np.diff(scores[SWEEPS:]) >= 0)
    assert scores[-1] > scores[SWEEPS] + 0.02
