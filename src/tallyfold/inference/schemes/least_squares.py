"""Non-negative factors by squared error: full gradients, Adam, and a projection onto zero.

The loss is sum (rate - y)^2 + l2 sum factor^2. Its gradient in the factors of an axis is

- 2 (sum_n (rate_n - y_n) prod_other + l2 factor)         (zeros missing: over the cells seen)
- 2 (factor G - sum_n y_n prod_other + l2 factor)         (zeros observed: over all cells)

where G, the elementwise product of the other axes' Gram matrices U'U, sums over all cells without
visiting them. Steps are taken in the factors themselves and cut off at zero: a zero can be
reached and left again, and l2 acts on what is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.schemes.adam import Adam
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.point_factors import mean_over_seen


@dataclass(frozen=True)
class LeastSquaresStep:
    """One projected Adam step on all factors; see the module's text.

    Parameters
    ----------
    cells
        What is fitted to.
    zeros_observed
        Whether cells without an entry count as zeros.
    n_components
        The number of components.
    learning_rate, l2
        The length of a step, and the weight of the sum of squared factors.
    seed
        Of the random start.
    validation
        Cells to score after each step.
    """

    cells: TrainingCells
    zeros_observed: bool
    n_components: int
    learning_rate: float = 1e-2
    l2: float = 1e-3
    seed: int = 0
    backend: str = "auto"
    validation: ValidationCells | None = None

    def start(self, previous: object = None) -> Adam:
        """Draw factors around one, scaled so that the mean rate is the mean count."""
        rng = np.random.default_rng([self.seed, 0])
        cells = self.cells
        n_cells = np.prod(cells.shape, dtype=float) if self.zeros_observed else len(cells.counts_N)
        mean_count = float(cells.counts_N.sum()) / n_cells
        scale = (mean_count / self.n_components) ** (1 / cells.n_axes)
        sizes = enumerate(cells.shape)
        return Adam.fresh(
            {str(m): scale * rng.uniform(0.5, 1.5, (size, self.n_components)) for m, size in sizes}
        )

    def advance(self, state: Adam, iteration: int) -> tuple[Adam, float]:
        """Take one step on every axis at once; return the loss per cell with an entry."""
        gradients = dict(zip(state.values, self.gradients(factors_of(state)), strict=True))
        moved = state.climb(gradients, -self.learning_rate, longest=np.inf)
        new = moved._replace(values={m: np.maximum(z, 0.0) for m, z in moved.values.items()})
        return new, self.loss(factors_of(new)) / len(self.cells.counts_N)

    def loss(self, factors: list[Floats]) -> float:
        """Return the sum of squared errors, and of squared factors times l2."""
        rate_N, counts_N = self._rates(factors), self.cells.counts_N
        penalty = self.l2 * sum(float(np.vdot(factor, factor)) for factor in factors)
        if not self.zeros_observed:
            return float(np.sum((rate_N - counts_N) ** 2)) + penalty
        everywhere = float(np.prod([factor.T @ factor for factor in factors], axis=0).sum())
        squares = float(np.sum(counts_N.astype(float) ** 2))
        return everywhere - 2 * float(counts_N @ rate_N) + squares + penalty

    def gradients(self, factors: list[Floats]) -> list[Floats]:
        """Return the gradient of the loss in every axis's factors."""
        error_N = -self.cells.counts_N.astype(float)
        if not self.zeros_observed:
            error_N += self._rates(factors)
        gradients = []
        for layout, factor_DK in zip(self.cells.layouts, factors, strict=True):
            sums_DK = kernels.axis_sums(factors, layout, error_N, backend=self.backend)
            if self.zeros_observed:
                others = [f.T @ f for axis, f in enumerate(factors) if axis != layout.axis]
                sums_DK = sums_DK + factor_DK @ np.prod(others, axis=0)
            gradients.append(2 * (sums_DK + self.l2 * factor_DK))
        return gradients

    def validation_score(self, state: Adam) -> float | None:
        """Return minus the mean squared error of the validation cells."""
        if self.validation is None:
            return None
        seen = self.cells.seen
        known = [mean_over_seen(f, s) for f, s in zip(factors_of(state), seen, strict=True)]
        return -float(np.mean((self.validation.rates(known) - self.validation.cells.counts_N) ** 2))

    def _rates(self, factors: list[Floats]) -> Floats:
        return kernels.cell_rates(factors, self.cells.indices_NM, backend=self.backend)


def factors_of(state: Adam) -> list[Floats]:
    """Return the factors of every axis."""
    return list(state.values.values())
