"""Labels in the type that an axis has: the same labels, written otherwise.

A year may be the number 2010 in one file and the text "2010" in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import Axis, listing, plain_labels, python_values
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError


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
    return CountTensor.of_canonical(own, tensor.indices, tensor.counts, tensor.dropped)


def _retyped(axis: Axis, kind: pa.DataType) -> Axis:
    labels = labels_in_type(axis.labels, kind)
    if labels.null_count or pc.count_distinct(labels).as_py() < len(labels):
        return axis
    return Axis.of_distinct(axis.name, plain_labels(labels, axis=axis.name))


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
