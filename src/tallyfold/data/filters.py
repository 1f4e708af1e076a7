"""Keep the busiest labels, and labels with enough cells (the k-core), reporting what went."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tallyfold.data.dropped import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError


def filtered(
    tensor: CountTensor, *, min_nonzeros: Mapping[str, int], top: Mapping[str, int]
) -> CountTensor:
    """Apply ``top``, then ``min_nonzeros`` until nothing changes; see `CountTensor.filter`."""
    keep = np.ones(tensor.nnz, bool)
    dropped = list(tensor.dropped)
    for name, most in _checked_limits(tensor, top, "top").items():
        busiest = _busiest(tensor.marginal(name), most)
        after = keep & busiest[tensor.indices[:, tensor.axis_number(name)]]
        dropped += _records(f"beyond the top {most:,} of {name}", tensor, keep, after)
        keep = after
    limits = _checked_limits(tensor, min_nonzeros, "min_nonzeros")
    if limits:
        core = _core(tensor, keep, limits)
        rule = ", ".join(f"{least:,} per {name}" for name, least in limits.items())
        dropped += _records(f"fewer non-zeros than {rule}", tensor, keep, core)
        keep = core
    if not keep.any():
        raise DataError(
            f"the filters leave no cell: {'; '.join(map(str, dropped))}. Loosen min_nonzeros or "
            "top."
        )
    empty = {name: int((tensor.marginal(name, "nonzeros") == 0).sum()) for name in tensor.names}
    if any(empty.values()):
        dropped.append(Dropped("without a cell", labels=empty))
    rest = compacted(tensor.with_cells(keep))
    return CountTensor.of_canonical(rest.axes, rest.indices, rest.counts, dropped)


def compacted(tensor: CountTensor) -> CountTensor:
    """Take away the labels that have no cell; see `CountTensor.compact`."""
    axes, columns = [], []
    for number, axis in enumerate(tensor.axes):
        used = tensor.marginal(axis.name, "nonzeros") > 0
        place = (np.cumsum(used) - 1).astype(np.int32)
        columns.append(place[tensor.indices[:, number]])
        axes.append(axis if used.all() else axis.take(np.flatnonzero(used)))
    indices = np.stack(columns).T  # column by column in memory; order is kept, so still sorted
    return CountTensor.of_canonical(axes, indices, tensor.counts, tensor.dropped)


def _core(
    tensor: CountTensor, keep: npt.NDArray[np.bool_], limits: Mapping[str, int]
) -> npt.NDArray[np.bool_]:
    core = keep.copy()
    changed = True
    while changed:
        changed = False
        for name, least in limits.items():
            number = tensor.axis_number(name)
            column = tensor.indices[:, number]
            cells = np.bincount(column[core], minlength=tensor.shape[number])
            fails = core & (cells < least)[column]
            if fails.any():
                core &= ~fails
                changed = True
    return core


def _busiest(totals: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.bool_]:
    """Mark the largest totals; ties go to the earlier label."""
    order = np.argsort(-totals, kind="stable")
    busiest = np.zeros(len(totals), bool)
    busiest[order[:most]] = True
    return busiest


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


def _checked_limits(
    tensor: CountTensor, limits: Mapping[str, int], parameter: str
) -> dict[str, int]:
    if not isinstance(limits, Mapping):
        raise ParameterError(f"`{parameter}` must be like {{'user': 5}}; got {limits!r}.")
    for name, limit in limits.items():
        tensor.axis_number(name)
        if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
            raise ParameterError(
                f"`{parameter}` of axis {name!r} must be a positive integer; got {limit!r}."
            )
    return {name: int(limit) for name, limit in limits.items()}
