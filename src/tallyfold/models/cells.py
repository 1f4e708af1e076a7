"""Cells to predict, however they are given, as positions on a model's axes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis, listing, plain_labels
from tallyfold.data.bins import bins_of
from tallyfold.data.events import read_columns
from tallyfold.data.labels import check_bins_like, column_for, with_bins_of
from tallyfold.data.request import Request
from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.errors import LabelError, ParameterError, ShapeError
from tallyfold.kernels.arrays import Array, Positions

Choice = Literal["error", "prior"]
Unknown = Choice | Mapping[str, Choice]
"""What labels that a model does not know are taken for, on all axes or by axis."""
UNKNOWN = "unknown"
"""The column that names the axes of which a cell's label is not known."""


def if_later(axis: Axis) -> str:
    """Return how to ask for labels that come after the last one, of an axis that has an order."""
    return (
        "" if axis.order is None else " Where a model forecasts, model.forecast(N) knows the next."
    )


def checked_tensor(tensor: Any, name: str = "tensor") -> CountTensor:
    """Refuse what is no tensor, with what to do about it."""
    if not isinstance(tensor, CountTensor):
        raise ParameterError(
            f"expected a CountTensor; got {type(tensor).__name__} as `{name}`. Make one with "
            "CountTensor.from_frame(frame, axes=[...]), CountTensor.from_array(array) or "
            "tallyfold.read_counts(path, axes=[...])."
        )
    return tensor


def counts_like(axes: Sequence[Axis], tensor: Any, name: str = "tensor") -> CountTensor:
    """Return a tensor with its times cut as those of a model's axes; refuse what is none."""
    return with_bins_of(checked_tensor(tensor, name), axes)


def cell_positions(axes: Sequence[Axis], cells: Any, unknown: Unknown = "error") -> Positions:
    """Return one row of positions per cell; -1 for an entity the model does not know.

    Times are cut as those of the axes are.

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
    choices = unknown_by_axis(axes, unknown)
    if isinstance(cells, CountTensor):
        return _of_tensor(axes, cells, choices)
    if _are_positions(cells):
        return _of_array(axes, np.asarray(cells))
    return _of_frame(axes, cells, choices)


def unknown_by_axis(
    axes: Sequence[Axis], unknown: Any, known: Sequence[str] = ("error", "prior")
) -> dict[str, str]:
    """Return for each axis what is done with labels that are not on it.

    Examples
    --------
    >>> axes = [Axis("user", ["ann"]), Axis("month", ["2024-05"])]
    >>> unknown_by_axis(axes, {"month": "prior"})
    {'user': 'error', 'month': 'prior'}
    """
    names = [axis.name for axis in axes]
    by_axis = isinstance(unknown, Mapping)
    given = dict(unknown) if by_axis else dict.fromkeys(names, unknown)
    for name, choice in given.items():
        if name not in names:
            raise ParameterError(
                f"`unknown` names {name!r}, which is not among the axes {listing(names)}."
            )
        if choice not in known:
            words = " or ".join(map(repr, known))
            where = f" of {name!r}" if by_axis else ""
            raise ParameterError(f"`unknown`{where} must be {words}; got {choice!r}.")
    return {name: given.get(name, "error") for name in names}


def unknown_words(axes: Sequence[Axis], positions_NM: Positions) -> list[str]:
    """Return, for each cell, the names of the axes of which its label is not known.

    Examples
    --------
    >>> axes = [Axis("user", ["ann"]), Axis("month", ["2024-05"])]
    >>> unknown_words(axes, np.array([[0, 0], [0, -1], [-1, -1]], np.int32))
    ['', 'month', 'user,month']
    """
    unknown_NM = positions_NM < 0
    kinds_UM, kind_N = np.unique(unknown_NM, axis=0, return_inverse=True)
    names = [axis.name for axis in axes]
    words = [",".join(names[m] for m in np.flatnonzero(kind_M)) for kind_M in kinds_UM]
    return [words[kind] for kind in kind_N.reshape(-1).tolist()]


def _are_positions(cells: Any) -> bool:
    listed = isinstance(cells, list | tuple) and not hasattr(cells, "columns")
    return listed or isinstance(cells, np.ndarray)


def beside_cells(axes: Sequence[Axis], cells: Any, values: Mapping[str, Any]) -> Any:
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


def _of_tensor(axes: Sequence[Axis], tensor: CountTensor, unknown: Mapping[str, str]) -> Positions:
    sources = [column_for(axis, tensor.names) for axis in axes]
    if set(tensor.names) != set(sources):
        raise LabelError(
            f"the cells must have the model's axes {', '.join(axis.name for axis in axes)}; got "
            f"{', '.join(tensor.names)}."
        )
    columns = []
    for axis, source in zip(axes, sources, strict=True):
        given = tensor.axis(source)
        column = tensor.indices[:, tensor.axis_number(source)]
        check_bins_like(given, axis)
        if given != axis:
            used = np.unique(column)
            place = np.full(len(given), -1, np.int32)
            labels = bins_of(given.labels.take(pa.array(used)), axis)
            place[used] = _find(axis, labels, unknown[axis.name])
            column = place[column]
        columns.append(column)
    return np.stack(columns).T


def _of_frame(axes: Sequence[Axis], frame: Any, unknown: Mapping[str, str]) -> Positions:
    orders = {axis.name: axis.order for axis in axes if axis.order and axis.order.column}
    table, request = read_columns(frame, Request([axis.name for axis in axes], bins=orders))
    columns = []
    for axis in axes:
        given = table[request.column_of(axis.name)].to_arrow()
        labels = bins_of(plain_labels(given, axis=axis.name), axis)
        columns.append(_find(axis, labels, unknown[axis.name]))
    return np.stack(columns).T


def _of_array(axes: Sequence[Axis], array: Array) -> Positions:
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


def _find(axis: Axis, labels: Any, unknown: str) -> Positions:
    if unknown == "prior":
        return axis.find(labels)[0]
    try:
        return axis.positions(labels)
    except LabelError as error:
        raise LabelError(
            f"{error}{if_later(axis)} Leave their cells out, or take them for average entities: "
            f"predict, score and surprise do so, with unknown={{{axis.name!r}: 'prior'}} for this "
            "axis alone, for all with unknown='prior'."
        ) from None
