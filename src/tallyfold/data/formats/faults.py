"""What can be wrong with the rows of a table, found while grouping, explained afterwards."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tallyfold.data.axis import listing
from tallyfold.data.counts import MAX_COUNT
from tallyfold.data.formats.sql import one_row
from tallyfold.errors import CountError, DataError, LabelError

if TYPE_CHECKING:
    from tallyfold.data.formats.table import Source, TableFormat

FLOATS = {"FLOAT", "DOUBLE"}
INTEGERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
    "UBIGINT", "UHUGEINT",
}  # fmt: skip


class Fault(NamedTuple):
    """A condition no row may meet, and what to say if one does."""

    column: str
    condition: str
    error: type[DataError]
    what: str
    remedy: str


def row_faults(
    source: Source,
    names: Sequence[str],
    value: str | None,
    units: Mapping[str, str],
    is_text: bool,
) -> list[Fault]:
    """List what no row of this table may be."""
    faults = []
    for name in names:
        faults.append(_missing_label(source, name))
        if name in units:
            faults.append(_not_a_time(source, name))
    if value is not None:
        kind = source.types[value]
        if not is_text and not (kind in INTEGERS | FLOATS or kind.startswith("DECIMAL")):
            raise CountError(
                f"{value!r} must be numbers; the table has {kind} there. Name the column that "
                "holds the counts, or use value=None to count rows."
            )
        faults.extend(_bad_counts(source, value))
    return faults


def find_fault(
    connection: Any,
    form: TableFormat,
    files: Sequence[str],
    names: Sequence[str],
    value: str | None,
    units: Mapping[str, str],
) -> DataError:
    """Look through the files again, one by one, for the first fault and the rows that have it."""
    wanted = [*names, *([value] if value else [])]
    for file in files:
        source = form.source(connection, [file], wanted)
        missing = [name for name in wanted if name not in source.types]
        if missing:
            return LabelError(
                f"{file!r} has no column {listing(missing)}; it has "
                f"{listing(list(source.types), 20)}."
            )
        for fault in row_faults(source, names, value, units, form.is_text):
            found = _described(connection, form, file, source, fault)
            if found is not None:
                return found
    return DataError("the table changed while it was read; try again.")


def number_of(source: Source, name: str) -> str:
    """Write a column as a number: as it is, or NULL where a text is none."""
    column, kind = source.columns[name], source.types[name]
    return f"TRY_CAST({column} AS DOUBLE)" if kind == "VARCHAR" else column


def time_of(source: Source, name: str) -> str:
    """Write a column as a time in UTC; NULL where it is none."""
    column, kind = source.columns[name], source.types[name]
    if kind == "VARCHAR":
        return f"(TRY_CAST({column} AS TIMESTAMPTZ) AT TIME ZONE 'UTC')"
    if "WITH TIME ZONE" in kind:
        return f"({column} AT TIME ZONE 'UTC')"
    if kind == "TIMESTAMP_NS":  # a cast would round times before 1970 up
        return f"make_timestamp(CAST(floor(epoch_ns({column})::HUGEINT / 1000) AS BIGINT))"
    return f"TRY_CAST({column} AS TIMESTAMP)"


def _described(
    connection: Any, form: TableFormat, file: str, source: Source, fault: Fault
) -> DataError | None:
    condition = f"coalesce({fault.condition}, true)"
    number = one_row(connection, f"SELECT count(*) FROM {source.sql} WHERE {condition}")[0]
    if not number:
        return None
    shown = f"CAST({source.columns[fault.column]} AS VARCHAR)"
    rows = connection.execute(
        f"SELECT place, shown FROM (SELECT {condition} AS bad, {shown} AS shown, row_number() OVER "
        f"() AS place FROM {source.sql}) WHERE bad ORDER BY place LIMIT 5"
    ).fetchall()
    places = _places(form, file, [row for row, _ in rows])
    listed = ", ".join(f"{p}: {_quoted(text)}" for p, (_, text) in zip(places, rows, strict=True))
    more = f" and {number - 5:,} more" if number > 5 else ""
    return fault.error(
        f"{fault.what}; {file!r} has {number:,} rows that do not comply, {listed}{more}. "
        f"{fault.remedy}"
    )


def _places(form: TableFormat, file: str, rows: list[int]) -> list[str]:
    """Name the lines of rows; their numbers, where the file is too damaged to be read again."""
    try:
        return form.places(file, rows)
    except (OSError, EOFError, ValueError, csv.Error):  # DuckDB forgives a checksum or a quote
        return [f"row {row}" for row in rows]


def _quoted(text: str | None) -> str:
    return "nothing" if text is None else text if len(text) <= 60 else text[:57] + "..."


def _missing_label(source: Source, name: str) -> Fault:
    condition = f"{source.columns[name]} IS NULL"
    if source.types[name] in FLOATS:
        condition += f" OR isnan({source.columns[name]})"
    return Fault(
        name,
        condition,
        LabelError,
        f"labels of axis {name!r} must not be missing",
        "Drop those rows or give them a label.",
    )


def _not_a_time(source: Source, name: str) -> Fault:
    time = time_of(source, name)
    return Fault(
        name,
        f"{time} IS NULL OR NOT isfinite({time})",
        LabelError,
        f"column {name!r} must hold dates or times to be binned, or text in ISO form such as "
        "2015-03-09 or 2015-03-09 14:30",
        "Turn it into dates first.",
    )


def _bad_counts(source: Source, value: str) -> list[Fault]:
    number, kind = number_of(source, value), source.types[value]
    what = f"{value!r} must be whole numbers from 0 to 2**53 - 1"
    missing = (
        "Drop those rows, or fill in their counts; write numbers without signs between digits."
    )
    rules = [(f"{number} IS NULL", missing)]
    if kind in FLOATS or kind == "VARCHAR":
        rules.append((f"NOT isfinite({number})", missing))
    if kind not in INTEGERS:
        remedy = "If they are amounts, not counts, choose a unit in which they are whole."
        rules.append((f"{number} <> floor({number})", remedy))
    rules += [
        (
            f"{number} < 0",
            "A count cannot be negative: aggregate corrections first, or drop them.",
        ),
        (f"{number} > {MAX_COUNT}", "Larger counts are not exact: use a coarser unit."),
    ]
    return [Fault(value, condition, CountError, what, remedy) for condition, remedy in rules]
