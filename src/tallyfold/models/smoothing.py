"""Which axes have smooth courses: the factors of a step are near those of the last one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis, axis_number
from tallyfold.errors import LabelError
from tallyfold.inference.schemes.guide import Course
from tallyfold.models.parameters import Rule, number, one_of
from tallyfold.models.time_axis import GOES_ON

STRENGTH = one_of("auto") | number(0, 1, low_included=True)


def _are_strengths(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(isinstance(name, str) and STRENGTH.holds(each) for name, each in value.items())


Smooth = (
    Literal["auto", "none"]
    | Annotated[
        Mapping[str, str | float],
        Rule(_are_strengths, "strengths by axis, {'month': 'auto'} or a number in [0, 1),"),
    ]
)


def courses_of(axes: Sequence[Axis], smooth: Any) -> dict[int, Course]:
    """Return the axes whose factors are linked, by position."""
    if smooth == "none":
        return {}
    if smooth == "auto":
        asked: dict[int, Any] = {
            number_: "auto"
            for number_, axis in enumerate(axes)
            if axis.order is not None and axis.order.kind in GOES_ON
        }
    else:
        asked = {axis_number(axes, name): strength for name, strength in smooth.items()}
    found = {}
    for number_, strength in asked.items():
        order = axes[number_].order
        if order is not None and order.kind == "cyclic":
            raise LabelError(
                f"axis {axes[number_].name!r} ({order}) comes back; `smooth` links the steps of "
                "axes that go on. Leave it out, or name an axis of time such as bins of days."
            )
        step_D = axes[number_].steps()  # refuses an axis without an order
        found[number_] = Course(step_D, None if strength == "auto" else float(strength))
    return found


def smoothness_of(axes: Sequence[Axis], correlation_M: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return the correlations of neighbouring factors by the name of their axis."""
    pairs = zip(axes, correlation_M.tolist(), strict=True)
    return {axis.name: each for axis, each in pairs if each > 0}
