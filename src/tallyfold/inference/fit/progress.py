"""How a fit shows itself while it runs: a bar in terminals and notebooks, lines elsewhere."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from tallyfold.inference.fit.loop import Callback, Progress

Verbose = bool | int | Literal["auto"]

LINE_SECONDS = 10.0
"""Seconds between two lines where there is no bar."""
REFRESH_SECONDS = 0.2
"""Seconds between two looks of a bar in a notebook."""
QUIET_SECONDS = 1.0
"""A fit that nobody asked to see is shown if it takes longer."""
RECENT = 10
"""Iterations that the remaining time is estimated from: first ones may be quicker or slower."""


class Screen(Protocol):
    """Where progress is shown."""

    def show(self, done: int, total: int, words: str) -> None:
        """Show how far it is."""

    def close(self, words: str) -> None:
        """End with a last line."""


class Words:
    """How a fit goes, in words; a callback for its iterations."""

    def __init__(self) -> None:
        self._seconds: list[float] = []

    def __call__(self, step: Progress) -> str:
        """Return objective, score on held-out cells and the time that is left."""
        iteration = step.iteration
        if iteration.number == 1:
            self._seconds.clear()  # another member of a mixture of fits begins
        self._seconds.append(iteration.seconds)
        words = [f"objective {iteration.objective:.5g}"]
        if iteration.validation is not None:
            words.append(f"held out {iteration.validation:.4f}")
        left = _seconds_left(self._seconds, iteration.number, step.max_iter)
        return ", ".join([*words, f"up to {duration(left)} left"])


class TerminalBar:
    """A bar on standard error, gone when the fit is done."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.text import Text

        words = TextColumn("{task.description}", markup=False)
        self._console = Console(stderr=True, highlight=False)
        self._text, self._title = Text, title
        self._bar = Progress(
            TextColumn(title, markup=False),
            BarColumn(24),
            MofNCompleteColumn(),
            words,
            console=self._console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def show(self, done: int, total: int, words: str) -> None:
        """Show how far it is."""
        self._bar.update(self._task, completed=done, total=total, description=words)

    def close(self, words: str) -> None:
        """Take the bar away, and leave a line."""
        self._bar.stop()
        self._console.print(self._text(f"{self._title}: {words}"))


class NotebookBar:
    """A bar below the cell of a notebook, redrawn where it stands."""

    def __init__(self, title: str) -> None:
        import IPython.display

        shown: Any = IPython.display  # it has no types
        self._title, self._html, self._drawn = title, shown.HTML, 0.0
        self._handle = shown.display(shown.HTML(f"{html.escape(title)}: ..."), display_id=True)

    def show(self, done: int, total: int, words: str) -> None:
        """Show how far it is, a few times a second."""
        if time.monotonic() - self._drawn < REFRESH_SECONDS:
            return
        self._drawn = time.monotonic()
        bar = f'<progress value="{done}" max="{total}"></progress>'
        self._draw(f"{bar} {done:,}/{total:,} {html.escape(words)}")

    def close(self, words: str) -> None:
        """Leave a line."""
        self._draw(html.escape(words))

    def _draw(self, markup: str) -> None:
        if self._handle is not None:
            self._handle.update(self._html(f"<div>{html.escape(self._title)}: {markup}</div>"))


class Lines:
    """Now and then a line on standard error, for logs."""

    def __init__(self, title: str) -> None:
        self._title, self._last = title, time.monotonic()

    def show(self, done: int, total: int, words: str) -> None:
        """Write a line, if the last one is some seconds ago."""
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            self._write(f"iteration {done:,} of {total:,}, {words}")

    def close(self, words: str) -> None:
        """Write a last line."""
        self._write(words)

    def _write(self, words: str) -> None:
        sys.stderr.write(f"{self._title}: {words}\n")
        sys.stderr.flush()


def screen_for(verbose: Verbose) -> Callable[[str], Screen] | None:
    """Return where a fit is shown; None for nowhere.

    ``"auto"``: in notebooks, and in terminals where someone types, not in scripts.
    """
    notebook, typing = in_notebook(), hasattr(sys, "ps1") or _shell() is not None
    terminal = hasattr(sys.stderr, "isatty") and sys.stderr.isatty()
    if not verbose or (verbose == "auto" and not (notebook or (typing and terminal))):
        return None
    return NotebookBar if notebook else TerminalBar if terminal else Lines


def in_notebook() -> bool:
    """Tell whether this is the kernel of a notebook."""
    return hasattr(_shell(), "kernel")


def _shell() -> Any:
    """Return IPython's shell; None outside of it."""
    module = sys.modules.get("IPython")
    return None if module is None else module.get_ipython()


@contextmanager
def shown(verbose: Verbose, title: str, ended: Callable[[], str]) -> Iterator[Sequence[Callback]]:
    """Give callbacks that show a fit; `ended` gives the words that it ends with."""
    make = screen_for(verbose)
    if make is None:
        yield ()
        return
    screens: list[Screen] = []
    words, start = Words(), time.monotonic()

    def callback(step: Progress) -> None:
        line = words(step)
        if not screens and (verbose != "auto" or time.monotonic() - start > QUIET_SECONDS):
            screens.append(make(title))
        for screen in screens:
            screen.show(step.iteration.number, step.max_iter, line)

    last = "stopped by an error"
    try:
        yield (callback,)
        last = ended()
    finally:
        for screen in screens:
            screen.close(last)


def _seconds_left(seconds: list[float], number: int, max_iter: int) -> float:
    recent = seconds[-RECENT - 1 :]
    each = (recent[-1] - recent[0]) / (len(recent) - 1) if len(recent) > 1 else recent[0] / number
    return each * (max_iter - number)


def duration(seconds: float) -> str:
    """Return seconds for people.

    Examples
    --------
    >>> duration(8.4), duration(200), duration(10_000)
    ('8 s', '3 min', '2.8 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
