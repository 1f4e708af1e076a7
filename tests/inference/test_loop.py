import numpy as np
import pytest

from tallyfold.errors import DivergedError
from tallyfold.inference.fit.loop import Run, StoppingRules, run_loop


class Halving:
    """A step whose objective halves its distance to zero, and whose validation has a peak."""

    maximise = True

    def __init__(self, peak=None, bad_at=None):
        self.peak, self.bad_at = peak, bad_at
        self.advanced = 0

    def start(self):
        return {"x": np.array(-1024.0)}

    def advance(self, state, iteration):
        self.advanced += 1
        if iteration == self.bad_at:
            return {"x": np.array(np.nan)}, 0.0
        return {"x": state["x"] / 2}, float(state["x"] / 2)

    def validation_score(self, state):
        if self.peak is None:
            return None
        return -abs(float(np.log2(-state["x"])) - (10 - self.peak))


def test_it_stops_when_the_objective_hardly_changes():
    outcome = run_loop(Halving(), StoppingRules(max_iter=100, tol=1.5))
    assert outcome.reason == "converged"
    assert outcome.n_iter == 2
    assert outcome.converged


def test_a_noisy_objective_has_converged_when_its_spread_is_small():
    class Noisy(Halving):
        """Alternates by one around -100 from iteration 5 on; equal twice running before."""

        def advance(self, state, iteration):
            value = -1000.0 if iteration < 5 else -100.0 + (-1) ** iteration
            return {"x": np.array(value)}, value

    assert run_loop(Noisy(), StoppingRules(max_iter=50, tol=0.011, window=10)).n_iter == 14
    assert run_loop(Noisy(), StoppingRules(max_iter=50, tol=0.009, window=10)).reason == "max_iter"
    assert run_loop(Noisy(), StoppingRules(max_iter=50, tol=0.011)).n_iter == 2
    assert run_loop(Noisy(), StoppingRules(max_iter=50, tol=0.0, window=10)).reason == "max_iter"


def test_it_stops_at_the_limit():
    outcome = run_loop(Halving(), StoppingRules(max_iter=5, tol=0.0))
    assert outcome.reason == "max_iter"
    assert [iteration.number for iteration in outcome.history] == [1, 2, 3, 4, 5]
    assert outcome.history[-1].objective == -32
    assert not outcome.converged


def test_it_keeps_the_best_state_on_validation_and_stops_after_patience():
    outcome = run_loop(Halving(peak=4), StoppingRules(max_iter=100, tol=0.0, patience=3))
    assert outcome.reason == "validation"
    assert outcome.n_iter == 4
    assert len(outcome.history) == 7
    assert float(outcome.state["x"]) == -64


def test_callbacks_see_every_iteration_and_runs_are_kept():
    seen, kept = [], []
    run_loop(
        Halving(),
        StoppingRules(max_iter=7, tol=0.0),
        callbacks=[lambda progress: seen.append((progress.iteration.number, progress.max_iter))],
        keep=lambda run: kept.append(len(run.history)),
        every=3,
    )
    assert seen == [(number, 7) for number in range(1, 8)]
    assert kept == [3, 6, 7]


def test_a_run_goes_on_where_it_was():
    kept = []
    whole = run_loop(Halving(peak=4), StoppingRules(max_iter=6, tol=0.0))
    run_loop(Halving(peak=4), StoppingRules(max_iter=3, tol=0.0), keep=kept.append)
    step = Halving(peak=4)
    rest = run_loop(step, StoppingRules(max_iter=6, tol=0.0), run=kept[-1])
    assert step.advanced == 3
    assert rest.state == whole.state
    assert [i.objective for i in rest.history] == [i.objective for i in whole.history]


def test_a_finished_run_is_not_run_again():
    kept = []
    run_loop(Halving(), StoppingRules(max_iter=4, tol=0.0), keep=kept.append)
    step = Halving()
    assert run_loop(step, StoppingRules(max_iter=4, tol=0.0), run=kept[-1]).reason == "max_iter"
    assert step.advanced == 0


def test_an_interrupt_in_the_middle_of_a_step_keeps_the_last_whole_iteration():
    class Interrupted(Halving):
        def advance(self, state, iteration):
            if iteration == 3:
                raise KeyboardInterrupt
            return super().advance(state, iteration)

    outcome = run_loop(Interrupted(), StoppingRules(max_iter=9, tol=0.0))
    assert outcome.reason == "interrupted"
    assert outcome.n_iter == 2
    assert float(outcome.state["x"]) == -256


def test_an_interrupt_before_the_first_iteration_is_passed_on():
    class AtOnce(Halving):
        def advance(self, state, iteration):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_loop(AtOnce(), StoppingRules(max_iter=9))


def test_what_is_not_finite_never_gets_out():
    run = Run({"x": np.array(-1024.0)})
    with pytest.raises(DivergedError, match="iteration 3 left the rails: the values of x"):
        run_loop(Halving(bad_at=3), StoppingRules(max_iter=9, tol=0.0), run=run)
    assert len(run.history) == 2
    assert float(run.state["x"]) == -256
