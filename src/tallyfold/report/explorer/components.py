"""Components as the page needs them: what they are called, where they stand, what shows them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.scaling import component_places
from tallyfold.kernels.arrays import Ints
from tallyfold.models.base import CountModel
from tallyfold.models.cells import cell_positions
from tallyfold.models.explaining import beyond_main_effects, clearest_cells, expected_of_labels
from tallyfold.posterior.component_names import BACKGROUND
from tallyfold.posterior.factors import Factors
from tallyfold.report.explorer import entities

MOST_EXAMPLES = 10
"""Cells that show a component."""
MOST_CELLS = 500_000
"""Examples are taken from at most this many training cells, spread evenly over them."""

NOTHING: dict[str, Any] = {
    "components": [], "switched_off": 0, "axes": [], "mapped": None, "nothing_beyond": "",
    "examples": None,
}  # fmt: skip


def components_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return components and axes; there are none without factors, or if all labels are alike.

    Components that are switched off are counted only.
    """
    factors = None if model.fitted_.factors is None else model.posterior_
    if factors is None or all(np.ptp(factors.mean(name)) == 0 for name in factors.names):
        return NOTHING
    names, given = model.component_names_, model.fitted_.component_names
    stable = model.fitted_.component_stability
    off_K = factors.switched_off()
    number_K, share_K = np.flatnonzero(~off_K), factors.shares()[~off_K]
    weights = [entities.weights_of(factors, name, number_K) for name in factors.names]
    places_K2, mapped = component_places([mean_DK for mean_DK, *_ in weights])
    rooms = entities.limits(
        [len(axis) for axis in model.axes_],
        [entities.label_bytes(axis.labels, len(share_K)) for axis in model.axes_],
    )
    return {
        "components": [
            {
                "name": number,
                "called": names[number],
                "named": bool(given and given[number]),
                "common": names[number] == BACKGROUND,
                "stability": entities.rounded(stable[number]) if stable else None,
                "share": entities.rounded(share),
                "x": entities.rounded(x),
                "y": entities.rounded(y),
            }
            for number, share, (x, y) in zip(
                number_K.tolist(), share_K.tolist(), places_K2.tolist(), strict=True
            )
        ],
        "switched_off": int(off_K.sum()),
        "mapped": entities.rounded(mapped, 3),
        "axes": [
            entities.axis_entry(
                axis.name,
                axis.labels,
                each,
                share_K,
                room,
                _counted(train, axis),
                expected_of_labels(model.fitted_, axis.name),
            )
            for axis, each, room in zip(model.axes_, weights, rooms, strict=True)
        ],
        "nothing_beyond": beyond_main_effects(factors),
        "examples": None if train is None else examples_entry(model, factors, train, number_K),
    }


def _counted(train: CountTensor | None, axis: Axis) -> Ints | None:
    """Return how often each label of a model's axis was counted in the training data."""
    if train is None or axis.name not in train.names:
        return None
    place_D, known_D = train.axis(axis.name).find(axis.labels)
    return np.where(known_D, train.marginal(axis.name)[place_D], 0)


def examples_entry(
    model: CountModel, factors: Factors, train: CountTensor, number_K: Ints
) -> dict[str, Any]:
    """Return the training cells that show each component best, and among how many."""
    rows = np.arange(train.nnz)
    if train.nnz > MOST_CELLS:
        rows = np.linspace(0, train.nnz - 1, MOST_CELLS).astype(np.int64)
    cells = CountTensor(train.axes, train.indices[rows], train.counts[rows])
    positions_NM = cell_positions(model.axes_, cells, "prior")
    known_N = (positions_NM >= 0).all(axis=1)
    positions_NM, count_N = positions_NM[known_N], cells.counts[known_N]

    def texts(row: int) -> list[str]:
        places = zip(model.axes_, positions_NM[row].tolist(), strict=True)
        return [entities.label_text(axis.label(place)) for axis, place in places]

    found = clearest_cells(factors, positions_NM, number_K, MOST_EXAMPLES)
    return {
        "cells": train.nnz,
        "looked_at": len(positions_NM),
        "rows": [
            [
                [*texts(row), int(count_N[row]), entities.rounded(float(share))]
                for row, share in zip(row_N.tolist(), share_N.tolist(), strict=True)
            ]
            for row_N, share_N in found
        ],
    }
