"""Rows with a time or a count that is none, where they are to be left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.bins import floor_times
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
    >>> bad, request = BadRows(), Request(["who", "day"], "n", {"day": "month"})
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
            if name == request.count_column:
                masks[name] = bad_counts(values, repr(name), spelled)
            elif name in request.bins:
                masks[name] = bad_times(values, request.bins[name], name)
            else:
                masks[name] = np.zeros(len(values), dtype=bool)
        return ~self.note(masks)


def bad_times(values: Any, unit: str, axis: str) -> Mask:
    """Return which values are no times, and not missing."""
    starts = floor_times(values, unit, axis, problems=Problems())
    return np.asarray(missing_in(starts) & ~missing_in(values))
