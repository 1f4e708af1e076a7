from dataclasses import replace

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.fit.calibration import calibrate
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.predictive import Calibration, matched_mixture
from tallyfold.probability.counts import COUNTS
from tallyfold.probability.mixture import CountMixture


@pytest.fixture(scope="module")
def factors():
    rng = np.random.default_rng(0)
    shapes = [rng.uniform(2, 20, (size + 1, 3)) for size in (6, 5, 4)]
    rates = [rng.uniform(5, 20, (size + 1, 3)) for size in (6, 5, 4)]
    labels = [tf.Axis.numbered("x", size).labels for size in (6, 5, 4)]
    return GammaFactors(["a", "b", "c"], labels, GammaPosterior.of(shapes, rates))


CELLS = np.array([[0, 0, 0], [5, 4, 3], [2, 1, -1], [-1, -1, -1]], dtype=np.int32)


def test_moments_of_rates_agree_with_draws(factors):
    mean, variance = factors.rate_moments(CELLS)
    rng = np.random.default_rng(1)
    draws = np.array(
        [
            np.prod([f[CELLS[:, m]] for m, f in enumerate(drawn)], axis=0).sum(axis=1)
            for drawn in factors.draws(40_000, rng)
        ]
    )
    assert draws.mean(axis=0) == pytest.approx(mean, rel=0.03)
    assert draws.var(axis=0) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize("truncated", [False, True])
@pytest.mark.parametrize("dispersion", [None, 1.2])
def test_the_matched_predictive_is_within_two_hundredths_of_the_mixture_over_draws(
    factors, truncated, dispersion
):
    family = "poisson" if dispersion is None else "negative-binomial"
    likelihood = COUNTS[family, truncated]
    matched = matched_mixture(*factors.rate_moments(CELLS), likelihood, dispersion, Calibration())
    rng = np.random.default_rng(2)
    rates = np.array(
        [
            np.prod([f[CELLS[:, m]] for m, f in enumerate(drawn)], axis=0).sum(axis=1)
            for drawn in factors.draws(20_000, rng)
        ]
    )
    mixed = CountMixture(COUNTS[family, False], rates, dispersion)
    seen = 1 - np.exp(mixed.log_pmf(0 * CELLS[:, 0])) if truncated else 1.0
    for y in (1, 2, 3, 4):
        counts = np.full(len(CELLS), y)
        exact = np.exp(mixed.log_pmf(counts)) / seen
        assert np.exp(matched.log_pmf(counts)) == pytest.approx(exact, abs=0.02)
    assert matched.mean() == pytest.approx(mixed.mean() / seen, rel=0.05)


def test_without_any_spread_the_predictive_is_the_likelihood_itself():
    rate = np.array([0.5, 2.0])
    poisson = matched_mixture(rate, 0 * rate, COUNTS["poisson", True], None, Calibration())
    assert poisson.likelihood.name == "truncated-poisson"
    likelihood = COUNTS["negative-binomial", False]
    same = matched_mixture(rate, 0 * rate, likelihood, 0.7, Calibration())
    counts = np.array([1, 3])
    assert same.log_pmf(counts) == pytest.approx(likelihood.log_pmf(counts, rate, 0.7))


def test_weights_count_cells_that_many_times():
    rng = np.random.default_rng(0)
    told = np.exp(rng.normal(-3, 1, 3000))
    counts = rng.negative_binomial(0.3, 0.3 / (0.3 + 2 * told**1.2))
    spread, times = 0.5 * told**2, np.where(counts > 0, 1, rng.integers(1, 4, 3000))
    poisson = COUNTS["poisson", False]
    weighted = calibrate(counts, told, spread, poisson, None, weight_N=times.astype(float))
    each = [np.repeat(value, times) for value in (counts, told, spread)]
    repeated = calibrate(*each, poisson, None, weight_N=np.ones(times.sum()))
    assert weighted.dispersion is not None
    assert weighted.growth != 0
    for name, value in vars(repeated).items():
        assert vars(weighted)[name] == pytest.approx(value, rel=1e-3)


def test_calibration_with_zeros_finds_how_dispersion_grows():
    """Rates say whether there is a count; how large it is is the same everywhere: growth is 1."""
    rng = np.random.default_rng(0)
    told = np.exp(rng.normal(-2, 1, 60_000))
    counts = np.where(rng.random(60_000) < -np.expm1(-told), rng.geometric(0.5, 60_000), 0)
    once = np.ones(len(counts))
    found = calibrate(counts, told, 0 * told, COUNTS["poisson", False], None, weight_N=once)
    assert found.growth > 0.7
    fitted, fixed = (
        matched_mixture(told, 0 * told, COUNTS["poisson", False], None, calibration)
        for calibration in (found, replace(found, growth=0.0))
    )
    assert fitted.log_pmf(counts).mean() > fixed.log_pmf(counts).mean()
    some = counts > 0
    rates = found.rates(told)
    r = found.dispersion * rates**found.growth
    exact = COUNTS["negative-binomial", False].log_pmf(counts, rates, r)
    assert fitted.log_pmf(counts)[some] == pytest.approx(exact[some])


@pytest.mark.parametrize("truncated", [False, True])
def test_calibration_finds_scale_exponent_and_dispersion(truncated):
    rng = np.random.default_rng(0)
    told = rng.gamma(2.0, 2.0, 60_000) + 0.1
    true = 0.6 * told**1.3
    counts = rng.negative_binomial(1.5, 1.5 / (1.5 + true))
    if truncated:
        told, counts = told[counts > 0], counts[counts > 0]
    found = calibrate(counts, told, 0 * told, COUNTS["poisson", truncated], None)
    assert found.scale == pytest.approx(0.6, rel=0.1)
    assert found.exponent == pytest.approx(1.3, rel=0.05)
    assert found.dispersion == pytest.approx(1.5, rel=0.1)


def test_calibration_leaves_few_cells_alone():
    assert (
        calibrate(np.ones(99, int), np.ones(99), np.zeros(99), COUNTS["poisson", False], None)
        == Calibration()
    )


def test_rows_never_seen_get_the_mean_and_the_spread_of_the_others():
    rng = np.random.default_rng(0)
    shape, rate = rng.uniform(1, 9, (50, 2)), rng.uniform(1, 9, (50, 2))
    seen = np.arange(50) < 40
    table = GammaTable(shape, rate).completed(seen)
    new_shape, new_rate = table.shape_DK, table.rate_DK
    assert new_shape.shape == (51, 2)
    assert np.array_equal(new_shape[:40], shape[:40])
    drawn = rng.gamma(shape[:40], 1 / rate[:40], (20_000, 40, 2)).reshape(-1, 2)
    for row in (45, 50):
        assert new_shape[row] / new_rate[row] == pytest.approx(drawn.mean(axis=0), rel=0.02)
        assert np.sqrt(new_shape[row]) / new_rate[row] == pytest.approx(drawn.std(axis=0), rel=0.02)


def test_a_rate_of_zero_is_a_distribution_all_the_same():
    zero = np.array([0.0, 0.0])
    for likelihood in COUNTS.values():
        cells = matched_mixture(zero, zero, likelihood, 1.5, Calibration())
        assert cells.mean() == pytest.approx(float(likelihood.truncated), abs=1e-9)
        assert np.all(cells.median() == int(likelihood.truncated))
