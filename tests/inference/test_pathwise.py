import numpy as np
import pytest
from scipy.special import gammainc, gammaincinv, polygamma

from tallyfold.inference.paper_encoders.pathwise import (
    CHUNK_ROWS,
    LEAST_DRAW,
    kl_slopes,
    kl_total,
    pathwise_draw,
    shape_slope,
    trigamma,
)
from tallyfold.kernels import use_threads
from tallyfold.probability import gamma

QUANTILES = np.array([0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])


@pytest.mark.parametrize("shape", np.geomspace(0.01, 1e4, 19))
def test_the_slope_by_finite_differences_of_the_inverse_cdf(shape):
    standard = gammaincinv(shape, QUANTILES)
    h = 1e-4 * min(shape, shape**0.5)
    up, down = (np.log(gammaincinv(shape + move, QUANTILES)) for move in (h, -h))
    found = shape_slope(standard, np.full_like(standard, shape))
    np.testing.assert_allclose(found, standard * (up - down) / (2 * h), rtol=1e-6)


def test_the_slope_has_the_same_bits_for_any_number_of_threads():
    rng = np.random.default_rng(0)
    shape = rng.gamma(1.0, 3.0, (3 * CHUNK_ROWS + 5, 4))
    standard = rng.gamma(shape)
    slopes = []
    for threads in (1, 3):
        with use_threads(threads):
            slopes.append(shape_slope(standard, shape))
    assert np.array_equal(*slopes)


def test_a_draw_moves_with_shape_and_rate():
    """At a fixed quantile; both derivatives by finite differences."""
    shape, rate = np.array([[0.2, 1.0], [7.0, 300.0]]), np.array([[3.0, 0.1], [2.0, 50.0]])
    draw = pathwise_draw(np.random.default_rng(0), shape, rate)
    p = gammainc(shape, draw.z_DK * rate)
    h = 1e-6
    by_shape = (gammaincinv(shape * (1 + h), p) - gammaincinv(shape * (1 - h), p)) / rate
    np.testing.assert_allclose(draw.by_shape_DK, by_shape / (2 * h * shape), rtol=1e-6)
    np.testing.assert_allclose(draw.by_rate_DK, -draw.z_DK / rate)


def test_the_mean_of_pathwise_gradients_is_the_gradient_of_the_mean():
    """d E z / d shape = 1 / rate, d E z^2 / d rate = -2 a (a + 1) / rate^3."""
    shape, rate = np.full((200_000, 1), 1.7), np.full((200_000, 1), 2.0)
    draw = pathwise_draw(np.random.default_rng(1), shape, rate)
    assert draw.by_shape_DK.mean() == pytest.approx(0.5, rel=0.01)
    square = (2 * draw.z_DK * draw.by_rate_DK).mean()
    assert square == pytest.approx(-2 * 1.7 * 2.7 / 8, rel=0.02)


def test_draws_at_the_floor_are_finite_and_do_not_move():
    shape, rate = np.full((500, 2), 1e-3), np.ones((500, 2))
    draw = pathwise_draw(np.random.default_rng(0), shape, rate)
    assert draw.z_DK.min() == LEAST_DRAW
    assert all(np.all(np.isfinite(part)) for part in draw)
    assert np.all(draw.by_shape_DK[draw.z_DK == LEAST_DRAW] == 0)


@pytest.mark.parametrize("shape", [1e-3, 0.4, 1.0, 30.0, 1e5])
@pytest.mark.parametrize("rate", [1e-3, 2.0, 1e4])
def test_slopes_of_the_divergence_by_finite_differences(shape, rate):
    a, b = np.array([[shape]]), np.array([[rate]])
    by_shape, by_rate = kl_slopes(a, b, 0.7, 1.3)
    h = 1e-5
    up, down = gamma.kl(a * (1 + h), b, 0.7, 1.3), gamma.kl(a * (1 - h), b, 0.7, 1.3)
    assert by_shape == pytest.approx((up - down) / (2 * h * a), rel=1e-4, abs=1e-6)
    up, down = gamma.kl(a, b * (1 + h), 0.7, 1.3), gamma.kl(a, b * (1 - h), 0.7, 1.3)
    assert by_rate == pytest.approx((up - down) / (2 * h * b), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("rows", [0, 1, CHUNK_ROWS, 3 * CHUNK_ROWS + 5])
def test_the_total_divergence_has_the_same_bits_for_any_number_of_threads(rows):
    rng = np.random.default_rng(0)
    shape, rate = rng.gamma(1.0, 3.0, (rows, 4)), rng.gamma(1.0, 1.0, (rows, 4))
    totals = []
    for threads in (1, 2, 3):
        with use_threads(threads):
            totals.append(kl_total(shape, rate, 0.7, 1.3))
    assert len(set(totals)) == 1
    assert totals[0] == pytest.approx(gamma.kl(shape, rate, 0.7, 1.3).sum(), rel=1e-12)


def test_a_divergence_that_is_no_number_stays_none_and_warns_of_nothing():
    shape = np.full((2 * CHUNK_ROWS, 1), 2.0)
    shape[-1] = -1.0
    with use_threads(2):
        assert np.isnan(kl_total(shape, shape * 0 + np.nan, 1.0, 1.0))


def test_trigamma_agrees_with_scipy():
    x = np.geomspace(1e-3, 1e8, 500)
    np.testing.assert_allclose(trigamma(x), polygamma(1, x), rtol=1e-11)
