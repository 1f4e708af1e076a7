"""Columns of labels into positions and axes, and labels in the type that an axis has."""

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

from tallyfold.data.axis import (
    Axis,
    check_size,
    listing,
    plain_labels,
    plain_type,
    python_values,
)
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.bins import bin_labels, bin_starts, bins_of
from tallyfold.data.cells import merge_cells
from tallyfold.data.missing import check_present, named_missing
from tallyfold.data.problems import ALL_ROWS, Problems, RowNumbers
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError


@dataclass(frozen=True)
class Column:
    """A column of labels on its way to becoming an axis.

    With `named`, rows that lack a label get one that says so.
    """

    name: str
    values: pa.Array | pa.ChunkedArray
    order: AxisOrder | None = None
    keep_order: bool = False
    rows: RowNumbers = ALL_ROWS
    named: bool = False


def encode_columns(
    names: Sequence[str], column_of: Callable[[str], Column], problems: Problems | None = None
) -> tuple[list[npt.NDArray[np.int32]], list[Axis]]:
    """Encode columns in parallel threads; Arrow releases the interpreter lock while it hashes.

    Columns are fetched one by one, so that few of them are in memory in Arrow's form at a time.
    What is wrong with any of them is said in one error, with the `problems` known before.
    """
    wrong = [Problems() for _ in names]
    found: dict[str, tuple[npt.NDArray[np.int32], Axis] | None] = {}

    def encode(name: str, own: Problems) -> None:
        with own.gathered():
            found[name] = encode_column(column_of(name), own)

    with ThreadPoolExecutor(min(len(names), os.cpu_count() or 1)) as pool:
        list(pool.map(encode, names, wrong))
    gathered = Problems()
    for each in [*wrong, problems or Problems()]:
        gathered.add(each)
    gathered.raise_all()
    columns = [one for one in map(found.get, names) if one is not None]
    return [codes for codes, _ in columns], [axis for _, axis in columns]


def encode_column(column: Column, problems: Problems) -> tuple[npt.NDArray[np.int32], Axis] | None:
    """Return each row's position on the axis, and the axis: distinct labels, sorted.

    Ordered categories keep their order. Labels that no row has are left out. If a row cannot be
    used, that is noted as one of the `problems`, and there is no axis.
    """
    values, cut = column.values, column.order
    kind = plain_type(values.type, column.name)
    if not column.named:
        check_present(values, column.name, "row", column.rows, problems)
    if pa.types.is_floating(values.type):
        values = pc.add(values.cast(kind), pa.scalar(0.0, kind))  # -0.0 and 0.0 are one label
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)
    if cut is not None:
        values = bin_starts(values, cut, column.name, column.rows, problems)
    if problems:
        return None
    codes, labels = _dictionary(values, column.name)
    labels = plain_labels(labels, axis=column.name, allow_missing=column.named)
    order = np.arange(len(labels)) if column.keep_order else sorted_order(labels)
    used = np.zeros(len(labels), bool)
    used[codes] = True
    order = order[used[order]]
    position = np.zeros(max(len(labels), 1), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    if len(order) != len(labels) or not np.array_equal(order, np.arange(len(order))):
        codes = position[codes]
        labels = labels.take(pa.array(order))
    if cut is not None:
        labels = bin_labels(labels, cut.unit or "", column.name)
    return codes, Axis.of_distinct(column.name, named_missing(labels, column.name), column.order)


def sorted_order(labels: pa.Array) -> npt.NDArray[np.int64]:
    """Return the positions that sort labels: numbers by size, times by date, text by its bytes.

    A missing label comes last.
    """
    return np.asarray(pc.sort_indices(labels).to_numpy(), dtype=np.int64)


def _dictionary(values: pa.Array | pa.ChunkedArray, name: str) -> tuple[npt.NDArray[np.int32], Any]:
    encoded = values
    if not pa.types.is_dictionary(values.type):
        encoded = pc.dictionary_encode(values)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # an empty or very long column stays chunked
        encoded = pa.concat_arrays(encoded.chunks)
    codes, labels = encoded.indices, encoded.dictionary
    if codes.null_count:
        codes = codes.cast(pa.int32()).fill_null(len(labels))
        labels = pa.concat_arrays([labels, pa.nulls(1, labels.type)])
    check_size(name, len(labels))
    codes = codes.to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    distinct = pc.dictionary_encode(labels, null_encoding="encode")
    if len(distinct.dictionary) < len(labels):  # a dictionary may hold a label twice
        codes = distinct.indices.to_numpy(zero_copy_only=False)[codes].astype(np.int32)
        labels = distinct.dictionary
    return codes, labels


def label_from_text(axis: Axis, text: str) -> Any:
    """Return the label that a text, as a person types it, stands for on an axis.

    Examples
    --------
    >>> label_from_text(Axis("year", [2003, 2004]), "2004")
    2004
    """
    label = labels_in_type(pa.array([text], pa.large_string()), axis.labels.type)[0].as_py()
    if label is None:
        raise LabelError(
            f"axis {axis.name!r} has labels of type {axis.labels.type}, such as "
            f"{listing(python_values(axis.labels[:3]))}; got {text!r}, which is none."
        )
    return label


def labels_in_type(labels: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return labels in another type; missing where a text cannot be read as that type.

    Only text is read as something else, and only to text is something else written: whether two
    kinds of numbers or times are the same labels is left to `Axis.find`.
    """
    is_text = pa.types.is_large_string(labels.type)
    wants_text = pa.types.is_large_string(kind)
    if is_text == wants_text:
        return labels
    return _read(labels, kind) if is_text else labels.cast(pa.large_string())


def with_bins_of(tensor: CountTensor, axes: Sequence[Axis]) -> CountTensor:
    """Return the tensor with its times cut as those of other axes are.

    Counts of cells that become one are added up. An axis of which others are cut under other names
    becomes all of those. An axis that is cut already, in another unit or zone, is refused.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"who": ["ann", "ann"], "day": ["2024-05-01", "2024-05-03"]})
    >>> tensor = CountTensor.from_frame(frame, axes=["who", "day"])
    >>> with_bins_of(tensor, [Axis("day", ["2024-05"], AxisOrder.of_unit("month"))]).counts.tolist()
    [2]
    """
    columns: list[npt.NDArray[np.integer]] = []
    cut: list[Axis] = []
    for given, column in zip(tensor.axes, tensor.indices.T, strict=True):
        wanted = [each for each in axes if column_for(each, tensor.names) == given.name]
        for one in wanted or [given]:
            axis, place_D = _cut_like(given, one)
            cut.append(axis)
            columns.append(column if place_D is None else place_D[column])
    if tuple(cut) == tensor.axes:
        return tensor
    if tensor.part is not None:
        raise LabelError(
            "times of a part of all cells cannot be cut afterwards: the part was drawn by its own "
            "labels. Cut them where the whole is read (bins=, --bin), then split."
        )
    cells = merge_cells(columns, tensor.counts, [len(axis) for axis in cut])
    return CountTensor.of_canonical(cut, cells.indices_NM, cells.counts_N, tensor.dropped)


def column_for(axis: Axis, columns: Sequence[str]) -> str:
    """Return which column of a table is for an axis: the times it is cut from, or its own name."""
    source = None if axis.order is None else axis.order.column
    own = source is None or (axis.name in columns and source not in columns)
    return axis.name if own or source is None else source


def check_bins_like(given: Axis, wanted: Axis) -> None:
    """Refuse an axis that is cut already, in another unit or zone than is wanted."""
    order = given.order
    if wanted.order is None or wanted.unit is None or order is None or order.unit is None:
        return
    if (order.unit, order.tz) != (wanted.unit, wanted.order.tz):
        raise LabelError(
            f"axis {given.name!r} is cut by {order.cut}; wanted is {wanted.name!r} by "
            f"{wanted.order.cut}. "
            "Read the table again without bins, times are cut as they should be then, or with the "
            "same ones."
        )


def _cut_like(given: Axis, wanted: Axis) -> tuple[Axis, npt.NDArray[np.int32] | None]:
    """Return an axis cut as another, and the place there of each of its labels; None: its own."""
    check_bins_like(given, wanted)
    labels = bins_of(given.labels, wanted)
    if labels is given.labels or labels.equals(given.labels):
        same = given.name == wanted.name or given is wanted
        return (given if same else given.renamed(wanted.name).with_order(wanted.order)), None
    codes, distinct = _dictionary(labels, wanted.name)
    order = sorted_order(distinct)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    axis = Axis.of_distinct(wanted.name, distinct.take(pa.array(order)), wanted.order)
    return axis, place[codes]


def with_types_of(tensor: CountTensor, axes: Sequence[Axis]) -> CountTensor:
    """Return the tensor with its labels in the types of other axes of the same names.

    An axis of which a label cannot be written in that type stays as it is.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"who": ["ann", "bob"], "year": ["2003", "2004"]})
    >>> tensor = CountTensor.from_frame(frame, axes=["who", "year"])
    >>> with_types_of(tensor, [Axis("year", [2003, 2004, 2005])]).axis("year").label(1)
    2004
    """
    types = {axis.name: axis.labels.type for axis in axes}
    own = [_retyped(axis, types.get(axis.name, axis.labels.type)) for axis in tensor.axes]
    return CountTensor.of_canonical(own, tensor.indices, tensor.counts, tensor.dropped, tensor.part)


def _retyped(axis: Axis, kind: pa.DataType) -> Axis:
    labels = labels_in_type(axis.labels, kind)
    if labels.null_count or pc.count_distinct(labels).as_py() < len(labels):
        return axis
    return Axis.of_distinct(axis.name, plain_labels(labels, axis=axis.name), axis.order)


def _read(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read texts as a type: all at once if Arrow can, else each distinct one by itself."""
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        distinct = pc.unique(texts)
        values = pa.array([_read_one(text, kind) for text in distinct], kind)
        values = values.take(pc.index_in(texts, value_set=distinct))
    if not pa.types.is_integer(kind):
        return values
    # 007 is no number to us where labels are read from text, so it is not the label 7
    same = pc.equal(values.cast(pa.large_string()), texts)
    return pc.if_else(same, values, pa.scalar(None, kind))


def _read_one(text: pa.Scalar, kind: pa.DataType) -> Any:
    try:
        return text.cast(kind).as_py()
    except pa.ArrowInvalid:
        return None
