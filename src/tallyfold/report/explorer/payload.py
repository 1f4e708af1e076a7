"""Everything the page shows, as one JSON document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.scaling import component_places
from tallyfold.models.base import CountModel
from tallyfold.posterior.interactions import Interaction
from tallyfold.report.explorer.entities import LEVEL, axis_entry, label_text, limits, weights_of
from tallyfold.report.explorer.facts import data_entry, fit_entry
from tallyfold.report.explorer.held_out import held_out_entry
from tallyfold.report.explorer.packing import rounded

MOST_PAIRS = 12
"""Multipliers shown of each set of axes."""


def payload_of(
    model: CountModel,
    *,
    test: CountTensor | None = None,
    train: CountTensor | None = None,
    title: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return what the page shows of a fitted model; see `write_report`."""
    names = " × ".join(axis.name for axis in model.axes_)
    return {
        "title": title or f"What {type(model).__name__} found in {names}",
        "level": LEVEL,
        **_factors_entry(model, train),
        "interactions": [
            _interaction_entry(model, each) for each in model.fitted_.interactions if not each.idle
        ],
        "fit": fit_entry(model),
        "data": data_entry(model, train),
        "held_out": None if test is None else held_out_entry(model, test, train, announce),
    }


def _factors_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return components and axes; there are none without factors, or if all labels are alike."""
    factors = None if model.fitted_.factors is None else model.posterior_
    if factors is None or all(np.ptp(factors.mean(name)) == 0 for name in factors.names):
        return {"components": [], "axes": [], "mapped": None}
    share_K = factors.shares()
    weights = [weights_of(factors, name) for name in factors.names]
    places_K2, mapped = component_places([each.mean_DK for each in weights])
    rooms = limits([len(axis) for axis in model.axes_], len(share_K))
    return {
        "components": [
            {"share": rounded(share), "x": rounded(x), "y": rounded(y)}
            for share, (x, y) in zip(share_K.tolist(), places_K2.tolist(), strict=True)
        ],
        "mapped": rounded(mapped, 3),
        "axes": [
            axis_entry(axis.name, axis.labels, each, share_K, room, _counted(train, axis))
            for axis, each, room in zip(model.axes_, weights, rooms, strict=True)
        ],
    }


def _counted(train: CountTensor | None, axis: Axis) -> npt.NDArray[np.int64] | None:
    """Return how often each label of a model's axis was counted in the training data."""
    if train is None or axis.name not in train.names:
        return None
    place_D, known_D = train.axis(axis.name).find(axis.labels)
    return np.where(known_D, train.marginal(axis.name)[place_D], 0)


def _interaction_entry(model: CountModel, interaction: Interaction) -> dict[str, Any]:
    """Return the combinations of labels that are counted more than their factors say."""
    table = interaction.to_frame(model.posterior_, MOST_PAIRS, LEVEL)
    table = table[table["low"] > 1]
    n_axes = len(interaction.axes)
    return {
        "axes": [model.axes_[axis].name for axis in interaction.axes],
        "seen": len(interaction.keys_P),
        "rows": [
            [*map(label_text, row[:n_axes]), *(rounded(number) for number in row[n_axes:])]
            for row in table.itertuples(index=False, name=None)
        ],
    }
