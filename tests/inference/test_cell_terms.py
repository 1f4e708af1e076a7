import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.probability.counts import COUNTS

CASES = [*[(name, False) for name in COUNTS], (("poisson", False), True)]


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((6, 5, 4), 2, density=0.4, random_state=0).tensor


@pytest.fixture(scope="module")
def factors():
    rng = np.random.default_rng(0)
    return [rng.gamma(2.0, 0.5, (size, 2)) for size in (6, 5, 4)]


@pytest.mark.parametrize(("likelihood", "zeros_observed"), CASES)
def test_the_value_is_the_sum_of_log_pmfs(likelihood, zeros_observed, tensor, factors):
    closed = ClosedSums.of_all if zeros_observed else None
    drawn = CellTerms(TrainingCells(tensor), COUNTS[likelihood], closed)
    rate = np.einsum("ik,jk,lk->ijl", *factors)
    counts = np.zeros(tensor.shape, dtype=int)
    counts[tuple(tensor.indices.T)] = tensor.counts
    cells = ... if zeros_observed else counts > 0
    expected = COUNTS[likelihood].log_pmf(counts[cells], rate[cells], 0.7).sum()
    assert drawn.value(factors, 0.7) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize(("likelihood", "zeros_observed"), CASES)
def test_the_slope_by_finite_differences(likelihood, zeros_observed, axis, tensor, factors):
    closed = ClosedSums.of_all if zeros_observed else None
    drawn = CellTerms(TrainingCells(tensor), COUNTS[likelihood], closed)
    slope, h = drawn.slope(axis, factors, 0.7), 1e-6
    for place in [(0, 0), (2, 1), (3, 0)]:
        values = []
        for move in (h, -h):
            moved = [factor.copy() for factor in factors]
            moved[axis][place] += move
            values.append(drawn.value(moved, 0.7))
        expected = (values[0] - values[1]) / (2 * h)
        assert slope[place] == pytest.approx(expected, rel=1e-5, abs=1e-5)
