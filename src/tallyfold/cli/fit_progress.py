"""A fit on its way: what is shown of it, and what Ctrl-C leaves."""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tallyfold.cli.long_runs import progress
from tallyfold.cli.terminal import duration
from tallyfold.errors import InterruptedWarning

if TYPE_CHECKING:
    from tallyfold.inference.fit.loop import Progress

LOG_SECONDS = 30
"""Seconds between two lines where there is no terminal."""
RECENT = 10
"""Iterations that the remaining time is estimated from: first ones may be quicker or slower."""


@contextmanager
def shown_progress(what: str) -> Iterator["Callable[[Progress], None]"]:
    """Give a callback that shows a fit on standard error: a bar, or now and then a line."""
    seconds: list[float] = []
    last_line = time.monotonic()
    with progress() as show:

        def callback(step: "Progress") -> None:
            nonlocal last_line
            iteration = step.iteration
            if iteration.number == 1:
                seconds.clear()  # another member of a mixture of fits begins
            seconds.append(iteration.seconds)
            log = time.monotonic() - last_line >= LOG_SECONDS
            last_line = time.monotonic() if log else last_line
            left = _seconds_left(seconds, iteration.number, step.max_iter)
            words = [f"objective {iteration.objective:.5g}"]
            if iteration.validation is not None:
                words.append(f"held out {iteration.validation:.4f}")
            words.append(f"up to {duration(left)} left")
            line = ", ".join(words)
            if log:
                line = f"{what}: iteration {iteration.number} of {step.max_iter}, {line}"
            show(iteration.number, step.max_iter, line, log)

        yield callback


def _seconds_left(seconds: list[float], number: int, max_iter: int) -> float:
    recent = seconds[-RECENT - 1 :]
    each = (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else recent[0] / number
    return each * (max_iter - number)


@contextmanager
def noted_interrupt() -> Iterator[list[str]]:
    """Give a list that gets the message of a fit interrupted by Ctrl-C; other warnings go on."""
    messages: list[str] = []
    with warnings.catch_warnings():
        show_other = warnings.showwarning

        def note(message: Any, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, InterruptedWarning):
                messages.append(str(message))
            else:
                show_other(message, category, *rest, **more)

        warnings.showwarning = note
        warnings.simplefilter("always", InterruptedWarning)
        yield messages
