"""The one loop that fits every model: step, record, validate, stop, save, go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tallyfold.errors import DivergedError
from tallyfold.inference.distributed.process_group import current_group

State = dict[str, npt.NDArray[np.generic]]
"""Everything a step needs to go on, as named arrays; a step returns a new one.

A name that ends in ``_N`` is that of an array with an entry for each of this process's cells; all
others are the same in every process."""

Reason = Literal["converged", "validation", "max_iter", "interrupted", "diverged"]


class Iteration(NamedTuple):
    """What one iteration came to."""

    number: int
    objective: float
    seconds: float
    validation: float | None = None


class Progress(NamedTuple):
    """What a callback is told after each iteration."""

    iteration: Iteration
    max_iter: int


Callback = Callable[[Progress], None]


class Step(Protocol):
    """One way of improving a state.

    Randomness must come from the iteration's number (and a seed), never from a stream that runs
    on, so that a resumed fit takes the very same steps.
    """

    maximise: bool  # whether a better objective is a larger one

    def start(self) -> State:
        """Return the state before the first iteration."""

    def advance(self, state: State, iteration: int) -> tuple[State, float]:
        """Return the state after one more iteration, and its objective; leave the old one be."""

    def validation_score(self, state: State) -> float | None:
        """Return the score on cells the fit has not seen, larger is better; None without any."""


@dataclass(frozen=True)
class StoppingRules:
    """When to stop.

    Parameters
    ----------
    max_iter, min_iter
        At most, and at least, so many iterations.
    tol
        A fit has converged when its objective changes by no more than this, relative to its size.
    window
        What a change is: with 1, the difference of the last two objectives; with more, the
        standard deviation of the last so many, for steps whose objective is noisy.
    patience
        Stop when the validation score has not been better for so many iterations.
    warm_up
        Tells of a state that it is still warming up: then nothing but `max_iter` stops the fit.
    """

    max_iter: int
    tol: float = 0.0
    patience: int = 10
    min_iter: int = 2
    window: int = 1
    warm_up: Callable[[State], bool] | None = None


@dataclass
class Run:
    """A fit on its way: what has to be kept to go on with it."""

    state: State
    history: list[Iteration] = field(default_factory=list)
    best: State | None = None
    best_score: float = -np.inf
    best_iteration: int = 0


class Outcome(NamedTuple):
    """What the loop ends with."""

    state: State
    history: list[Iteration]
    n_iter: int
    reason: Reason

    @property
    def converged(self) -> bool:
        """Whether the fit ended by itself, not by the limit or by hand."""
        return self.reason in ("converged", "validation")


def run_loop(
    step: Step,
    rules: StoppingRules,
    *,
    run: Run | None = None,
    callbacks: Sequence[Callback] = (),
    keep: Callable[[Run], None] | None = None,
    every: int = 10,
) -> Outcome:
    """Take steps until a rule says stop.

    Parameters
    ----------
    step, rules
        What an iteration does, and when to stop.
    run
        A run to go on with; a new one is started if None.
    callbacks
        Called after each iteration.
    keep, every
        Called with the run after every so many iterations, and at the end, to save it.

    Notes
    -----
    An interrupt (Ctrl-C) ends the loop with the last whole iteration: a step never changes the
    state it was given. Several processes end with the same one.
    """
    group = current_group()
    run = run or Run(step.start())
    reason = _reason_to_stop(run, rules)
    kept = len(run.history)
    try:
        while reason is None:
            _iterate(run, step)
            for callback in callbacks:
                callback(Progress(run.history[-1], rules.max_iter))
            reason = _reason_to_stop(run, rules)
            if group.stop_asked():
                reason = "interrupted"
            if keep is not None and len(run.history) % every == 0:
                keep(run)
                kept = len(run.history)
    except DivergedError as error:
        error.run = run
        if keep is not None and kept < len(run.history):
            keep(run)
        raise
    except KeyboardInterrupt:
        if not run.history:
            raise
        reason = "interrupted"
    if keep is not None and kept < len(run.history):
        keep(run)
    return outcome_of(run, reason)


def outcome_of(run: Run, reason: Reason) -> Outcome:
    """Return what a run has come to: its best state if there is validation, else its last."""
    state = run.state if run.best is None else run.best
    n_iter = len(run.history) if run.best is None else run.best_iteration
    return Outcome(state, run.history, n_iter, reason)


def _iterate(run: Run, step: Step) -> None:
    number = len(run.history) + 1
    before = run.history[-1].seconds if run.history else 0.0
    start = time.perf_counter()
    state, objective = step.advance(run.state, number)
    _check_finite(state, objective, number)
    score = step.validation_score(state)
    seconds = before + time.perf_counter() - start
    # From here on nothing can be interrupted half-way: the new state and its record go together.
    run.state, run.history = state, [*run.history, Iteration(number, objective, seconds, score)]
    if score is not None and score > run.best_score:
        run.best, run.best_score, run.best_iteration = state, score, number


def _check_finite(state: State, objective: float, number: int) -> None:
    bad = [name for name, array in state.items() if not np.all(np.isfinite(array))]
    anywhere = current_group().all_reduce_number(float(len(bad))) > 0
    if anywhere or not np.isfinite(objective):
        words = ", ".join(bad) or "another process"
        what = f"the values of {words}" if anywhere else f"the objective ({objective})"
        raise DivergedError(
            f"iteration {number} left the rails: {what} are not finite. Try another random_state, "
            "fewer components or a larger prior shape."
        )


def _reason_to_stop(run: Run, rules: StoppingRules) -> Reason | None:
    number = len(run.history)
    if number >= rules.max_iter:
        return "max_iter"
    if number < max(rules.min_iter, 2) or (rules.warm_up and rules.warm_up(run.state)):
        return None
    if run.best is not None and number - run.best_iteration >= rules.patience:
        return "validation"
    if rules.tol > 0 and _has_settled([i.objective for i in run.history], rules):
        return "converged"
    return None


def _has_settled(objectives: list[float], rules: StoppingRules) -> bool:
    last = np.array(objectives[-max(rules.window, 2) :])
    change = np.std(last) if rules.window > 1 else abs(last[-1] - last[0])
    enough = len(last) >= rules.window
    return bool(enough and change <= rules.tol * max(abs(last[-1]), 1e-12))
