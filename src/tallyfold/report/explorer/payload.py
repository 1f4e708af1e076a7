"""Everything the page shows, as one JSON document."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tallyfold.data.tensor import CountTensor
from tallyfold.models.base import CountModel
from tallyfold.posterior.margin_effects import margin_effects
from tallyfold.report.explorer import entities
from tallyfold.report.explorer.components import components_entry
from tallyfold.report.explorer.fit import data_entry, fit_entry
from tallyfold.report.explorer.held_out import held_out_entry, kept_entry
from tallyfold.report.explorer.next_periods import next_periods_entry

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
        **components_entry(model, train),
        "interactions": _interactions(model),
        "next_periods": next_periods_entry(model),
        "fit": fit_entry(model),
        "data": data_entry(model, train),
        "held_out": None if test is None else held_out_entry(model, test, train, announce),
        "kept": kept_entry(model),
    }


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
