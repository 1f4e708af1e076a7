"""Columns of labels into positions and axes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, check_present, check_size, plain_labels, plain_type
from tallyfold.data.bins import floor_times, time_labels


@dataclass(frozen=True)
class Column:
    """A column of labels on its way to becoming an axis."""

    name: str
    values: pa.Array | pa.ChunkedArray
    unit: str | None = None
    keep_order: bool = False


def encode_columns(
    names: Sequence[str], column_of: Callable[[str], Column]
) -> tuple[list[npt.NDArray[np.int32]], list[Axis]]:
    """Encode columns side by side; Arrow lets go of the interpreter lock while it hashes.

    Columns are fetched one by one, so that few of them are in memory in Arrow's form at a time.
    """
    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        encoded = list(pool.map(lambda name: encode_column(column_of(name)), names))
    return [codes for codes, _ in encoded], [axis for _, axis in encoded]


def encode_column(column: Column) -> tuple[npt.NDArray[np.int32], Axis]:
    """Return each row's position on the axis, and the axis: distinct labels, sorted.

    Ordered categories keep their order. Labels that no row has are left out.
    """
    values = column.values
    kind = plain_type(values.type, column.name)
    check_present(values, column.name, "row")
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(kind), pa.scalar(0.0, kind))  # -0.0 and 0.0 are one label
    if column.unit is not None:
        values = floor_times(values, column.unit, column.name)
    codes, labels = _dictionary(values, column.name)
    if column.unit is not None:
        labels = time_labels(labels, column.unit, column.name)
    labels = plain_labels(labels, axis=column.name)
    order = _label_order(codes, labels, column.keep_order)
    place = np.zeros(max(len(labels), 1), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    if len(order) != len(labels) or not np.array_equal(order, np.arange(len(order))):
        codes = place[codes]
        labels = labels.take(pa.array(order))
    return codes, Axis.of_distinct(column.name, labels)


def sorted_order(labels: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions that sort labels: numbers by size, times by date, text by its bytes."""
    return np.asarray(pc.sort_indices(labels).to_numpy(), dtype=np.int64)


def _label_order(
    codes: npt.NDArray[np.int32], labels: pa.Array, keep_order: bool
) -> npt.NDArray[np.int64]:
    order = np.arange(len(labels)) if keep_order else sorted_order(labels)
    used = np.zeros(len(labels), bool)
    used[codes] = True
    return order[used[order]]


def _dictionary(values: pa.Array | pa.ChunkedArray, name: str) -> tuple[npt.NDArray[np.int32], Any]:
    encoded = values
    if not pa.types.is_dictionary(values.type):
        encoded = pc.dictionary_encode(values)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # an empty or very long column stays chunked
        encoded = pa.concat_arrays(encoded.chunks)
    codes, labels = encoded.indices, encoded.dictionary
    check_size(name, len(labels))
    codes = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    distinct = pc.dictionary_encode(labels)
    if len(distinct.dictionary) < len(labels):  # a dictionary may hold a label twice
        codes = distinct.indices.to_numpy(zero_copy_only=False)[codes].astype(np.int32)
        labels = distinct.dictionary
    return codes, labels
