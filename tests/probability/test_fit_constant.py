from pathlib import Path

import numpy as np
import pytest
from scipy import optimize

from tallyfold.errors import CountError, ShapeError
from tallyfold.probability import COUNTS, fit_constant
from tallyfold.probability.fit_constant import R_RANGE, RATE_FLOOR

DATA = Path(__file__).parents[3] / "shared" / "data"
every = pytest.mark.parametrize("likelihood", COUNTS.values(), ids=lambda c: c.name)


def histogram(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.unique(counts, return_counts=True)


@every
@pytest.mark.parametrize(("rate", "r"), [(0.3, 0.5), (5.0, 2.0)])
def test_finds_the_parameters_of_simulated_counts(likelihood, rate, r):
    counts = likelihood.sample(np.random.default_rng(0), np.full(200_000, rate), r)
    fit = fit_constant(likelihood, *histogram(counts))
    assert fit.rate == pytest.approx(rate, rel=0.05)
    if likelihood.dispersed:
        assert fit.r == pytest.approx(r, rel=0.1)
    assert fit.log_pmf == pytest.approx(likelihood.log_pmf(counts, fit.rate, fit.r).mean())


@every
def test_no_neighbour_is_better(likelihood):
    value, frequency = np.array([1, 2, 3, 8]), np.array([70, 20, 9, 1])
    fit = fit_constant(likelihood, value, frequency)

    def loss(x: np.ndarray) -> float:
        r = float(np.exp(np.clip(x[1], *np.log(R_RANGE))))
        return float(-likelihood.log_pmf(value, np.exp(x[0]), r) @ frequency / 100)

    start = [np.log(fit.rate), np.log(fit.r or 1.0)]
    free = optimize.minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9})
    assert fit.log_pmf >= -free.fun - 1e-9


def test_under_dispersed_counts_become_a_poisson():
    value, frequency = np.array([3, 4, 5]), np.array([1, 8, 1])
    for truncated in (False, True):
        fit = fit_constant(COUNTS["negative-binomial", truncated], value, frequency)
        poisson = fit_constant(COUNTS["poisson", truncated], value, frequency)
        assert fit.r == pytest.approx(R_RANGE[1])
        assert fit.log_pmf == pytest.approx(poisson.log_pmf, abs=1e-5)


@every
def test_counts_as_low_as_they_can_be_get_the_floor(likelihood):
    fit = fit_constant(likelihood, [likelihood.lowest], [10])
    assert fit.rate == pytest.approx(RATE_FLOOR)
    assert fit.log_pmf == pytest.approx(0, abs=1e-6)


def test_refuses_what_it_cannot_fit():
    with pytest.raises(CountError, match="at least 1"):
        fit_constant(COUNTS["poisson", True], [0, 1], [1, 1])
    with pytest.raises(CountError, match="none"):
        fit_constant(COUNTS["poisson", True], [1], [0])
    with pytest.raises(ShapeError):
        fit_constant(COUNTS["poisson", True], [1, 2], [1])


@pytest.mark.skipif(not DATA.exists(), reason="the real tensors are not here")
def test_real_counts_are_over_dispersed():
    pandas = pytest.importorskip("pandas")
    counts = pandas.read_parquet(DATA / "nips.parquet", columns=["count"])["count"].to_numpy()
    value, frequency = histogram(counts)
    negative_binomial = fit_constant(COUNTS["negative-binomial", True], value, frequency)
    poisson = fit_constant(COUNTS["poisson", True], value, frequency)
    assert negative_binomial.log_pmf == pytest.approx(-0.738, abs=0.002)
    assert poisson.log_pmf == pytest.approx(-0.806, abs=0.002)


@pytest.mark.parametrize("family", ["poisson", "negative-binomial"])
@pytest.mark.parametrize("scale", [50, 1e4, 1e9, 2**52])
def test_counts_so_large_that_truncation_does_not_matter(family, scale):
    rng = np.random.default_rng(0)
    values = np.unique((scale * rng.pareto(1.5, 40)).astype(np.int64) % 2**53 + 1)
    fit = fit_constant(COUNTS[family, True], values, np.ones(len(values)))
    assert np.isfinite(fit.log_pmf)
    assert fit.rate <= values.mean() * (1 + 1e-9)
