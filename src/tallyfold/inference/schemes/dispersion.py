"""The negative binomial's dispersion that suits the rates of a fit best."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize_scalar

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats
from tallyfold.probability.counts import CountLikelihood

DISPERSION_RANGE = (1e-3, 1e6)
DISPERSION_CELLS = 200_000


def best_dispersion(
    cells: TrainingCells,
    likelihood: CountLikelihood,
    mean: Sequence[Floats],
    now: float,
    backend: str = "auto",
) -> float:
    """Maximise the bound in r; with very many cells, on an even sample of them.

    Parameters
    ----------
    cells, likelihood
        The cells of the fit, and a negative binomial.
    mean
        Means of the factors, one (D, K) array per axis.
    now
        The dispersion so far, kept if nothing better is found.
    """
    some = cells.every(max(1, cells.n_cells // DISPERSION_CELLS))
    indices_NM, counts_N = cells.indices_NM[some], cells.counts_N[some]
    mean_N = kernels.cell_rates(mean, indices_NM, backend=backend)

    def loss(log_r: float) -> float:
        # y ln g does not depend on r, so the pmf at the mean rates has the bound's slope
        log_pmf_N = likelihood.log_pmf(counts_N, mean_N, np.exp(log_r))
        return -cells.group.all_reduce_number(float(log_pmf_N.sum()))

    low, high = np.log(DISPERSION_RANGE)
    found = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-3})
    better = found.fun <= loss(float(np.log(now)))
    return float(np.exp(found.x)) if better else now


def is_power_of_two(number: int) -> bool:
    """Say whether this is an iteration to learn the dispersion at: ever more rarely."""
    return number & (number - 1) == 0
