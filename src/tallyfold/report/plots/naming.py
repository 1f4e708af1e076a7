"""Which components to show, and what to call them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import check_parameters, integer, number
from tallyfold.report.plots.legible import in_words

if TYPE_CHECKING:
    from tallyfold.models.base import CountModel


def checked_component(model: CountModel, component: Any) -> int:
    """Refuse a component that the model does not have."""
    check_parameters({"component": component}, {"component": integer(0)})
    most = checked_model(model).posterior_.n_components
    if component >= most:
        raise ParameterError(
            f"`component` must be from 0 to {most - 1}, as in model.components(axis); got "
            f"{component}."
        )
    return int(component)


def chosen_components(
    model: CountModel, components: Sequence[int] | None, most: int = 4
) -> list[int]:
    """Return the components asked for; if none is named, the largest few."""
    if components is None:
        order = np.argsort(-checked_model(model).posterior_.shares(), kind="stable")
        return [int(component) for component in order[:most]]
    if isinstance(components, int | np.integer | str) or not len(components):
        raise ParameterError(
            f"`components` must be a list of their numbers or None; got {components!r}."
        )
    return [checked_component(model, component) for component in components]


def names_of(model: CountModel, named_by: str | None, top: int = 3) -> list[str]:
    """Return a name for each component: its number, and its strongest labels on an axis."""
    checked_model(model)
    if named_by is None:
        return [f"component {number}" for number in range(model.posterior_.n_components)]
    strongest = model.components(named_by, top=top)
    words: dict[int, list[str]] = {component: [] for component in sorted(strongest["component"])}
    for component, label in zip(strongest["component"], strongest["label"], strict=True):
        words[component].append(in_words(label))
    return [f"{component}: {', '.join(labels)}" for component, labels in words.items()]


def check_level(level: Any) -> None:
    """Refuse a level that is no probability."""
    check_parameters({"level": level}, {"level": number(0, 1)})


def percent(share: float) -> str:
    """Write a share in per cent, with as many digits as it needs."""
    return f"{100 * share:.2g} %" if share < 0.995 else "100 %"
