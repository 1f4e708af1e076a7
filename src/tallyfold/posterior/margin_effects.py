"""What a combination of labels adds to counts, beyond what its labels say one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, logit, ndtri

from tallyfold.errors import LabelError
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.derived_axis import NUMBERS
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.margins import MarginTable
from tallyfold.posterior.whole_sums import UNIT

if TYPE_CHECKING:
    import pandas as pd

STANDING_OUT, OWN_PULL, LEAST_CELLS = 0.01, 1.0, 5
"""The share of combinations that may stand out of the others, after how many cells those stand for
themselves, and the cells they need: of fewer, one large count may be all there is."""


def margin_effects(
    head: CountHead, factors: Factors, axes: Sequence[str], top: int, level: float
) -> pd.DataFrame:
    """Return the combinations whose counts are surely larger than their labels say.

    The multiplier is a ratio of geometric means of counts: that of the combination, pulled to what
    the margins of its labels say together, over the latter. How far it is pulled is learnt from all
    combinations, but one that stands out is pulled little. Columns: the labels, the multiplier and
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
    own_P = own_PF[:, 0].astype(np.float64)
    left_P = own_PF[:, 1] / UNIT - own_P * expected_P
    log_B = np.log(head.bins.lower_B)
    total = head.base_B @ log_B**2 - (head.base_B @ log_B) ** 2
    return _pulled(left_P, own_P, total * pull / (1 + pull), pull)


def _pulled(left_P: Floats, cells_P: Floats, inside: float, pull: float) -> tuple[Floats, Floats]:
    """Return mean and spread of effects, from sums over cells of a variance.

    Effects are normal around zero, nearly all with the variance that a pull stands for, few with
    that of `OWN_PULL`.
    """
    pull_21 = np.array([[pull], [min(pull, OWN_PULL)]])
    mean_2P, variance_2P = left_P / (cells_P + pull_21), inside / (cells_P + pull_21)
    weight_2P = cells_P * pull_21 / (cells_P + pull_21)  # one over the variance of the cells' mean
    unlikely_2P = (left_P / cells_P) ** 2 * weight_2P / inside - np.log(weight_2P)
    out_P = expit(logit(STANDING_OUT) + (unlikely_2P[0] - unlikely_2P[1]) / 2)
    out_P[cells_P < LEAST_CELLS] = 0.0
    share_2P = np.stack([1 - out_P, out_P])
    mean_P = (share_2P * mean_2P).sum(axis=0)
    square_P = (share_2P * (variance_2P + mean_2P**2)).sum(axis=0)
    return mean_P, np.sqrt(square_P - mean_P**2)


def _column(position_P: Any, axis: int) -> Any:
    """Return cells of which one position is known, for a table of that axis alone."""
    indices_PM = np.zeros((len(position_P), axis + 1), dtype=np.int64)
    indices_PM[:, axis] = position_P
    return indices_PM
