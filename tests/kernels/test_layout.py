import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tallyfold.errors import CountError, ParameterError, ShapeError
from tallyfold.kernels import axis_layout
from tallyfold.kernels import layout as layout_module


@st.composite
def cells(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, int]:
    n_axes = draw(st.integers(2, 5))
    n_cells = draw(st.integers(0, 40))
    indices = draw(arrays(np.int32, (n_cells, n_axes), elements=st.integers(0, 6)))
    counts = draw(arrays(np.int64, n_cells, elements=st.integers(0, 9)))
    return indices, counts, draw(st.integers(0, n_axes - 1)), draw(st.integers(7, 9))


@settings(deadline=None)
@given(cells())
def test_cells_are_sorted_stably_and_none_is_lost(case):
    indices, counts, axis, size = case
    layout = axis_layout(indices, counts, axis, size)
    np.testing.assert_array_equal(layout.order_N, np.argsort(indices[:, axis], kind="stable"))
    np.testing.assert_array_equal(layout.counts_N, counts[layout.order_N])
    np.testing.assert_array_equal(
        layout.others_NJ, np.delete(indices, axis, axis=1)[layout.order_N]
    )
    np.testing.assert_array_equal(
        np.diff(layout.indptr_D1), np.bincount(indices[:, axis], minlength=size)
    )
    assert layout.others_NJ.flags.f_contiguous
    assert layout.reach_M[axis] == size


@settings(deadline=None)
@given(cells(), st.integers(1, 5))
def test_pieces_cover_the_cells_and_cross_no_border(case, chunk):
    indices, counts, axis, size = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_module, "CHUNK_CELLS", chunk)
        layout = axis_layout(indices, counts, axis, size)
    starts, stops = layout.piece_cell_S1[:-1], layout.piece_cell_S1[1:]
    assert starts.tolist() == sorted(set(starts.tolist()))
    assert (np.concatenate([[0], stops])[-1]) == len(counts)
    assert np.all((stops - 1) // chunk == starts // chunk)
    assert np.all(layout.indptr_D1[layout.piece_entity_S] <= starts)
    assert np.all(stops <= layout.indptr_D1[layout.piece_entity_S + 1])
    chunk_cells = layout.piece_cell_S1[layout.chunk_piece_C1]
    assert np.all(np.diff(chunk_cells) <= chunk)
    assert chunk_cells[0] == 0
    assert chunk_cells[-1] == len(counts)


def test_a_sorted_axis_keeps_its_order():
    layout = axis_layout(np.array([[0, 3], [0, 1], [2, 0]]), np.array([1, 2, 3]), 0, 4)
    assert layout.order_N.tolist() == [0, 1, 2]
    assert layout.indptr_D1.tolist() == [0, 2, 2, 3, 3]


@pytest.mark.parametrize(
    ("indices", "counts", "axis", "size", "error"),
    [
        ([[0], [1]], [1, 1], 0, 2, ShapeError),
        ([[0, 0]], [1, 1], 0, 2, ShapeError),
        ([[0, 0]], [1], 2, 2, ParameterError),
        ([[2, 0]], [1], 0, 2, ShapeError),
        ([[0, -1]], [1], 0, 2, ShapeError),
        ([[0, 0]], [-1], 0, 2, CountError),
        ([[0, 0]], [2**60], 0, 2, CountError),
    ],
)
def test_refuses_what_it_cannot_lay_out(indices, counts, axis, size, error):
    with pytest.raises(error):
        axis_layout(np.array(indices), np.array(counts), axis, size)
