"""Predictions beside the rows of a table, a part of the table at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis, listing, plain_labels, python_values
from tallyfold.data.bins import bins_of
from tallyfold.data.labels import labels_in_type
from tallyfold.data.problems import RowNumbers
from tallyfold.data.request import Request
from tallyfold.data.time_units import Bins
from tallyfold.errors import LabelError, ParameterError
from tallyfold.kernels.arrays import Positions
from tallyfold.models.base import CountModel
from tallyfold.models.cells import UNKNOWN, Unknown, if_later, unknown_by_axis, unknown_words
from tallyfold.models.parameters import check_parameters, number
from tallyfold.models.predicted_columns import predicted_columns


def predicted_rows(
    model: CountModel,
    tables: Iterable[pa.Table],
    *,
    level: float = 0.9,
    unknown: Unknown = "error",
    bins: Bins | None = None,
    tz: str | None = None,
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
        Labels the model does not know: ``"error"``, or ``"prior"`` for an average entity; by axis,
        such as ``{"month": "prior"}``.
    bins, tz
        How times are cut, as in `CountTensor.from_frame`, on axes of which the model does not know
        it. All others are cut as the model's were.
    prefix
        What the new columns' names begin with.

    Yields
    ------
    pyarrow.Table
        The same columns, then mean, median, low and high, and before them probability, that of any
        count, where zeros are observed; the mean alone from a model without a distribution of
        counts. Where unknown labels are allowed, last a column ``unknown``: the axes, with commas
        between, of which a row's label is not known.

    Examples
    --------
    >>> import tallyfold as tf
    >>> tensor = tf.simulate((30, 20, 10), 2, density=0.3).tensor
    >>> model = tf.BPTF(n_components=2, max_iter=20).fit(tensor)
    >>> next(predicted_rows(model, [tensor.to_frame("pyarrow")])).column_names[-4:]
    ['mean', 'median', 'low', 'high']
    """
    check_parameters({"level": level}, {"level": number(0, 1)})
    choices = unknown_by_axis(model.axes_, unknown)
    request = Request.checked(model.axes_, None, bins, "sum", "error", "error", tz)
    start = 0
    for table in tables:
        positions = _positions(model.axes_, table, request, choices, start)
        columns = (
            predicted_columns(model, positions, ["mean", "median"], level)
            if model.fitted_.has_distribution
            else predicted_columns(model, positions, ["mean"])
        )
        if "prior" in choices.values():
            columns[UNKNOWN] = unknown_words(model.axes_, positions)
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
    request: Request,
    unknown: Mapping[str, str],
    start: int,
) -> Positions:
    request, columns = request.of_table(table.column_names), []
    for axis in axes:
        given = table.column(request.column_of(axis.name))
        cut = axis.with_order(request.bins.get(axis.name, axis.order))
        columns.append(axis.find(_labels(given, cut, start))[0])
        if unknown[axis.name] == "error":
            _refuse_unknown(axis, given, columns[-1], start)
    return np.asfortranarray(np.stack(columns).T)


def _labels(column: Any, axis: Axis, start: int) -> pa.Array:
    labels = plain_labels(column, axis=axis.name, allow_missing=True)
    missing = np.flatnonzero(labels.is_null(nan_is_null=True).to_numpy(zero_copy_only=False))
    if len(missing):
        rows = (missing + start + 1).tolist()
        raise LabelError(
            f"labels of axis {axis.name!r} must not be missing; {len(rows):,} are, in row "
            f"{listing(rows)}. Drop those rows or give them a label."
        )
    return labels_in_type(bins_of(labels, axis, RowNumbers(start + 1)), axis.labels.type)


def _refuse_unknown(axis: Axis, asked: Any, found: Any, start: int) -> None:
    where = np.flatnonzero(found < 0)
    if len(where) == 0:
        return
    labels = python_values(asked.combine_chunks().take(pa.array(where[:1000])).unique()[:5])
    raise LabelError(
        f"axis {axis.name!r} has no label {listing(labels)}, in row {int(where[0]) + start + 1:,}"
        f"{' and others' if len(where) > 1 else ''}. It has {len(axis):,} labels such as "
        f"{listing(python_values(axis.labels[:3]))}.{if_later(axis)} unknown='prior' predicts "
        f"unknown ones as an average entity, unknown={{{axis.name!r}: 'prior'}} those of this axis "
        "alone."
    )
