"""Predictions beside the rows of a table, a part of the table at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis, listing, plain_labels, python_values
from tallyfold.data.bins import bins_of, checked_bins, floor_times
from tallyfold.data.labels import labels_in_type
from tallyfold.errors import LabelError, ParameterError
from tallyfold.models.base import CountModel
from tallyfold.models.cells import Positions, Unknown
from tallyfold.models.parameters import check_parameters, number, one_of
from tallyfold.models.predicted_columns import predicted_columns


def predicted_rows(
    model: CountModel,
    tables: Iterable[pa.Table],
    *,
    level: float = 0.9,
    unknown: Unknown = "error",
    bins: Mapping[str, str] | None = None,
    prefix: str = "",
) -> Iterator[pa.Table]:
    """Give tables of cells back with what a model predicts for each row.

    Parameters
    ----------
    model
        A fitted model.
    tables
        Arrow tables with a column of labels per axis. Text is taken for the number, date or time
        that the model's axis has.
    level
        Of the predictive interval from `low` to `high`.
    unknown
        Labels the model does not know: ``"error"``, or ``"prior"`` for an average entity.
    bins
        Time columns to round, as in `CountTensor.from_frame`. None: as the model's axes were; texts
        that are labels of the axis, or no times, stay as they are.
    prefix
        What the new columns' names begin with.

    Yields
    ------
    pyarrow.Table
        The same columns, then mean, median, low and high, and before them probability, that of any
        count, where zeros are observed; the mean alone from a model without a distribution of
        counts.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=20).fit(tensor)
    >>> next(predicted_rows(model, [tensor.to_frame("pyarrow")])).column_names[-4:]
    ['mean', 'median', 'low', 'high']
    """
    check_parameters(
        {"level": level, "unknown": unknown},
        {"level": number(0, 1), "unknown": one_of("error", "prior")},
    )
    units = checked_bins(bins, [axis.name for axis in model.axes_])
    start = 0
    for table in tables:
        positions = _positions(model.axes_, table, unknown, units, start)
        columns = (
            predicted_columns(model, positions, ["mean", "median"], level)
            if model.fitted_.has_distribution
            else predicted_columns(model, positions, ["mean"])
        )
        for name, column in columns.items():
            if prefix + name in table.column_names:
                raise ParameterError(
                    f"the table has a column {prefix + name!r} already; give another `prefix`."
                )
            table = table.append_column(prefix + name, pa.array(column))
        yield table
        start += len(table)


def _positions(
    axes: tuple[Axis, ...],
    table: pa.Table,
    unknown: Unknown,
    units: Mapping[str, str],
    start: int,
) -> Positions:
    columns = []
    for axis in axes:
        if axis.name not in table.column_names:
            raise LabelError(
                f"the table has no column {axis.name!r}; it has {listing(table.column_names, 20)}."
            )
        labels = _labels(table.column(axis.name), axis, units.get(axis.name), start)
        columns.append(axis.find(labels)[0])
        if unknown == "error":
            _refuse_unknown(axis, table.column(axis.name), columns[-1], start)
    return np.asfortranarray(np.stack(columns).T)


def _labels(column: Any, axis: Axis, unit: str | None, start: int) -> pa.Array:
    labels = plain_labels(column, axis=axis.name, allow_missing=True)
    missing = np.flatnonzero(labels.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    if len(missing):
        rows = (missing + start + 1).tolist()
        raise LabelError(
            f"labels of axis {axis.name!r} must not be missing; {len(rows):,} are, in row "
            f"{listing(rows)}. Drop those rows or give them a label."
        )
    if unit is not None:
        floor_times(labels, unit, axis.name)  # what was said to be times must be
    if unit is not None or axis.unit is not None:
        labels = bins_of(labels, unit or axis.unit or "", axis.name)
    return labels_in_type(labels, axis.labels.type)


def _refuse_unknown(axis: Axis, asked: Any, found: Any, start: int) -> None:
    where = np.flatnonzero(found < 0)
    if len(where) == 0:
        return
    labels = python_values(asked.combine_chunks().take(pa.array(where[:5])))
    raise LabelError(
        f"axis {axis.name!r} has no label {listing(labels)}, in row {int(where[0]) + start + 1:,}"
        f"{' and others' if len(where) > 1 else ''}. It has {len(axis):,} labels such as "
        f"{listing(python_values(axis.labels[:3]))}. unknown='prior' predicts unknown ones as an "
        "average entity."
    )
