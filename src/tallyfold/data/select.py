"""Parts of a tensor: by label, by how busy labels are (what was dropped is recorded), and sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis, listing
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.part import LabelRule, Part
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError, ShapeError


def selected(tensor: CountTensor, labels: Mapping[str, Any]) -> CountTensor:
    """Select by label; see `CountTensor.sel`."""
    keep = np.ones(tensor.nnz, bool)
    columns = [tensor.indices[:, number] for number in range(len(tensor.axes))]
    axes: list[Axis | None] = list(tensor.axes)
    for name, wanted in labels.items():
        number = tensor.axis_number(name)
        axis = tensor.axes[number]
        positions = _wanted_positions(axis, wanted)
        position = np.full(len(axis), -1, np.int32)
        position[positions] = np.arange(len(positions), dtype=np.int32)
        columns[number] = position[columns[number]]
        keep &= columns[number] >= 0
        axes[number] = axis.take(positions) if _keeps_axis(wanted) else None
    kept = [number for number, axis in enumerate(axes) if axis is not None]
    new_axes = [axis for axis in axes if axis is not None]
    if len(new_axes) < 2:
        raise ShapeError(
            f"selecting single labels would leave {len(new_axes)} axis; a CountTensor has at least "
            'two. Put the label in a list to keep its axis, such as author=["..."].'
        )
    rows = tensor_from_rows(new_axes, [columns[n][keep] for n in kept], tensor.counts[keep])
    return rows if tensor.part is None else rows.with_part(_part_without(tensor, labels, kept))


def _part_without(tensor: CountTensor, labels: Mapping[str, Any], kept: list[int]) -> Part | None:
    """Return the part on the axes that are kept; of the others it remembers their one label."""
    part = tensor.part
    for number, axis in enumerate(tensor.axes):
        if part is not None and number not in kept:
            part = part.with_fixed(axis.take(axis.positions([labels[axis.name]])))
    return part


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
    rows = tensor_from_rows(axes, [tensor.indices[:, number] for number in kept], tensor.counts)
    return rows if tensor.part is None else rows.with_part(_collapsed_part(tensor.part, names))


def _collapsed_part(part: Part, names: Sequence[str]) -> Part | None:
    """Return the part that sums over these axes are; sums that lack hidden cells are refused."""
    if part.n_hash_rules:
        raise DataError(
            f"the tensor is a {part.words()}; sums over {listing(list(names))} would lack the "
            "hidden cells. Collapse the whole tensor first, then split it."
        )
    rules = tuple(r for r in part.rules if isinstance(r, LabelRule) and r.axis not in names)
    return Part(rules, part.fixed) if rules else None


def _keeps_axis(wanted: Any) -> bool:
    if isinstance(wanted, str | bytes):
        return False
    return isinstance(wanted, slice) or hasattr(wanted, "__iter__")


def _wanted_positions(axis: Axis, wanted: Any) -> npt.NDArray[np.int32]:
    if isinstance(wanted, slice):
        if wanted.step is not None:
            raise LabelError(f"a slice of labels on axis {axis.name!r} takes no step.")
        first = 0 if wanted.start is None else int(axis.positions([wanted.start])[0])
        last = len(axis) - 1 if wanted.stop is None else int(axis.positions([wanted.stop])[0])
        return np.arange(first, last + 1, dtype=np.int32)
    if not _keeps_axis(wanted):
        return axis.positions([wanted])
    positions = axis.positions(list(wanted) if not hasattr(wanted, "__len__") else wanted)
    if len(np.unique(positions)) < len(positions):
        raise LabelError(f"labels selected on axis {axis.name!r} must be distinct.")
    return positions


def filtered(
    tensor: CountTensor, *, min_nonzeros: Mapping[str, int], top: Mapping[str, int]
) -> CountTensor:
    """Apply ``top``, then ``min_nonzeros`` until nothing changes; see `CountTensor.filter`."""
    keep = np.ones(tensor.nnz, bool)
    dropped = list(tensor.dropped)
    for name, most in checked_limits(tensor, top, "top").items():
        order = np.argsort(-tensor.marginal(name), kind="stable")  # ties: the earlier label
        busiest = np.isin(np.arange(len(order)), order[:most])
        after = keep & busiest[tensor.indices[:, tensor.axis_number(name)]]
        dropped += _records(f"beyond the top {most:,} of {name}", tensor, keep, after)
        keep = after
    limits = checked_limits(tensor, min_nonzeros, "min_nonzeros")
    if limits:
        core = _core(tensor, keep, limits)
        rule = ", ".join(f"{least:,} per {name}" for name, least in limits.items())
        dropped += _records(f"fewer non-zeros than {rule}", tensor, keep, core)
        keep = core
    refuse_none_left(int(keep.sum()), dropped)
    empty = {name: int((tensor.marginal(name, "nonzeros") == 0).sum()) for name in tensor.names}
    if any(empty.values()):
        dropped.append(Dropped("without a cell", labels=empty))
    rest = compacted(tensor.with_cells(keep, tensor.part))
    return CountTensor.of_canonical(rest.axes, rest.indices, rest.counts, dropped, rest.part)


def compacted(tensor: CountTensor) -> CountTensor:
    """Take away the labels that have no cell; see `CountTensor.compact`."""
    axes, columns = [], []
    for number, axis in enumerate(tensor.axes):
        used = tensor.marginal(axis.name, "nonzeros") > 0
        position = (np.cumsum(used) - 1).astype(np.int32)
        columns.append(position[tensor.indices[:, number]])
        axes.append(axis if used.all() else axis.take(np.flatnonzero(used)))
    indices = np.stack(columns).T  # column by column in memory; order is kept, so still sorted
    return CountTensor.of_canonical(axes, indices, tensor.counts, tensor.dropped, tensor.part)


def _core(
    tensor: CountTensor, keep: npt.NDArray[np.bool_], limits: Mapping[str, int]
) -> npt.NDArray[np.bool_]:
    core, before = keep.copy(), -1
    while before != np.count_nonzero(core):
        before = int(np.count_nonzero(core))
        for name, least in limits.items():
            number = tensor.axis_number(name)
            column = tensor.indices[:, number]
            cells = np.bincount(column[core], minlength=tensor.shape[number])
            core &= (cells >= least)[column]
    return core


def _records(
    reason: str,
    tensor: CountTensor,
    before: npt.NDArray[np.bool_],
    after: npt.NDArray[np.bool_],
) -> list[Dropped]:
    """Record the cells that one rule took away, and the labels that went with them."""
    gone = before & ~after
    if not gone.any():
        return []
    labels = {}
    for number, name in enumerate(tensor.names):
        column = tensor.indices[:, number]
        labels[name] = len(np.unique(column[before])) - len(np.unique(column[after]))
    total = int(tensor.counts[gone].sum())
    return [Dropped(reason, cells=int(gone.sum()), total=total, labels=labels)]


def refuse_none_left(cells: int, dropped: Sequence[Dropped]) -> None:
    """Refuse filters that take all cells away."""
    if not cells:
        raise DataError(
            f"the filters leave no cell: {'; '.join(map(str, dropped))}. Loosen min_nonzeros or "
            "top."
        )


def checked_limits(
    tensor: CountTensor, limits: Mapping[str, int], parameter: str
) -> dict[str, int]:
    """Refuse limits of what is no axis, or that are no positive whole numbers."""
    if not isinstance(limits, Mapping):
        raise ParameterError(f"`{parameter}` must be like {{'user': 5}}; got {limits!r}.")
    for name, limit in limits.items():
        tensor.axis_number(name)
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
            raise ParameterError(
                f"`{parameter}` of axis {name!r} must be a positive integer; got {limit!r}."
            )
    return {name: int(limit) for name, limit in limits.items()}
