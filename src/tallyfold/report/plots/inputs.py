"""The tables that figures are given, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.events import read_columns
from tallyfold.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def read_numbers(
    frame: Any, numbers: Sequence[str], others: Sequence[str] = (), *, missing: bool = False
) -> pd.DataFrame:
    """Return columns of a frame, some of them finite numbers; with `missing` some may be absent."""
    import pandas as pd

    table: pd.DataFrame = read_columns(frame, [*dict.fromkeys([*others, *numbers])])[0].to_pandas()
    if not len(table):
        raise DataError("the table has no row; there is nothing to draw.")
    for name in numbers:
        column, values = table[name], pd.to_numeric(table[name], errors="coerce").astype(float)
        bad = ~np.isfinite(values) & ~(column.isna() & missing)
        if bad.any():
            rows = ", ".join(f"row {row}: {column[row]!r}" for row in np.flatnonzero(bad)[:5])
            raise DataError(
                f"column {name!r} must hold finite numbers; got {int(bad.sum()):,} rows without "
                f"one, {rows}. Drop or mend them."
            )
        table[name] = values
    return table


def has_column(frame: Any, name: str) -> bool:
    """Tell whether a frame has a column."""
    return name in getattr(frame, "columns", ())
