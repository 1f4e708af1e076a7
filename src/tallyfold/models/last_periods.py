"""Rivals of every forecast: the last value, a moving average, the same season before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError
from tallyfold.inference.past.learning import Candidate
from tallyfold.models.forecasting import ForecastingModel
from tallyfold.models.parameters import integer
from tallyfold.models.time_axis import time_number
from tallyfold.posterior.past_rates import Memory

WINDOWS = (1, 2, 3, 4, 6, 8, 13, 26, 52)
"""Windows that a moving average chooses from."""
PERIODS = {"hour": 24, "day": 7, "week": 52, "month": 12, "quarter": 4}
"""How many bins of a unit come before a season returns."""

Window = Literal["auto"] | Annotated[int, integer(1)]


def _itself(memory: Memory) -> Candidate:
    """Return a memory of combinations that falls back to the same memory of their labels."""
    return memory, memory


@dataclass(kw_only=True, eq=False, repr=False)
class LastValue(ForecastingModel):
    """Persistence: a period is like the last one, calibrated.

    How much more probable a count is where the last period had one is learned on the last training
    periods, as is what the last period's totals of its labels say of one that had none. Parameters
    are those of `SmoothedPast`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> order = tf.AxisOrder("ordered")
    >>> axes = [tf.Axis("who", ["a", "b"]), tf.Axis("day", [1, 2, 3], order)]
    >>> tensor = tf.CountTensor(axes, [[0, 0], [0, 1], [0, 2], [1, 0]], [1, 1, 1, 1])
    >>> model = tf.LastValue().fit(tensor).forecast(1)
    >>> model.axes_[1].label(3)
    4
    """

    name: ClassVar[str] = "last-value"

    def _candidates_for(self, tensor: CountTensor, history: int) -> list[Candidate]:
        return [_itself(Memory("window", 1))]


@dataclass(kw_only=True, eq=False, repr=False)
class MovingAverage(ForecastingModel):
    """A period is like the mean of the last ones, calibrated.

    Parameters
    ----------
    window
        How many periods; ``"auto"`` learns it on the last training periods.
    zeros, time, scale
        As in `SmoothedPast`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tf.MovingAverage(window=4).window
    4
    """

    name: ClassVar[str] = "moving-average"

    window: Window = "auto"

    def _candidates_for(self, tensor: CountTensor, history: int) -> list[Candidate]:
        windows = [self.window] if isinstance(self.window, int) else WINDOWS
        fitting = [width for width in windows if width <= history] or [history]
        return [_itself(Memory("window", width)) for width in fitting]


@dataclass(kw_only=True, eq=False, repr=False)
class SeasonalNaive(ForecastingModel):
    """A period is like the same one of the last season, calibrated.

    Parameters
    ----------
    period
        After how many periods the season returns; ``"auto"``: 24 hours, 7 days, 52 weeks, 12
        months, 4 quarters, by the unit of the bins of time.
    zeros, time, scale
        As in `SmoothedPast`.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tf.SeasonalNaive(period=7).period
    7
    """

    name: ClassVar[str] = "seasonal-naive"

    period: Window = "auto"

    def _candidates_for(self, tensor: CountTensor, history: int) -> list[Candidate]:
        period = self.period if isinstance(self.period, int) else self._usual(tensor)
        if history <= period:
            name = tensor.axes[time_number(tensor.axes, self.time)].name
            raise DataError(
                f"a season of {period:,} periods needs more than as many; axis {name!r} has counts "
                f"over {history:,}. Give a shorter `period`, or take SmoothedPast, which needs "
                "none."
            )
        return [_itself(Memory("season", period))]

    def _usual(self, tensor: CountTensor) -> int:
        axis = tensor.axes[time_number(tensor.axes, self.time)]
        if axis.unit not in PERIODS:
            raise ParameterError(
                f"`period` must be given where the unit of time has no usual season; axis "
                f"{axis.name!r} has {'no unit' if axis.unit is None else f'the unit {axis.unit!r}'}"
                f"; known are {', '.join(PERIODS)}. Give `period`, such as period=7."
            )
        return PERIODS[axis.unit]
