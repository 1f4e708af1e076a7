"""Every fast kernel against the reference, on small and hostile problems."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyfold.kernels import (
    LIKELIHOODS,
    axis_layout,
    axis_sums,
    bptf_axis_sums,
    cell_bound,
    cell_rates,
    share_sums,
)

fast_enough = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
by_each = pytest.mark.parametrize("backend", ["numba", "torch"])


@st.composite
def problems(draw: st.DrawFn, reach: float = 30.0):
    """Draw cells, counts and two sets of factors whose sizes span 10**(-reach..reach)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_axes, n_components = draw(st.integers(2, 5)), draw(st.integers(1, 12))
    n_cells = draw(st.integers(1, 60))
    sizes = [int(size) for size in rng.integers(1, 8, n_axes)]
    columns = [rng.integers(0, size, n_cells) for size in sizes]
    indices = np.asfortranarray(np.column_stack(columns), dtype=np.int32)
    counts = rng.geometric(draw(st.sampled_from([0.9, 0.1, 1e-4])), n_cells)
    spread = draw(st.sampled_from([0.1, 1.0, reach]))
    sets = [[10.0 ** rng.uniform(-spread, spread, (d, n_components)) for d in sizes] for _ in "ab"]
    return indices, counts, sizes, sets, draw(st.integers(0, n_axes - 1)), rng


def assert_close(fast, reference):
    assert np.all(np.isfinite(fast))
    np.testing.assert_allclose(fast, reference, rtol=1e-10, atol=0)


@by_each
@fast_enough
@given(problems())
def test_cell_rates(backend, case):
    indices, _, _, (factors, _), _, _ = case
    fast, reference = (cell_rates(factors, indices, backend=b) for b in (backend, "numpy"))
    assert_close(fast, reference)


@by_each
@fast_enough
@given(problems())
def test_axis_sums(backend, case):
    indices, counts, sizes, (factors, _), axis, rng = case
    layout = axis_layout(indices, counts, axis, sizes[axis])
    weights = rng.random(len(counts))
    fast, reference = (axis_sums(factors, layout, weights, backend=b) for b in (backend, "numpy"))
    assert_close(fast, reference)


@by_each
@fast_enough
@given(problems(), st.sampled_from([0.0, 1e-10]))
def test_share_sums(backend, case, floor):
    indices, counts, sizes, (factors, _), axis, _ = case
    layout = axis_layout(indices, counts, axis, sizes[axis])
    fast, reference = (
        share_sums(factors, layout, floor=floor, backend=b) for b in (backend, "numpy")
    )
    assert_close(fast, reference)


@by_each
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@fast_enough
@given(problems(), st.sampled_from([0.01, 1.0, 1e6]))
def test_bptf_axis_sums(backend, likelihood, case, r):
    indices, counts, sizes, (geo, mean), axis, _ = case
    layout = axis_layout(indices, counts, axis, sizes[axis])
    results = [
        bptf_axis_sums(geo, mean, layout, likelihood=likelihood, dispersion=r, backend=b)
        for b in (backend, "numpy")
    ]
    for fast, reference in zip(*results, strict=True):
        assert_close(fast, reference)


@by_each
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@fast_enough
@given(problems(), st.sampled_from([0.01, 1.0, 1e6]))
def test_cell_bound(backend, likelihood, case, r):
    indices, counts, _, (geo, mean), _, _ = case
    fast, reference = (
        cell_bound(geo, mean, indices, counts, likelihood=likelihood, dispersion=r, backend=b)
        for b in (backend, "numpy")
    )
    assert np.isfinite(fast)
    np.testing.assert_allclose(fast, reference, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@fast_enough
@given(problems(reach=300.0), st.floats(0, 1))
def test_rates_far_outside_float64_give_no_nan(likelihood, case, share_of_zeros):
    indices, counts, sizes, (geo, mean), axis, rng = case
    for factor in (*geo, *mean):
        factor[rng.random(factor.shape) < share_of_zeros / 2] = 0.0
    layout = axis_layout(indices, counts, axis, sizes[axis])
    options = {"likelihood": likelihood, "dispersion": 0.3}
    for backend in ("numba", "numpy", "torch"):
        for sums in bptf_axis_sums(geo, mean, layout, **options, backend=backend):
            assert np.all(np.isfinite(sums))
        assert np.all(np.isfinite(share_sums(geo, layout, backend=backend)))
        bound = cell_bound(geo, mean, indices, counts, **options, backend=backend)
        assert bound < np.inf  # -inf where a count meets a rate of zero, but never NaN


@by_each
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("scale", [1e-110, 1e110])
def test_rates_outside_float64_are_summed_in_logarithms(backend, likelihood, scale):
    rng = np.random.default_rng(3)
    indices = np.asfortranarray(rng.integers(0, [4, 3, 2], (30, 3)), dtype=np.int32)
    counts, sizes = rng.geometric(0.3, 30), (4, 3, 2)
    geo, mean = ([scale * rng.uniform(0.1, 1.0, (d, 6)) for d in sizes] for _ in "ab")
    layout = axis_layout(indices, counts, 0, 4)
    options = {"likelihood": likelihood, "dispersion": 0.7}
    assert_close(share_sums(geo, layout, backend=backend), share_sums(geo, layout, backend="numpy"))
    for mean_or_geo in (mean, geo):  # a set given twice is looked up once
        fast, reference = (
            bptf_axis_sums(geo, mean_or_geo, layout, **options, backend=b)
            for b in (backend, "numpy")
        )
        for one, other in zip(fast, reference, strict=True):
            assert_close(one, other)
        fast, reference = (
            cell_bound(geo, mean_or_geo, indices, counts, **options, backend=b)
            for b in (backend, "numpy")
        )
        assert fast == pytest.approx(reference, rel=1e-12)


@by_each
@fast_enough
@given(problems(reach=250.0), st.sampled_from(LIKELIHOODS))
def test_one_set_given_twice_is_as_good_as_two_equal_ones(backend, case, likelihood):
    """Plain factors are looked up once; also where rates leave float64's range."""
    indices, counts, sizes, (factors, _), axis, _ = case
    layout = axis_layout(indices, counts, axis, sizes[axis])
    copy = [factor.copy() for factor in factors]
    options = {"likelihood": likelihood, "dispersion": 0.7, "backend": backend}
    one, two = (bptf_axis_sums(factors, mean, layout, **options) for mean in (factors, copy))
    for shared, separate in zip(one, two, strict=True):
        np.testing.assert_allclose(shared, separate, rtol=1e-12)
    one, two = (cell_bound(factors, mean, indices, counts, **options) for mean in (factors, copy))
    assert one == pytest.approx(two, rel=1e-12)
