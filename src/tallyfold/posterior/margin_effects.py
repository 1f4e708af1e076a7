"""What a combination of labels adds to counts, beyond what its labels say one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from tallyfold.errors import LabelError
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.derived_axis import NUMBERS
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.margins import MarginTable
from tallyfold.posterior.whole_sums import UNIT

if TYPE_CHECKING:
    import pandas as pd


def margin_effects(
    head: CountHead, factors: Factors, axes: Sequence[str], top: int, level: float
) -> pd.DataFrame:
    """Return the combinations whose counts are surely larger than their labels say.

    The multiplier is a ratio of geometric means of counts: that of the combination, pulled to what
    the margins of its labels say together, over the latter. Columns: the labels, the multiplier and
    the ends of its interval; those with the largest lower end come first.
    """
    import pandas as pd

    asked = {factors.axis_number(name) for name in axes}
    found = [table for table in head.tables if set(table.axes) == asked and len(asked) > 1]
    if not found:
        known = [table.axes for table in head.tables if len(table.axes) > 1]
        words = [f"({', '.join(factors.names[axis] for axis in each)})" for each in known]
        raise LabelError(
            f"there are no margins of ({', '.join(axes)}); there are "
            f"{' and '.join(words) or 'none of several axes'}."
        )
    table = found[0]
    positions = np.unravel_index(table.keys_P, table.sizes)
    mean_P, spread_P = _difference(head, table, positions)
    low_P = mean_P - ndtri((1 + level) / 2) * spread_P
    order = np.argsort(-low_P, kind="stable")[:top]
    order = order[mean_P[order] > 0]
    columns: dict[str, Any] = {}
    for axis, position_P in zip(table.axes, positions, strict=True):
        name = factors.names[axis]
        labels = factors.labels[axis].take(position_P[order]).to_pandas()
        columns[f"{name} (axis)" if name in NUMBERS else name] = labels
    columns["multiplier"] = np.exp(mean_P[order])
    columns["low"] = np.exp(low_P[order])
    columns["high"] = np.exp(2 * mean_P[order] - low_P[order])
    return pd.DataFrame(columns)


def _difference(
    head: CountHead, table: MarginTable, positions: Sequence[Any]
) -> tuple[Floats, Floats]:
    """Return mean and spread of each combination's ln y, less what its labels say together."""
    centre = head.statistics.mean_F[0]
    singles = {each.axes[0]: each for each in head.tables if len(each.axes) == 1}
    expected_P = np.full(len(table.keys_P), centre)
    for axis, position_P in zip(table.axes, positions, strict=True):
        sums_PF = singles[axis].sums_at(singles[axis].rows_of(_column(position_P, axis)))
        cells_P, pull = sums_PF[:, 0], singles[axis].strength_F[0]
        expected_P += (sums_PF[:, 1] / UNIT - cells_P * centre) / (cells_P + pull)
    own_PF, pull = table.sums_PF, table.strength_F[0]
    cells_P = own_PF[:, 0].astype(np.float64)
    mean_P = (own_PF[:, 1] / UNIT - cells_P * expected_P) / (cells_P + pull)
    log_B = np.log(head.bins.lower_B)
    total = head.base_B @ log_B**2 - (head.base_B @ log_B) ** 2
    return mean_P, np.sqrt(total * pull / (1 + pull) / (cells_P + pull))


def _column(position_P: Any, axis: int) -> Any:
    """Return cells of which one position is known, for a table of that axis alone."""
    indices_PM = np.zeros((len(position_P), axis + 1), dtype=np.int64)
    indices_PM[:, axis] = position_P
    return indices_PM
