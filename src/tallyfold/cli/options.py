"""The options that verbs share, and how their text becomes arguments of the library."""

import csv
from typing import Annotated, Any

import typer

from tallyfold.errors import ParameterError

Axes = Annotated[
    str | None,
    typer.Option(
        "--axes",
        metavar="A,B,...",
        help="Columns that become axes, in this order.",
        rich_help_panel="Data",
    ),
]
Value = Annotated[
    str | None,
    typer.Option(
        "--value",
        metavar="COLUMN",
        help="Column that holds the counts. Without it, rows are counted.",
        rich_help_panel="Data",
    ),
]
CountRows = Annotated[
    bool,
    typer.Option(
        "--count-rows",
        help="Count rows even if there is a column called 'count'.",
        rich_help_panel="Data",
    ),
]
Bins = Annotated[
    list[str] | None,
    typer.Option(
        "--bin",
        metavar="AXIS=UNIT",
        help="Round a time axis to year, quarter, month, week, day or hour. Repeatable.",
        rich_help_panel="Data",
    ),
]
MinNonzeros = Annotated[
    list[str] | None,
    typer.Option(
        "--min-nonzeros",
        metavar="AXIS=N",
        help="Keep labels with at least N cells, until that holds for all. Repeatable.",
        rich_help_panel="Data",
    ),
]
Top = Annotated[
    list[str] | None,
    typer.Option(
        "--top",
        metavar="AXIS=N",
        help="Keep the N labels with the most counts. Repeatable.",
        rich_help_panel="Data",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="SIGN",
        help="What separates the columns of a CSV file, if not a comma.",
        rich_help_panel="Data",
    ),
]


def names(text: str | None) -> list[str] | None:
    """Split ``author,word`` at its commas; a name that has a comma goes in double quotes.

    Examples
    --------
    >>> names('author, "last, first", year')
    ['author', 'last, first', 'year']
    """
    if text is None:
        return None
    return [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]


def pairs(option: str, texts: list[str] | None) -> dict[str, str] | None:
    """Read ``axis=value`` texts, given as `option`, into a dict.

    Examples
    --------
    >>> pairs("--bin", ["date=month"])
    {'date': 'month'}
    """
    if not texts:
        return None
    parts = {text: text.rpartition("=") for text in texts}
    for text, (axis, _, value) in parts.items():
        if not axis or not value:
            raise ParameterError(f"{option} wants AXIS=VALUE; got {text!r}.")
    found = {axis: value for axis, _, value in parts.values()}
    if len(found) < len(texts):
        raise ParameterError(f"{option} is given twice for one axis: {', '.join(texts)}.")
    return found


def numbers(option: str, texts: list[str] | None) -> dict[str, int] | None:
    """Read ``axis=number`` texts, given as `option`, into a dict.

    Examples
    --------
    >>> numbers("--top", ["word=5000"])
    {'word': 5000}
    """
    found = pairs(option, texts)
    if found is None:
        return None
    for axis, value in found.items():
        if not value.isdecimal() or len(value) > 18:
            raise ParameterError(
                f"{option} wants AXIS=N with a whole number; got '{axis}={value}'."
            )
    return {axis: int(value) for axis, value in found.items()}


def reading(
    axes: str | None,
    value: str | None,
    count_rows: bool,
    bins: list[str] | None,
    min_nonzeros: list[str] | None,
    top: list[str] | None,
    delimiter: str | None = None,
) -> dict[str, Any]:
    """Turn the shared options into keywords of `tallyfold.read_counts`: those that were given."""
    if count_rows and value is not None:
        raise ParameterError("--value and --count-rows exclude each other.")
    keywords = {
        "axes": names(axes),
        "value": value,
        "bins": pairs("--bin", bins),
        "min_nonzeros": numbers("--min-nonzeros", min_nonzeros),
        "top": numbers("--top", top),
        "delimiter": delimiter,
    }
    given = {name: choice for name, choice in keywords.items() if choice is not None}
    return {**given, "value": None} if count_rows else given
