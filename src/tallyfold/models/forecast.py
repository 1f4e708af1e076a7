"""The next periods: a fitted model whose axis of time is longer."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.errors import ParameterError
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import check_parameters, integer


def forecast(fitted: Fitted, horizon: int, name: str) -> Fitted:
    """Return the result of a fit that also knows the next periods; see `FittedModel.forecast`."""
    check_parameters({"horizon": horizon}, {"horizon": integer(1)})
    forecaster = fitted.forecaster
    if forecaster is None:
        raise ParameterError(
            f"this {name} does not remember what came before, so it has no forecast. Fit a model "
            "that does: SmoothedPast, MovingAverage, SeasonalNaive or LastValue."
        )
    axis = fitted.axes[forecaster.history.axis]
    longer = with_next_labels(axis, horizon)
    first = int(axis.steps()[0] - forecaster.history.step_D[0])
    axes = list(fitted.axes)
    axes[forecaster.history.axis] = longer
    step_D = longer.steps() - first
    return replace(fitted, axes=tuple(axes), forecaster=forecaster.with_periods(step_D))


def with_next_labels(axis: Axis, horizon: int) -> Axis:
    """Return an axis with the labels that follow its last one."""
    labels = pa.concat_arrays([axis.labels, axis.following(horizon).cast(axis.labels.type)])
    return Axis.of_distinct(axis.name, labels, axis.order)
