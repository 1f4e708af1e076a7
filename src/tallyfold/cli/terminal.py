"""What verbs print: lines, plain tables and frames for people, JSON for programs."""

import io
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tallyfold.errors import printable

if TYPE_CHECKING:
    import pandas as pd

    from tallyfold.data.store import Store
    from tallyfold.data.tensor import CountTensor

HEAD_WIDTH = 12
"""Heads of numbers up to this width stay on one line."""
LEAST_WIDTH = 10
"""Columns of text are not made narrower than this: a date keeps its day."""
UNREAD = 141
"""The exit code after the reader of a pipe is gone, as that of other commands (SIGPIPE)."""
GAP = 3
"""Characters between two columns."""
NOTHING = "–"
"""Shown instead of a missing number."""


class _Screen(Console):
    """A console that spells out what a terminal would take for commands."""

    def print(self, *objects: Any, **how: Any) -> None:
        """Print texts and tables."""
        shown = [printable(o, keep="\n") if isinstance(o, str) else o for o in objects]
        super().print(*shown, **how)


def console(stderr: bool = False) -> Console:
    """Return a console for standard output: 80 columns and no colour when piped."""
    return _Screen(highlight=False, stderr=stderr)


class _Pipe(io.FileIO):
    """Standard output that ends the command when nobody reads it any more.

    Click and rich each have an exit code of their own for that; neither sees it here.
    """

    def write(self, data: Any) -> int:
        """Write bytes."""
        try:
            return super().write(data) or 0
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # what is still to be flushed goes there
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):
                raise SystemExit(UNREAD) from None
            raise


def end_quietly_with_the_reader() -> None:
    """Let every verb end alike, with exit code 141, when a pipe's reader is gone (``| head``)."""
    given: Any = sys.stdout
    buffer = getattr(given, "buffer", None)
    if isinstance(getattr(buffer, "raw", buffer), io.FileIO):  # a real one; no raw: unbuffered
        stream = io.BufferedWriter(_Pipe(given.fileno(), "w", closefd=False))
        sys.stdout = io.TextIOWrapper(
            stream,
            given.encoding,
            given.errors,
            line_buffering=given.line_buffering or given.write_through,
        )


def say(line: str, out: Console | None = None) -> None:
    """Print a line as it is: no markup is read in it, and it is not broken."""
    (out or console()).print(line, markup=False, soft_wrap=True)


def show_lines(text: str) -> None:
    """Print lines; on a terminal those that are too long are broken, and set in."""
    out = console()
    for line in text.splitlines():
        broken = textwrap.wrap(line, out.width, subsequent_indent="    ") if out.is_terminal else []
        say("\n".join(broken or [line]), out)


def say_aside(line: str, keep: str = "") -> None:
    """Print a line on standard error, after the command's name; `keep` as in `printable`."""
    typer.echo(f"tallyfold: {printable(line, keep)}", err=True)


def say_dropped(tensor: "CountTensor | Store", *, aside: bool = False) -> None:
    """Print what was left out when a tensor was read; or say it `aside`, beside an answer."""
    for record in tensor.dropped:
        line = f"left out: {printable(record)}"
        if aside:
            say_aside(line)
        else:
            say(line)


def show_table(
    out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table with a rule under its head; its title stands above and may be wider.

    A column whose name ends in ``>`` holds numbers, set to the right: they are never cut, and their
    head is broken into lines of about their width. Text is shortened, the widest column first, to
    fit the console; where that does not help, the table is as wide as it has to be. Cells are shown
    as they are: nothing in them is read as markup.
    """
    if title:
        out.print(Text(printable(title, keep="\n"), "bold"))
    rows = [[printable(cell) for cell in row] for row in rows]
    columns = [printable(name) for name in columns]
    columns = [_narrow(name, cells) for name, *cells in zip(columns, *rows, strict=True)]
    widths = _widths(columns, rows, out.width)
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, width=_total_width(widths))
    for name, width in zip(columns, widths, strict=True):
        grid.add_column(
            Text(name.removesuffix(">")),
            justify="right" if name.endswith(">") else "left",
            width=width,
            overflow="ellipsis",
            no_wrap=True,
        )
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    out.print(grid, crop=False)


def _narrow(name: str, cells: Sequence[str]) -> str:
    """Break the head of a column of numbers into lines that are not much wider than they are."""
    if not name.endswith(">"):
        return name
    width = max([HEAD_WIDTH, *map(cell_len, cells)])
    return "\n".join(textwrap.wrap(name[:-1], width, break_long_words=False) or [""]) + ">"


def is_too_wide(out: Console, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether a table is wider than the console, if nothing is shortened."""
    return _total_width(_wanted(columns, rows)) > out.width


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return the columns' widths: those of text give way until the table fits, if it can."""
    wanted = _wanted(columns, rows)
    widths = list(wanted)
    while _total_width(widths) > available:  # a character at a time: there are few columns
        text = [n for n, name in enumerate(columns) if not name.endswith(">")]
        widest = max(text, key=lambda n: widths[n], default=None)
        if widest is None or widths[widest] <= LEAST_WIDTH:
            return wanted
        widths[widest] -= 1
    return widths


def _wanted(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [
        max(map(cell_len, [*name.removesuffix(">").split("\n"), *cells]))
        for name, *cells in zip(columns, *rows, strict=True)
    ]


def show_frame(
    title: str, frame: "pd.DataFrame", formats: Mapping[str, str], spare: Sequence[str] = ()
) -> None:
    """Print a frame as a table: columns with a format are numbers, the others are labels.

    Columns in `spare` are dropped if the table would be too wide with them.
    """
    out, (heads, rows) = console(), _cells(frame, formats)
    if spare and is_too_wide(out, heads, rows):
        heads, rows = _cells(frame.drop(columns=list(spare)), formats)
    show_table(out, title, heads, rows)


def _cells(frame: "pd.DataFrame", formats: Mapping[str, str]) -> tuple[list[str], list[list[str]]]:
    heads = [f"{name}>" if name in formats else printable(name) for name in frame.columns]
    rows = [
        [_cell(value, formats.get(name)) for name, value in zip(frame.columns, row, strict=True)]
        for row in frame.itertuples(index=False, name=None)
    ]
    return heads, rows


def _cell(value: Any, form: str | None) -> str:
    value = _plain(value)
    if value is None:
        return "" if form is None else NOTHING
    return printable(value) if form is None else format(value, form)


def print_json(document: Any) -> None:
    """Print a document as JSON that every program reads: no NaN, dates in ISO form.

    Characters that are not seen, such as those of terminals and of writing direction, are escaped.
    Frames become lists of their rows.
    """
    text = json.dumps(_plain(document), ensure_ascii=False, indent=2, allow_nan=False)
    typer.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def _plain(value: Any) -> Any:
    """Return what JSON can hold: NaN becomes null, dates text, NumPy's numbers Python's."""
    if hasattr(value, "to_dict"):
        value = value.to_dict("records")
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _total_width(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def number_of(count: int, noun: str) -> str:
    """Return a number of things.

    Examples
    --------
    >>> number_of(1, "row"), number_of(2000, "row")
    ('1 row', '2,000 rows')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def number(value: float | None) -> str:
    """Return a number for a table, with four digits; a dash for a missing one."""
    return NOTHING if value is None or value != value else f"{value:.4f}"
