"""Everything the page shows, as one JSON document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.evaluation.scaling import component_places
from tallyfold.models.base import CountModel
from tallyfold.models.card import (
    ENDS,
    amount_words,
    changed_parameters,
    gate_words,
    text_of,
    whether_words,
)
from tallyfold.posterior.margin_effects import margin_effects
from tallyfold.report.explorer import entities
from tallyfold.report.explorer.held_out import held_out_entry
from tallyfold.report.history import comparable, validated
from tallyfold.version import __version__

if TYPE_CHECKING:
    import pandas as pd

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
        "level": entities.LEVEL,
        **_factors_entry(model, train),
        "interactions": _interactions(model),
        "fit": fit_entry(model),
        "data": data_entry(model, train),
        "held_out": None if test is None else held_out_entry(model, test, train, announce),
    }


def _factors_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return components and axes; there are none without factors, or if all labels are alike.

    Components that are switched off are counted only.
    """
    factors = None if model.fitted_.factors is None else model.posterior_
    if factors is None or all(np.ptp(factors.mean(name)) == 0 for name in factors.names):
        return {"components": [], "switched_off": 0, "axes": [], "mapped": None}
    names, given = model.component_names_, model.fitted_.component_names
    stable = model.fitted_.component_stability
    off_K = factors.switched_off()
    number_K, share_K = np.flatnonzero(~off_K), factors.shares()[~off_K]
    weights = [entities.weights_of(factors, name, number_K) for name in factors.names]
    places_K2, mapped = component_places([mean_DK for mean_DK, *_ in weights])
    rooms = entities.limits([len(axis) for axis in model.axes_], len(share_K))
    return {
        "components": [
            {
                "name": number,
                "called": names[number],
                "named": bool(given and given[number]),
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
            entities.axis_entry(axis.name, axis.labels, each, share_K, room, _counted(train, axis))
            for axis, each, room in zip(model.axes_, weights, rooms, strict=True)
        ],
    }


def _counted(train: CountTensor | None, axis: Axis) -> npt.NDArray[np.int64] | None:
    """Return how often each label of a model's axis was counted in the training data."""
    if train is None or axis.name not in train.names:
        return None
    place_D, known_D = train.axis(axis.name).find(axis.labels)
    return np.where(known_D, train.marginal(axis.name)[place_D], 0)


def _interactions(model: CountModel) -> list[dict[str, Any]]:
    """Return what combinations of labels add: by the margins of a head, or by multipliers."""
    head, found = model.fitted_.head, []
    if head is None:
        for derived in model.fitted_.derived:
            table = derived.to_frame(model.posterior_, MOST_PAIRS, entities.LEVEL)
            found.append(_interaction_entry(model, derived.axes, len(derived.keys_P), table))
    elif model.fitted_.factors is not None:
        for margin in head.tables:
            names = [model.axes_[axis].name for axis in margin.axes]
            if len(names) == 2:
                table = margin_effects(head, model.posterior_, names, MOST_PAIRS, entities.LEVEL)
                found.append(_interaction_entry(model, margin.axes, len(margin.keys_P), table))
    return found


def _interaction_entry(
    model: CountModel, axes: tuple[int, ...], n_seen: int, table: pd.DataFrame
) -> dict[str, Any]:
    """Return the combinations of labels that surely have larger counts than their labels say."""
    table = table[table["low"] > 1]
    n_axes = len(axes)
    return {
        "axes": [model.axes_[axis].name for axis in axes],
        "seen": n_seen,
        "rows": [
            [
                *map(entities.label_text, row[:n_axes]),
                *(entities.rounded(number) for number in row[n_axes:]),
            ]
            for row in table.itertuples(index=False, name=None)
        ],
    }


def fit_entry(model: CountModel) -> dict[str, Any]:
    """Return what the page says of the fit."""
    fitted = model.fitted_
    changed = changed_parameters(model)
    likelihood = fitted.likelihood
    phases = [each.phase for each in fitted.history]
    known = comparable(phases)
    objectives = [e.objective if k else None for e, k in zip(fitted.history, known, strict=True)]
    return {
        "model": type(model).__name__,
        "version": __version__,
        "parameters": [
            {"name": name, "value": text_of(value), "default": name not in changed}
            for name, value in fitted.parameters.items()
        ],
        "likelihood": likelihood and likelihood.name.replace("-", " "),
        "whether": whether_words(fitted),
        "gate": gate_words(model),
        "amount": None if fitted.head is None else amount_words(fitted),
        "members": 1 + len(fitted.others),
        "iterations": fitted.n_iter,
        "ended": ENDS.get(fitted.reason, fitted.reason),
        "validation": entities.rounded(fitted.validation_score),
        "history": [
            [
                each.number,
                entities.rounded(objective, 7),
                entities.rounded(each.validation, 7),
                each.phase,
            ]
            for each, objective in zip(fitted.history, objectives, strict=True)
        ],
        "scored": [
            {"name": name, "own": own}
            for name, own in validated(phases, fitted.occurrence is not None).items()
        ],
        "seconds": entities.rounded(fitted.history[-1].seconds, 3) if fitted.history else None,
    }


def data_entry(model: CountModel, train: CountTensor | None) -> dict[str, Any]:
    """Return what is known of the data: sizes always, counts if the training data are given."""
    counts = None
    if train is not None:
        counts = {
            "cells": train.nnz,
            "total": int(train.total),
            "density": entities.rounded(train.density),
            "ones": entities.rounded(float(np.mean(train.counts == 1))) if train.nnz else None,
        }
    return {
        "axes": [{"name": axis.name, "size": len(axis)} for axis in model.axes_],
        "zeros": str(model.fitted_.parameters.get("zeros", "missing")),
        "train": counts,
    }
