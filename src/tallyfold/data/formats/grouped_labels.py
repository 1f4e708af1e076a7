"""The labels of grouped rows: numbered inside DuckDB, read as axes, or in batches.

No label becomes a Python object.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, check_size, plain_labels
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.bins import bin_labels
from tallyfold.data.formats import sql
from tallyfold.data.hashing import LABELS_AT_ONCE
from tallyfold.data.labels import sorted_order
from tallyfold.data.missing import named_missing
from tallyfold.data.request import Request
from tallyfold.errors import FormatError

Codes = npt.NDArray[np.int32]
NATURAL = {
    r"^(0|-?[1-9][0-9]*)$": pa.int64(),
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$": pa.date32(),
}
"""How labels that are numbers or dates are written in text files."""


def axis_of_groups(
    connection: Any,
    number: int,
    request: Request,
    *,
    is_text: bool,
    known: Sequence[Axis] | None = None,
) -> tuple[Axis, Codes]:
    """Return an axis, and for each code in its table ``labels_i`` the position on the axis."""
    name = request.axes[number]
    labels = _distinct_labels(connection, number, name, named=request.missing == "label")
    if name not in request.bins and is_text and known is None:
        labels = natural_labels(labels)
    own = known[number] if known else None
    return _axis_of(name, labels, own, request.bins.get(name))


def in_own_order(connection: Any, number: int, *, is_text: bool) -> bool:
    """Tell whether DuckDB's order of the numbered labels of an axis is sure to be ours.

    So it is not for fractions, nor for texts that look like numbers or dates, see `natural_labels`.
    """
    query = f"SELECT label FROM labels_{number} LIMIT 0"
    kind = connection.sql(query).to_arrow_table().schema.field(0).type
    if pa.types.is_floating(kind) or not is_text:
        return not pa.types.is_floating(kind)
    tests = [f"bool_and(regexp_matches(label, {sql.literal(one)}))" for one in NATURAL]
    found = connection.execute(f"SELECT {' OR '.join(tests)} FROM labels_{number}").fetchall()
    return not found[0][0]


def natural_labels(texts: pa.Array) -> pa.Array:
    """Read labels as integers or dates if every one is written just as that would be written."""
    for pattern, kind in NATURAL.items():
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py():
            with contextlib.suppress(pa.ArrowInvalid):  # past 64 bits, or no such day: stays text
                return texts.cast(kind)
    return texts


def number_labels(connection: Any, number: int) -> None:
    """Give the labels of an axis codes, in a table ``labels_i`` (label, code)."""
    connection.execute(
        f"CREATE TEMP TABLE IF NOT EXISTS labels_{number} AS SELECT label, row_number() OVER "
        f"(ORDER BY label) - 1 AS code FROM (SELECT DISTINCT x{number} AS label FROM cells)"
    )


def label_batches(connection: Any, number: int) -> pa.RecordBatchReader:
    """Read the numbered labels of an axis in order; a null, if any, is the last."""
    query = f"SELECT label FROM labels_{number} ORDER BY code"
    return connection.sql(query).to_arrow_reader(LABELS_AT_ONCE)


def label_joins(request: Request) -> str:
    """Write what joins ``cells`` to the tables ``labels_i`` of all axes."""
    same = "IS NOT DISTINCT FROM" if request.missing == "label" else "="
    axes = range(len(request.axes))
    return " ".join(f"JOIN labels_{m} ON cells.x{m} {same} labels_{m}.label" for m in axes)


def _distinct_labels(connection: Any, number: int, name: str, *, named: bool) -> pa.Array:
    """Return the labels of an axis; where missing ones are `named`, a null may be the last."""
    number_labels(connection, number)
    labels = label_batches(connection, number).read_all().column(0)
    check_size(name, len(labels))
    return plain_labels(labels, axis=name, allow_missing=named)


def _axis_of(
    name: str, labels: pa.Array, known: Axis | None, order: AxisOrder | None = None
) -> tuple[Axis, Codes]:
    """Return the axis, and for each of DuckDB's codes the position on it."""
    if known is not None:
        try:
            return known, known.positions(labels.cast(known.labels.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise FormatError(
                f"the labels of axis {name!r} do not fit the axes recorded with the file: "
                f"{str(error).splitlines()[0]}. Name the columns with axes= to read it as a plain "
                "table."
            ) from error
    places = sorted_order(labels)
    position = np.empty(len(places), np.int32)
    position[places] = np.arange(len(places), dtype=np.int32)
    if np.any(position[:-1] > position[1:]):  # DuckDB sorts most labels as we do: spare the copy
        labels = labels.take(pa.array(places))
    if order is not None:
        labels = bin_labels(labels, order.unit or "", name)
    return Axis.of_distinct(name, named_missing(labels, name), order), position
