"""The one loop that fits every model: step, record, validate, stop, save, go on.

A fit is a sequence of phases, such as sweeps and then encoders, or burn-in and then draws. The loop
alone keeps the best state, counts patience and moves on to the next phase.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from tallyfold.errors import ConvergenceWarning, DivergedError, warn
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit.state_arrays import to_arrays
from tallyfold.inference.fit.stopping import Reason, StoppingRules
from tallyfold.posterior.named_arrays import Arrays

S = TypeVar("S")

_log = logging.getLogger("tallyfold")


class Iteration(NamedTuple):
    """What one iteration came to."""

    number: int
    objective: float
    seconds: float
    validation: float | None = None
    phase: str = ""


class Progress(NamedTuple):
    """What a callback gets after each iteration."""

    iteration: Iteration
    max_iter: int


Callback = Callable[[Progress], None]


class Step(Protocol[S]):
    """One way of improving a state.

    A state is a typed value, see `state_arrays`. Randomness must come from the iteration's number
    in its phase (and a seed), never from a running stream, so that a resumed fit takes the very
    same steps.
    """

    def advance(self, state: S, iteration: int) -> tuple[S, float]:
        """Return the state after one more iteration, and its objective; leave the old one be."""

    def validation_score(self, state: S) -> float | None:
        """Return the score on cells the fit has not seen, larger is better; None without any."""


@dataclass(frozen=True)
class Phase:
    """A part of a fit: a step, taken until its stopping rules apply.

    Attributes
    ----------
    name
        What the history calls it.
    step
        What an iteration does.
    begin
        Makes the first state from the state that the previous phase ended with (its best one, if
        it has validation scores); the first phase is given None. It must be cheap.
    stopping
        When the phase ends.
    anew
        Whether validation scores of this phase cannot be compared with those before: the best
        state is then one of this phase or of later ones.
    begin_like
        As `begin`, given also the named arrays of a state of this phase or a later one: makes the
        state they began with, where its shapes hang on what an earlier phase came to.
    """

    name: str
    step: Step[Any]
    begin: Callable[[Any], Any]
    stopping: StoppingRules = field(default_factory=StoppingRules)
    anew: bool = False
    begin_like: Callable[[Any, Arrays], Any] | None = None

    def begun(self, previous: Any, arrays: Arrays) -> Any:
        """Return a state of the shapes that one with these arrays began with."""
        return (
            self.begin(previous) if self.begin_like is None else self.begin_like(previous, arrays)
        )


class Best(NamedTuple):
    """The best state so far by its validation score."""

    state: Any
    score: float
    iteration: int
    phase: int


@dataclass
class Run:
    """A fit on its way: what has to be kept to go on with it."""

    state: Any
    phase: int = 0
    history: list[Iteration] = field(default_factory=list)
    before: int = 0
    """The number of iterations before the present phase."""
    best: Best | None = None

    @classmethod
    def begin(cls, phases: Sequence[Phase]) -> Run:
        """Begin the first phase."""
        return cls(phases[0].begin(None))

    def reason_to_stop(self, phases: Sequence[Phase]) -> Reason | None:
        """Return why the present phase ends; None if it goes on."""
        objectives = [each.objective for each in self.history[self.before :]]
        since_best = None if self.best is None else len(self.history) - self.best.iteration
        return phases[self.phase].stopping.reason(objectives, since_best)

    def enter_next(self, phases: Sequence[Phase]) -> None:
        """Begin the next phase, at the best state of this one."""
        is_own = self.best is not None and self.best.phase == self.phase
        state = self.best.state if self.best is not None and is_own else self.state
        first = phases[self.phase + 1].begin(state)
        self.state, self.phase, self.before = first, self.phase + 1, len(self.history)
        if phases[self.phase].anew:
            self.best = None


class Outcome(NamedTuple):
    """What the loop ends with; the state is one of the last phase's kind."""

    state: Any
    history: list[Iteration]
    n_iter: int
    reason: Reason


def run_loop(
    phases: Sequence[Phase],
    *,
    max_iter: int | None = None,
    run: Run | None = None,
    callbacks: Sequence[Callback] = (),
    keep: Callable[[Run], None] | None = None,
    every: int = 10,
) -> Outcome:
    """Run phases one after the other until the last one ends.

    Parameters
    ----------
    phases
        What to do.
    max_iter
        The limit of iterations of all phases together; None: the sum of their own limits.
    run
        A run to go on with; a new one is begun if None.
    callbacks
        Called after each iteration.
    keep, every
        `keep` saves the run; it is called after every `every` iterations, and at the end.

    Notes
    -----
    An interrupt (Ctrl-C) ends the loop with the last whole iteration: a step never changes the
    state it was given. Several processes end with the same one.
    """
    group = current_group()
    limit = sum(p.stopping.max_iter or 0 for p in phases) if max_iter is None else max_iter
    run = run or Run.begin(phases)
    kept = len(run.history)
    _log_phase(run, phases)
    try:
        reason = _move_on(run, phases, limit)
        while reason is None:
            _iterate(run, phases[run.phase])
            for callback in callbacks:
                callback(Progress(run.history[-1], limit))
            if keep is not None and len(run.history) % every == 0:
                keep(run)
                kept = len(run.history)
            reason = "interrupted" if group.stop_asked() else _move_on(run, phases, limit)
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
    _log_phase(run, phases, reason)
    if reason != "interrupted" and group.first:
        _warn_if_cut(run, phases, reason)
    return outcome_of(run, phases, reason)


def _warn_if_cut(run: Run, phases: Sequence[Phase], reason: Reason) -> None:
    """Warn, once, if a limit ended a phase, or the fit, whose stopping rules did not apply yet."""
    for number, phase in enumerate(phases[: run.phase + 1]):
        rules, own = phase.stopping, [each for each in run.history if each.phase == phase.name]
        full = rules.max_iter is not None and len(own) >= rules.max_iter
        full |= number == run.phase and reason == "max_iter"
        objectives, scores = [e.objective for e in own], [e.validation for e in own]
        if rules.warns and full and rules.was_cut(objectives, scores):
            warn(
                f"the fit ended at its limit, in iteration {len(own)} of its {phase.name}, before "
                "its stopping rules applied: it may not be at its best. Allow more by max_iter=, "
                "or be content with less by tol=.",
                ConvergenceWarning,
            )
            return


def outcome_of(run: Run, phases: Sequence[Phase], reason: Reason) -> Outcome:
    """Return what a run has come to: its best state if there is validation, else its last."""
    state, phase, n_iter = run.state, run.phase, len(run.history)
    if run.best is not None:
        state, phase, n_iter = run.best.state, run.best.phase, run.best.iteration
    for later in phases[phase + 1 :]:
        state = later.begin(state)
    return Outcome(state, run.history, n_iter, reason)


def _move_on(run: Run, phases: Sequence[Phase], limit: int) -> Reason | None:
    """Enter the next phase if this one has ended; return why the fit ends, None if it goes on."""
    reason = run.reason_to_stop(phases)
    while reason is not None and run.phase + 1 < len(phases) and len(run.history) < limit:
        _log_phase(run, phases, reason)
        run.enter_next(phases)
        _log_phase(run, phases)
        reason = run.reason_to_stop(phases)
    unfinished = reason is None or run.phase + 1 < len(phases)
    return "max_iter" if unfinished and len(run.history) >= limit else reason


def _log_phase(run: Run, phases: Sequence[Phase], ended: Reason | None = None) -> None:
    """Log that the present phase begins, or why it ended; in the first process."""
    if current_group().first:
        number, name = len(run.history) - run.before, phases[run.phase].name
        if ended is None:
            at = f" at iteration {number + 1}" if number else ""
            _log.info("phase %r begins%s", name, at)
        else:
            _log.info("phase %r ended after %d iterations: %s", name, number, ended)


def _iterate(run: Run, phase: Phase) -> None:
    number = len(run.history) + 1
    before = run.history[-1].seconds if run.history else 0.0
    start = time.perf_counter()
    state, objective = phase.step.advance(run.state, number - run.before)
    _check_finite(state, objective, number)
    score = phase.step.validation_score(state)
    seconds = before + time.perf_counter() - start
    record = Iteration(number, objective, seconds, score, phase.name)
    best = run.best
    if score is not None and score > (-np.inf if best is None else best.score):
        best = Best(state, score, number, run.phase)
    # From here on nothing can be interrupted half-way: the new state and its record go together.
    run.state, run.history, run.best = state, [*run.history, record], best
    _log.debug("iteration %d: objective %.6g, validation %s", number, objective, score)


def _check_finite(state: Any, objective: float, number: int) -> None:
    bad = [name for name, array in to_arrays(state).items() if not np.all(np.isfinite(array))]
    anywhere = current_group().all_reduce_number(float(len(bad))) > 0
    if anywhere or not np.isfinite(objective):
        words = ", ".join(bad) or "another process"
        what = f"the values of {words}" if anywhere else f"the objective ({objective})"
        raise DivergedError(
            f"the fit diverged in iteration {number}: {what} are not finite. Try another "
            "random_state, fewer components or a larger prior shape."
        )
