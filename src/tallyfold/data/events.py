"""A data frame of events or counts into a tensor, and back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import UNFIT, Axis, listing, mixed_labels
from tallyfold.data.cells import merge_cells
from tallyfold.data.counts import whole_counts
from tallyfold.data.dropped import Dropped
from tallyfold.data.encode import Column, encode_columns
from tallyfold.data.packages import imported
from tallyfold.data.request import Request
from tallyfold.data.tensor import CountTensor, label_columns
from tallyfold.errors import CountError, DataError, DroppedWarning, LabelError, ParameterError

ROWS_AT_A_TIME = 2_000_000


def tensor_from_frame(
    frame: Any,
    axes: Sequence[str],
    value: str | EllipsisType | None,
    *,
    repeated: str = "sum",
    bins: Mapping[str, str] | None = None,
) -> CountTensor:
    """Count the rows of a frame; see `CountTensor.from_frame`."""
    request = Request.checked(axes, value, bins, repeated)
    table, column = read_columns(frame, request)
    if len(table) == 0:
        raise DataError("the table has no rows; a tensor needs at least one event.")
    counts = None if column is None else _frame_counts(table, column)
    codes, built = encode_columns(
        request.axes, lambda name: frame_column(table, name, request.bins.get(name))
    )
    return tensor_from_rows(built, codes, counts, repeated)


def tensor_from_rows(
    axes: Sequence[Axis],
    codes: Sequence[npt.NDArray[np.integer]],
    counts: npt.NDArray[np.int64] | None,
    repeated: str = "sum",
) -> CountTensor:
    """Merge coded rows into a tensor, leaving out zeros with a warning."""
    cells = merge_cells(codes, counts, [len(axis) for axis in axes])
    if repeated == "error" and cells.repeats:
        raise LabelError(
            f"each cell must be given once (repeated='error'); got {cells.repeats:,} rows that "
            f"repeat a cell, such as {_repeated_cells(axes, codes)}. Use repeated='sum' to add up."
        )
    zero = cells.counts_N == 0
    if not zero.any():
        return CountTensor.of_canonical(axes, cells.indices_NM, cells.counts_N)
    n_zeros = int(zero.sum())
    warnings.warn(
        f"{n_zeros:,} cells are listed with a count of 0. They were dropped, their labels kept: a "
        "tensor stores non-zero cells only, and the model's `zeros` says whether the others are "
        "zero or missing.",
        DroppedWarning,
        stacklevel=4,
    )
    if zero.all():
        raise DataError("every count is zero; a tensor needs at least one event.")
    dropped = Dropped("listed with a count of 0, labels kept", cells=n_zeros)
    return CountTensor.of_canonical(axes, cells.indices_NM[~zero], cells.counts_N[~zero], [dropped])


def read_columns(frame: Any, request: Request) -> tuple[Any, str | None]:
    """Return the wanted columns as an eager narwhals DataFrame, and the column of counts."""
    import narwhals as nw

    if isinstance(frame, CountTensor):
        raise ParameterError("expected a data frame; got a CountTensor, which is counted already.")
    try:
        table = nw.from_native(frame, allow_series=False, pass_through=True)
        if not isinstance(table, nw.DataFrame | nw.LazyFrame):
            raise ParameterError(
                "expected a data frame (pandas, polars, pyarrow or another that narwhals reads); "
                f"got {type(frame).__name__}. For files use tallyfold.read_counts, for arrays "
                "CountTensor.from_array."
            )
        request = request.of_table(table.collect_schema().names())
        return table.lazy().select(request.columns).collect(), request.count_column
    except nw.exceptions.DuplicateError as error:
        text = " ".join(str(error).split())
        raise LabelError(
            f"the table's columns must have different names: {text} Rename them."
        ) from error


def _frame_counts(table: Any, column: str) -> npt.NDArray[np.int64]:
    try:
        values = table[column].to_arrow()
    except UNFIT as error:
        raise CountError(
            f"{column!r} must be numbers; Arrow says: {str(error).splitlines()[0]} Name the column "
            "that holds the counts, or use value=None to count rows."
        ) from error
    return whole_counts(values, name=repr(column))


def frame_column(table: Any, name: str, unit: str | None = None) -> Column:
    """Take one column of labels out of a narwhals frame, into Arrow."""
    import narwhals as nw

    series = table[name]
    try:
        values = _encoded_in_parts(series) if series.dtype == nw.String else series.to_arrow()
    except UNFIT as error:
        raise mixed_labels(name, error) from error
    ordered = pa.types.is_dictionary(values.type) and values.type.ordered
    return Column(name, values, unit, keep_order=ordered or isinstance(series.dtype, nw.Enum))


def _encoded_in_parts(series: Any) -> Any:
    """Encode a long column of text part by part: polars copies text on its way into Arrow."""
    chunks: list[pa.Array] = []
    for start in range(0, len(series), ROWS_AT_A_TIME):
        encoded = pc.dictionary_encode(series[start : start + ROWS_AT_A_TIME].to_arrow())
        chunks.extend(encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded])
    return pa.chunked_array(chunks)


def frame_from_tensor(tensor: CountTensor, kind: str, value: str) -> Any:
    """Return one row per cell; see `CountTensor.to_frame`."""
    if value in tensor.names:
        raise ParameterError(f"`value` must differ from the axes; got {value!r}.")
    columns = [column.dictionary_decode() for column in label_columns(tensor)]
    table = pa.table([*columns, pa.array(tensor.counts)], names=[*tensor.names, value])
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        return imported("polars", "to_frame('polars')").from_arrow(table)
    raise ParameterError(f"`kind` must be 'pandas', 'polars' or 'pyarrow'; got {kind!r}.")


def _repeated_cells(axes: Sequence[Axis], codes: Sequence[npt.NDArray[np.integer]]) -> str:
    rows = np.stack(codes, axis=1)
    cells, times = np.unique(rows, axis=0, return_counts=True)
    shown = []
    for cell in cells[times > 1][:5]:
        labels = [axis.label(place) for axis, place in zip(axes, cell, strict=True)]
        shown.append("(" + listing(labels, len(labels)) + ")")
    return ", ".join(shown)
