"""One dimension of a count tensor: its name and the map between labels and positions."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis_order import AxisOrder
from tallyfold.data.hashing import Hashes, label_hashes
from tallyfold.data.label_search import LetGo, positions_of
from tallyfold.data.missing import check_present
from tallyfold.errors import LabelError, ParameterError, ShapeError, did_you_mean

MAX_LABELS = 2**31 - 1
"""Positions are stored as 32-bit integers, so an axis holds at most this many labels."""

_SUGGEST_AMONG = 20_000
_FEW = 8
_RARE = 100
"""Labels are looked for one by one if this many times as many are there."""
_LONGEST_SHOWN = 60


class Axis:
    """One axis: a name and its distinct labels, in order.

    Parameters
    ----------
    name
        What the axis is called, such as ``"author"``.
    labels
        Anything Arrow can turn into an array of strings, integers, floats, booleans, dates or
        times. Labels must be distinct and none may be missing. They are kept in Arrow, so tens of
        millions of them need no Python objects.
    order
        The order of the labels, and the unit that times were cut into to make them: models remember
        it, and cut the times that they are asked for. None: they have no order.

    Examples
    --------
    >>> year = Axis("year", [2003, 2004, 2005])
    >>> year
    Axis('year', 3 labels: 2003, 2004, 2005)
    >>> year.positions([2005, 2003]).tolist()
    [2, 0]
    >>> year.label(1)
    2004
    >>> month = Axis("month", ["2024-01", "2024-03"], AxisOrder.of_unit("month"))
    >>> month.steps().tolist(), month.gaps()
    ([648, 650], 1)
    >>> month.following(2).to_pylist()
    ['2024-04', '2024-05']
    """

    __slots__ = ("_ascending", "_hashes", "_labels", "_let_go", "_name", "_order")

    def __init__(self, name: str, labels: Any, order: AxisOrder | None = None) -> None:
        self._name, self._order = checked_name(name), checked_order(order, name)
        self._labels = plain_labels(labels, axis=name)
        self._hashes: Hashes | None = None
        self._let_go: LetGo
        self._ascending, self._let_go = False, None
        check_size(name, len(self._labels))
        if pc.count_distinct(self._labels).as_py() < len(self._labels):
            table = pc.value_counts(self._labels)
            repeated = table.filter(pc.greater(table.field("counts"), 1)).field("values")
            raise LabelError(
                f"axis {name!r} must have distinct labels; got {listing(python_values(repeated))} "
                "more than once. Give each entity one label."
            )

    @classmethod
    def of_distinct(
        cls,
        name: str,
        labels: pa.Array,
        order: AxisOrder | None = None,
        ascending: bool = False,
        let_go: LetGo = None,
    ) -> Axis:
        """Make an axis of plain labels already known to be distinct, without checking again.

        Labels known to be `ascending` are looked up without reading all of them; `let_go` frees the
        memory of those that were read from a file.
        """
        axis = cls.__new__(cls)
        axis._name, axis._labels, axis._hashes = checked_name(name), labels, None
        axis._order, axis._ascending, axis._let_go = order, ascending, let_go
        check_size(name, len(labels))
        return axis

    @classmethod
    def numbered(cls, name: str, size: int, start: int = 0) -> Axis:
        """Make an axis whose labels are ``start, start + 1, ...``."""
        check_size(name, size)
        return cls.of_distinct(name, pa.array(np.arange(start, start + size, dtype=np.int64)))

    @property
    def name(self) -> str:
        """What the axis is called."""
        return self._name

    @property
    def labels(self) -> pa.Array:
        """The labels in order, as an Arrow array."""
        return self._labels

    @property
    def order(self) -> AxisOrder | None:
        """The order of the labels; None if they have none."""
        return self._order

    @property
    def unit(self) -> str | None:
        """The unit that times were cut into to make the labels; None if they were not."""
        return None if self._order is None else self._order.unit

    @property
    def hashes(self) -> Hashes:
        """A hash of each label, which does not depend on its type or position."""
        if self._hashes is None:
            self._hashes = label_hashes(self._labels)
            self._hashes.flags.writeable = False
        return self._hashes

    def label(self, position: int) -> Any:
        """Return the label at a position, as a Python object."""
        return self._labels[int(position)].as_py()

    def positions(self, labels: Iterable[Any]) -> npt.NDArray[np.int32]:
        """Return the position of each label; a label the axis does not have is a LabelError."""
        labels = labels if hasattr(labels, "__len__") else list(labels)
        found, known = self.find(labels)
        if not known.all():
            where = np.flatnonzero(~known)
            unknown = python_values(self._in_own_type(labels).take(pa.array(where[:100])).unique())
            raise LabelError(
                f"axis {self._name!r} has no label {listing(unknown)} ({len(where):,} of "
                f"{len(found):,} asked for are unknown). {self._hint(unknown[0])}"
            )
        return found

    def find(self, labels: Iterable[Any]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """Return the position of each label (-1 where unknown), and whether it is known."""
        asked = self._in_own_type(labels)
        if self._ascending and len(asked) * _RARE < len(self):
            found = positions_of(asked, self._labels, self._let_go)
            return found, found >= 0
        if len(asked) <= _FEW:  # looking through the labels is quicker than hashing all of them
            found = np.array([pc.index(self._labels, one).as_py() for one in asked], np.int32)
            return found, found >= 0
        found = pc.index_in(asked, value_set=self._labels)
        found = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
        return found, found >= 0

    def take(self, positions: npt.NDArray[np.integer]) -> Axis:
        """Return an axis of the labels at the given distinct positions, in that order."""
        return Axis.of_distinct(self._name, self._labels.take(pa.array(positions)), self._order)

    def renamed(self, name: str) -> Axis:
        """Return the same labels under another name."""
        return Axis.of_distinct(name, self._labels, self._order)

    def with_order(self, order: AxisOrder | None) -> Axis:
        """Return the same labels in another order, or none."""
        return Axis.of_distinct(self._name, self._labels, checked_order(order, self._name))

    def steps(self) -> npt.NDArray[np.int64]:
        """Return the step of each label along the axis's order; steps without a label count, too.

        Bins of time are counted from that of 1970-01-01 (hours by the clock of their zone), cyclic
        ones from the first of the cycle. Whole numbers are steps themselves, dates and fractions
        have their rank, and all else its place on the axis.
        """
        with self._order_errors("steps"):
            return self._known_order().steps(self._labels)

    def following(self, horizon: int) -> pa.Array:
        """Return the labels of the next steps after the last."""
        if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
            raise ParameterError(
                f"`horizon` must be a whole number of at least 1; got {horizon!r}."
            )
        steps = self.steps()
        order = self._known_order()
        with self._order_errors("next labels"):
            if order.kind == "cyclic":
                raise LabelError("its labels come back, so none follows the last")
            if not len(steps):
                raise LabelError("it has no label to begin from")
            return order.labels_at(steps.max() + np.arange(1, horizon + 1), self._labels.type)

    def gaps(self) -> int:
        """Return the number of steps between the first label and the last that have no label."""
        steps = self.steps()
        return int(steps.max() - steps.min()) + 1 - len(steps) if len(steps) else 0

    def between(self) -> pa.Array:
        """Return the labels of the steps between the first label and the last that have none."""
        steps = self.steps()
        if not self.gaps():
            return self._labels[:0]
        every = np.arange(steps.min(), steps.max() + 1)
        with self._order_errors("labels between"):
            return self._known_order().labels_at(np.setdiff1d(every, steps), self._labels.type)

    def _known_order(self) -> AxisOrder:
        """Return the order; refuse an axis that has none."""
        if self._order is None:
            raise LabelError(
                f"axis {self._name!r} has no order; it has {len(self):,} labels such as "
                f"{listing(python_values(self._labels[:3]))}. Where counts are read, cut times "
                f"with bins={{{self._name!r}: 'month'}}, or declare the order of other labels with "
                f"ordered=[{self._name!r}]."
            )
        return self._order

    @contextlib.contextmanager
    def _order_errors(self, what: str) -> Iterator[None]:
        """Say of which axis an order cannot tell something."""
        order = self._known_order()
        try:
            yield
        except LabelError as error:
            raise LabelError(
                f"axis {self._name!r} ({order}) has no {what}: {error}. It has {len(self):,} "
                f"labels such as {listing(python_values(self._labels[:3]))}; leave out, or mend, "
                "those that stand outside its order."
            ) from None

    def __len__(self) -> int:
        return len(self._labels)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis):
            return NotImplemented
        return self._name == other._name and bool(self._labels.equals(other._labels))

    def __reduce__(self) -> tuple[Any, ...]:
        return Axis.of_distinct, (self._name, self._labels, self._order, self._ascending)

    def __hash__(self) -> int:
        return hash((self._name, len(self._labels)))

    def __repr__(self) -> str:
        shown = ", ".join(repr_label(label) for label in python_values(self._labels[:3]))
        more = ", ..." if len(self) > 3 else ""
        return f"Axis({self._name!r}, {len(self):,} labels: {shown}{more})"

    def _in_own_type(self, labels: Iterable[Any]) -> pa.Array:
        if isinstance(labels, str | bytes):
            raise LabelError(
                f"expected a list of labels for axis {self._name!r}; got the single text "
                f"{labels!r}. Put it in a list: [{labels!r}]."
            )
        asked = plain_labels(labels, axis=self._name, allow_missing=True)
        if len(asked) == 0 or asked.type == self._labels.type:
            return asked.cast(self._labels.type)
        try:
            if (_kind(asked.type), _kind(self._labels.type)) not in _CASTS:
                raise pa.ArrowInvalid("these are different kinds of labels")
            cast = asked.cast(self._labels.type)
            if _kind(asked.type) == "time" and not cast.cast(asked.type).equals(asked):
                raise pa.ArrowInvalid("dates have no time of day")  # which Arrow would cut off
            return cast
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            own, other = python_values(self._labels[:2]), python_values(asked[:2])
            raise LabelError(
                f"axis {self._name!r} has labels of type {self._labels.type}, such as "
                f"{listing(own)}; got {listing(other)} of type {asked.type}. Ask with the type the "
                f"axis has{_BINNED if _kind(asked.type) == 'time' else ''}."
            ) from error

    def _hint(self, unknown: Any) -> str:
        """Name the label most like an unknown one, among those of about its length, or a few.

        Of an axis of time, which has no slips of the pen, the first label and the last.
        """
        if self._order is not None and self._order.kind == "time" and len(self):
            return f"It runs from {self.label(0)!r} to {self.label(len(self) - 1)!r}."
        few_texts = isinstance(unknown, str) and len(self) <= _SUGGEST_AMONG
        if few_texts and len(unknown) <= _LONGEST_SHOWN:
            gap = pc.abs(pc.subtract(pc.utf8_length(self._labels), len(unknown)))
            near = self._labels.filter(pc.less_equal(gap, 3)).to_pylist()
            if meant := did_you_mean(unknown, near):
                return meant.strip()
        return f"It has {len(self):,} labels such as {listing(python_values(self._labels[:3]))}."


def axis_number(axes: Sequence[Axis], name: str) -> int:
    """Return the position of the axis with this name."""
    names = [axis.name for axis in axes]
    if name not in names:
        meant = did_you_mean(name, names)
        raise LabelError(f"there is no axis {name!r}; there are {', '.join(names)}.{meant}")
    return names.index(name)


def plain_labels(labels: Any, *, axis: str, allow_missing: bool = False) -> pa.Array:
    """Turn labels into one plain Arrow array: text as large_string, no dictionaries, no chunks."""
    array = _arrow_array(labels, axis)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    array = array.cast(plain_type(array.type, axis))
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))  # -0.0 and 0.0 are one label
    if not allow_missing:
        check_present(array, axis)
    return array


def checked_name(name: str) -> str:
    """Refuse an axis name that is not a non-empty text."""
    if not isinstance(name, str) or not name:
        raise ShapeError(f"an axis name must be a non-empty text; got {name!r}.")
    return name


def checked_order(order: AxisOrder | None, name: str) -> AxisOrder | None:
    """Refuse what is no order of an axis."""
    if order is not None and not isinstance(order, AxisOrder):
        raise ParameterError(
            f"the order of axis {name!r} must be an AxisOrder or None; got {order!r}. For bins of "
            "time it is AxisOrder.of_unit('month'), for others AxisOrder('ordered')."
        )
    return order


def check_size(name: str, size: int) -> None:
    """Refuse an axis with more labels than its 32-bit positions can tell apart."""
    if size > MAX_LABELS:
        raise ShapeError(
            f"axis {name!r} has {size:,} labels; positions are 32-bit, so at most {MAX_LABELS:,} "
            "fit. Use a coarser label, or keep the busiest with top=."
        )


def listing(values: list[Any], most: int = 5) -> str:
    """Write the first few values, and how many more there are."""
    shown = ", ".join(repr_label(value) for value in values[:most])
    return shown + (f" and {len(values) - most:,} more" if len(values) > most else "")


def python_values(labels: pa.Array) -> list[Any]:
    """Return labels as Python objects; times beyond what Python knows, as text."""
    try:
        values: list[Any] = labels.to_pylist()
    except (OverflowError, ValueError):
        values = labels.cast(pa.large_string()).to_pylist()
    return values


def repr_label(label: Any) -> str:
    """Write one label: text and numbers as Python does, dates and times in ISO form, not long."""
    shown: str = label.isoformat() if hasattr(label, "isoformat") else repr(label)
    return shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + "..."


UNFIT = (pa.ArrowException, TypeError, OverflowError, UnicodeError)
"""What Arrow raises for values it cannot make one array of."""


def mixed_labels(axis: str, error: Exception) -> LabelError:
    """Describe labels that do not fit in one array."""
    return LabelError(
        f"labels of axis {axis!r} must all be of one type (text, integers up to 64 bits, dates, "
        f"...); Arrow says: {str(error).splitlines()[0]} Turn them into text first, for example."
    )


_KINDS: dict[Callable[[pa.DataType], bool], str] = {
    pa.types.is_string: "text",
    pa.types.is_large_string: "text",
    pa.types.is_string_view: "text",
    pa.types.is_null: "text",
    pa.types.is_boolean: "truth",
    pa.types.is_integer: "integer",
    pa.types.is_floating: "float",
    pa.types.is_date: "date",
    pa.types.is_timestamp: "time",
}
"""How an Arrow type of labels is recognised, and the kind of labels it holds."""


def _kind(kind: pa.DataType) -> str:
    """Return what kind of labels a type holds; an empty text if labels cannot have it."""
    if pa.types.is_timestamp(kind) and kind.tz:
        return "zoned time"
    return next((name for test, name in _KINDS.items() if test(kind)), "")


_BINNED = ", or round times to the axis's unit first (bins=, --bin)"
_CASTS = {(kind, kind) for kind in ("integer", "float", "date", "time", "zoned time")} | {
    ("integer", "float"),
    ("date", "time"),
    ("time", "date"),
}
"""Kinds of labels that may be asked for, and the kinds they may be asked of, if nothing is lost."""


def _arrow_array(labels: Any, axis: str) -> pa.Array:
    if isinstance(labels, pa.Array):
        return labels
    if isinstance(labels, pa.ChunkedArray):
        if pa.types.is_string(labels.type):  # its offsets end at 2 GB of text
            labels = labels.cast(pa.large_string())
        return labels.combine_chunks()
    try:
        values = labels if hasattr(labels, "__len__") else list(labels)
        if isinstance(values, list) and values and isinstance(values[0], np.generic):
            values = np.asarray(values)  # Arrow reads arrays of datetime64, not lists of them
        array = pa.array(values, from_pandas=True)
    except UNFIT as error:
        raise mixed_labels(axis, error) from error
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def plain_type(kind: pa.DataType, axis: str) -> pa.DataType:
    """Return the type in which labels of a type are kept; refuse types labels cannot have."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    plain = {"text": pa.large_string(), "date": pa.date32()}.get(_kind(kind), kind)
    if _kind(kind):
        return pa.float32() if pa.types.is_float16(kind) else plain
    raise LabelError(
        f"labels of axis {axis!r} must be text, numbers, booleans, dates or times; got values of "
        f"type {kind}. Turn them into one of these first."
    )
