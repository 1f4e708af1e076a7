"""What the next periods bring: their totals, and the cells most to be expected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tallyfold.kernels.arrays import Positions
from tallyfold.models.expected import checked_model
from tallyfold.models.fitted_model import FittedModel
from tallyfold.models.parameters import check_parameters, integer, number

if TYPE_CHECKING:
    import pandas as pd

MOST_LISTED = 2_000_000
"""Of more combinations than this, those that had a count before are looked at."""


def next_periods(
    model: FittedModel, horizon: int = 1, *, top: int = 50, level: float = 0.9
) -> pd.DataFrame:
    """Return the cells of the next periods with the largest expected counts.

    Parameters
    ----------
    model
        A fitted model that remembers earlier periods.
    horizon
        How many periods.
    top
        How many cells of each.
    level
        Of the interval of a cell's count, from `low` to `high`.

    Returns
    -------
    pandas.DataFrame
        A row per cell, the largest expected count of each period first: labels, the probability of
        a count (where zeros are observed), mean, low and high.

    Examples
    --------
    >>> import tallyfold as tf
    >>> axes = [tf.Axis("who", ["a", "b"]), tf.Axis("day", [1, 2, 3], tf.AxisOrder("ordered"))]
    >>> tensor = tf.CountTensor(axes, [[0, 0], [0, 1], [0, 2], [1, 0]], [1, 1, 1, 1])
    >>> model = tf.LastValue().fit(tensor)
    >>> next_periods(model, 2, top=1)[["who", "day"]].to_numpy().tolist()
    [['a', 4], ['a', 5]]
    """
    import pandas as pd

    check_parameters({"top": top, "level": level}, {"top": integer(1), "level": number(0, 1)})
    ahead = checked_model(model).forecast(horizon)
    forecaster = ahead.fitted_.forecaster
    assert forecaster is not None
    axis = forecaster.history.axis
    known = len(ahead.axes_[axis]) - horizon
    frames = []
    for place in range(known, known + horizon):
        cells = np.insert(_combinations(ahead), axis, place, axis=1)
        mean_N = ahead.predict(cells)
        order = np.argsort(-mean_N, kind="stable")[:top]
        chosen = cells[order]
        columns = {
            each.name: each.labels.take(pa.array(column)).to_pandas()
            for each, column in zip(ahead.axes_, chosen.T, strict=True)
        }
        frame = pd.DataFrame(columns)
        if forecaster.rates is not None:
            frame["probability"] = ahead.probability(chosen)
        frame["mean"] = mean_N[order]
        frame[["low", "high"]] = ahead.interval(chosen, level)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def _combinations(model: FittedModel) -> Positions:
    """Return the combinations of other labels to look at."""
    forecaster = model.fitted_.forecaster
    assert forecaster is not None
    history = forecaster.history
    if math.prod(history.sizes) <= MOST_LISTED:
        keys = np.arange(math.prod(history.sizes))
    else:
        keys = np.unique(history.whole.key_E)
    return np.stack(np.unravel_index(keys, history.sizes), axis=1).astype(np.int32)
