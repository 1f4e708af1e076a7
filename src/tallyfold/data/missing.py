"""Rows that lack a label or a count, or hold a bad one: left out, or given a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.problems import ALL_ROWS, SHOWN, Problem, Problems, RowNumbers
from tallyfold.data.summary import Dropped
from tallyfold.errors import DataError, LabelError

MISSING_LABEL = "(missing)"
"""The label of rows that have none, where they are given one."""
OTHER_WAYS = "Leave those rows out with missing='drop', or give them a label with missing='label'."


def missing_in(values: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return where values are missing: null, or NaN among numbers."""
    if pa.types.is_dictionary(values.type) and pa.types.is_floating(values.type.value_type):
        values = values.cast(values.type.value_type)
    nulls = values.is_null(nan_is_null=True)
    return np.asarray(nulls.to_numpy(zero_copy_only=False), dtype=bool)


def check_present(
    values: pa.Array | pa.ChunkedArray,
    axis: str,
    row_word: str = "position",
    rows: RowNumbers = ALL_ROWS,
    problems: Problems | None = None,
) -> None:
    """Note missing labels (null, or NaN among numbers); without `problems`, refuse them."""
    if not pc.any(values.is_null(nan_is_null=True)).as_py():
        return
    where = np.flatnonzero(values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    found = Problem(
        LabelError,
        f"labels of axis {axis!r} must not be missing",
        "missing",
        OTHER_WAYS if row_word == "row" else "Leave them out, or give them a label.",
        len(where),
        rows.of(where[:SHOWN]).tolist(),
        row_word=row_word,
    )
    if problems is None:
        raise LabelError(str(found))
    problems.note(found)


def named_missing(labels: pa.Array, axis: str) -> pa.Array:
    """Return labels of which one may be missing with a label in its place; all are text then.

    Examples
    --------
    >>> named_missing(pa.array([2003, None]), "year").to_pylist()
    ['2003', '(missing)']
    """
    if not labels.null_count:
        return labels
    texts = labels.cast(pa.large_string())
    if pc.any(pc.equal(texts, MISSING_LABEL)).as_py():
        raise LabelError(
            f"axis {axis!r} has a label {MISSING_LABEL!r}, which missing='label' gives to rows "
            "without a label. Rename it, or leave those rows out with missing='drop'."
        )
    return texts.fill_null(MISSING_LABEL)


class LeftOut:
    """How many rows were left out, and for which of their columns.

    Examples
    --------
    >>> left_out = LeftOut("bad values in")
    >>> left_out.note({"day": np.array([True, False]), "n": np.array([True, False])}).tolist()
    [True, False]
    >>> print(*left_out.records())
    bad values in day (1), n (1): dropped 1 row
    """

    def __init__(self, why: str) -> None:
        self.why, self.rows = why, 0
        self.columns: Counter[str] = Counter()

    def note(self, masks: Mapping[str, npt.NDArray[np.bool_]]) -> npt.NDArray[np.bool_]:
        """Note the rows to leave out for each column; return those of any, as a mask."""
        self.columns.update({name: int(mask.sum()) for name, mask in masks.items()})
        out = np.logical_or.reduce(list(masks.values()))
        self.rows += int(out.sum())
        return np.asarray(out)

    def records(self, noun: str = "rows") -> list[Dropped]:
        """Return what was left out, for `CountTensor.dropped`: rows or documents."""
        if not self.rows:
            return []
        return [Dropped(f"{self.why} {self._listed()}", **{noun: self.rows})]  # type: ignore[arg-type]

    def check_some_left(self, left: int) -> None:
        """Refuse a table of which no row is left."""
        if self.rows and not left:
            raise DataError(
                f"no row is left ({self.why} {self._listed()}); a tensor needs at least one event. "
                "Look at these columns."
            )

    def _listed(self) -> str:
        return ", ".join(f"{name} ({n:,})" for name, n in self.columns.items() if n)


class MissingRows(LeftOut):
    """Rows that were left out because they lack a label or a count."""

    def __init__(self) -> None:
        super().__init__("missing in")

    def kept(self, columns: Iterable[tuple[str, Any]]) -> npt.NDArray[np.bool_]:
        """Note which of these columns lack what; return the rows that lack nothing, as a mask."""
        return ~self.note({name: missing_in(values) for name, values in columns})
