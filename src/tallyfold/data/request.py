"""What a caller wants counted of a table: which columns are axes, which holds the counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import EllipsisType, MappingProxyType
from typing import NamedTuple

from tallyfold.data.axis import listing
from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.bins import checked_bins
from tallyfold.errors import LabelError, ParameterError, ShapeError

REPEATED = ("sum", "error", "mean", "last", "max")
"""How rows of the same cell are put together."""
MISSING = ("error", "drop", "label")
"""What rows without a label, or without a count, are taken for."""


class Request(NamedTuple):
    """The columns that become axes, the column of counts, and the units that times are cut into.

    Attributes
    ----------
    axes
        The columns whose labels make up the axes, in order.
    value
        The column that holds the counts; None counts rows, an ellipsis is not decided yet.
    bins
        How each column of times is cut that is.
    repeated
        One of `REPEATED`.
    missing
        One of `MISSING`.
    """

    axes: list[str]
    value: str | EllipsisType | None = None
    bins: Mapping[str, AxisOrder] = MappingProxyType({})
    repeated: str = "sum"
    missing: str = "error"

    @classmethod
    def checked(
        cls,
        axes: Sequence[str],
        value: str | EllipsisType | None,
        bins: Mapping[str, str] | None,
        repeated: str,
        missing: str,
    ) -> Request:
        """Refuse what makes no sense whatever the table."""
        check_choices(repeated, missing)
        listed = isinstance(axes, Sequence) and not isinstance(axes, str)
        if not listed or not all(isinstance(name, str) for name in axes):
            raise ParameterError(
                f"`axes` must be a list of column names, which are texts; got {axes!r}. Rename "
                "columns that have other names."
            )
        names = list(axes)
        if len(names) < 2:
            raise ShapeError(
                f"a CountTensor has at least two axes; got {len(names)} ({listing(names)}). "
                "Name another column."
            )
        if len(set(names)) < len(names):
            raise ShapeError(f"axes must be different columns; got {listing(names)}.")
        return cls(names, value, checked_bins(bins, names), repeated, missing)

    @property
    def count_column(self) -> str | None:
        """The column of counts, if there is one."""
        return self.value if isinstance(self.value, str) else None

    @property
    def columns(self) -> list[str]:
        """The columns that are needed."""
        return [*self.axes, *([] if self.count_column is None else [self.count_column])]

    def of_table(self, columns: Sequence[str]) -> Request:
        """Decide on the column of counts; refuse columns that the table does not have.

        Where there is a column called "count", whether it holds the counts is not guessed.
        """
        request = self
        if self.value is ...:
            if "count" in columns and "count" not in self.axes:
                raise ParameterError(
                    "the table has a column 'count': say value='count' to take the counts from it, "
                    "or value=None to count rows."
                )
            request = self._replace(value=None)
        if self.value in self.axes:
            raise ParameterError(f"column {self.value!r} cannot be both an axis and the counts.")
        check_columns(request.columns, columns)
        return request


def check_choices(repeated: str, missing: str) -> None:
    """Refuse ways of treating repeated cells or missing labels that do not exist."""
    choices = {"repeated": (repeated, REPEATED), "missing": (missing, MISSING)}
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
        )
