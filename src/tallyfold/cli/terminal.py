"""How things look on a terminal: one console, safe text, plain tables."""

import textwrap
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

HEAD_WIDTH = 12
"""Heads of numbers up to this width stay on one line."""


def console() -> Console:
    """Return a console for standard output: 80 columns and no colour when piped."""
    return Console(highlight=False)


def printable(label: object) -> str:
    r"""Return a label as one line of visible text: control characters are spelt out.

    Examples
    --------
    >>> printable("two\nlines")
    'two\\nlines'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(label)
    )


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table with a rule under its head; long text is cut, never wrapped.

    A column whose name ends in ``>`` holds numbers, set to the right; they keep their width, and
    their head is broken into lines of about that width. Cells are shown as they are: nothing in
    them is read as markup.
    """
    grid = Table(
        title=Text(title, "bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for name, *cells in zip(columns, *rows, strict=True):
        numbers = name.endswith(">")
        head = _narrow(name[:-1], cells) if numbers else name
        grid.add_column(
            Text(head),
            justify="right" if numbers else "left",
            min_width=max(map(cell_len, [*head.split("\n"), *cells])) if numbers else None,
            overflow="ellipsis",
            no_wrap=True,
        )
    for row in rows:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def _narrow(head: str, cells: Sequence[str]) -> str:
    """Break a head into lines that are not much wider than the cells."""
    width = max([HEAD_WIDTH, *map(cell_len, cells)])
    return "\n".join(textwrap.wrap(head, width, break_long_words=False) or [""])


def size(number_of_bytes: int) -> str:
    """Return a number of bytes for people.

    Examples
    --------
    >>> size(1_234_567)
    '1.2 MB'
    """
    value = float(number_of_bytes)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
