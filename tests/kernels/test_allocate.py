import numpy as np
import pytest
from scipy import stats

from tallyfold.errors import ParameterError
from tallyfold.kernels import allocate_axis, axis_layout
from tallyfold.kernels.fused.draws import draw_binomial

BACKENDS = ("numba", "numpy")


@pytest.mark.parametrize("backend", BACKENDS)
def test_totals_are_kept_exactly(problem, four_axes, backend):
    for indices, counts, factors, layouts in (problem, four_axes):
        for axis, layout in enumerate(layouts):
            drawn = allocate_axis(factors, layout, 3, 1, backend=backend)
            expected = np.bincount(indices[:, axis], counts, minlength=len(factors[axis]))
            np.testing.assert_array_equal(drawn.sum(axis=1), expected)
            assert drawn.dtype == np.int64
            assert drawn.min() >= 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_axis_sees_the_same_draws(problem, four_axes, backend):
    for _, _, factors, layouts in (problem, four_axes):
        totals = [
            allocate_axis(factors, layout, 3, 1, backend=backend).sum(axis=0) for layout in layouts
        ]
        assert all(np.array_equal(total, totals[0]) for total in totals)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_cell_is_drawn_alike_through_each_layout(backend, axis):
    rng = np.random.default_rng(5)
    indices = np.array([[0, 1, 2], [0, 0, 0], [1, 1, 1], [2, 0, 2]])
    counts = np.array([3, 100, 1, 17])
    factors = [rng.gamma(1.0, size=(3, 4)) for _ in range(3)]
    along = allocate_axis(factors, axis_layout(indices, counts, axis, 3), 9, 0, backend=backend)
    # One more axis on which every cell stands alone shows each cell's own draw.
    alone = axis_layout(np.column_stack([indices, np.arange(4)]), counts, 3, 4)
    draws = allocate_axis([*factors, np.ones((4, 4))], alone, 9, 0, backend=backend)
    np.testing.assert_array_equal(draws.sum(axis=1), counts)
    summed = np.zeros_like(along)
    np.add.at(summed, indices[:, axis], draws)
    np.testing.assert_array_equal(along, summed)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", [1, 3, 40, 5000])
def test_draws_follow_the_multinomial(backend, count):
    n_cells, shares = 4000, np.array([0.5, 0.3, 0.15, 0.05])
    indices = np.column_stack([np.arange(n_cells), np.zeros(n_cells, dtype=int)])
    layout = axis_layout(indices, np.full(n_cells, count), 0, n_cells)
    factors = [np.full((n_cells, 4), 1e-9), 7e3 * shares[None, :]]
    drawn = allocate_axis(factors, layout, 11, 0, backend=backend)
    for k, share in enumerate(shares):
        assert_binomial(drawn[:, k], count, share)
    assert_binomial(drawn[:, 0] + drawn[:, 2], count, shares[0] + shares[2])


@pytest.mark.parametrize(
    ("n", "p"), [(30, 0.1), (30, 0.5), (1000, 0.02), (200, 0.5), (10**6, 0.3), (500, 0.93)]
)
def test_binomial_draws_are_exact(n, p):
    stream = np.array([1, 2, 3, 0], dtype=np.uint64)
    assert_binomial(np.array([draw_binomial(stream, n, p) for _ in range(40_000)]), n, p)


@pytest.mark.parametrize(("n", "p"), [(1000, 0.0099), (1000, 0.0101)])
def test_binomial_draws_reach_into_the_tail(n, p):
    """By inversion and by rejection; bins of equal mass are too wide to see a tail cut off."""
    stream = np.array([1, 2, 3, 0], dtype=np.uint64)
    draws = np.array([draw_binomial(stream, n, p) for _ in range(40_000)])
    far = int((draws > 20).sum())
    assert stats.binomtest(far, len(draws), stats.binom.sf(20, n, p)).pvalue > 1e-3


def test_a_huge_count_has_the_right_mean_and_spread():
    stream = np.array([1, 2, 3, 0], dtype=np.uint64)
    n, p = 2**52, 0.25
    draws = np.array([draw_binomial(stream, n, p) for _ in range(20_000)], dtype=float)
    scores = (draws - n * p) / np.sqrt(n * p * (1 - p))
    assert stats.kstest(scores, "norm").pvalue > 1e-3


def assert_binomial(draws: np.ndarray, n: int, p: float) -> None:
    """Compare with the exact pmf by chi-square, on bins of about equal mass."""
    edges = np.unique(stats.binom.ppf(np.linspace(0.05, 0.95, 19), n, p))
    bins = np.concatenate([[-1], edges, [n]])
    mass = np.diff(stats.binom.cdf(bins, n, p))
    seen = np.histogram(draws, bins + 0.5)[0][mass > 0]
    mass = mass[mass > 0]
    if len(mass) > 1:
        assert stats.chisquare(seen, mass / mass.sum() * len(draws)).pvalue > 1e-4


def test_iterations_and_seeds_differ(problem):
    _, _, factors, layouts = problem
    one, two, three = (
        allocate_axis(factors, layouts[0], seed, iteration, backend="numba")
        for seed, iteration in [(0, 0), (0, 1), (1, 0)]
    )
    assert not np.array_equal(one, two)
    assert not np.array_equal(one, three)


@pytest.mark.parametrize("backend", BACKENDS)
def test_vanishing_and_zero_shares_keep_their_counts(backend):
    layout = axis_layout(np.array([[0, 0], [1, 1], [2, 0]]), np.array([50, 4, 5]), 0, 3)
    factors = [
        np.array([[1e-200, 1e-300], [0.0, 0.0], [1e-200, 0.0]]),
        np.array([[1e-200, 1e-300], [1.0, 1.0]]),
    ]
    drawn = allocate_axis(factors, layout, 0, 0, backend=backend)
    assert drawn[0].tolist() == [50, 0]
    assert drawn[1].sum() == 4
    assert drawn[2].tolist() == [5, 0]


@pytest.mark.parametrize(("seed", "iteration"), [(-1, 0), (2**64, 0), (0, 2**32)])
def test_refuses_addresses_it_does_not_have(problem, seed, iteration):
    with pytest.raises(ParameterError, match="from 0 to 2\\*\\*64 - 1"):
        allocate_axis(problem.factors, problem.layouts[0], seed, iteration)
