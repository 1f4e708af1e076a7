"""Data frames of events or counts, and arrays of other libraries, into a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tallyfold.data.axis import UNFIT, Axis, listing, mixed_labels
from tallyfold.data.bad_rows import BadRows
from tallyfold.data.cells import DROP_BAD, merge_cells, warn_added, whole_counts
from tallyfold.data.declared_order import with_order
from tallyfold.data.labels import Column, encode_columns
from tallyfold.data.missing import MissingRows
from tallyfold.data.problems import ALL_ROWS, Problems, RowNumbers
from tallyfold.data.request import Request
from tallyfold.data.summary import Dropped
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import (
    CountError,
    DataError,
    DroppedWarning,
    LabelError,
    ParameterError,
    ShapeError,
    warn,
)
from tallyfold.scales import histogram

ROWS_AT_A_TIME = 2_000_000
ONE_OF_MANY = (
    "Use repeated='sum' to add up, or repeated='mean', repeated='last' or repeated='max' for one "
    "count of them."
)


def tensor_from_frame(frame: Any, request: Request) -> CountTensor:
    """Count the rows of a frame; see `CountTensor.from_frame`."""
    table, request = read_columns(frame, request)
    if len(table) == 0:
        raise DataError("the table has no rows; a tensor needs at least one event.")
    kept, dropped = _kept_rows(table, request)
    rows = ALL_ROWS if kept is None else RowNumbers(0, np.flatnonzero(kept))
    counts, problems = None, Problems()
    if request.count_column is not None:
        with problems.gathered():
            values = _some(_arrow(table, request.count_column, request), kept)
            name = repr(request.count_column)
            counts = whole_counts(values, name=name, rows=rows, problems=problems)
    codes, built = encode_columns(
        request.axes,
        lambda name: _part(frame_column(table, name, request), rows, kept),
        problems,
    )
    tensor = tensor_from_rows(built, codes, counts, request.repeated, dropped)
    return with_order(tensor, request.ordered)


def _kept_rows(table: Any, request: Request) -> tuple[npt.NDArray[np.bool_] | None, list[Dropped]]:
    """Return which rows are not to be left out, None for all, and the record of the others."""
    kept, missing, bad = None, MissingRows(), BadRows()
    if request.missing == "drop":
        kept = missing.kept((name, _arrow(table, name, request)) for name in request.columns)
        missing.check_some_left(int(kept.sum()))
    if request.bad == "drop":
        left = kept
        fine = bad.kept(
            ((n, _some(_arrow(table, n, request), left)) for n in request.columns), request
        )
        bad.check_some_left(int(fine.sum()))
        if left is None:
            kept = fine
        else:
            kept = left.copy()
            kept[left] = fine
    return kept, [*missing.records(), *bad.records()]


def tensor_from_rows(
    axes: Sequence[Axis],
    codes: Sequence[npt.NDArray[np.integer]],
    counts: npt.NDArray[np.int64] | None,
    repeated: str | None = "sum",
    dropped: Sequence[Dropped] = (),
) -> CountTensor:
    """Merge coded rows into a tensor, leaving out zeros with a warning.

    What was `dropped` before is on its record, too.
    """
    cells = merge_cells(codes, counts, [len(axis) for axis in axes], repeated)
    if repeated == "error" and cells.repeats:
        raise LabelError(
            f"each cell must be given once (repeated='error'); got {cells.repeats:,} rows that "
            f"repeat a cell, such as {_repeated_cells(axes, codes)}. {ONE_OF_MANY}"
        )
    if repeated is None and counts is not None and cells.repeats:
        warn_added(*histogram(counts[counts > 0]), cells.repeats)
    zero = cells.counts_N == 0
    if not zero.any():
        return CountTensor.of_canonical(axes, cells.indices_NM, cells.counts_N, dropped)
    zeros = zeros_dropped(int(zero.sum()), len(zero))
    kept = cells.indices_NM[~zero], cells.counts_N[~zero]
    return CountTensor.of_canonical(axes, *kept, [*dropped, zeros])


def zeros_dropped(n_zeros: int, n_cells: int) -> Dropped:
    """Return the record of cells that are listed with a count of zero, and warn of them."""
    warn(
        f"{n_zeros:,} cells are listed with a count of 0. They were dropped, their labels kept: a "
        "tensor stores non-zero cells only, and the model's `zeros` says whether the others are "
        "zero or missing.",
        DroppedWarning,
    )
    if n_zeros == n_cells:
        raise DataError("every count is zero; a tensor needs at least one event.")
    return Dropped("listed with a count of 0, labels kept", cells=n_zeros)


def read_columns(frame: Any, request: Request) -> tuple[Any, Request]:
    """Return the wanted columns as an eager narwhals DataFrame, the column of counts decided."""
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
        return table.lazy().select(request.columns).collect(), request
    except nw.exceptions.DuplicateError as error:
        text = " ".join(str(error).split())
        raise LabelError(
            f"the table's columns must have different names: {text} Rename them."
        ) from error


def frame_column(table: Any, name: str, request: Request) -> Column:
    """Take the labels of one axis out of a narwhals frame, into Arrow."""
    import narwhals as nw

    column = request.column_of(name)
    values, kind = _arrow(table, column, request), table[column].dtype
    ordered = pa.types.is_dictionary(values.type) and values.type.ordered
    return Column(
        name,
        values,
        request.bins.get(name),
        keep_order=ordered or isinstance(kind, nw.Enum),
        named=request.missing == "label",
    )


def _arrow(table: Any, name: str, request: Request) -> Any:
    """Return a column of a narwhals frame, of labels or of counts, in Arrow's form."""
    import narwhals as nw

    series, droppable = table[name], request.bad == "drop"
    try:
        is_text = series.dtype == nw.String and name != request.count_column
        if series.dtype == nw.Object and droppable and name == request.count_column:
            return _numbers_among(series.to_list())
        return _encoded_in_parts(series) if is_text else series.to_arrow()
    except UNFIT as error:
        if name != request.count_column:
            raise mixed_labels(name, error) from error
        raise CountError(
            f"{name!r} must be numbers; Arrow says: {str(error).splitlines()[0]} Name the "
            f"column that holds the counts, or use value=None to count rows.{DROP_BAD}"
        ) from error


def _numbers_among(values: Sequence[Any]) -> pa.Array:
    """Return objects as numbers; those that are none become a count that there is not either."""

    def is_none(value: Any) -> bool:
        return isinstance(value, bool) or not isinstance(value, Number | None)

    return pa.array([-1 if is_none(value) else value for value in values], from_pandas=True)


def _part(column: Column, rows: RowNumbers, kept: npt.NDArray[np.bool_] | None) -> Column:
    return replace(column, values=_some(column.values, kept), rows=rows)


def _some(values: Any, kept: npt.NDArray[np.bool_] | None) -> Any:
    return values if kept is None else values.filter(pa.array(kept))


def _encoded_in_parts(series: Any) -> Any:
    """Encode a long column of text part by part: polars copies text on its way into Arrow."""
    chunks: list[pa.Array] = []
    for start in range(0, len(series), ROWS_AT_A_TIME):
        encoded = pc.dictionary_encode(series[start : start + ROWS_AT_A_TIME].to_arrow())
        chunks.extend(encoded.chunks if isinstance(encoded, pa.ChunkedArray) else [encoded])
    return pa.chunked_array(chunks)


def _repeated_cells(axes: Sequence[Axis], codes: Sequence[npt.NDArray[np.integer]]) -> str:
    rows = np.stack(codes, axis=1)
    cells, times = np.unique(rows, axis=0, return_counts=True)
    shown = []
    for cell in cells[times > 1][:5]:
        labels = [axis.label(place) for axis, place in zip(axes, cell, strict=True)]
        shown.append("(" + listing(labels, len(labels)) + ")")
    return ", ".join(shown)


def tensor_from_array(array: Any, axes: Sequence[Axis | str] | None) -> CountTensor:
    """Convert an array of another library; see `CountTensor.from_array`."""
    shape, columns, values = _coordinates(array)
    built = _axes_for(shape, axes)
    values = np.asarray(values)
    if values.dtype == bool:  # whether, not how often: one each
        values = values.astype(np.int64)
    counts = whole_counts(values, name="counts", row_word="entry")
    if len(counts) == 0:
        raise DataError("the array has no entry; a tensor needs at least one event.")
    return tensor_from_rows(built, columns, counts)


def _coordinates(array: Any) -> tuple[tuple[int, ...], list[npt.NDArray[Any]], Any]:
    """Read shape, one column of positions per axis, and values from any known kind of array."""
    kind = type(array).__module__.partition(".")[0]
    if kind in ("scipy", "sparse") and hasattr(array, "asformat"):
        coo = array.asformat("coo")
        if getattr(coo, "fill_value", 0) != 0:
            raise ParameterError(
                f"the array's fill value must be 0; got {coo.fill_value}. Subtract it first."
            )
        return tuple(coo.shape), list(coo.coords), coo.data
    if kind == "pyttb" and hasattr(array, "subs"):
        subs = np.asarray(array.subs).reshape(-1, len(array.shape))
        return tuple(array.shape), list(subs.T), np.asarray(array.vals).reshape(-1)
    if isinstance(array, np.ndarray):
        array = np.asarray(array)  # a np.matrix never becomes one-dimensional
        if array.ndim < 2:
            raise ShapeError(f"a CountTensor has at least two axes; got {array.ndim}.")
        places = np.nonzero(array)
        return array.shape, list(places), array[places]
    raise ParameterError(
        "expected a NumPy array, a scipy.sparse matrix, a pydata sparse array or a pyttb "
        f"sptensor; got {type(array).__name__}. For data frames use CountTensor.from_frame."
    )


def _axes_for(shape: tuple[int, ...], axes: Sequence[Axis | str] | None) -> list[Axis]:
    given = [f"axis_{number}" for number in range(len(shape))] if axes is None else list(axes)
    if len(given) != len(shape):
        raise ShapeError(f"`axes` must name all {len(shape)} axes; got {len(given)}.")
    built = []
    for size, axis in zip(shape, given, strict=True):
        built.append(axis if isinstance(axis, Axis) else Axis.numbered(axis, int(size)))
        if len(built[-1]) != size:
            raise ShapeError(
                f"axis {built[-1].name!r} has {len(built[-1]):,} labels; the size of the "
                f"array there is {size:,}."
            )
    return built
