"""Every exception and warning that tallyfold raises on purpose.

::

    Exception
    └── TallyfoldError              catch this one to catch them all
        ├── ParameterError          an argument has a value that cannot be used (also a ValueError)
        │   └── NoFactorsError      the model has no components (also an AttributeError)
        ├── DataError               the data cannot be used (also a ValueError)
        │   ├── CountError          counts: negative, fractional, not finite, too large
        │   ├── LabelError          labels: missing, unknown, repeated, of the wrong type
        │   └── ShapeError          axes: too few, too large, of different lengths
        ├── FormatError             a file is malformed, truncated or of an unknown kind
        ├── MissingPackageError     an optional package is needed (also an ImportError)
        ├── NotFittedError          the model has not been fitted yet (also an AttributeError)
        ├── InferenceError          a fit could not go on
        │   ├── DivergedError       a fit diverged; a checkpoint keeps the last good state
        │   ├── NotEnoughMemoryError  a fit would not have room (also a MemoryError)
        │   └── ProcessError        another process of the run died or does not answer
        ├── BackendError            a kernel or device cannot be used here
        └── StorageError            a saved model cannot be written or read back
            └── BusyError           another process is writing to the same place

    UserWarning
    └── TallyfoldWarning
        ├── ConvergenceWarning      a fit came to max_iter before its stopping rules applied
        ├── DroppedWarning          rows were left out that nobody asked to leave out
        ├── InterruptedWarning      a fit was stopped by hand and keeps its last whole iteration
        ├── RepeatedWarning         ratings of one cell were added up, which nobody asked for
        ├── RoundedWarning          means of counts were not whole and were rounded
        └── SlowPathWarning         a setting has no fast kernel; says what is slow and why
"""

import difflib
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

PACKAGE = f"{Path(__file__).parent}{os.sep}"


def printable(text: object, keep: str = "") -> str:
    r"""Return a text whose every character is seen: others are spelt out, but for those to `keep`.

    Labels and names are data of others. What a terminal would take for a command, such as one that
    sets its title, writes to the clipboard or turns the direction of writing, is shown instead.
    Everything that quotes data goes through here: messages, tables, lines.

    Examples
    --------
    >>> printable("two\nlines"), printable("\x1b]0;x\x07")
    ('two\\nlines', '\\x1b]0;x\\x07')
    """
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode()
        for c in str(text)
    )


class _Printable:
    """A message that can be shown on any terminal, whatever data it quotes."""

    lines: tuple[str, ...] = ()
    """A message of several lines; none that is empty is meant."""

    def __str__(self) -> str:
        if self.lines:
            return "\n".join(map(printable, self.lines))
        return printable(super().__str__())


class TallyfoldError(_Printable, Exception):
    """Base of every error raised by tallyfold."""

    @classmethod
    def of_lines(cls, lines: Sequence[str]) -> Self:
        """Return an error whose message has several lines, each shown on one of its own."""
        found = cls(" ".join(line.strip() for line in lines))
        found.lines = tuple(lines)
        return found


class ParameterError(TallyfoldError, ValueError):
    """An argument has a value that cannot be used."""


class NoFactorsError(ParameterError, AttributeError):
    """The model has no factors, so no components."""


class DataError(TallyfoldError, ValueError):
    """The data given cannot be used."""


class CountError(DataError):
    """Counts are negative, fractional, not finite or too large."""


class LabelError(DataError):
    """Labels are missing, unknown, repeated or of the wrong type."""


class ShapeError(DataError):
    """There are too few axes, or their sizes do not fit."""


class FormatError(TallyfoldError):
    """A file is malformed, truncated or of an unknown kind."""


class MissingPackageError(TallyfoldError, ImportError):
    """An optional package is needed for what was asked."""


class NotFittedError(TallyfoldError, AttributeError):
    """The model has not been fitted yet; what a fit leaves is no attribute of it before."""


class InferenceError(TallyfoldError):
    """A fit could not go on."""


class DivergedError(InferenceError):
    """A fit diverged; a checkpoint, if there is one, keeps the last good state.

    Attributes
    ----------
    model
        The model as it was after the last good iteration; None if there was none.
    """

    run: Any = None
    model: Any = None


class NotEnoughMemoryError(InferenceError, MemoryError):
    """A fit that was about to begin would not have room in memory."""


class ProcessError(InferenceError):
    """Another process that the fit was shared with died, or does not answer."""


class BackendError(TallyfoldError):
    """A kernel or device cannot be used here."""


class StorageError(TallyfoldError):
    """A saved model cannot be written or read back."""


class BusyError(StorageError):
    """Another process, or thread, is writing to the same folder or file."""


class TallyfoldWarning(_Printable, UserWarning):
    """Base of every warning given by tallyfold."""


class ConvergenceWarning(TallyfoldWarning):
    """A fit came to `max_iter` before its stopping rules applied: it would have gone on."""


class DroppedWarning(TallyfoldWarning):
    """Rows were left out that nobody asked to leave out."""


class InterruptedWarning(TallyfoldWarning):
    """A fit was stopped by hand; it keeps its last whole iteration."""


class RepeatedWarning(TallyfoldWarning):
    """Ratings of one cell were added up, which nobody asked for."""


class RoundedWarning(TallyfoldWarning):
    """Means of counts (``repeated="mean"``) were not whole and were rounded."""


class SlowPathWarning(TallyfoldWarning):
    """A setting has no fast kernel; the message says what is slow and why."""


def did_you_mean(word: object, known: Iterable[object]) -> str:
    """Return a sentence, after a space, that offers what is most like a word; or nothing.

    Examples
    --------
    >>> did_you_mean("monht", ["month", "week"]), did_you_mean("fortnight", ["month", "week"])
    (" Did you mean 'month'?", '')
    """
    near = difflib.get_close_matches(str(word), [str(each) for each in known], n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def warn(message: str, category: type[TallyfoldWarning]) -> None:
    """Warn at the line outside of this library that called it, however far up that is."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
