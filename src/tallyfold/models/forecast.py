"""The next periods: a fitted model whose axis of time is longer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import check_parameters, integer
from tallyfold.probability.counts import COUNTS


def forecast(model: Any, horizon: int) -> Any:
    """Return a model that also knows the next periods; see `FittedModel.forecast`."""
    check_parameters({"horizon": horizon}, {"horizon": integer(1)})
    fitted: Fitted = model.fitted_
    forecaster = fitted.forecaster
    if forecaster is None:
        raise ParameterError(
            f"this {type(model).__name__} does not remember what came before, so it has no "
            "forecast. Fit a model that does: SmoothedPast, MovingAverage, SeasonalNaive or "
            "LastValue, or VAEBPTF with observed zeros and an axis of time (`time`)."
        )
    axis = fitted.axes[forecaster.history.axis]
    longer = with_next_labels(axis, horizon)
    step_D = counted_steps(axis, longer, forecaster.history.step_D)
    axes = tuple(longer if each is axis else each for each in fitted.axes)
    ahead = model._with() if fitted.factors is None else _memory_of(model, axis.name)
    plain = fitted if fitted.factors is None else without_factors(fitted)
    ahead._fitted = replace(
        plain,
        axes=axes,
        forecaster=forecaster.with_periods(step_D),
        parameters=ahead._plain_parameters(),
    )
    return ahead


def without_factors(fitted: Fitted) -> Fitted:
    """Return what a fit remembers of earlier periods, and nothing else that it left."""
    return replace(
        fitted,
        factors=None,
        likelihood=COUNTS["poisson", False],
        encoders=None,
        head=None,
        occurrence=None,
        validation_score=None,
        others=(),
        component_names=(),
        component_stability=(),
        edits=(),
    )


def _memory_of(model: Any, time: str) -> Any:
    """Return a model of what another remembers: its factors know no later period."""
    from tallyfold.models.forecasting import SmoothedPast

    scale = model.get_params().get("scale", "auto")
    return SmoothedPast(time=time, scale=scale, network="auto")


def counted_steps(axis: Axis, longer: Axis, step_D: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the steps of a longer axis, counted as those of the axis that it was."""
    return longer.steps() - int(axis.steps()[0] - step_D[0])


def on_known_labels(fitted: Fitted, tensor: CountTensor) -> CountTensor:
    """Return counts of next periods on all labels that a fit knows: who did not come is a zero.

    Counts of other periods, and of a fit with factors, are left as they are.
    """
    forecaster = fitted.forecaster
    if forecaster is None or fitted.factors is not None or not tensor.nnz:
        return tensor
    history = forecaster.history
    place_D, known_D = fitted.axes[history.axis].find(tensor.axes[history.axis].labels)
    if not known_D.all() or (history.step_D[place_D] < history.n_periods).any():
        return tensor
    axes, columns = list(tensor.axes), list(tensor.indices.T)
    for number, (own, axis) in enumerate(zip(fitted.axes, tensor.axes, strict=True)):
        if number != history.axis:
            place_D, known_D = own.find(axis.labels)
            new = axis.take(np.flatnonzero(~known_D)).labels.cast(own.labels.type)
            place_D = np.where(known_D, place_D, len(own) - 1 + np.cumsum(~known_D))
            labels = pa.concat_arrays([own.labels, new])
            axes[number] = Axis.of_distinct(own.name, labels, own.order)
            columns[number] = place_D[columns[number]]
    return CountTensor(axes, np.stack(columns, axis=1).astype(np.int32), tensor.counts)


def with_next_labels(axis: Axis, horizon: int) -> Axis:
    """Return an axis with the labels that follow its last one."""
    labels = pa.concat_arrays([axis.labels, axis.following(horizon).cast(axis.labels.type)])
    return Axis.of_distinct(axis.name, labels, axis.order)
