"""What a line of a raw file says: objects in JSON or as Python writes them, and rows of CSV."""

from __future__ import annotations

import ast
import csv
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tallyfold.data.axis import listing, repr_label
from tallyfold.errors import FormatError
from tallyfold.paper.datasets.reader import LONE_SURROGATE, Place, Reader, Unfit

Record = TypeVar("Record")
LONGEST_FIELD = 1 << 24


def object_of(line: str, needed: Sequence[str]) -> dict[str, Any]:
    """Read one object and see that it has the keys that are needed.

    Older files have Python's dicts in place of JSON: they are read as literals, never run.
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = _literal(line)
    if not isinstance(found, dict):
        raise Unfit(f"is not an object in JSON, nor a Python dict; got {repr_label(line.strip())}.")
    missing = [key for key in needed if key not in found]
    if missing:
        raise Unfit(
            f"has no {listing(missing)}; it has {listing([str(key) for key in found], 20)}. If all "
            "lines are so, this is another file than the one wanted."
        )
    return found


def checked_label(label: Any, key: str) -> str:
    """Refuse what cannot be a label: no text, an empty one, or one that is not Unicode."""
    if not isinstance(label, str) or not label.strip():
        raise Unfit(f"must have a text as {key!r}; got {repr_label(label)}.")
    if LONE_SURROGATE.search(label):  # JSON may hold half a character, which no file can
        raise Unfit(f"must have valid Unicode as {key!r}; got {label!r}.")
    return sys.intern(label)  # most labels come again, and are kept until all is read


def text_of(record: dict[str, Any], key: str) -> str:
    """Return the text at a key; nothing there is an empty text."""
    text = record.get(key)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Unfit(f"must have a text as {key!r}; got {repr_label(text)}.")
    return text.strip()


def whole_number(value: Any, key: str, least: int, most: int) -> int:
    """Return a whole number within bounds, given as a number or as its text."""
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    if not (least <= number <= most and number == int(number)):
        raise Unfit(
            f"must have a whole number from {least} to {most} as {key!r}; got {repr_label(value)}."
        )
    return int(number)


def csv_records(
    reader: Reader,
    file: Path,
    columns: Sequence[str],
    parse: Callable[[list[str]], Record],
    *,
    header: bool = True,
) -> Iterator[Record]:
    """Parse the wanted columns of each row.

    Fields in quotes may run over many lines. Without a header the file must have just these
    columns, in this order.
    """
    rows = _raw_rows(reader, file)
    names = next(rows, (Place(file, 1), []))[1] if header else list(columns)
    missing = [name for name in columns if name not in names]
    if missing:
        held = f"it has {listing(list(names), 20)}" if names else "it is empty"
        raise FormatError(f"{str(file)!r} has no column {listing(missing)}; {held}.")
    wanted = [names.index(name) for name in columns]
    return reader.parsed(rows, lambda row: parse(_fields(reader, row, wanted, len(names))))


def _raw_rows(reader: Reader, file: Path) -> Iterator[tuple[Place, list[str]]]:
    rows = csv.reader(reader.raw_lines(file), strict=True)
    while True:
        place = Place(file, rows.line_num + 1)
        # Whole papers stand in a field. The limit is the process's, so it is raised for one row
        # and never while this generator waits: one that is left before its end is not closed at
        # once, nor are two that are read in turns closed in order.
        limit = csv.field_size_limit(LONGEST_FIELD)
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            reader.refuse(place, f"begins a row that is not CSV: {error}.")
            continue
        finally:
            csv.field_size_limit(limit)
        if row:
            yield place, row


def _fields(reader: Reader, row: list[str], wanted: Sequence[int], width: int) -> list[str]:
    if len(row) != width:
        raise Unfit(f"begins a row of {len(row):,} fields; wanted are {width:,}.")
    fields = [row[position] for position in wanted]
    for field in fields:
        if why := reader.not_decoded(field):
            raise Unfit(why)
    return fields


def _literal(line: str) -> Any:
    """Read a line as a Python literal; None if it is none."""
    if not line.lstrip().startswith("{"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes such as "\d" in somebody's review
            return ast.literal_eval(line.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
