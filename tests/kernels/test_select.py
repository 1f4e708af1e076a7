import subprocess
import sys

import numpy as np
import pytest

from tallyfold import kernels
from tallyfold.errors import BackendError, ParameterError, ShapeError

FAST = pytest.mark.parametrize("backend", ["numba", "torch"])


def test_numba_is_not_imported_for_a_small_problem():
    code = """
import sys
import numpy as np
from tallyfold import kernels
factors = [np.ones((2, 3)), np.ones((2, 3))]
kernels.cell_rates(factors, np.array([[0, 1]]))
assert "numba" not in sys.modules
kernels.cell_rates(factors, np.array([[0, 1]]), backend="numba")
assert "numba" in sys.modules
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_auto_takes_the_compiled_form_for_a_large_problem(problem):
    auto, fused = (
        kernels.cell_rates(problem.factors, problem.indices_NM, backend=b)
        for b in ("auto", "numba")
    )
    assert auto.tobytes() == fused.tobytes()


def test_refuses_an_unknown_backend():
    with pytest.raises(BackendError, match="cuda"):
        kernels.cell_rates([np.ones((1, 1))] * 2, np.zeros((1, 2), dtype=int), backend="cuda")


@pytest.mark.parametrize(
    "factors",
    [
        [np.ones((2, 3))],
        [np.ones((2, 3)), np.ones((2, 4))],
        [np.ones((2, 3)), np.ones((1, 3))],
        [np.ones((2, 3)), np.ones(2)],
    ],
)
@FAST
def test_refuses_factors_that_do_not_cover_the_cells(factors, backend):
    indices = np.array([[0, 1], [1, 0]])
    layout = kernels.axis_layout(indices, np.array([1, 1]), 0, 2)
    with pytest.raises(ShapeError):
        kernels.cell_rates(factors, indices, backend=backend)
    with pytest.raises(ShapeError):
        kernels.cell_bound(factors, factors, indices, np.array([1, 1]), backend=backend)
    with pytest.raises(ShapeError):
        kernels.share_sums(factors, layout, backend=backend)


@FAST
def test_refuses_weights_of_the_wrong_length_and_negative_positions(backend):
    factors = [np.ones((2, 3)), np.ones((2, 3))]
    layout = kernels.axis_layout(np.array([[0, 1], [1, 0]]), np.array([1, 1]), 0, 2)
    with pytest.raises(ShapeError, match="Weights"):
        kernels.axis_sums(factors, layout, np.ones(3), backend=backend)
    with pytest.raises(ShapeError, match="0 or more"):
        kernels.cell_rates(factors, np.array([[0, -1]]), backend=backend)


@FAST
def test_accepts_read_only_and_row_major_cells(problem, backend):
    indices = np.ascontiguousarray(problem.indices_NM)
    indices.flags.writeable = False
    expected = kernels.cell_rates(problem.factors, problem.indices_NM, backend=backend)
    np.testing.assert_array_equal(
        kernels.cell_rates(problem.factors, indices, backend=backend), expected
    )


@pytest.mark.parametrize("backend", ["numba", "numpy", "torch"])
@pytest.mark.parametrize(
    "options",
    [
        {"likelihood": "gauss"},
        {"likelihood": "negative-binomial"},
        {"likelihood": "negative-binomial", "dispersion": 0.0},
    ],
)
def test_refuses_a_likelihood_it_cannot_compute(problem, options, backend):
    with pytest.raises(ParameterError):
        kernels.bptf_axis_sums(
            problem.factors, problem.factors, problem.layouts[0], **options, backend=backend
        )


@pytest.mark.parametrize("backend", ["numba", "numpy", "torch"])
def test_no_cells_at_all(backend):
    factors = [np.ones((2, 3)), np.ones((4, 3))]
    indices, counts = np.empty((0, 2), dtype=np.int32), np.empty(0, dtype=np.int64)
    layout = kernels.axis_layout(indices, counts, 0, 2)
    assert kernels.cell_rates(factors, indices, backend=backend).shape == (0,)
    assert kernels.cell_bound(factors, factors, indices, counts, backend=backend) == 0.0
    for sums in kernels.bptf_axis_sums(factors, factors, layout, backend=backend):
        np.testing.assert_array_equal(sums, np.zeros((2, 3)))
    assert kernels.share_sums(factors, layout, backend=backend).shape == (2, 3)
    if backend != "torch":
        assert kernels.allocate_axis(factors, layout, 0, 0, backend=backend).sum() == 0
