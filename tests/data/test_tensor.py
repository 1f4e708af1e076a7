import pickle

import numpy as np
import pytest
from hypothesis import given
from tests.data.strategies import tensors

from tallyfold import Axis, CountTensor
from tallyfold.data.cells import merge_cells
from tallyfold.errors import CountError, LabelError, ParameterError, ShapeError


@pytest.fixture
def tensor():
    axes = [Axis("user", ["ann", "bob"]), Axis("item", [10, 20, 30]), Axis("year", ["x", "y"])]
    return CountTensor(axes, [[1, 2, 0], [0, 0, 1], [0, 2, 0]], [5, 1, 2])


def test_cells_are_sorted_and_read_only(tensor):
    assert tensor.indices.tolist() == [[0, 0, 1], [0, 2, 0], [1, 2, 0]]
    assert tensor.counts.tolist() == [1, 2, 5]
    assert tensor.indices.dtype == np.int32
    assert tensor.indices.flags.f_contiguous
    with pytest.raises(ValueError, match="read-only"):
        tensor.counts[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        tensor.indices[0, 0] = 1
    with pytest.raises(AttributeError):
        tensor.shape = (1, 2)


def test_the_givers_arrays_are_not_shared():
    indices, counts = np.array([[0, 0]], np.int32, order="F"), np.array([3])
    tensor = CountTensor([Axis("a", [1]), Axis("b", [1])], indices, counts)
    counts[0] = 7
    indices[0, 0] = 5
    assert tensor.counts.tolist() == [3]
    assert tensor.indices.tolist() == [[0, 0]]


def test_sizes(tensor):
    assert tensor.shape == (2, 3, 2)
    assert tensor.nnz == 3
    assert tensor.size == 12
    assert tensor.density == 0.25
    assert tensor.total == 8
    assert tensor.names == ("user", "item", "year")
    assert tensor.nbytes > 3 * (3 * 4 + 8)


def test_repr_says_axes_density_and_counts_in_one_line(tensor):
    assert repr(tensor) == (
        "CountTensor(user 2 x item 3 x year 2; 3 non-zeros, density 25 %, total 8; "
        "counts 1: 33 %, 2: 33 %, 3-5: 33 %)"
    )


def test_marginals_and_collapse(tensor):
    assert tensor.marginal("item").tolist() == [1, 0, 7]
    assert tensor.marginal("item", "nonzeros").tolist() == [1, 0, 2]
    flat = tensor.collapse("year")
    assert flat.names == ("user", "item")
    assert flat.to_dense().tolist() == [[1, 0, 2], [0, 0, 5]]
    with pytest.raises(ShapeError, match="use marginal"):
        tensor.collapse("year", "item")
    with pytest.raises(LabelError, match="no axis 'colour'; the tensor has 'user', 'item', 'year'"):
        tensor.marginal("colour")
    with pytest.raises(ParameterError, match="'total' or 'nonzeros'"):
        tensor.marginal("item", "cells")


def test_marginals_are_exact_for_huge_counts():
    axes = [Axis("a", [1]), Axis("b", [1, 2])]
    tensor = CountTensor(axes, [[0, 0], [0, 1]], [2**53 - 1, 2**53 - 2])
    assert tensor.marginal("a").tolist() == [2**54 - 3]


def test_sel_by_list_slice_and_label(tensor):
    part = tensor.sel(item=[30, 10])
    assert part.axis("item").labels.to_pylist() == [30, 10]
    assert part.to_frame()["item"].tolist() == [30, 10, 30]
    assert part.total == 8
    assert tensor.sel(item=slice(20, None)).axis("item").labels.to_pylist() == [20, 30]
    assert tensor.sel(item=slice(20, None)).total == 7
    assert tensor.sel(year="x").names == ("user", "item")
    assert tensor.sel(year="x", user=["bob"]).total == 5
    assert tensor.sel(user=["ann"], item=[20]).nnz == 0
    with pytest.raises(ShapeError, match="Put the label in a list"):
        tensor.sel(year="x", user="ann")
    with pytest.raises(LabelError, match="no label 'zoe'"):
        tensor.sel(user=["zoe"])
    with pytest.raises(LabelError, match="must be distinct"):
        tensor.sel(user=["ann", "ann"])
    with pytest.raises(LabelError, match="no step"):
        tensor.sel(item=slice(10, 30, 2))


def test_equality(tensor):
    same = CountTensor(tensor.axes, tensor.indices[::-1], tensor.counts[::-1])
    assert same == tensor
    assert hash(same) == hash(tensor)
    assert tensor.with_cells(np.array([True, True, False])) != tensor
    assert tensor != "tensor"


@given(tensor=tensors())
def test_pickling_a_tensor_for_another_process_keeps_it(tensor):
    assert pickle.loads(pickle.dumps(tensor)) == tensor


@given(tensor=tensors())
def test_a_frame_of_a_tensor_makes_the_same_tensor_on_used_labels(tensor):
    frame = tensor.to_frame("pyarrow")
    assert frame.num_rows == tensor.nnz
    back = CountTensor.from_frame(frame, axes=tensor.names, value="count")
    order = {axis.name: axis.labels.to_pylist() for axis in tensor.compact().axes}
    assert back.sel(**order) == tensor.compact()


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_frames_of_every_kind(kind, tensor):
    frame = tensor.to_frame(kind, value="n")
    assert type(frame).__module__.split(".")[0] == kind
    assert np.asarray(frame["n"]).tolist() == [1, 2, 5]
    assert CountTensor.from_frame(frame, tensor.names, "n") == tensor.compact()


def test_bad_frames_out(tensor):
    with pytest.raises(ParameterError, match="'pandas', 'polars' or 'pyarrow'; got 'excel'"):
        tensor.to_frame("excel")
    with pytest.raises(ParameterError, match="must differ from the axes"):
        tensor.to_frame(value="user")


@pytest.mark.parametrize(
    ("indices", "counts", "error", "message"),
    [
        ([[0, 0], [0, 0]], [1, 2], LabelError, "1 repeated rows"),
        ([[0, 5]], [1], ShapeError, "axis 'b' must be from 0 to 1; got 5 to 5"),
        ([[-1, 0]], [1], ShapeError, "axis 'a' must be from 0 to 1"),
        ([[0, 0, 0]], [1], ShapeError, r"shape \(cells, 2\)"),
        ([[0.5, 0]], [1], ShapeError, "whole numbers"),
        ([[0, 0]], [0], CountError, "at least one; got 1 zeros"),
        ([[0, 0]], [1.5], CountError, "cell 0: 1.5"),
        ([[0, 0]], [-2], CountError, "below zero"),
        ([[0, 0]], [2**53], CountError, "past 2\\*\\*53 - 1"),
        ([[0, 0]], [float("inf")], CountError, "NaN or infinite"),
        ([[0, 0]], ["a"], CountError, "must be numbers"),
        ([[0, 0]], [True], CountError, "must be numbers"),
        ([[0, 0]], [1, 2], ShapeError, r"shape \(1,\); got shape \(2,\)"),
    ],
)
def test_bad_cells(indices, counts, error, message):
    axes = [Axis("a", [1, 2]), Axis("b", [1, 2])]
    with pytest.raises(error, match=message):
        CountTensor(axes, indices, counts)


def test_bad_axes():
    with pytest.raises(ShapeError, match="at least two axes; got 1"):
        CountTensor([Axis("a", [1])], [[0]], [1])
    with pytest.raises(ShapeError, match="different names"):
        CountTensor([Axis("a", [1]), Axis("a", [1])], [[0, 0]], [1])


def test_no_cells_on_axes_whose_product_passes_64_bits() -> None:
    axes = [Axis.numbered(name, 3_000_000) for name in ("a", "b", "c")]
    tensor = CountTensor(axes, np.empty((0, 3), np.int32), np.empty(0, np.int64))
    assert (tensor.nnz, tensor.size) == (0, 27 * 10**18)


def test_cells_whose_keys_need_two_words_are_sorted_by_every_axis() -> None:
    columns = [[0, 0, 0], [7, 7, 7], [2, 1, 1], [0, 5, 4]]  # in order on the first two axes
    codes = [np.array(column, np.int32) for column in columns]
    cells = merge_cells(codes, np.array([1, 2, 3]), (2**31 - 1,) * 4)
    assert cells.indices_NM.tolist() == [[0, 7, 1, 4], [0, 7, 1, 5], [0, 7, 2, 0]]
    assert cells.counts_N.tolist() == [3, 2, 1]
