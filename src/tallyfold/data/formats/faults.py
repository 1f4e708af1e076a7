"""What can be wrong with the rows of a table, found while grouping, explained afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tallyfold.data.formats.sql import one_row, quoted
from tallyfold.errors import CountError, DataError, LabelError

if TYPE_CHECKING:
    from tallyfold.data.formats.table import TableFormat


class Fault(NamedTuple):
    """A condition no row may meet, and what to say if one does."""

    column: str
    condition: str
    error: type[DataError]
    what: str
    remedy: str


def row_faults(
    columns: Mapping[str, str],
    names: Sequence[str],
    value: str | None,
    units: Mapping[str, str],
    is_text: bool,
) -> list[Fault]:
    """List what no row of this table may be."""
    faults = []
    for name in names:
        faults.append(_missing_label(name, columns[name]))
        if name in units:
            faults.append(_not_a_time(name))
    if value is not None:
        if not is_text and not _is_numeric(columns[value]):
            raise CountError(
                f"{value!r} must be numbers; the table has {columns[value]} there. Name the column "
                "that holds the counts, or use value=None to count rows."
            )
        faults.extend(_bad_counts(value))
    return faults


def find_fault(
    connection: Any, form: TableFormat, files: Sequence[str], faults: Sequence[Fault]
) -> DataError:
    """Look through the files again, one by one, for the first fault and the rows that have it."""
    for file in files:
        source = form.source(connection, [file])
        numbered = f"(SELECT *, row_number() OVER () AS row_ FROM {source.sql})"
        for fault in faults:
            condition = f"coalesce({fault.condition}, true)"
            shown = f"CAST({quoted(fault.column)} AS VARCHAR)"
            number = one_row(connection, f"SELECT count(*) FROM {source.sql} WHERE {condition}")[0]
            if number:
                rows = connection.execute(
                    f"SELECT row_, {shown} FROM {numbered} WHERE {condition} ORDER BY row_ LIMIT 5"
                ).fetchall()
                places = ", ".join(
                    f"{form.row_word} {row - 1 + form.first_row}: {value or 'nothing'}"
                    for row, value in rows
                )
                more = f" and {number - 5:,} more" if number > 5 else ""
                return fault.error(
                    f"{fault.what}; {file!r} has {number:,} rows that do not comply, "
                    f"{places}{more}. {fault.remedy}"
                )
    return DataError("the table changed while it was read; try again.")


def is_number(column: str) -> str:
    """Write an expression for a column as a floating-point number, NULL where it is none."""
    return f"TRY_CAST({column} AS DOUBLE)"


def _missing_label(name: str, kind: str) -> Fault:
    condition = f"{quoted(name)} IS NULL"
    if kind in ("FLOAT", "DOUBLE"):
        condition += f" OR isnan({quoted(name)})"
    return Fault(
        name,
        condition,
        LabelError,
        f"labels of axis {name!r} must not be missing",
        "Drop those rows or give them a label.",
    )


def _not_a_time(name: str) -> Fault:
    return Fault(
        name,
        f"TRY_CAST({quoted(name)} AS TIMESTAMP) IS NULL",
        LabelError,
        f"column {name!r} must hold dates or times to be binned, or text in ISO form such as "
        "2015-03-09 or 2015-03-09 14:30",
        "Turn it into dates first.",
    )


def _bad_counts(value: str) -> list[Fault]:
    number = is_number(quoted(value))
    what = f"{value!r} must be whole numbers from 0 to 2**53"
    rules = [
        (f"{number} IS NULL", "Drop those rows, or fill in their counts."),
        (f"NOT isfinite({number})", "Drop those rows, or fill in their counts."),
        (
            f"{number} <> floor({number})",
            "If they are amounts, not counts, choose a unit in which they are whole.",
        ),
        (
            f"{number} < 0",
            "A count cannot be negative: aggregate corrections first, or drop them.",
        ),
        (
            f"{number} > {2**53}",
            "Larger counts are not exact in floating point: use a coarser unit.",
        ),
    ]
    return [Fault(value, condition, CountError, what, remedy) for condition, remedy in rules]


def _is_numeric(kind: str) -> bool:
    return kind.startswith("DECIMAL") or kind in {
        "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER",
        "UBIGINT", "UHUGEINT", "FLOAT", "DOUBLE",
    }  # fmt: skip
