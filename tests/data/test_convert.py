import sys

import numpy as np
import pytest
import pyttb
import scipy.sparse
import sparse
from hypothesis import given
from tests.data.strategies import tensors

from tallyfold import Axis, CountTensor
from tallyfold.errors import (
    CountError,
    DroppedWarning,
    MissingPackageError,
    ParameterError,
    ShapeError,
)


@given(tensor=tensors())
def test_round_trips_through_other_libraries(tensor):
    assert CountTensor.from_array(tensor.to_dense(), tensor.axes) == tensor
    assert CountTensor.from_array(tensor.to_sparse(), tensor.axes) == tensor
    assert CountTensor.from_array(tensor.to_pyttb(), tensor.axes) == tensor
    if len(tensor.axes) == 2:
        assert CountTensor.from_array(tensor.to_scipy(), tensor.axes) == tensor


def test_values_stand_where_they_should():
    dense = np.array([[0, 2, 0], [1, 0, 3]])
    tensor = CountTensor.from_array(dense, ["row", "column"])
    assert tensor.axis("column").labels.to_pylist() == [0, 1, 2]
    assert tensor.to_dense().tolist() == dense.tolist()
    assert tensor.to_scipy().toarray().tolist() == dense.tolist()
    assert tensor.to_sparse().todense().tolist() == dense.tolist()
    assert tensor.to_pyttb().full().data.tolist() == dense.tolist()


@pytest.mark.parametrize("kind", ["csr_array", "csc_matrix", "coo_array", "lil_array", "dok_array"])
def test_every_scipy_kind(kind):
    dense = np.array([[0, 2, 0], [1, 0, 3]])
    tensor = CountTensor.from_array(getattr(scipy.sparse, kind)(dense))
    assert tensor.names == ("axis_0", "axis_1")
    assert tensor.to_dense().tolist() == dense.tolist()


def test_repeated_and_explicit_zero_entries():
    matrix = scipy.sparse.coo_array(([1, 2, 0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    with pytest.warns(DroppedWarning, match="1 cells are listed with a count of 0"):
        tensor = CountTensor.from_array(matrix)
    assert tensor.to_dense().tolist() == [[3, 0], [0, 0]]


def test_bad_arrays():
    with pytest.raises(CountError, match="entry 0: 0.5"):
        CountTensor.from_array(np.array([[0.5, 0]]))
    with pytest.raises(ShapeError, match="at least two axes"):
        CountTensor.from_array(np.array([1, 2]))
    with pytest.raises(ShapeError, match="name all 2 axes; got 1"):
        CountTensor.from_array(np.eye(2), ["a"])
    with pytest.raises(ShapeError, match="axis 'a' has 3 labels; the size of the array there is 2"):
        CountTensor.from_array(np.eye(2), [Axis("a", [1, 2, 3]), "b"])
    with pytest.raises(ParameterError, match="got list"):
        CountTensor.from_array([[1, 2]])
    with pytest.raises(ParameterError, match="fill value must be 0"):
        CountTensor.from_array(sparse.COO.from_numpy(np.eye(2), fill_value=1.0))


def test_dense_arrays_are_refused_above_a_size_that_is_named():
    axes = [Axis.numbered(name, 100_000) for name in "abc"]
    tensor = CountTensor(axes, [[0, 0, 0]], [1])
    with pytest.raises(
        ShapeError, match=r"100,000 x 100,000 x 100,000 = 1,000,000,000,000,000 cel"
    ):
        tensor.to_dense()
    with pytest.raises(ShapeError, match="scipy.sparse holds two axes; the tensor has 3"):
        tensor.to_scipy()
    assert isinstance(tensor.to_pyttb(), pyttb.sptensor)


@pytest.mark.parametrize(
    ("package", "method", "choice"),
    [("sparse", "to_sparse", []), ("pyttb", "to_pyttb", []), ("polars", "to_frame", ["polars"])],
)
def test_a_missing_package_is_named(package, method, choice, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    tensor = CountTensor.from_array(np.eye(2, dtype=int))
    with pytest.raises(MissingPackageError, match=f"pip install {package}"):
        getattr(tensor, method)(*choice)
