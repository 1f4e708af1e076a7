"""Rows with a time or a count that is none, where they are to be left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.bins import bin_starts, labels_of_other_bins
from tallyfold.data.cells import bad_counts
from tallyfold.data.missing import LeftOut, missing_in
from tallyfold.data.problems import Problems
from tallyfold.data.request import Request

Mask = npt.NDArray[np.bool_]


class BadRows(LeftOut):
    """Rows that were left out because a time or a count of theirs is none.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bad, month = BadRows(), AxisOrder.of_unit("month")
    >>> request = Request(["who", "day"], "n", {"day": month})
    >>> columns = {"day": pa.array(["2024-05-01", "2024-13-45"]), "n": pa.array([-1, 2])}
    >>> bad.kept(columns.items(), request).tolist()
    [False, False]
    >>> bad.columns["day"], bad.columns["n"]
    (1, 1)
    """

    def __init__(self) -> None:
        super().__init__("bad times or counts in")

    def kept(
        self, columns: Iterable[tuple[str, Any]], request: Request, spelled: bool = False
    ) -> Mask:
        """Note rows with a bad time or count; return the others, as a mask.

        Columns of labels that are not cut into units are never bad. `spelled` is as in
        `whole_counts`. Rows that lack a value are not bad.
        """
        masks = {}
        for name, values in columns:
            masks[name] = np.zeros(len(values), dtype=bool)
            if name == request.count_column:
                masks[name] = bad_counts(values, repr(name), spelled)
            for axis, order in request.bins.items():
                if name in (axis, request.column_of(axis)):
                    masks[name] |= bad_times(values, order, name)
        return ~self.note(masks)


def bad_times(values: Any, order: AxisOrder, axis: str) -> Mask:
    """Return which values are no times, not missing, and no labels of other bins either.

    Those are no slip of a row: a table of them is refused.
    """
    starts = bin_starts(values, order, axis, problems=Problems())
    known = missing_in(values) | labels_of_other_bins(values, order)
    return np.asarray(missing_in(starts) & ~known)
