"""The order of an axis's labels: that of time, of a cycle, of numbers, or as they are listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.time_units import (
    CYCLES,
    LAST_YEAR,
    UNITS,
    bin_start,
    starts_of,
    steps_of,
    written,
)
from tallyfold.errors import LabelError, ParameterError

Kind = Literal["time", "cyclic", "ordered"]
Steps = npt.NDArray[np.int64]
Ordered = Sequence[str] | Mapping[str, Sequence[str]] | Mapping[str, Sequence[str] | None]
"""Names of axes that are declared to be in order, or their labels in order."""


@dataclass(frozen=True)
class AxisOrder:
    """What order the labels of an axis have, and how its times were cut.

    Attributes
    ----------
    kind
        ``"time"``: bins of time that goes on; ``"cyclic"``: bins that come back, such as weekdays;
        ``"ordered"``: whole numbers, which may have gaps, or labels in the order of their values
        (dates, fractions) or in which the axis lists them (texts).
    unit
        The unit that times were cut into, such as ``"month"`` or ``"weekday"``.
    tz
        The zone in which they were cut; None is UTC.
    column
        The column that the times came from, if the axis has another name.

    Examples
    --------
    >>> AxisOrder.of_unit("month", tz="Europe/Berlin")
    AxisOrder(kind='time', unit='month', tz='Europe/Berlin', column=None)
    >>> print(AxisOrder.of_unit("weekday"), AxisOrder("ordered"), sep=", ")
    weekday, ordered
    """

    kind: Kind
    unit: str | None = None
    tz: str | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        kinds: dict[str, Sequence[str | None]]
        kinds = {"time": [*UNITS], "cyclic": [*CYCLES], "ordered": [None]}
        known = kinds.get(self.kind)
        if known is None:
            raise ParameterError(
                f"`kind` of an AxisOrder must be 'time', 'cyclic' or 'ordered'; got {self.kind!r}."
            )
        if self.unit not in known:
            words = ", ".join(map(repr, known))
            raise ParameterError(
                f"`unit` of an AxisOrder of kind {self.kind!r} must be {words}; got {self.unit!r}."
            )
        texts = (self.tz, self.column)
        if not all(text is None or (isinstance(text, str) and text) for text in texts):
            raise ParameterError(
                f"`tz` and `column` of an AxisOrder must be texts or None; got {texts!r}."
            )

    @classmethod
    def of_unit(cls, unit: str, tz: str | None = None, column: str | None = None) -> AxisOrder:
        """Return the order of times that are cut into a unit."""
        return cls("cyclic" if unit in CYCLES else "time", unit, tz, column)

    @classmethod
    def from_text(cls, text: str) -> AxisOrder:
        """Read what `to_text` wrote; a ValueError or TypeError if that is damaged."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Write the order as JSON."""
        return json.dumps(asdict(self))

    def __str__(self) -> str:
        words = self.kind if self.unit is None else self.unit
        return words if self.tz is None else f"{words}, {self.tz}"

    @property
    def cut(self) -> str:
        """The unit that times were cut into, and the zone in which they were."""
        return f"{self.unit}, {self.tz or 'UTC'}"

    def steps(self, labels: pa.Array) -> Steps:
        """Return each label's step; a LabelError that names labels which are none."""
        if self.kind == "ordered":
            return _ranks(labels)
        texts = labels.cast(pa.large_string()).to_pylist()
        unit = self.unit or ""
        starts = [bin_start(text, unit) for text in texts]
        _refuse_others(texts, starts, unit)
        if self.kind == "cyclic":
            return np.array([CYCLES[unit].index(text) for text in texts], np.int64)
        return steps_of(np.array(starts, "datetime64[us]"), unit)

    def labels_at(self, steps: Steps, kind: pa.DataType) -> pa.Array:
        """Return the labels of steps, in the type of the axis's labels.

        A LabelError says why labels cannot be told from steps.
        """
        steps = np.asarray(steps, np.int64)
        unit = self.unit or ""
        if self.kind == "cyclic":
            return pa.array([CYCLES[unit][step % len(CYCLES[unit])] for step in steps], kind)
        if self.kind == "time":
            starts = starts_of(steps, unit)
            last = np.datetime64(f"{LAST_YEAR}-12-31T23:59")
            if len(starts) and (starts.max() > last or starts.min() < np.datetime64("0001-01-01")):
                raise LabelError(f"bins of time are in the years 1 to {LAST_YEAR}")
            return written(starts.tolist(), unit).cast(kind)
        if not pa.types.is_integer(kind):
            raise LabelError(
                "only whole numbers and bins of time tell the next label; give numbers as "
                "integers, or cut dates with bins="
            )
        try:
            return pa.array(steps).cast(kind)
        except pa.ArrowInvalid as error:
            raise LabelError(f"labels of type {kind} end there") from error


def _ranks(labels: pa.Array) -> Steps:
    """Return whole numbers as they are; the rank of dates and fractions; places of all else."""
    kind = labels.type
    if pa.types.is_integer(kind):
        try:
            return np.asarray(labels.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)
        except pa.ArrowInvalid as error:
            raise LabelError("whole numbers past 63 bits cannot be counted") from error
    if pa.types.is_temporal(kind) or pa.types.is_floating(kind):
        ranks = np.empty(len(labels), np.int64)
        ranks[pc.sort_indices(labels).to_numpy()] = np.arange(len(labels))
        return ranks
    return np.arange(len(labels), dtype=np.int64)


def _refuse_others(texts: Sequence[str], found: Sequence[object], unit: str) -> None:
    """Refuse labels that are no bins of the unit, naming the first."""
    others = [text for text, step in zip(texts, found, strict=True) if step is None]
    if others:
        raise LabelError(
            f"{others[0]!r} is no {unit}"
            + (f", nor are {len(others) - 1:,} other labels" if len(others) > 1 else "")
        )
