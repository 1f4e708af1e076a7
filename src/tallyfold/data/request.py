"""What a caller wants counted of a table: which columns are axes, which holds the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import EllipsisType, MappingProxyType
from typing import NamedTuple

from tallyfold.data.axis import Axis, listing
from tallyfold.data.axis_order import AxisOrder, Ordered
from tallyfold.data.bins import checked_bins
from tallyfold.data.declared_order import checked_ordered
from tallyfold.data.time_units import Bins
from tallyfold.errors import LabelError, ParameterError, ShapeError, did_you_mean

REPEATED = ("sum", "error", "mean", "last", "max")
"""How rows of the same cell are put together."""
MISSING = ("error", "drop", "label")
"""What rows without a label, or without a count, are taken for."""
BAD = ("error", "drop")
"""What happens to rows with a time or a count that is none."""


class Request(NamedTuple):
    """The columns that become axes, the column of counts, and the units that times are cut into.

    Attributes
    ----------
    axes
        The axes, in order: columns, or, of a column of times, one of the units it is cut into.
    value
        The column that holds the counts; None counts rows, an ellipsis is not decided yet.
    bins
        How the times of an axis are cut that are.
    repeated
        One of `REPEATED`; None is the sum, which nobody asked for.
    missing
        One of `MISSING`.
    bad
        One of `BAD`.
    ordered
        The axes whose labels are declared to be in order, and which if not as they are sorted.
    """

    axes: list[str]
    value: str | EllipsisType | None = None
    bins: Mapping[str, AxisOrder] = MappingProxyType({})
    repeated: str | None = None
    missing: str = "error"
    bad: str = "error"
    ordered: Mapping[str, Sequence[str] | None] = MappingProxyType({})

    @classmethod
    def checked(
        cls,
        axes: Sequence[str | Axis],
        value: str | EllipsisType | None,
        bins: Bins | None,
        repeated: str | None,
        missing: str,
        bad: str,
        tz: str | None = None,
        ordered: Ordered | None = None,
    ) -> Request:
        """Refuse what makes no sense whatever the table."""
        check_choices(repeated, missing, bad)
        listed = isinstance(axes, Sequence) and not isinstance(axes, str)
        if not listed or not all(isinstance(name, str | Axis) for name in axes):
            raise ParameterError(
                f"`axes` must be a list of column names, which are texts; got {axes!r}. Rename "
                "columns that have other names."
            )
        like = {axis.name: axis.order for axis in axes if isinstance(axis, Axis) and axis.order}
        columns = [_cut_or_named(axis, bins or {}) for axis in axes]
        if like:
            columns = [*dict.fromkeys(columns)]
        names, cuts = checked_bins(bins, columns, tz)
        _check_same(like, cuts, names)
        cuts = {name: order for name, order in like.items() if order.unit is not None} | cuts
        if len(names) < 2:
            raise ShapeError(
                f"a CountTensor has at least two axes; got {len(names)} ({listing(names)}). "
                "Name another column."
            )
        if len(set(names)) < len(names):
            raise ShapeError(f"axes must be different columns; got {listing(names)}.")
        declared = dict.fromkeys(name for name, order in like.items() if order.unit is None)
        declared |= checked_ordered(ordered, names, cuts)
        return cls(names, value, cuts, repeated, missing, bad, declared)

    def column_of(self, axis: str) -> str:
        """Return the column whose labels make up an axis."""
        order = self.bins.get(axis)
        return axis if order is None or order.column is None else order.column

    @property
    def count_column(self) -> str | None:
        """The column of counts, if there is one."""
        return self.value if isinstance(self.value, str) else None

    @property
    def columns(self) -> list[str]:
        """The columns that are needed, each once."""
        labels = dict.fromkeys(map(self.column_of, self.axes))
        return [*labels, *([] if self.count_column is None else [self.count_column])]

    @property
    def wanted(self) -> list[str]:
        """The columns that may be needed: of bins also those of their own names."""
        return [*dict.fromkeys([*self.columns, *self.axes])]

    def of_table(self, columns: Sequence[str], *, own: bool = True) -> Request:
        """Decide on the column of counts; refuse columns that the table does not have.

        Where there is a column called "count", whether it holds the counts is not guessed. Where
        times are gone, columns of their `own` bins stand for them.
        """
        cuts = dict(self.bins)
        for name, cut in self.bins.items():
            if own and name in columns and cut.column not in columns:
                cuts[name] = replace(cut, column=None)
        request = self._replace(bins=cuts)
        if self.value is ...:
            if "count" in columns and "count" not in request.columns:
                raise ParameterError(
                    "the table has a column 'count': say value='count' to take the counts from it, "
                    "or value=None to count rows."
                )
            request = request._replace(value=None)
        if self.value in request.columns[:-1]:
            raise ParameterError(f"column {self.value!r} cannot be both an axis and the counts.")
        check_columns(request.columns, columns)
        return request


def _cut_or_named(axis: str | Axis, bins: Bins) -> str:
    """Return what an axis is called where bins are named: the column it is cut from, or its own."""
    if not isinstance(axis, Axis):
        return axis
    source = None if axis.order is None else axis.order.column
    return source if source is not None and source in bins else axis.name


def _check_same(
    like: Mapping[str, AxisOrder], cuts: Mapping[str, AxisOrder], names: Sequence[str]
) -> None:
    """Refuse bins of an axis that is cut otherwise, or would be none then."""
    gone = [name for name in like if name not in names]
    for name, cut in cuts.items():
        order = like[gone[0]] if gone else like.get(name)
        if order is not None and (gone or (order.unit, order.tz) != (cut.unit, cut.tz)):
            raise ParameterError(
                f"`bins` would cut {name!r} by {cut.cut}; it must be {order.cut}, as the "
                "axis given is. "
                "Leave `bins` and `tz` out: times are cut as the axis says."
            )


def check_choices(repeated: str | None, missing: str, bad: str) -> None:
    """Refuse ways of treating repeated cells, missing labels or bad rows that do not exist."""
    choices = {
        "repeated": (repeated or "sum", REPEATED),
        "missing": (missing, MISSING),
        "bad": (bad, BAD),
    }
    for name, (given, known) in choices.items():
        if given not in known:
            words = ", ".join(repr(word) for word in known[:-1]) + f" or {known[-1]!r}"
            raise ParameterError(f"`{name}` must be {words}; got {given!r}.")


def check_columns(wanted: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns the table does not have, listing the ones it has."""
    missing = [name for name in wanted if name not in columns]
    if missing:
        raise LabelError(
            f"the table has no column {listing(missing)}; it has {listing(list(columns), 20)}."
            f"{did_you_mean(missing[0], columns)}"
        )
