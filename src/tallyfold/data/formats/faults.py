"""What can be wrong with the rows of a table, found while grouping, explained afterwards."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tallyfold.data.axis import listing
from tallyfold.data.bins import BINNED_REMEDY, BINNED_WANTED, NO_TIME_REMEDY, TIME_WANTED
from tallyfold.data.cells import (
    COUNT_REMEDY,
    DROP_BAD,
    FRACTION_REMEDY,
    HALVES_REMEDY,
    LARGE_REMEDY,
    MAX_COUNT,
    NEGATIVE_REMEDY,
)
from tallyfold.data.formats.cutting import add_cut, cut_of, other_unit_of
from tallyfold.data.formats.sql import INTEGERS, Source
from tallyfold.data.missing import OTHER_WAYS
from tallyfold.data.problems import SHOWN, Problems
from tallyfold.data.request import Request
from tallyfold.data.time_units import CYCLES, UNITS
from tallyfold.errors import CountError, DataError, LabelError

if TYPE_CHECKING:
    from tallyfold.data.formats.table import TableFormat

DURATION = "DURATION"
"""A type that Arrow has, and DuckDB takes for integers."""
FLOATS = {"FLOAT", "DOUBLE"}


class Fault(NamedTuple):
    """A condition no row may meet, and what to say if one does."""

    column: str
    condition: str
    error: type[DataError]
    what: str
    remedy: str
    bad: bool = True
    """Whether rows that have it may be left out as bad ones, not as missing ones."""


def row_faults(source: Source, request: Request, is_text: bool) -> list[Fault]:
    """List what no row of this table may be; of a column, a row has the first that applies."""
    faults = []
    for axis in request.axes:
        name = request.column_of(axis)
        if source.types[name] == DURATION:
            raise LabelError(
                f"labels of axis {name!r} must be text, numbers, booleans, dates or times; the "
                "table has durations there. Write them in whole units, as integers."
            )
        missing = missing_of(source, name)
        if request.missing == "error":
            what = f"labels of axis {name!r} must not be missing"
            faults.append(Fault(name, missing, LabelError, what, OTHER_WAYS, bad=False))
        if axis in request.bins:
            faults += _no_bins(source, request, axis, missing)
    value = request.count_column
    if value is None:
        return faults
    kind = source.types[value]
    if not is_text and not (kind in INTEGERS | FLOATS or kind.startswith("DECIMAL")):
        raise CountError(
            f"{value!r} must be numbers; the table has {kind} there. Name the column that "
            "holds the counts, or use value=None to count rows."
        )
    return faults + _bad_counts(source, value)


def _no_bins(source: Source, request: Request, axis: str, missing: str) -> list[Fault]:
    """List what a time to be cut may not be: a label of bins of another unit, or no time at all."""
    name, own = request.column_of(axis), request.bins[axis].unit or ""
    no_time = f"NOT ({missing}) AND {cut_of(source, request, axis)} IS NULL"
    faults, no_label = [], no_time
    for unit in [*UNITS, *CYCLES]:
        if unit in ("day", "hour"):  # whose labels are times
            continue
        if unit != own and (condition := other_unit_of(source, request, axis, unit)) != "false":
            what = BINNED_WANTED.format(name, own) + f", not labels of bins by {unit}"
            other, remedy = f"{no_time} AND {condition}", BINNED_REMEDY.format(own)
            faults.append(Fault(name, other, LabelError, what, remedy, bad=False))
            no_label += f" AND NOT ({condition})"
    return [*faults, Fault(name, no_label, LabelError, TIME_WANTED.format(name), NO_TIME_REMEDY)]


def lacking_of(source: Source, request: Request) -> str:
    """Write the condition that a row is left out, since it lacks a label or a count."""
    if request.missing != "drop":
        return "false"
    return " OR ".join(f"({missing_of(source, name)})" for name in request.columns)


def bad_of(source: Source, faults: Sequence[Fault]) -> dict[str, str]:
    """Write, for each column that can be bad, the condition that a row is bad there."""
    conditions: dict[str, str] = {}
    for fault in faults:
        if fault.bad:
            start = conditions.get(fault.column, "false")
            conditions[fault.column] = f"{start} OR coalesce({fault.condition}, false)"
    return {
        column: f"(NOT ({missing_of(source, column)}) AND ({condition}))"
        for column, condition in conditions.items()
    }


def find_faults(
    connection: Any, form: TableFormat, files: Sequence[str], request: Request
) -> DataError:
    """Look through the files again, one by one, for all faults and the first rows that have them.

    A fault of several files is shown in the first.
    """
    found: dict[Fault, list[Found]] = {}
    for file in files:
        source = form.source(connection, [file], request.columns)
        missing = [name for name in request.columns if name not in source.types]
        if missing:
            return LabelError(
                f"{file!r} has no column {listing(missing)}; it has "
                f"{listing(list(source.types), 20)}."
            )
        for axis in request.bins:
            add_cut(connection, source, request, axis)
        before: dict[str, list[str]] = {}
        faults, left_out = row_faults(source, request, form.is_text), [lacking_of(source, request)]
        if request.bad == "drop":
            left_out += bad_of(source, faults).values()
            faults = [fault for fault in faults if not fault.bad]
        asked: list[Fault] = []
        for fault in _some_row_has(connection, source, faults):
            earlier = before.setdefault(fault.column, list(left_out))
            fresh = " AND ".join(f"NOT coalesce({one}, true)" for one in earlier)
            asked.append(
                fault._replace(condition=f"({fresh} AND coalesce({fault.condition}, true))")
            )
            earlier.append(fault.condition)
        for fault, rows in zip(asked, _found(connection, form, file, source, asked), strict=True):
            if rows.number:
                found.setdefault(fault._replace(condition=""), []).append(rows)
    problems = Problems()
    for fault, places in found.items():
        with problems.gathered():
            raise _described(fault, places)
    problems.raise_all()
    return DataError("the table changed while it was read; try again.")


def _some_row_has(connection: Any, source: Source, faults: Sequence[Fault]) -> list[Fault]:
    """Return the faults that some row has, found in one pass: most look for what is not there."""
    if not faults:
        return []
    any_of = ", ".join(f"bool_or(coalesce({fault.condition}, true))" for fault in faults)
    found = connection.execute(f"SELECT {any_of} FROM {source.sql}").fetchall()[0]
    return [fault for fault, there in zip(faults, found, strict=True) if there]


def missing_of(source: Source, name: str) -> str:
    """Write the condition that a column holds nothing, or NaN."""
    column, kind = source.columns[name], source.types[name]
    return f"{column} IS NULL" + (f" OR isnan({column})" if kind in FLOATS else "")


def number_of(source: Source, name: str) -> str:
    """Write a column as a number: as it is, or NULL where a text is none."""
    column, kind = source.columns[name], source.types[name]
    return f"TRY_CAST({column} AS DOUBLE)" if kind == "VARCHAR" else column


class Found(NamedTuple):
    """Rows of one file that have a fault: how many, and where the first are."""

    file: str
    number: int
    listed: str
    halves: bool
    """Whether all are whole numbers and a half."""


def _found(
    connection: Any, form: TableFormat, file: str, source: Source, faults: Sequence[Fault]
) -> list[Found]:
    """Count the rows of each fault, in one pass, and name the first."""
    if not faults:
        return []
    inner, outer = ["row_number() OVER () AS place"], []
    for n, fault in enumerate(faults):
        inner += [
            f"{fault.condition} AS bad{n}",
            f"CAST({source.columns[fault.column]} AS VARCHAR) AS shown{n}",
        ]
        half = f"bool_and(coalesce(abs(TRY_CAST(shown{n} AS DOUBLE) % 1) = 0.5, false))"
        first = f"min_by({{'place': place, 'shown': shown{n}}}, place, {SHOWN})"
        outer += [f"{what} FILTER (WHERE bad{n})" for what in ("count(*)", half, first)]
    query = f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)} FROM {source.sql})"
    values = connection.execute(query).fetchone()
    numbers, halves, firsts = values[::3], values[1::3], [each or [] for each in values[2::3]]
    rows = sorted({row["place"] for first in firsts for row in first})
    named = [f"row {row}" for row in rows]
    with contextlib.suppress(OSError, EOFError, ValueError, csv.Error):
        # a file too damaged to be read again: DuckDB forgives a checksum or a quote
        named = form.places(file, rows)
    at = dict(zip(rows, named, strict=True))
    listed = [
        ", ".join(f"{at[row['place']]}: {_short(row['shown'])}" for row in first)
        + (f" and {number - SHOWN:,} more" if number > SHOWN else "")
        for number, first in zip(numbers, firsts, strict=True)
    ]
    return [Found(file, *each) for each in zip(numbers, listed, map(bool, halves), strict=True)]


def _described(fault: Fault, found: Sequence[Found]) -> DataError:
    first, *others = found
    more = ""
    if others:
        number, files = sum(each.number for each in others), len(others)
        more = f"; {files:,} other file{'s have' if files > 1 else ' has'} {number:,} such "
        more += "row" if number == 1 else "rows"
    rows = "row that does" if first.number == 1 else "rows that do"
    remedy = fault.remedy
    if remedy.startswith(FRACTION_REMEDY) and all(each.halves for each in found):
        remedy = HALVES_REMEDY + DROP_BAD
    return fault.error(
        f"{fault.what}; {first.file!r} has {first.number:,} {rows} not comply, "
        f"{first.listed}{more}. {remedy}"
    )


def _short(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 60 else text[:57] + "..."


def _fraction(source: Source, value: str) -> str:
    """Write the condition that a number is not whole.

    In a text also one too small for floating point is seen: the last digit after the point that is
    not 0 must be moved before it by the exponent.
    """
    number, column = number_of(source, value), source.columns[value]
    condition = f"{number} <> floor({number})"
    if source.types[value] != "VARCHAR":
        return condition
    digits = f"length(rtrim(regexp_extract({column}, '\\.([0-9]+)', 1), '0'))"
    exponent = f"TRY_CAST(regexp_extract({column}, '[eE]([+-]?[0-9]+)', 1) AS INTEGER)"
    return f"{condition} OR ({digits} > 0 AND {digits} > coalesce({exponent}, 0))"


def _bad_counts(source: Source, value: str) -> list[Fault]:
    number, kind = number_of(source, value), source.types[value]
    what = f"{value!r} must be whole numbers from 0 to 2**53 - 1"
    no_number = f"{number} IS NULL"
    if kind in FLOATS or kind == "VARCHAR":
        no_number += f" OR NOT isfinite({number})"
    rules = [(no_number, "Write plain numbers, such as 1200, or mend those rows.")]
    if kind not in INTEGERS:
        rules.append((_fraction(source, value), FRACTION_REMEDY))
    rules += [(f"{number} < 0", NEGATIVE_REMEDY), (f"{number} > {MAX_COUNT}", LARGE_REMEDY)]
    missing = Fault(value, missing_of(source, value), CountError, what, COUNT_REMEDY, bad=False)
    return [missing, *(Fault(value, rule, CountError, what, r + DROP_BAD) for rule, r in rules)]
