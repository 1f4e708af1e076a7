"""An ordered axis in words: its unit and zone, from where to where it runs, and its gaps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis, python_values
from tallyfold.errors import LabelError


class AxisCourse(NamedTuple):
    """From where to where an ordered axis runs.

    Attributes
    ----------
    first, last
        Its first and last label, in order.
    gaps
        How many steps between them have no label.
    """

    first: str
    last: str
    gaps: int

    @classmethod
    def of(cls, axis: Axis) -> AxisCourse | None:
        """Return the course of an axis; None if it has no order, or labels outside of it.

        Examples
        --------
        >>> from tallyfold import Axis, AxisOrder
        >>> print(AxisCourse.of(Axis("year", [2003, 2004, 2007], AxisOrder("ordered"))))
        2003 to 2007, 2 gaps
        """
        try:
            steps_D = axis.steps()
        except LabelError:
            return None
        if not len(steps_D):
            return None
        ends = pa.array([int(np.argmin(steps_D)), int(np.argmax(steps_D))])
        first, last = map(str, python_values(axis.labels.take(ends)))
        return cls(first, last, axis.gaps())

    def __str__(self) -> str:
        gaps = f", {self.gaps:,} gap{'' if self.gaps == 1 else 's'}" if self.gaps else ""
        return f"{self.first} to {self.last}{gaps}"


def order_words(axis: Axis) -> str:
    """Return what there is to say of an axis's order; an empty text if it has none.

    Examples
    --------
    >>> from tallyfold import Axis, AxisOrder
    >>> order_words(Axis("t", ["2024-01", "2024-03"], AxisOrder.of_unit("month", "Europe/Berlin")))
    'month, Europe/Berlin, 2024-01 to 2024-03, 1 gap'
    """
    if axis.order is None:
        return ""
    course = AxisCourse.of(axis)
    return f"{axis.order}, {course}" if course else f"{axis.order}, with labels outside of it"
