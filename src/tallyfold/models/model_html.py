"""A model in a notebook: its card, and what is strong in its components."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tallyfold.data.markup import escaped, heat, html_facts, html_table, titled
from tallyfold.models.explaining import expected_of_labels
from tallyfold.posterior.factors import Factors

if TYPE_CHECKING:
    from tallyfold.models.fitted_model import FittedModel

MOST_COMPONENTS = 10
MOST_LABELS = 4
"""How many components are shown, and of each the first labels of every axis."""


def model_html(model: FittedModel) -> str:
    """Return the card of a fitted model and its components; of others, that it is not fitted."""
    title = type(model).__name__
    if "_fitted" not in model.__dict__:
        return titled(title, "<p>not fitted yet</p>", html_facts({"parameters": repr(model)}))
    card = model.card()._repr_html_()
    factors = model.fitted_.factors
    if factors is None or factors.switched_off().all():
        return titled(title, card)
    return titled(title, card, *_components(model, factors))


def _components(model: FittedModel, factors: Factors) -> list[str]:
    """Return the first labels of the largest components, and a drawing of their weights."""
    expected = {name: expected_of_labels(model.fitted_, name) for name in factors.names}
    frames = {
        name: factors.components(name, MOST_LABELS, expected_D=expected_D)
        for name, expected_D in expected.items()
    }
    first = next(iter(frames.values()))
    shown = first.drop_duplicates("component").head(MOST_COMPONENTS)
    rows, drawings = [], []
    for number, share in zip(shown["component"], shown["share"], strict=True):
        words = [", ".join(_labels(frames[name], number)) for name in frames]
        rows.append((f"{number}", f"{100 * share:.0f} %", *words))
    for axis, (name, frame) in enumerate(frames.items()):
        mean_KD = (factors.mean(name) / np.maximum(factors.mean(name).sum(axis=0), 1e-300)).T
        asked = frame[frame["component"].isin(shown["component"])]["label"].unique()
        labels = factors.labels[axis].to_pandas()
        place_D = [int(np.flatnonzero(labels == label)[0]) for label in asked]
        names = [f"component {number}" for number in shown["component"]]
        drawn = heat(mean_KD[shown["component"]][:, place_D], names, [str(each) for each in asked])
        drawings.append(f"<p>{escaped(name)}</p>{drawn}")
    table = html_table(["component", "share", *frames], rows)
    return [table, "<details><summary>weights of labels</summary>", *drawings, "</details>"]


def _labels(frame: object, number: int) -> list[str]:
    part = frame[frame["component"] == number]  # type: ignore[index]
    return [str(label) for label in part["label"]]
