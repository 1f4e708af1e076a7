"""Runs that take long: how they show progress, and how they end after Ctrl-C."""

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tallyfold.cli.files import refuse_unwritable
from tallyfold.cli.terminal import console, say_aside
from tallyfold.errors import InterruptedWarning, ParameterError

if TYPE_CHECKING:
    from tallyfold.inference.fit.loop import Progress

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

GO_ON = "run the same command to go on"

LOG_SECONDS = 30
"""Seconds between two lines where there is no terminal."""

Show = Callable[[float, int, str, bool], None]


def check_targets(files: Mapping[str, Path | None]) -> None:
    """Refuse files, by their option, that could not be written in the end."""
    for option, file in files.items():
        if file is None:
            continue
        if file.is_dir() or not file.absolute().parent.is_dir():
            raise ParameterError(f"{option} must be a file in a folder that is there; got {file}.")
        refuse_unwritable(file)


@contextmanager
def progress() -> Iterator[Show]:
    """Give a function to show progress with: done, total, words, and whether to log them.

    On a terminal it is a bar, on standard error; elsewhere a line for each thing worth logging.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    errors = console(stderr=True)
    words = TextColumn("{task.description}")
    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), words)
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def show(done: float, total: int, words: str, log: bool) -> None:
            bar.update(task, completed=done, total=total, description=words)
            if log and not errors.is_terminal:
                errors.print(words, markup=False, soft_wrap=True)

        yield show


@contextmanager
def interruptible(how: str) -> Iterator[None]:
    """Turn a Ctrl-C that left no result into a message, with how to go on, and an exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InterruptedWarning)  # `end` says it
        try:
            yield
        except KeyboardInterrupt:
            say_aside(f"interrupted; {how}.")
            raise typer.Exit(INTERRUPTED) from None


def end(interrupted: bool, has_result: bool, kept: bool) -> None:
    """Say how to go on after a Ctrl-C, and end with its exit code."""
    if not interrupted:
        if not has_result:
            raise typer.Exit(1)
        return
    how = GO_ON if kept else "the above is what was finished"
    say_aside(f"interrupted; {how}.")
    raise typer.Exit(INTERRUPTED)


@contextmanager
def shown_progress(what: str) -> Iterator["Callable[[Progress], None]"]:
    """Give a callback that shows a fit on standard error: a bar, or now and then a line."""
    from tallyfold.inference.fit.progress import Words

    words, last_line = Words(), time.monotonic()
    with progress() as show:

        def callback(step: "Progress") -> None:
            nonlocal last_line
            log = time.monotonic() - last_line >= LOG_SECONDS
            last_line = time.monotonic() if log else last_line
            line, number = words(step), step.iteration.number
            if log:
                line = f"{what}: iteration {number} of {step.max_iter}, {line}"
            show(number, step.max_iter, line, log)

        yield callback


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
