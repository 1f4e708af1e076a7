"""Labels found by halving: of labels in ascending order a few are read, wherever they are kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

AT_A_TIME = 1 << 16
LOOKED_UP = 64
"""Labels that are looked for together, next to each other in their order."""
LetGo = Callable[[], None] | None


def ascending(labels: pa.Array) -> bool:
    """Tell whether labels are in the order that Arrow compares them in, some at a time.

    Examples
    --------
    >>> ascending(pa.array(["ann", "bob"])), ascending(pa.array([2, 1])), ascending(pa.array([1]))
    (True, False, True)
    """
    if pa.types.is_boolean(labels.type):
        return False
    for start in range(0, len(labels) - 1, AT_A_TIME):
        stop = min(start + AT_A_TIME, len(labels) - 1)
        if not pc.all(pc.less(labels[start:stop], labels[start + 1 : stop + 1])).as_py():
            return False
    return True


def positions_of(asked: pa.Array, labels: pa.Array, let_go: LetGo = None) -> npt.NDArray[np.int32]:
    """Return where labels stand among ascending ones of the same type; -1 for those not there.

    `let_go` is called now and then: it frees the memory of labels that were read from a file.

    Examples
    --------
    >>> names = pa.array(["ann", "bob", "cem"])
    >>> positions_of(pa.array(["cem", "ann", "zoe", None]), names).tolist()
    [2, 0, -1, -1]
    """
    if not len(labels) or not len(asked):
        return np.full(len(asked), -1, np.int32)
    order = pc.sort_indices(asked)
    found = []
    for start in range(0, len(asked), LOOKED_UP):
        found.append(_found(asked.take(order[start : start + LOOKED_UP]), labels))
        if let_go is not None:
            let_go()
    place_N = np.empty(len(asked), np.int32)
    place_N[order.to_numpy()] = np.concatenate(found)
    return place_N


def _found(asked: pa.Array, labels: pa.Array) -> npt.NDArray[np.int64]:
    low, high = np.zeros(len(asked), np.int64), np.full(len(asked), len(labels), np.int64)
    while (open_ := low < high).any():
        middle = np.where(open_, (low + high) // 2, 0)
        less = pc.fill_null(pc.less(labels.take(pa.array(middle)), asked), False)
        below = less.to_numpy(zero_copy_only=False) & open_
        low, high = np.where(below, middle + 1, low), np.where(open_ & ~below, middle, high)
    there = pc.equal(labels.take(pa.array(np.minimum(low, len(labels) - 1))), asked)
    there = pc.fill_null(there, False).to_numpy(zero_copy_only=False)
    return np.where(there, low, -1)
