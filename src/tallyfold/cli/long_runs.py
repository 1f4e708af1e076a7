"""Runs that take long: how they show progress, and how they end after Ctrl-C."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console

from tallyfold.cli.files import refuse_unwritable
from tallyfold.cli.terminal import NOTHING
from tallyfold.errors import InterruptedWarning, ParameterError

INTERRUPTED = 130
"""The exit code after Ctrl-C."""

GO_ON = "run the same command to go on"

Show = Callable[[float, int, str, bool], None]


def check_targets(files: Mapping[str, Path | None]) -> None:
    """Refuse files, by their option, that could not be written in the end."""
    for option, file in files.items():
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise ParameterError(f"{option} must be a file in a folder that is there; got {file}.")
        if file is not None:
            refuse_unwritable(file)


@contextmanager
def progress() -> Iterator[Show]:
    """Give a function to show progress with: done, total, words, and whether to log them.

    On a terminal it is a bar, on standard error; elsewhere a line for each thing worth logging.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True, highlight=False)
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
            typer.echo(f"tallyfold: interrupted; {how}.", err=True)
            raise typer.Exit(INTERRUPTED) from None


def end(interrupted: bool, has_result: bool, kept: bool) -> None:
    """Say how to go on after a Ctrl-C, and end with its exit code."""
    if not interrupted:
        if not has_result:
            raise typer.Exit(1)
        return
    how = GO_ON if kept else "the above is what was finished"
    typer.echo(f"tallyfold: interrupted; {how}.", err=True)
    raise typer.Exit(INTERRUPTED)


def number(value: float | None, digits: int = 4) -> str:
    """Return a number for a table; a dash for a missing one."""
    return NOTHING if value is None or value != value else f"{value:.{digits}f}"
