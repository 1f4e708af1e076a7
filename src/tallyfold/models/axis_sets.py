"""Sets of axes by name, as a model's parameter gives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from tallyfold.errors import LabelError, ParameterError
from tallyfold.models.parameters import Rule
from tallyfold.posterior.derived_axis import countable

AXIS_SETS = Rule(
    lambda value: (
        isinstance(value, list | tuple)
        and all(
            isinstance(each, list | tuple) and all(isinstance(name, str) for name in each)
            for each in value
        )
    ),
    "a list of lists of axis names",
)
Interactions = Literal["auto", "none"] | Annotated[Sequence[Sequence[str]], AXIS_SETS]


def axis_positions(
    asked: Sequence[str], names: Sequence[str], shape: Sequence[int]
) -> tuple[int, ...]:
    """Return where axes stand; refuse sets of axes that cannot have multipliers."""
    unknown = [name for name in asked if name not in names]
    if unknown:
        raise LabelError(f"there is no axis {unknown[0]!r}; there are {', '.join(names)}.")
    where = tuple(sorted({names.index(name) for name in asked}))
    if not 2 <= len(where) < len(names):
        raise ParameterError(
            f"a set of axes in `interactions` must have two axes or more, and not all "
            f"{len(names)}; got {list(asked)!r}."
        )
    if not countable([shape[position] for position in where]):
        raise ParameterError(f"there are too many combinations of {list(asked)!r} to number them.")
    return where
