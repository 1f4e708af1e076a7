"""Which axis is time, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Sequence

from tallyfold.data.axis import Axis, axis_number, listing
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.inference.past.periods import TimeAxis

GOES_ON = ("time", "ordered")
"""Kinds of order that go on; cyclic ones come back."""


def time_number(axes: Sequence[Axis], given: str) -> int:
    """Return the position of the axis of time: the one named, or with ``"auto"`` the one there is.

    Axes of time bins come before others that have an order.
    """
    if given != "auto":
        number = axis_number(axes, given)
        order = axes[number].order
        if order is not None and order.kind == "cyclic":
            raise LabelError(
                f"axis {given!r} ({order}) comes back, so nothing follows its last label. Name an "
                "axis of time that goes on, such as bins of days."
            )
        axes[number].steps()  # refuses an axis without an order, or with labels outside of it
        return number
    for kind in GOES_ON:
        found = [n for n, axis in enumerate(axes) if axis.order and axis.order.kind == kind]
        if len(found) == 1:
            return found[0]
        if found:
            names = listing([axes[number].name for number in found])
            raise ParameterError(
                f"`time` must say which of the axes {names} is time; got 'auto'. Name one, such as "
                f"time={axes[found[0]].name!r}."
            )
    names = ", ".join(axis.name for axis in axes)
    raise LabelError(
        f"no axis has an order that goes on; there are {names}. Where counts are read, cut times "
        f"with bins={{{axes[-1].name!r}: 'month'}}, or declare the order of labels with "
        f"ordered=[{axes[-1].name!r}]."
    )


def _refuse_other_cuts(axes: Sequence[Axis], number: int) -> None:
    """Refuse an axis that is cut from the times of the axis of time: it says nothing of its own."""
    own = axes[number].order
    column = own.column if own is not None and own.column is not None else axes[number].name
    for axis in axes:
        if axis is axes[number] or axis.order is None or axis.order.unit is None:
            continue
        if axis.order.column == column:
            raise DataError(
                f"axis {axis.name!r} ({axis.order}) is cut from the same times as "
                f"{axes[number].name!r}, so that most pairs of their labels cannot be, and a "
                f"forecast would spread over them. Read the counts without it, such as with "
                f"bins={{{column!r}: {own.unit if own else None!r}}}."
            )


def time_axis(tensor: CountTensor, given: str) -> TimeAxis:
    """Return a tensor's axis of time; refuse one with counts in a single period."""
    number = time_number(tensor.axes, given)
    _refuse_other_cuts(tensor.axes, number)
    step_D = tensor.axes[number].steps()
    if tensor.nnz:
        place_N = tensor.indices[:, number]
        first, last = int(place_N.min()), int(place_N.max())
        if first == last:
            axis = tensor.axes[number]
            raise DataError(
                f"axis {axis.name!r} has counts in one period only, {axis.label(first)!r}: nothing "
                "says how one leads to the next. Give at least two periods, or cut time into "
                "shorter ones."
            )
    return TimeAxis(number, step_D)


def chosen_time(tensor: CountTensor, given: str) -> str:
    """Return the axis of time that a fit with factors remembers, or ``"none"``.

    With ``"auto"`` that is the only axis which has an order that goes on, if it has counts in
    several periods.
    """
    if given == "none":
        return given
    try:
        return tensor.axes[time_axis(tensor, given).number].name
    except (LabelError, DataError, ParameterError):
        if given != "auto":
            raise
        return "none"
