"""Axes that are declared to be in order: numbers, dates, or texts as they are sorted or listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis, listing, python_values
from tallyfold.data.axis_order import AxisOrder, Ordered
from tallyfold.data.cells import merge_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError


def checked_ordered(
    ordered: Ordered | None, axes: Sequence[str], bins: Iterable[str] = ()
) -> dict[str, Sequence[str] | None]:
    """Refuse orders of what is no axis, or has one by its bins."""
    listed = isinstance(ordered, Sequence | Mapping) and not isinstance(ordered, str)
    if ordered is not None and not listed:
        raise ParameterError(
            "`ordered` must name axes, such as ['year'], or give the labels of some in order, such "
            f"as {{'size': ['S', 'M', 'L']}}; got {ordered!r}."
        )
    found = dict(ordered) if isinstance(ordered, Mapping) else dict.fromkeys(ordered or ())
    for name, labels in found.items():
        if name not in axes:
            raise ParameterError(
                f"`ordered` names {name!r}, which is not among the axes {listing(list(axes))}."
            )
        if name in bins:
            raise ParameterError(
                f"`ordered` names {name!r}, whose times are cut into bins and so in order already. "
                "Leave it out."
            )
        if labels is not None and (
            isinstance(labels, str)
            or not isinstance(labels, Sequence)
            or len(set(labels)) < len(labels)
        ):
            raise ParameterError(
                f"`ordered` of {name!r} must be a list of its labels, each once; got {labels!r}."
            )
    return found


def with_order(tensor: CountTensor, ordered: Mapping[str, Sequence[str] | None]) -> CountTensor:
    """Return the tensor with some axes declared to be in order.

    Labels stay as they are sorted, but where they are given in order.

    Examples
    --------
    >>> tensor = CountTensor([Axis("size", ["L", "S"]), Axis("year", [2003])], [[1, 0]], [2])
    >>> larger = with_order(tensor, {"size": ["S", "M", "L"], "year": None})
    >>> larger.axis("size").labels.to_pylist(), larger.axis("size").steps().tolist()
    (['S', 'L'], [0, 1])
    >>> larger.axis("year").following(1).to_pylist()
    [2004]
    """
    if not ordered:
        return tensor
    axes, columns = list(tensor.axes), list(tensor.indices.T)
    for name, labels in ordered.items():
        number = tensor.axis_number(name)
        axes[number], place = ordered_axis(axes[number], labels)
        if place is not None:
            columns[number] = place[columns[number]]
    cells = merge_cells(columns, tensor.counts, [len(axis) for axis in axes])
    own = (axes, cells.indices_NM, cells.counts_N, tensor.dropped, tensor.part)
    return CountTensor.of_canonical(*own)


def ordered_axis(
    axis: Axis, labels: Sequence[str] | None
) -> tuple[Axis, npt.NDArray[np.int32] | None]:
    """Return an axis in the order of its labels or in a given one, and where labels then stand."""
    axis = axis.with_order(AxisOrder("ordered"))
    if labels is None:
        return axis, None
    order = _places(axis, labels)
    place = np.empty(len(axis), np.int32)
    place[order] = np.arange(len(axis), dtype=np.int32)
    return axis.take(order), place


def _places(axis: Axis, labels: Sequence[Any]) -> Any:
    """Return where the given labels stand on an axis, in order; refuse if some are not given."""
    kind = axis.labels.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
        raise ParameterError(
            f"axis {axis.name!r} has labels of type {kind}, whose order is that of their values. "
            f"Declare it with ordered=[{axis.name!r}], or turn the labels into text."
        )
    where, known = axis.find(list(labels))
    left = np.setdiff1d(np.arange(len(axis)), where[known])
    if len(left):
        raise LabelError(
            f"`ordered` of {axis.name!r} must list all its labels; it lacks "
            f"{listing(python_values(axis.labels.take(pa.array(left))))}. Put them where they "
            "belong."
        )
    return where[known]
