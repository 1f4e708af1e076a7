"""Parts of a tensor by label, and sums over axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.cells import merge_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ShapeError


def selected(tensor: CountTensor, labels: Mapping[str, Any]) -> CountTensor:
    """Select by label; see `CountTensor.sel`."""
    keep = np.ones(tensor.nnz, bool)
    columns = [tensor.indices[:, number] for number in range(len(tensor.axes))]
    axes: list[Axis | None] = list(tensor.axes)
    for name, wanted in labels.items():
        number = tensor.axis_number(name)
        axis = tensor.axes[number]
        positions = _wanted_positions(axis, wanted)
        place = np.full(len(axis), -1, np.int32)
        place[positions] = np.arange(len(positions), dtype=np.int32)
        columns[number] = place[columns[number]]
        keep &= columns[number] >= 0
        axes[number] = axis.take(positions) if _keeps_axis(wanted) else None
    kept = [number for number, axis in enumerate(axes) if axis is not None]
    new_axes = [axis for axis in axes if axis is not None]
    if len(new_axes) < 2:
        raise ShapeError(
            f"selecting single labels would leave {len(new_axes)} axis; a CountTensor has at least "
            'two. Put the label in a list to keep its axis, such as author=["..."].'
        )
    return _merged(new_axes, [columns[n][keep] for n in kept], tensor.counts[keep])


def collapsed(tensor: CountTensor, names: Sequence[str]) -> CountTensor:
    """Add up over the named axes; see `CountTensor.collapse`."""
    gone = {tensor.axis_number(name) for name in names}
    kept = [number for number in range(len(tensor.axes)) if number not in gone]
    if len(kept) < 2:
        raise ShapeError(
            f"collapsing {len(gone)} of {len(tensor.axes)} axes would leave {len(kept)}; a "
            "CountTensor has at least two. For one axis use marginal()."
        )
    axes = [tensor.axes[number] for number in kept]
    return _merged(axes, [tensor.indices[:, number] for number in kept], tensor.counts)


def _merged(
    axes: list[Axis], columns: list[npt.NDArray[np.int32]], counts: npt.NDArray[np.int64]
) -> CountTensor:
    cells = merge_cells(columns, counts, [len(axis) for axis in axes])
    return CountTensor.of_canonical(axes, cells.indices_NM, cells.counts_N)


def _keeps_axis(wanted: Any) -> bool:
    if isinstance(wanted, str | bytes):
        return False
    return isinstance(wanted, slice) or hasattr(wanted, "__iter__")


def _wanted_positions(axis: Axis, wanted: Any) -> npt.NDArray[np.int32]:
    if isinstance(wanted, slice):
        return _slice_positions(axis, wanted)
    if not _keeps_axis(wanted):
        return axis.positions([wanted])
    positions = axis.positions(list(wanted) if not hasattr(wanted, "__len__") else wanted)
    if len(np.unique(positions)) < len(positions):
        raise LabelError(f"labels selected on axis {axis.name!r} must be distinct.")
    return positions


def _slice_positions(axis: Axis, wanted: slice) -> npt.NDArray[np.int32]:
    if wanted.step is not None:
        raise LabelError(f"a slice of labels on axis {axis.name!r} takes no step.")
    first = 0 if wanted.start is None else int(axis.positions([wanted.start])[0])
    last = len(axis) - 1 if wanted.stop is None else int(axis.positions([wanted.stop])[0])
    return np.arange(first, last + 1, dtype=np.int32)
