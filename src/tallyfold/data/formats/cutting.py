"""Times cut by Arrow inside DuckDB, so that files give the bins that frames give, bit for bit."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa

from tallyfold.data.bins import bin_starts
from tallyfold.data.formats.sql import INTEGERS, Source, literal
from tallyfold.data.problems import Problems
from tallyfold.data.request import Request
from tallyfold.data.time_units import CYCLES, UNITS

TIMES = {"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}
ZONED = "TIMESTAMP WITH TIME ZONE"


def add_cut(connection: Any, source: Source, request: Request, axis: str) -> None:
    """Give DuckDB the function by which `cut_of` cuts the times of an axis."""
    import duckdb

    name = _name(request, axis)
    _, kind = _argument(source, request, axis)
    with contextlib.suppress(duckdb.Error):  # there is none
        connection.remove_function(name)
    order = request.bins[axis]

    def starts(values: pa.ChunkedArray) -> pa.ChunkedArray:
        found = bin_starts(values, order, axis, problems=Problems())  # no time: NULL
        return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])

    options = {"type": "arrow", "null_handling": "special"}
    connection.create_function(name, starts, [kind], "TIMESTAMP", **options)


def cut_of(source: Source, request: Request, axis: str) -> str:
    """Write the moment at which a time's bin begins; NULL where there is no time."""
    column, _ = _argument(source, request, axis)
    return f"{_name(request, axis)}({column})"


def other_unit_of(source: Source, request: Request, axis: str, unit: str) -> str:
    """Write the condition that a text looks like the label of a bin of another unit."""
    column, kind = _argument(source, request, axis)
    if kind != "VARCHAR":
        return "false"
    if unit in CYCLES:
        return f"{column} IN ({', '.join(map(literal, CYCLES[unit]))})"
    return f"regexp_full_match({column}, {literal(UNITS[unit].pattern.pattern)})"


def _name(request: Request, axis: str) -> str:
    return f"tallyfold_cut_{request.axes.index(axis)}"


def _argument(source: Source, request: Request, axis: str) -> tuple[str, str]:
    """Write what is cut, as a type that Arrow cuts, and that type."""
    name = request.column_of(axis)
    column, kind = source.columns[name], source.types[name]
    if kind in TIMES or kind == ZONED:
        return f"CASE WHEN isfinite({column}) THEN {column} END", kind
    if kind in INTEGERS and request.bins[axis].unit == "year":
        return f"TRY_CAST({column} AS BIGINT)", "BIGINT"
    return (column if kind == "VARCHAR" else f"CAST({column} AS VARCHAR)"), "VARCHAR"
