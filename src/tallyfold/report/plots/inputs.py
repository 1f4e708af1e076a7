"""What figures are given: components, levels and frames, checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.data.events import read_columns
from tallyfold.data.request import Request
from tallyfold.errors import DataError, ParameterError
from tallyfold.models.expected import checked_model
from tallyfold.models.parameters import check_parameters, integer, number
from tallyfold.report.plots.legible import in_words

if TYPE_CHECKING:
    import pandas as pd

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


def read_numbers(
    frame: Any, numbers: Sequence[str], others: Sequence[str] = (), *, missing: bool = False
) -> pd.DataFrame:
    """Return columns of a frame, some of them finite numbers; with `missing` some may be absent."""
    wanted = Request([*dict.fromkeys([*others, *numbers])])
    table: pd.DataFrame = read_columns(frame, wanted)[0].to_pandas()
    if not len(table):
        raise DataError("the table has no row; there is nothing to draw.")
    for name in numbers:
        table[name] = _as_numbers(table[name], name, missing)
    return table.reset_index(drop=True)


def has_column(frame: Any, name: str) -> bool:
    """Tell whether a frame has a column."""
    return name in getattr(frame, "columns", ())


def _as_numbers(column: pd.Series[Any], name: str, missing: bool) -> pd.Series[float]:
    import pandas as pd

    values = pd.to_numeric(column, errors="coerce").astype(float)
    bad = ~np.isfinite(values) & ~(column.isna() & missing)
    if bad.any():
        rows = ", ".join(f"row {row}: {column[row]!r}" for row in np.flatnonzero(bad)[:5])
        raise DataError(
            f"column {name!r} must hold finite numbers; got {int(bad.sum()):,} rows without one, "
            f"{rows}. Drop or mend them."
        )
    return values
