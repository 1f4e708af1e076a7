"""The options that verbs share, and how their text becomes arguments of the library."""

import csv
import functools
import inspect
from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tallyfold.cli.files import files_of
from tallyfold.errors import ParameterError

if TYPE_CHECKING:
    from tallyfold.data.groups import CellGroups
    from tallyfold.data.store import Store
    from tallyfold.data.tensor import CountTensor

Verb = Callable[..., None]


def option(metavar: str | None, words: str, *names: str, **more: Any) -> Any:
    """Describe an option: what stands for its value in the help, and its help."""
    return typer.Option(*names, metavar=metavar, help=words, **more)


def argument(metavar: str, words: str) -> Any:
    """Describe an argument: what stands for it in the help, and its help."""
    return typer.Argument(metavar=metavar, help=words)


FILES = "One file, several, a quoted glob, or - for CSV; none with --query."
Files = Annotated[list[str], argument("FILE", FILES)]
AsJson = Annotated[bool, option(None, "Write one JSON object, for a program to read.", "--json")]
COPIES = (
    "Hold out cells together that are near copies along this axis, such as the same word in the "
    "texts of two co-authors."
)
Copies = Annotated[str | None, option("AXIS", COPIES)]
METRICS = "Which scores, if not the usual ones."
Metrics = Annotated[str | None, option("A,B,...|all", METRICS)]

_data = functools.partial(option, rich_help_panel="Data")
Axes = Annotated[str | None, _data("A,B,...", "Columns that become axes, in this order.")]
VALUE = "Column that holds the counts. Without it, rows are counted."
Value = Annotated[str | None, _data("COLUMN", VALUE)]
COUNT_ROWS = "Count rows even if there is a column called 'count'."
CountRows = Annotated[bool, _data(None, COUNT_ROWS, "--count-rows")]
BIN = (
    "Cut times into year, quarter, month, week, day, hour, weekday, hour-of-day or month-of-year; "
    "into several, time=day,weekday, as axes time-day and time-weekday. Repeatable."
)
Bins = Annotated[list[str] | None, _data("AXIS=UNIT,...", BIN, "--bin")]
TZ = "The zone in which --bin cuts times, such as Europe/Berlin; UTC if left out."
Tz = Annotated[str | None, _data("ZONE", TZ, "--tz")]
ORDERED = "Axes of numbers, dates or sorted texts whose labels have an order, such as years."
OrderedAxes = Annotated[str | None, _data("A,B,...", ORDERED, "--ordered")]
MIN_NONZEROS = "Keep labels with at least N cells, until that holds for all. Repeatable."
MinNonzeros = Annotated[list[str] | None, _data("AXIS=N", MIN_NONZEROS)]
TOP = "Keep the N labels with the most counts. Repeatable."
Top = Annotated[list[str] | None, _data("AXIS=N", TOP)]
REPEATED = (
    "What the rows of one cell become: their sum (the default), their mean (rounded), the last, "
    "the largest; or stop."
)
Repeated = Annotated[str | None, _data("sum|mean|last|max|error", REPEATED)]
MISSING = (
    "Rows that lack a label or a count: stop (the default), leave them out, or give those without "
    "a label one of their own, (missing)."
)
Missing = Annotated[str | None, _data("error|drop|label", MISSING)]
BAD = "Rows with a time or a count that is none: stop (the default), or leave them out."
Bad = Annotated[str | None, _data("error|drop", BAD)]
QUERY = "Read what a database answers to this query, in the place of files."
Query = Annotated[str | None, _data("SQL", QUERY)]
DATABASE = (
    "The database that --query asks: postgresql://..., sqlite:///..., duckdb:///... or its file; "
    ":memory: for a query of files, such as select * from 'x.csv'."
)
Database = Annotated[str | None, _data("URI", DATABASE)]
DELIMITER = r"What separates the columns of a CSV file, if not a comma; \t is a tab."
Delimiter = Annotated[
    str | None, _data("SIGN", DELIMITER, callback=lambda sign: "\t" if sign == r"\t" else sign)
]

READING = {
    "axes": Axes,
    "value": Value,
    "count_rows": CountRows,
    "bins": Bins,
    "tz": Tz,
    "ordered": OrderedAxes,
    "repeated": Repeated,
    "missing": Missing,
    "bad": Bad,
    "min_nonzeros": MinNonzeros,
    "top": Top,
    "delimiter": Delimiter,
    "query": Query,
    "database": Database,
}
"""The options that say how to read a table of events."""
READING_FOR_MODEL = tuple(
    name for name in READING if name not in ("axes", "ordered", "min_nonzeros", "top")
)
"""Those for counts, from files or by a query, whose axes are a model's."""


class Reading:
    """How to read counts: the options that were given, as keywords of `tallyfold.read_counts`."""

    def __init__(
        self,
        value: str | None,
        count_rows: bool,
        bins: list[str] | None,
        repeated: str | None,
        missing: str | None,
        bad: str | None,
        delimiter: str | None,
        tz: str | None = None,
        ordered: str | None = None,
        axes: str | None = None,
        min_nonzeros: list[str] | None = None,
        top: list[str] | None = None,
        query: str | None = None,
        database: str | None = None,
    ) -> None:
        check_query(query, database, delimiter)
        self.query, self.database = query, database
        if count_rows and value is not None:
            raise ParameterError("--value and --count-rows exclude each other.")
        keywords: dict[str, Any] = {
            "axes": None if axes is None else names(axes),
            "value": value,
            "bins": bins_of(bins),
            "tz": tz,
            "ordered": None if ordered is None else names(ordered),
            "repeated": repeated,
            "missing": missing,
            "bad": bad,
            "min_nonzeros": numbers("--min-nonzeros", min_nonzeros),
            "top": numbers("--top", top),
            "delimiter": delimiter,
        }
        self.keywords = {name: one for name, one in keywords.items() if one is not None}
        if count_rows:
            self.keywords["value"] = None

    def of_files(self) -> "Reading":
        """Return how to read files beside what is read by a query."""
        copied = copy(self)
        copied.query = copied.database = None
        copied.keywords = dict(self.keywords)
        return copied

    def counts(self, files: Sequence[str]) -> "CountTensor":
        """Read counts from one file, several, standard input, or by a query."""
        from tallyfold.data.formats import read_counts

        if self.query is not None:
            return self._asked(files)
        check_source(files, None, None, None)
        with files_of(files) as paths:
            return read_counts(paths[0] if len(paths) == 1 else paths, **self.keywords)

    def store(self, files: Sequence[str]) -> "Store | None":
        """Open what is read if it is a store that is taken as it is; None if it is not."""
        from tallyfold.data.store import open_store
        from tallyfold.data.store.manifest import is_store

        if self.query is not None or len(files) != 1 or not is_store(files[0]):
            return None
        store = open_store(files[0])
        return store if self.keywords in ({}, {"axes": list(store.names)}) else None

    def _asked(self, files: Sequence[str]) -> "CountTensor":
        from tallyfold.data.query import read_query

        check_source(files, self.query, self.database, None)
        if "axes" not in self.keywords:
            raise ParameterError("--query needs --axes: which columns of the answer are the axes.")
        return read_query(self.database, self.query or "", **self.keywords)


def check_query(query: str | None, database: str | None, delimiter: str | None) -> None:
    """Refuse options of a query that do not go together."""
    if (query is None) != (database is None):
        raise ParameterError(
            "--query SQL and --database URI go together: what to ask, and which database."
        )
    if query is not None and delimiter is not None:
        raise ParameterError("--delimiter is for files; --query has none. Leave it out.")


def check_source(
    files: Sequence[str], query: str | None, database: str | None, delimiter: str | None
) -> None:
    """Refuse to read nothing, and both files and a query."""
    check_query(query, database, delimiter)
    if query is not None and files:
        raise ParameterError(f"--query takes the place of files; got {files[0]!r}, too.")
    if query is None and not files:
        raise ParameterError(
            "there is nothing to read: name a file, - for standard input, or say --query and "
            "--database."
        )


def with_reading(*names: str) -> Callable[[Verb], Verb]:
    """Give a verb these options of ``READING`` in place of its parameter `reading`."""
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [
        inspect.Parameter(
            name, kind, default=False if name == "count_rows" else None, annotation=READING[name]
        )
        for name in names
    ]

    def decorated(verb: Verb) -> Verb:
        given = [
            each.replace(default=None) if each.name == "files" else each
            for each in inspect.signature(verb).parameters.values()
        ]
        shown = [new for each in given for new in (own if each.name == "reading" else [each])]

        @functools.wraps(verb)
        def run(**arguments: Any) -> None:
            found = {name: arguments.pop(name) for name in names}
            if "files" in arguments:
                arguments["files"] = arguments["files"] or []
            verb(reading=Reading(**found), **arguments)

        signature = inspect.Signature([each.replace(kind=kind) for each in shown])
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in shown}
        return run

    return decorated


def names(text: str | None) -> list[str]:
    """Split ``author,word`` at its commas; a name that has a comma goes in double quotes.

    Examples
    --------
    >>> names('author, "last, first", year')
    ['author', 'last, first', 'year']
    """
    return [name.strip() for name in next(csv.reader([text or ""], skipinitialspace=True), [])]


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


def bins_of(texts: list[str] | None) -> dict[str, Any] | None:
    """Read ``axis=unit,unit`` texts into a dict; whether there are such units is seen later.

    Examples
    --------
    >>> bins_of(["date=month", "time=day,weekday"])
    {'date': 'month', 'time': ['day', 'weekday']}
    """
    found = pairs("--bin", texts)
    if found is None:
        return None
    return {axis: names(units) if "," in units else units for axis, units in found.items()}


def choices(option: str, texts: list[str] | None) -> str | dict[str, str] | None:
    """Read texts that are one choice for all axes, or ``axis=choice`` for some.

    Examples
    --------
    >>> choices("--unknown", ["prior"]), choices("--unknown", ["user=skip", "month=prior"])
    ('prior', {'user': 'skip', 'month': 'prior'})
    """
    if texts and any("=" not in text for text in texts):
        if len(texts) > 1:
            raise ParameterError(
                f"{option} is one choice for all axes, or AXIS=CHOICE for some of them; got "
                f"{', '.join(texts)}."
            )
        return texts[0]
    return pairs(option, texts)


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


def groups_of(tensor: "CountTensor", copies: str | None) -> "CellGroups | None":
    """Return the groups of cells that --copies keeps together."""
    from tallyfold.data.near_copies import groups_along

    return groups_along(tensor, copies)


def check_share(option: str, share: float | None) -> None:
    """Refuse a share of the cells that is none of them or all."""
    if share is not None and not 0 < share < 1:
        raise ParameterError(f"{option} must be a share between 0 and 1; got {share:g}.")
