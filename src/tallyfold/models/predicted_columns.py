"""What a model predicts of cells, as columns to stand beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.scoring import knows_zeros
from tallyfold.probability.distribution import CountDistribution

if TYPE_CHECKING:
    from tallyfold.models.fitted_model import FittedModel

Columns = dict[str, Any]


def predicted_columns(
    model: FittedModel,
    positions: Positions,
    points: Sequence[str],
    level: float | None = None,
    *,
    nonzero: bool = False,
) -> Columns:
    """Return predictions of cells by the names of their columns.

    Parameters
    ----------
    model
        A fitted model.
    positions
        The cells.
    points
        Of ``"mean"`` and ``"median"``.
    level
        Of the interval from ``"low"`` to ``"high"``; None: no interval.
    nonzero
        Whether these are given that there is a count at all. A model whose zeros are observed says
        how probable that is as ``"probability"``, in any case.
    """
    if not model.fitted_.has_distribution and points == ["mean"] and level is None and not nonzero:
        return {"mean": model._point(positions, "mean")}
    predictive, found = model._predictive(positions), Columns()
    if knows_zeros(model, predictive):
        found["probability"] = probability_of(predictive)
    counts = predictive.given_positive() if nonzero else predictive
    found |= {point: model._point(positions, point, counts) for point in points}
    if level is not None:
        found |= dict(zip(("low", "high"), counts.interval(level), strict=True))
    return found


def probability_of(predictive: CountDistribution) -> Floats:
    """Return the probability of a count of at least one, of distributions that include zero."""
    return np.asarray(-np.expm1(predictive.log_pmf(0)))
