"""Cells to predict, however they are given, as positions on a model's axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, plain_labels
from tallyfold.data.bins import bins_of
from tallyfold.data.events import read_columns
from tallyfold.data.request import Request
from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.errors import LabelError, ParameterError, ShapeError

Unknown = Literal["error", "prior"]
Positions = npt.NDArray[np.int32]


def checked_tensor(tensor: Any, name: str = "tensor") -> CountTensor:
    """Refuse what is no tensor, with what to do about it."""
    if not isinstance(tensor, CountTensor):
        raise ParameterError(
            f"expected a CountTensor; got {type(tensor).__name__} as `{name}`. Make one with "
            "CountTensor.from_frame(frame, axes=[...]) or tallyfold.read_counts(path, axes=[...])."
        )
    return tensor


def cell_positions(axes: Sequence[Axis], cells: Any, unknown: Unknown = "error") -> Positions:
    """Return one row of positions per cell; -1 for an entity the model does not know.

    Parameters
    ----------
    axes
        The model's axes.
    cells
        A CountTensor (its non-zero cells, in its order), a data frame with a column of labels per
        axis, or an array of positions, one row per cell.
    unknown
        What to do with labels that are not on the axes: raise an error, or return -1.
    """
    if unknown not in ("error", "prior"):
        raise ParameterError(f"`unknown` must be 'error' or 'prior'; got {unknown!r}.")
    if isinstance(cells, CountTensor):
        return _of_tensor(axes, cells, unknown)
    if _are_positions(cells):
        return _of_array(axes, np.asarray(cells))
    return _of_frame(axes, cells, unknown)


def _are_positions(cells: Any) -> bool:
    listed = isinstance(cells, list | tuple) and not hasattr(cells, "columns")
    return listed or isinstance(cells, np.ndarray)


def beside_cells(axes: Sequence[Axis], cells: Any, values: Mapping[str, npt.NDArray[Any]]) -> Any:
    """Return a frame of cells, given as to `cell_positions`, with columns of values beside them.

    A frame comes back as what it was: its columns, the order of its rows, and the index of pandas.
    A tensor's cells and positions become a pandas frame of their labels.
    """
    import narwhals as nw

    if isinstance(cells, CountTensor):
        columns, names = label_columns(cells), list(cells.names)
    elif _are_positions(cells):
        found = np.asarray(cells).T
        columns = [a.labels.take(pa.array(p)) for a, p in zip(axes, found, strict=True)]
        names = [axis.name for axis in axes]
    else:
        table = nw.from_native(cells).lazy().collect()
        _refuse_columns(values, table.columns)
        frame = table.to_native()
        if nw.dependencies.is_pandas_like_dataframe(frame):
            return frame.assign(**values)
        columns = [nw.new_series(*one, backend=table.implementation) for one in values.items()]
        return table.with_columns(*columns).to_native()
    _refuse_columns(values, names)
    decoded = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    arrays = [*decoded, *(pa.array(values_N) for values_N in values.values())]
    return pa.table(arrays, names=[*names, *values]).to_pandas()


def _refuse_columns(names: Iterable[str], columns: Sequence[str]) -> None:
    for name in names:
        if name not in columns:
            continue
        raise ParameterError(
            f"the cells have a column {name!r} already, where the prediction would stand. Rename "
            "it, or take the prediction as an array (output='array')."
        )


def _of_tensor(axes: Sequence[Axis], tensor: CountTensor, unknown: Unknown) -> Positions:
    names = [axis.name for axis in axes]
    if set(tensor.names) != set(names):
        raise LabelError(
            f"the cells must have the model's axes {', '.join(names)}; got "
            f"{', '.join(tensor.names)}."
        )
    columns = []
    for axis in axes:
        given = tensor.axis(axis.name)
        column = tensor.indices[:, tensor.axis_number(axis.name)]
        if given != axis:
            used = np.unique(column)
            place = np.full(len(given), -1, np.int32)
            place[used] = _find(axis, given.labels.take(used), unknown)
            column = place[column]
        columns.append(column)
    return np.stack(columns).T


def _of_frame(axes: Sequence[Axis], frame: Any, unknown: Unknown) -> Positions:
    table, _ = read_columns(frame, Request([axis.name for axis in axes]))
    columns = []
    for axis in axes:
        labels = plain_labels(table[axis.name].to_arrow(), axis=axis.name)
        if axis.unit is not None:
            labels = bins_of(labels, axis.unit, axis.name)
        columns.append(_find(axis, labels, unknown))
    return np.stack(columns).T


def _of_array(axes: Sequence[Axis], array: npt.NDArray[Any]) -> Positions:
    if array.ndim != 2 or array.shape[1] != len(axes) or array.dtype.kind not in "iu":
        raise ShapeError(
            f"cells given as an array must be positions, whole numbers of shape (cells, "
            f"{len(axes)}); got shape {array.shape} of type {array.dtype}. For labels use a data "
            "frame."
        )
    for number, axis in enumerate(axes):
        column = array[:, number]
        if len(column) and (column.min() < 0 or column.max() >= len(axis)):
            raise ShapeError(
                f"positions on axis {axis.name!r} must be from 0 to {len(axis) - 1:,}; got "
                f"{column.min()} to {column.max()}."
            )
    return np.asfortranarray(array, dtype=np.int32)


def _find(axis: Axis, labels: Any, unknown: Unknown) -> Positions:
    if unknown == "prior":
        return axis.find(labels)[0]
    try:
        return axis.positions(labels)
    except LabelError as error:
        raise LabelError(
            f"{error} Leave their cells out, or take them for average entities: predict, score and "
            "surprise do so with unknown='prior'."
        ) from None
