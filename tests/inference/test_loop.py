import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.errors import ConvergenceWarning, DivergedError, StorageError
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.checkpoint import Checkpoint
from tallyfold.inference.fit.folder import read_folder, write_folder
from tallyfold.inference.fit.loop import Phase, Run, run_loop
from tallyfold.inference.fit.stopping import StoppingRules


@dataclass(frozen=True)
class Number:
    x: float


class Halving:
    """A step whose objective halves its distance to zero, and whose validation has a peak."""

    def __init__(self, peak=None, bad_at=None):
        self.peak, self.bad_at = peak, bad_at
        self.advanced = 0

    def start(self, previous=None):
        return Number(-1024.0)

    def advance(self, state, iteration):
        self.advanced += 1
        if iteration == self.bad_at:
            return Number(np.nan), 0.0
        return Number(state.x / 2), state.x / 2

    def validation_score(self, state):
        if self.peak is None:
            return None
        return -abs(float(np.log2(-state.x)) - (10 - self.peak))


def only(step, *arguments, **rules):
    """Return the phases of a fit that has one."""
    return [Phase("only", step, step.start, StoppingRules(*arguments, **rules))]


def test_it_stops_when_the_objective_hardly_changes():
    outcome = run_loop(only(Halving(), max_iter=100, tol=1.5))
    assert outcome.reason == "converged"
    assert outcome.n_iter == 2


def test_a_noisy_objective_has_converged_when_its_spread_is_small():
    class Noisy(Halving):
        """Alternates by one around -100 from iteration 5 on; equal twice running before."""

        def advance(self, state, iteration):
            value = -1000.0 if iteration < 5 else -100.0 + (-1) ** iteration
            return Number(value), value

    assert run_loop(only(Noisy(), max_iter=50, tol=0.011, window=10)).n_iter == 14
    assert run_loop(only(Noisy(), max_iter=50, tol=0.009, window=10)).reason == "max_iter"
    assert run_loop(only(Noisy(), max_iter=50, tol=0.011)).n_iter == 2
    assert run_loop(only(Noisy(), max_iter=50, tol=0.0, window=10)).reason == "max_iter"


def test_it_stops_at_the_limit():
    outcome = run_loop(only(Halving(), max_iter=5))
    assert outcome.reason == "max_iter"
    assert [iteration.number for iteration in outcome.history] == [1, 2, 3, 4, 5]
    assert outcome.history[-1].objective == -32


def test_it_keeps_the_best_state_on_validation_and_stops_after_patience():
    outcome = run_loop(only(Halving(peak=4), max_iter=100, patience=3))
    assert outcome.reason == "validation"
    assert outcome.n_iter == 4
    assert len(outcome.history) == 7
    assert outcome.state.x == -64


def test_without_patience_validation_stops_nothing():
    outcome = run_loop(only(Halving(peak=4), max_iter=30, patience=None))
    assert outcome.reason == "max_iter"
    assert (outcome.n_iter, len(outcome.history)) == (4, 30)


def test_nothing_but_the_limit_stops_a_phase_before_its_least_number_of_iterations():
    rules = {"max_iter": 100, "tol": 1.5, "patience": 1}
    assert len(run_loop(only(Halving(peak=1), **rules)).history) == 2
    assert len(run_loop(only(Halving(peak=1), **rules, min_iter=6)).history) == 6
    assert len(run_loop(only(Halving(peak=1), **rules | {"max_iter": 3}, min_iter=6)).history) == 3


def test_callbacks_see_every_iteration_and_runs_are_kept():
    seen, kept = [], []
    run_loop(
        only(Halving(), max_iter=7),
        callbacks=[lambda progress: seen.append((progress.iteration.number, progress.max_iter))],
        keep=lambda run: kept.append(len(run.history)),
        every=3,
    )
    assert seen == [(number, 7) for number in range(1, 8)]
    assert kept == [3, 6, 7]


def test_a_run_goes_on_where_it_was():
    kept = []
    whole = run_loop(only(Halving(peak=4), max_iter=6))
    run_loop(only(Halving(peak=4), max_iter=3), keep=kept.append)
    step = Halving(peak=4)
    rest = run_loop(only(step, max_iter=6), run=kept[-1])
    assert step.advanced == 3
    assert rest.state == whole.state
    assert [i.objective for i in rest.history] == [i.objective for i in whole.history]


def test_a_finished_run_is_not_run_again():
    kept = []
    run_loop(only(Halving(), max_iter=4), keep=kept.append)
    step = Halving()
    assert run_loop(only(step, max_iter=4), run=kept[-1]).reason == "max_iter"
    assert step.advanced == 0


def test_an_interrupt_in_the_middle_of_a_step_keeps_the_last_whole_iteration():
    class Interrupted(Halving):
        def advance(self, state, iteration):
            if iteration == 3:
                raise KeyboardInterrupt
            return super().advance(state, iteration)

    outcome = run_loop(only(Interrupted(), max_iter=9))
    assert outcome.reason == "interrupted"
    assert outcome.n_iter == 2
    assert outcome.state.x == -256


def test_an_interrupt_before_the_first_iteration_is_passed_on():
    class AtOnce(Halving):
        def advance(self, state, iteration):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_loop(only(AtOnce(), max_iter=9))


def test_what_is_not_finite_never_gets_out():
    run, kept = Run(Number(-1024.0)), []
    with pytest.raises(DivergedError, match="diverged in iteration 3: the values of x") as error:
        run_loop(only(Halving(bad_at=3), max_iter=9), run=run, keep=kept.append)
    assert len(run.history) == 2
    assert run.state.x == -256
    assert error.value.run is run
    assert kept == [run]


def test_an_objective_that_is_not_finite_never_gets_out():
    class Lost(Halving):
        def advance(self, state, iteration):
            return state, np.inf

    with pytest.raises(DivergedError, match=r"iteration 1: the objective \(inf\)"):
        run_loop(only(Lost(), max_iter=9))


# -- several phases -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Walked:
    """Where a walk is, how often it was handed to a phase, and noise that is kept."""

    x: float
    begun: int
    noise_K: np.ndarray


class Walk:
    """Moves on by `by`, its objective is noisy; a score, if there is one, is best at `best_at`."""

    def __init__(self, name, by=1.0, best_at=None):
        self.name, self.by, self.best_at = name, by, best_at
        self.numbers, self.begun_at = [], []

    def begin(self, previous):
        if previous is None:
            return Walked(0.0, 1, np.zeros(2))
        self.begun_at.append(previous.x)
        return replace(previous, begun=previous.begun + 1)

    def advance(self, state, iteration):
        self.numbers.append(iteration)
        noise_K = np.random.default_rng(iteration).normal(0, 0.01, 2)
        x = state.x + self.by
        return replace(state, x=x, noise_K=state.noise_K + noise_K), x + float(noise_K.sum())

    def validation_score(self, state):
        return None if self.best_at is None else -abs(state.x - self.best_at)


def phases_of(*walks, lengths, **rules):
    pairs = zip(walks, lengths, strict=True)
    return [Phase(w.name, w, w.begin, StoppingRules(length, **rules)) for w, length in pairs]


def test_phases_follow_one_another_and_each_counts_its_own_iterations():
    walks = Walk("one"), Walk("two", by=10.0), Walk("three", by=100.0)
    outcome = run_loop(phases_of(*walks, lengths=[3, 2, 1]))
    assert [walk.numbers for walk in walks] == [[1, 2, 3], [1, 2], [1]]
    assert [each.number for each in outcome.history] == [1, 2, 3, 4, 5, 6]
    assert [each.phase for each in outcome.history] == ["one"] * 3 + ["two"] * 2 + ["three"]
    assert outcome.state.x == 123
    assert (outcome.reason, outcome.n_iter) == ("max_iter", 6)
    assert np.all(np.diff([each.seconds for each in outcome.history]) > 0)


def test_a_phase_that_may_have_no_iteration_is_passed_over():
    walks = Walk("one"), Walk("two", by=10.0), Walk("three", by=100.0)
    outcome = run_loop(phases_of(*walks, lengths=[0, 0, 2]))
    assert [each.phase for each in outcome.history] == ["three"] * 2
    assert [walk.numbers for walk in walks] == [[], [], [1, 2]]
    assert outcome.state.x == 200


def test_a_phase_that_has_converged_is_followed_by_the_next():
    """Objectives of the phase before are not among those that must have settled."""
    walks = Walk("one", by=0.0), Walk("two", by=0.0)
    outcome = run_loop(phases_of(*walks, lengths=[50, 50], tol=1e9, min_iter=4))
    assert [each.phase for each in outcome.history] == ["one"] * 4 + ["two"] * 4
    assert outcome.reason == "converged"


def test_a_phase_begins_at_the_last_state_of_one_without_scores():
    first, second = Walk("one"), Walk("two")
    run_loop(phases_of(first, second, lengths=[5, 1]))
    assert second.begun_at == [5.0]


def test_a_phase_begins_at_the_best_state_of_one_with_scores():
    first, second = Walk("one", best_at=3.0), Walk("two")
    run_loop(phases_of(first, second, lengths=[5, 1]))
    assert second.begun_at[0] == 3.0


def test_a_phase_does_not_begin_at_the_best_state_of_an_earlier_one_but_the_last():
    """One has the best score of all, two has no scores: three begins where two ended."""
    first, second, third = Walk("one", best_at=3.0), Walk("two", by=10.0), Walk("three")
    run_loop(phases_of(first, second, third, lengths=[5, 2, 1], patience=None))
    assert (second.begun_at[0], third.begun_at[0]) == (3.0, 23.0)


def test_the_limit_is_of_all_phases_together():
    walks, seen = (Walk("one"), Walk("two"), Walk("three")), []
    outcome = run_loop(
        phases_of(*walks, lengths=[3, 4, 5]),
        max_iter=5,
        callbacks=[lambda progress: seen.append(progress.max_iter)],
    )
    assert [each.phase for each in outcome.history] == ["one"] * 3 + ["two"] * 2
    assert (outcome.reason, outcome.n_iter) == ("max_iter", 5)
    assert seen == [5] * 5
    assert walks[2].numbers == []
    run_loop(
        phases_of(*walks, lengths=[3, 4, 5]),
        callbacks=[lambda progress: seen.append(progress.max_iter)],
    )
    assert seen[5:] == [12] * 12


def test_a_phase_without_a_limit_of_its_own_has_what_the_others_left():
    walks = Walk("one"), Walk("two")
    outcome = run_loop(phases_of(*walks, lengths=[3, None]), max_iter=10)
    assert [each.phase for each in outcome.history] == ["one"] * 3 + ["two"] * 7


def test_a_state_of_an_early_phase_is_handed_through_the_later_ones():
    """The result is of the last phase's kind, wherever a fit ended."""
    phases = [
        Phase("one", Walk("one"), Walk("one").begin, StoppingRules(5)),
        Phase("two", Walk("two"), lambda state: replace(state, x=state.x + 0.25)),
        Phase("three", Walk("three"), lambda state: (state, "three")),
    ]
    state, name = run_loop(phases, max_iter=4).state
    assert (state.x, name) == (4.25, "three")


def test_an_interrupted_early_phase_leaves_a_state_of_the_last():
    class Interrupted(Walk):
        def advance(self, state, iteration):
            if iteration == 3:
                raise KeyboardInterrupt
            return super().advance(state, iteration)

    first, second = Interrupted("one"), Walk("two")
    outcome = run_loop(phases_of(first, second, lengths=[9, 9]))
    assert (outcome.reason, outcome.n_iter) == ("interrupted", 2)
    assert (outcome.state.x, outcome.state.begun) == (2.0, 2)


def test_the_best_state_of_all_phases_is_the_result_even_if_an_early_one_has_it():
    first, second = Walk("one", best_at=3.0), Walk("two", by=10.0, best_at=3.0)
    outcome = run_loop(phases_of(first, second, lengths=[5, 2], patience=None))
    assert len(outcome.history) == 7
    assert outcome.n_iter == 3
    assert (outcome.state.x, outcome.state.begun) == (3.0, 2)


def test_a_validation_score_in_the_history_is_that_of_the_iterations_own_state():
    """Not of the state before it, nor the best so far."""
    first, second, states = Walk("one", best_at=3.0), Walk("two", best_at=4.0), []
    for walk in (first, second):
        walk.validation_score = _noted(walk, states)
    outcome = run_loop(phases_of(first, second, lengths=[5, 4]))
    assert [state.x for state in states] == [1, 2, 3, 4, 5, 4, 5, 6, 7]
    assert [each.validation for each in outcome.history] == [-2, -1, 0, -1, -2, 0, -1, -2, -3]
    assert outcome.history[outcome.n_iter - 1].validation == max(
        each.validation for each in outcome.history
    )


def _noted(walk, states):
    score = walk.validation_score

    def validation_score(state):
        states.append(state)
        return score(state)

    return validation_score


# -- a run in a folder ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cells():
    return TrainingCells(tf.simulate((4, 3), 1, density=0.6, random_state=0).tensor)


def three_phases():
    """Return phases with the best score so far in iteration 3, and from 11 on in the third."""
    steps = Walk("one", best_at=3.25), Walk("two", by=0.5), Walk("three", -0.125, best_at=4.5)
    return phases_of(*steps, lengths=[5, 4, 6], patience=None)


def checkpoint(folder, cells, **changed):
    given = {"model": "walk", "parameters": {"by": 1}, "data": "abc"} | changed
    return Checkpoint(folder, cells=cells, **given)


@pytest.mark.parametrize("stop", [1, 3, 5, 7, 9, 14])
def test_a_run_kept_in_the_middle_of_a_phase_goes_on_to_the_same_result(stop, tmp_path, cells):
    """Also if it ended with a phase, so that the next one begins after it was read."""
    whole = run_loop(three_phases())
    place, phases = checkpoint(tmp_path, cells), three_phases()
    assert not place.exists()
    run_loop(phases, max_iter=stop, keep=place.keep, every=2)
    assert place.exists()
    phases = three_phases()
    run = place.load(phases)
    assert len(run.history) == stop
    assert run.best.iteration == (13 if stop == 14 else min(stop, 3))
    rest = run_loop(phases, run=run, keep=place.keep)
    assert [i for phase in phases for i in phase.step.numbers] == [
        *range(stop + 1, 6),
        *range(max(stop - 4, 1), 5),
        *range(max(stop - 8, 1), 7),
    ]
    assert same_states(rest.state, whole.state)
    assert (rest.n_iter, rest.reason) == (whole.n_iter, whole.reason) == (13, "max_iter")
    records = [[each._replace(seconds=0.0) for each in o.history] for o in (rest, whole)]
    assert records[0] == records[1]
    last = place.load(three_phases())
    assert (last.phase, last.before, len(last.history)) == (2, 9, 15)
    assert (last.best.score, last.best.iteration, last.best.phase) == (0.0, 13, 2)
    assert same_states(last.best.state, whole.state)


def test_a_run_without_scores_is_read_back_as_it_was(tmp_path, cells):
    place, kept = checkpoint(tmp_path, cells), []
    phases = phases_of(Walk("one"), Walk("two"), lengths=[3, 3])
    run_loop(phases, max_iter=5, keep=kept.append)
    place.keep(kept[-1])
    run = place.load(phases)
    assert same_states(run.state, kept[-1].state)
    assert (run.phase, run.before, run.best) == (1, 3, None)
    assert run.history == kept[-1].history


@pytest.mark.parametrize(
    "changed", [{"model": "run"}, {"parameters": {"by": 2}}, {"data": "abd"}], ids=str
)
def test_a_run_of_another_fit_is_refused(changed, tmp_path, cells):
    run_loop(three_phases(), max_iter=3, keep=checkpoint(tmp_path, cells).keep)
    with pytest.raises(StorageError, match=f"another fit: its {next(iter(changed))} differ"):
        checkpoint(tmp_path, cells, **changed).load(three_phases())


def _damage(folder, change):
    document, arrays = read_folder(folder, "tallyfold-checkpoint", 4, oldest=4)
    document = {n: v for n, v in document.items() if n not in ("arrays", "checksum")}
    change(document, arrays)
    write_folder(folder, document, arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda document, arrays: document.update(phase=3),
        lambda document, arrays: document.update(phase=-1),
        lambda document, arrays: document.update(before=8),
        lambda document, arrays: document["history"].pop(2),
        lambda document, arrays: document["history"][2].__setitem__(1, "1"),
        lambda document, arrays: document.update(best=[0.0, 3, 2]),
        lambda document, arrays: document.update(best=[0.0, 8, 0]),
        lambda document, arrays: document.pop("best"),
        lambda document, arrays: arrays.pop("state/noise_K"),
        lambda document, arrays: arrays.pop("best/noise_K"),
        lambda document, arrays: arrays.update({"state/noise_K": np.zeros(3)}),
        lambda document, arrays: arrays.update({"state/noise_K": np.zeros(2, dtype=int)}),
        lambda document, arrays: arrays.update({"best/x": np.array(np.nan)}),
    ],
)
def test_a_run_that_cannot_be_is_refused(change, tmp_path, cells):
    """Whatever its checksum says: the folder was written anew with what is wrong."""
    place = checkpoint(tmp_path, cells)
    run_loop(three_phases(), max_iter=7, keep=place.keep)
    _damage(tmp_path, lambda document, arrays: None)
    assert len(place.load(three_phases()).history) == 7
    _damage(tmp_path, change)
    with pytest.raises(StorageError, match="is damaged"):
        place.load(three_phases())


def test_a_fit_that_ends_at_its_limit_before_the_last_phase_has_not_converged():
    first, second = Halving(), Halving()
    phases = [
        Phase("one", first, first.start, StoppingRules(tol=1.5)),
        Phase("two", second, lambda state: state),
    ]
    outcome = run_loop(phases, max_iter=2)
    assert (outcome.reason, second.advanced) == ("max_iter", 0)


def test_a_score_that_is_no_number_is_never_the_best():
    step = Halving(peak=3)
    step.validation_score = lambda state: np.nan if state.x == -512 else Halving(3).peak + state.x
    outcome = run_loop(only(step, max_iter=4))
    assert np.isnan(outcome.history[0].validation)
    assert outcome.n_iter == 4


# -- phases that were planned, and phases whose scores are of another kind ------------------------


def test_a_phase_that_makes_all_it_was_planned_to_make_is_done():
    outcome = run_loop(only(Halving(), max_iter=5, scheduled=True))
    assert (outcome.reason, outcome.n_iter) == ("converged", 5)
    walks = Walk("one"), Walk("two")
    outcome = run_loop(phases_of(*walks, lengths=[3, 2], scheduled=True), max_iter=4)
    assert outcome.reason == "max_iter"


def with_scores_anew(first, second, lengths):
    one, two = phases_of(first, second, lengths=lengths, patience=3)
    return [one, replace(two, anew=True)]


def test_scores_of_a_phase_anew_are_not_compared_with_those_before():
    """The first phase's best score, 0, is never reached again; its state is not the result."""
    walks = Walk("one", best_at=3.0), Walk("two", by=10.0, best_at=50.0)
    outcome = run_loop(with_scores_anew(*walks, lengths=[4, 4]))
    assert [each.phase for each in outcome.history] == ["one"] * 4 + ["two"] * 4
    assert (outcome.n_iter, outcome.state.x) == (8, 43.0)
    alike = Walk("one", best_at=3.0), Walk("two", by=10.0, best_at=50.0)
    outcome = run_loop(phases_of(*alike, lengths=[4, 4], patience=3))
    assert (outcome.n_iter, outcome.state.x) == (3, 3.0)


def test_patience_of_a_phase_anew_begins_with_it():
    walks = Walk("one", best_at=1.0), Walk("two", by=10.0, best_at=21.0)
    outcome = run_loop(with_scores_anew(*walks, lengths=[3, 9]))
    phases = [each.phase for each in outcome.history]
    assert phases == ["one"] * 3 + ["two"] * 5  # the best is its second, then three in vain
    assert (outcome.reason, outcome.n_iter) == ("validation", 5)


def test_an_interrupt_before_a_phase_anew_has_a_score_leaves_the_state_it_began_with():
    class Interrupted(Walk):
        def advance(self, state, iteration):
            raise KeyboardInterrupt

    walks = Walk("one", best_at=2.0), Interrupted("two", best_at=0.0)
    outcome = run_loop(with_scores_anew(*walks, lengths=[4, 4]))
    assert outcome.reason == "interrupted"
    assert outcome.state.x == 2.0


def warnings_of(*arguments, peak=None, **rules):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run_loop(only(Halving(peak), *arguments, **rules))
    return [str(each.message) for each in said if each.category is ConvergenceWarning]


def test_a_limit_that_comes_before_the_stopping_rules_is_said_once():
    (told,) = warnings_of(max_iter=3, tol=1e-9, warns=True)
    assert told.startswith("the fit ended at its limit, in iteration 3 of its only, before")
    assert "max_iter=" in told
    assert "tol=" in told
    assert len(warnings_of(max_iter=3, tol=0.0, peak=9, warns=True)) == 1  # patience would go on


def test_limits_that_are_no_cut_are_not_said():
    assert warnings_of(max_iter=100, tol=1.5, warns=True) == []  # it has converged
    assert warnings_of(max_iter=3, tol=1.5, warns=True) == []
    assert warnings_of(max_iter=3, tol=0.0, warns=True) == []  # there is no other rule
    assert warnings_of(max_iter=8, tol=0.0, patience=3, peak=2, warns=True) == []
    assert warnings_of(max_iter=3, tol=1e-9) == []  # the limit is not the user's
    assert warnings_of(max_iter=3, tol=1e-9, scheduled=True) == []


def test_a_phase_in_the_middle_that_is_cut_is_said():
    first, last = Halving(), Halving()
    phases = [
        Phase("first", first, first.start, StoppingRules(3, 1e-9, warns=True)),
        Phase("last", last, last.start, StoppingRules(2, scheduled=True)),
    ]
    with pytest.warns(ConvergenceWarning, match="iteration 3 of its first"):
        outcome = run_loop(phases)
    assert outcome.reason == "converged"
