"""The answer to a query in batches that can be grouped: labels checked, times cut, counts whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import check_present, plain_type
from tallyfold.data.bins import floor_times
from tallyfold.data.counts import whole_counts
from tallyfold.data.query.answer import Answer, type_name
from tallyfold.errors import CountError, LabelError


def coded_batches(
    answer: Answer, names: Sequence[str], value: str | None, units: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of columns k0, k1, ... (labels) and n (counts, if there is a column of them).

    Raises
    ------
    LabelError, CountError
        At the first batch with a row that cannot be used; rows are counted from 0.
    """
    wanted = [*names, *([] if value is None else [value])]
    first_row = 0
    for batch in answer.batches(wanted):
        columns: dict[str, pa.Array] = {}
        for number, name in enumerate(names):
            field, values = batch.schema.field(number), batch.column(number)
            columns[f"k{number}"] = _labels(field, values, name, units.get(name), first_row)
        if value is not None:
            field, values = batch.schema.field(len(names)), batch.column(len(names))
            columns["n"] = pa.array(_counts(field, values, value, first_row))
        yield pa.record_batch(columns)
        first_row += batch.num_rows


def _labels(
    field: pa.Field, values: pa.Array, name: str, unit: str | None, first_row: int
) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind, extension = type_name(field), _extension(field)
    if extension == "arrow.json":
        values = values.storage if isinstance(values, pa.ExtensionArray) else values
    elif extension != "arrow.uuid":  # which DuckDB knows
        _check_label_type(name, values.type, kind, extension)
    check_present(values, name, "row", first_row)
    return values if unit is None else floor_times(values, unit, name, first_row)


def _check_label_type(name: str, arrow: pa.DataType, kind: str, extension: str) -> None:
    try:
        if extension or kind in ("numeric", "money"):
            raise LabelError(kind)
        plain_type(arrow, name)
    except LabelError:
        raise LabelError(
            f"labels of axis {name!r} must be text, numbers, booleans, dates or times; the query "
            f"gives values of type {kind or arrow}. Turn them into one of these in the query, for "
            f"example CAST({name} AS text)."
        ) from None


def _counts(field: pa.Field, values: pa.Array, name: str, first_row: int) -> npt.NDArray[np.int64]:
    kind = type_name(field)
    if kind == "numeric" and not pa.types.is_decimal(values.type):
        texts = values.storage if isinstance(values, pa.ExtensionArray) else values
        return _whole_texts(texts, name, first_row)
    if kind == "money" or isinstance(values, pa.ExtensionArray):
        raise CountError(
            f"{name!r} must be numbers; the query gives values of type {kind or values.type} "
            "there. Turn them into numbers in the query, for example "
            f"CAST({name} AS numeric), or use value=None to count rows."
        )
    return whole_counts(values, name=repr(name), first_row=first_row)


def _whole_texts(texts: pa.Array, name: str, first_row: int) -> npt.NDArray[np.int64]:
    """Read numbers that are spelled out; a fraction too small for floating point is one, too."""
    counts = whole_counts(texts.cast(pa.float64()), name=repr(name), first_row=first_row)
    fraction = pc.match_substring_regex(texts, r"\.0*[1-9]").to_numpy(zero_copy_only=False)
    if fraction.any():
        row = int(np.flatnonzero(fraction)[0])
        raise CountError(
            f"{name!r} must be whole numbers from 0 to 2**53 - 1; got {int(fraction.sum()):,} with "
            f"a fraction, row {first_row + row}: {texts[row].as_py()}. If they are amounts, not "
            "counts, choose a unit in which they are whole."
        )
    return counts


def _extension(field: pa.Field) -> str:
    """Return the name of an Arrow extension type, of which older versions know some as metadata."""
    known = (field.metadata or {}).get(b"ARROW:extension:name", b"").decode()
    return str(getattr(field.type, "extension_name", known))
