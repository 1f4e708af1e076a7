"""To and from the arrays of other libraries, none of which is needed to be installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.counts import whole_counts
from tallyfold.data.events import tensor_from_rows
from tallyfold.data.packages import imported
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, ParameterError, ShapeError


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


def dense_array(tensor: CountTensor, most_cells: int) -> npt.NDArray[np.int64]:
    """Return a dense array; see `CountTensor.to_dense`."""
    if tensor.size > most_cells:
        sizes = " x ".join(f"{size:,}" for size in tensor.shape)
        raise ShapeError(
            f"a dense array would have {sizes} = {tensor.size:,} cells "
            f"({tensor.size * 8 / 2**30:,.1f} GiB); the limit is {most_cells:,}. Select a part "
            "with sel(), or raise most_cells."
        )
    dense = np.zeros(tensor.shape, np.int64)
    dense[tuple(tensor.indices.T)] = tensor.counts
    return dense


def scipy_array(tensor: CountTensor) -> Any:
    """Return a scipy.sparse array; see `CountTensor.to_scipy`."""
    import scipy.sparse

    if len(tensor.axes) != 2:
        raise ShapeError(
            f"scipy.sparse holds two axes; the tensor has {len(tensor.axes)}. Add some up with "
            "collapse(), or use to_sparse()."
        )
    rows, columns = tensor.indices.T
    return scipy.sparse.coo_array((tensor.counts, (rows, columns)), shape=tensor.shape)


def pydata_array(tensor: CountTensor) -> Any:
    """Return a pydata sparse array; see `CountTensor.to_sparse`."""
    sparse = imported("sparse", "to_sparse()")
    return sparse.COO(
        tensor.indices.T.astype(np.int64),
        tensor.counts,
        shape=tensor.shape,
        has_duplicates=False,
        sorted=True,
    )


def pyttb_tensor(tensor: CountTensor) -> Any:
    """Return a pyttb sptensor; see `CountTensor.to_pyttb`."""
    pyttb = imported("pyttb", "to_pyttb()")
    values = tensor.counts.astype(np.float64)[:, None]
    return pyttb.sptensor(tensor.indices.astype(np.int64), values, tensor.shape)


def _coordinates(array: Any) -> tuple[tuple[int, ...], list[npt.NDArray[Any]], Any]:
    """Read shape, one column of positions per axis, and values from any known kind of array."""
    kind = type(array).__module__.partition(".")[0]
    if kind == "scipy" and hasattr(array, "tocoo"):
        coo = array.tocoo()
        coordinates = coo.coords if hasattr(coo, "coords") else (coo.row, coo.col)
        return tuple(coo.shape), [np.asarray(place) for place in coordinates], coo.data
    if kind == "sparse" and hasattr(array, "asformat"):
        coo = array.asformat("coo")
        if coo.fill_value != 0:
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
                f"axis {built[-1].name!r} has {len(built[-1]):,} labels; the array has {size:,} "
                "places there."
            )
    return built
