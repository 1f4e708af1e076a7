"""What the next periods bring in all, or to each label of an axis, with intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import axis_number
from tallyfold.errors import ParameterError
from tallyfold.inference.past.totals import learned_totals
from tallyfold.kernels.arrays import Floats
from tallyfold.models.expected import checked_model
from tallyfold.models.fitted_model import FittedModel
from tallyfold.models.parameters import NONE, TEXT, check_parameters, number
from tallyfold.posterior.forecaster import Forecaster
from tallyfold.posterior.past_rates import RECENT, Memory
from tallyfold.posterior.past_totals import labels_asked, whole_levels

if TYPE_CHECKING:
    import pandas as pd


class Ribbon(NamedTuple):
    """Totals of the next periods: what is expected, and an interval around it."""

    mean_H: Floats
    low_H: Floats
    high_H: Floats


def next_totals(
    model: FittedModel, horizon: int = 1, *, axis: str | None = None, level: float = 0.9
) -> pd.DataFrame:
    """Return how many counts the next periods bring, in all or to each label of an axis.

    Totals are told from their own past: a fading mean, and as much spread as totals of the last
    periods had around what was expected of them. Labels without any count yet have no row. Where a
    part of all cells was hidden from the fit, totals are still those of all cells.

    Parameters
    ----------
    model
        A fitted model that remembers earlier periods, with observed zeros.
    horizon
        How many periods.
    axis
        Whose labels; None, or the axis of time: the totals of whole periods.
    level
        Of the interval of a total, from `low` to `high`.

    Returns
    -------
    pandas.DataFrame
        A row per period and label, the largest mean of each period first: mean, low and high.

    Examples
    --------
    >>> import tallyfold as tf
    >>> made = tf.simulate((20, 10, 8), 2, density=0.3, axes=["who", "what", "day"]).tensor
    >>> days = tf.Axis("day", list(range(8)), tf.AxisOrder("ordered"))
    >>> model = tf.LastValue().fit(tf.CountTensor([*made.axes[:2], days], made.indices, made.counts))
    >>> next_totals(model, 2)["day"].tolist()
    [8, 9]
    >>> list(next_totals(model, axis="what").columns)
    ['what', 'day', 'mean', 'low', 'high']
    """  # noqa: E501
    import pandas as pd

    check_parameters({"axis": axis, "level": level}, {"axis": TEXT | NONE, "level": number(0, 1)})
    ahead = checked_model(model).forecast(horizon)
    forecaster = ahead.fitted_.forecaster
    assert forecaster is not None
    if forecaster.rates is None:
        raise ParameterError(
            f"this {type(model).__name__} was fitted with zeros='missing', so it does not tell "
            "whether there is a count, nor what counts come to. Fit with zeros='observed'."
        )
    history = forecaster.history
    time = ahead.axes_[history.axis]
    periods = time.labels[len(time) - horizon :].to_pandas()
    if axis in (None, time.name):
        found = ribbon(forecaster, horizon, level)
        return pd.DataFrame(
            {time.name: periods, "mean": found.mean_H, "low": found.low_H, "high": found.high_H}
        )
    place = axis_number(ahead.axes_, axis)
    other = place - (place > history.axis)
    totals = learned_totals(forecaster, other)
    label_L = np.unique(history.totals[1 + other].key_E)
    frames = []
    for number_ahead, period in enumerate(periods, 1):
        asked = labels_asked(history, other, label_L, history.n_periods - 1, number_ahead)
        told = totals.distribution(history, asked).of_all(forecaster.share)
        order = np.argsort(-told.mean_N, kind="stable")
        columns = {
            axis: ahead.axes_[place].labels.take(pa.array(label_L[order])).to_pandas(),
            time.name: period,
            "mean": told.mean_N[order],
            "low": told.quantile((1 - level) / 2)[order],
            "high": told.quantile((1 + level) / 2)[order],
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)


def ribbon(forecaster: Forecaster, horizon: int, level: float) -> Ribbon:
    """Return the totals of the next periods."""
    from scipy.stats import t

    rates, history, spread = forecaster.rates, forecaster.history, forecaster.spread
    assert rates is not None
    memory = rates.memory if rates.margins is None else Memory("decayed", RECENT)
    mean_H = whole_levels(history, memory, rates.season, horizon)
    squares = history.counts_E.astype(np.float64) ** 2
    groups = float(squares.sum() / history.counts_E.sum())
    deviation_H = np.array([spread.deviation(ahead) for ahead in range(1, horizon + 1)])
    scale_H = np.sqrt(deviation_H**2 + groups / mean_H)
    width_H = scale_H * float(t.ppf((1 + level) / 2, spread.freedom))
    mean_H = mean_H / forecaster.share
    return Ribbon(mean_H, mean_H * np.exp(-width_H), mean_H * np.exp(width_H))
