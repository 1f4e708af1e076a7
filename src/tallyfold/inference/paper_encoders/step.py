"""VAE-BPTF as in its paper: encoders learnt by Adam on the bound, factors drawn in between.

One iteration visits every axis (the paper's Algorithm 1). A visit takes a few steps of Adam up the
bound, estimated by one draw of the axis's factors with its pathwise gradient, then draws the
factors anew from the encoders' Gammas; these draws are what the next axis's encoders see. The bound
is the log-likelihood of the cells at the draws, minus the KL divergence of all factors from the
prior. (The paper prints two of its terms with the wrong sign.)

As printed the fit blows up within a few iterations, or ends far from the counts' scale. What
departs from the paper, and why:

- Encoders work in units given by the data (`axis_encoder`): factors go in relative to their
  column's mean. No axis's scale feeds on another's, so none can run away.
- Unless its rate is given, the prior has the scale of the counts. With the paper's Gamma(1, 1) and
  K components the prior expects a rate of K, and with few cells the prior wins.
- Factors start as draws at that scale, weights smaller than in the paper (hidden 0.3, output 0.1,
  instead of 1 and sigma), and output biases such that a typical cell's two outputs are equal.
- 0.001 is added to shapes and to rates in their unit, draws are kept above 1e-8, and go in cut off
  at 20 times their column's mean.
- Cell weights are divided by their mean.
- Several steps of Adam a visit, none of which moves a weight by more than 3 learning rates.
- A visit after which the bound has fallen absurdly, or is no number, is taken back and repeated
  with half the learning rate, which stays.
- Entities without a cell have the prior as their posterior: their sums are empty.
- The posterior is that of the last iterations together: Gammas with the averages of the encoders'
  first and second moments, each component's scale shared out evenly over the axes beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeVar

import numpy as np

from tallyfold.inference.cells.terms import CellTerms
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.cells.validation import ValidationCells
from tallyfold.inference.paper_encoders.axis_encoder import EncodedAxis, Weights
from tallyfold.inference.paper_encoders.pathwise import (
    draw_factors,
    kl_slopes,
    kl_total,
    pathwise_draw,
)
from tallyfold.inference.paper_encoders.reweighting import (
    ERROR_MEMORY,
    distance_weights,
    error_weights,
    most_frequent,
    pearson_errors,
)
from tallyfold.inference.paper_encoders.state import PaperState
from tallyfold.inference.schemes.adam import Adam
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.kernels.encoder import Network
from tallyfold.kernels.tensors import openmp
from tallyfold.posterior.closed_sums import ClosedSums
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable
from tallyfold.posterior.point_factors import mean_over_seen
from tallyfold.probability.counts import CountLikelihood
from tallyfold.probability.fit_constant import fit_constant

T = TypeVar("T")

LEARNING_RATE = 0.03
"""Of Adam at the start; visits that fail halve it."""
STEPS = 3
"""Steps of Adam per visit."""
AVERAGED = 50
"""The number of last iterations that the posterior is averaged over, about."""
ATTEMPTS = 12
"""How often a visit is tried, each time with half the learning rate, before the fit is lost."""
ABSURD_FALL = 0.5
"""How far the bound may fall in a visit: per cell, and as a share of itself."""


@dataclass(frozen=True)
class PaperStep:
    """One iteration of the paper's algorithm; see the module's text.

    Attributes
    ----------
    cells, likelihood
        What is fitted to, and the distribution of a count given its rate: a Poisson.
    zeros_observed
        Whether cells without an entry count as zeros; plain Poisson only.
    n_components, network, shared
        The number of components; the form of the encoders; whether components share theirs.
    reweight
        Which cells weigh more in the encoders' sums: those far from the typical count
        (``"paper"``), those predicted badly so far (``"error"``), or ``"none"``.
    theta, eta
        Of the paper's weights. The typical count is the most frequent one.
    prior_shape, prior_rate
        Of the factors' Gamma prior (the paper: 1 and 1). A rate of None gives the prior the scale
        of the counts.
    weight_variance
        Of the Gaussian prior of the encoders' weights.
    learning_rate, steps
        Of Adam at the start, and its steps per visit.
    seed
        Of the start and of all draws.
    validation
        Cells to score after each iteration.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    n_components: int
    network: Network = field(default_factory=lambda: Network(1, 20, "softplus", "softplus"))
    shared: bool = False
    reweight: Literal["paper", "none", "error"] = "paper"
    theta: float = 5.0
    eta: float = 10.0
    prior_shape: float = 1.0
    prior_rate: float | None = None
    weight_variance: float = 1.0
    learning_rate: float = LEARNING_RATE
    steps: int = STEPS
    seed: int = 0
    backend: str = "auto"
    validation: ValidationCells | None = None

    def start(self, previous: object = None) -> PaperState:
        """Draw weights, and factors about as large as the counts want them."""
        encoders, draws, none = [], [], np.zeros(self.cells.n_axes)
        for axis, size in enumerate(self.cells.shape):
            rng = np.random.default_rng([self.seed, 0, axis])
            encoders.append(Adam.fresh(self.encoders[axis].start(rng)))
            shape_DK = np.full((size, self.n_components), self.prior_shape)
            draws.append(draw_factors(rng, shape_DK, shape_DK / self.scale))
        error_N = np.ones(len(self.cells)) if self.reweight == "error" else None
        blank = GammaPosterior(tuple(GammaTable(draw, draw) for draw in draws))
        state = PaperState(
            tuple(encoders), blank, tuple(draws), (), none, self.learning_rate, 0.0, error_N
        )
        for axis, adam in enumerate(encoders):
            state = self._encoded(state, axis, adam)
        state = state.averaged(self._informed_M, 1.0)
        return replace(state, bound=self.bound(state))

    def advance(self, state: PaperState, iteration: int) -> tuple[PaperState, float]:
        """Visit every axis, then learn the cells' errors; return the bound."""
        with openmp().limit(limits=1):  # of this thread alone
            return self._iterate(state, iteration)

    def _iterate(self, state: PaperState, iteration: int) -> tuple[PaperState, float]:
        share = max(1 / AVERAGED, 3 / (iteration + 2))  # early iterations soon fade
        for axis in range(self.cells.n_axes):
            state = self._visit(state, axis, iteration)
        state = state.averaged(self._informed_M, share)
        if self.reweight == "error" and np.isfinite(state.bound):
            state = self._with_errors(state, iteration)
        return state, state.bound

    def bound(self, state: PaperState) -> float:
        """Estimate the evidence lower bound by the factors' present draws."""
        return self.drawn.value(state.draws, None) - float(state.kl_M.sum())

    def validation_score(self, state: PaperState) -> float | None:
        """Score the validation cells at the averaged posterior means."""
        if self.validation is None:
            return None
        pairs = zip(state.means, self.cells.seen, strict=True)
        known = [mean_over_seen(mean, seen) for mean, seen in pairs]
        return self.validation.score(known, self.likelihood, None)

    def gradient(
        self, axis: int, weights: Weights, state: PaperState, rng: np.random.Generator
    ) -> Weights:
        """Estimate the gradient of the bound by an axis's weights, their penalty included."""
        encoder, draws = self.encoders[axis], state.draws
        weight_N = self._cell_weights(state)
        by_shape_DK, by_rate_DK = encoder.forward(weights, draws, weight_N)
        seen_D = self.cells.seen[axis]  # no weight moves the others
        shape_SK, rate_SK = by_shape_DK[seen_D], by_rate_DK[seen_D]
        draw = pathwise_draw(rng, shape_SK, rate_SK)
        drawn = [z.copy() if m == axis else z for m, z in enumerate(draws)]
        drawn[axis][seen_D] = draw.z_DK
        by_z_SK = self.drawn.slope(axis, drawn, None)[seen_D]
        kl_shape_SK, kl_rate_SK = kl_slopes(shape_SK, rate_SK, *self.prior)
        by_shape_DK[seen_D] = by_z_SK * draw.by_shape_DK - kl_shape_SK
        by_rate_DK[seen_D] = by_z_SK * draw.by_rate_DK - kl_rate_SK
        gradient = encoder.backward(weights, draws, weight_N, by_shape_DK, by_rate_DK)
        return {name: g - weights[name] / self.weight_variance for name, g in gradient.items()}

    @cached_property
    def drawn(self) -> CellTerms:
        """The cells' log-likelihood at draws."""
        closed = ClosedSums.of_all if self.zeros_observed else None
        return CellTerms(self.cells, self.likelihood, closed, self.backend)

    @cached_property
    def scale(self) -> float:
        """The size of factors that gives every cell the rate that is best for all together."""
        cells = self.cells
        if self.zeros_observed:
            rate = cells.total_count / np.prod(cells.shape, dtype=float)
        else:  # a truncated likelihood of counts that are nearly all one has a rate of nearly zero
            best = fit_constant(self.likelihood, *cells.histogram)
            rate = max(best.rate, 0.1 * cells.total_count / cells.n_cells)
        return float((rate / self.n_components) ** (1 / cells.n_axes))

    @property
    def prior(self) -> tuple[float, float]:
        """The shape and the rate of the factors' prior."""
        rate = self.prior_shape / self.scale if self.prior_rate is None else self.prior_rate
        return self.prior_shape, rate

    @cached_property
    def encoders(self) -> list[EncodedAxis]:
        """The encoders' kernels, one per axis."""
        return [
            EncodedAxis(
                layout=layout,
                seen_M=self.cells.seen,
                network=self.network,
                n_components=self.n_components,
                shared=self.shared,
                mean_count=self.cells.total_count / self.cells.n_cells,
                scale=self.scale,
                prior=self.prior,
                zeros_observed=self.zeros_observed,
                backend=self.backend,
                group=self.cells.group,
            )
            for layout in self.cells.layouts
        ]

    def _visit(self, state: PaperState, axis: int, iteration: int) -> PaperState:
        """Learn an axis's encoders and draw its factors; take back what went wrong."""
        worst = state.bound - ABSURD_FALL * (self.cells.n_cells + abs(state.bound))
        now = state
        for attempt in range(ATTEMPTS):
            rng = np.random.default_rng([self.seed, iteration, axis, attempt])
            try:
                with np.errstate(all="ignore"):
                    new = self._attempt(now, axis, rng)
                if np.isfinite(new.bound) and new.bound >= worst:
                    return new
            except FloatingPointError:
                pass
            now = replace(now, learning_rate=now.learning_rate / 2)
        return replace(state, bound=np.nan)

    def _attempt(self, state: PaperState, axis: int, rng: np.random.Generator) -> PaperState:
        adam = state.encoders[axis]
        for _ in range(self.steps):
            gradient = self.gradient(axis, adam.values, state, rng)
            if not all(np.all(np.isfinite(g)) for g in gradient.values()):
                raise FloatingPointError("a gradient is not finite")
            adam = adam.climb(gradient, state.learning_rate)
        new = self._encoded(state, axis, adam)
        table, known_D = new.encoded.axes[axis], self._informed_M[axis]
        draw_DK = state.draws[axis].copy()
        draw_DK[known_D] = draw_factors(rng, table.shape_DK[known_D], table.rate_DK[known_D])
        new = replace(new, draws=_with(new.draws, axis, draw_DK))
        return replace(new, bound=self.bound(new))

    def _encoded(self, state: PaperState, axis: int, adam: Adam) -> PaperState:
        """Return the state with other weights, the posterior by them, and its divergence."""
        table = GammaTable(
            *self.encoders[axis].forward(adam.values, state.draws, self._cell_weights(state))
        )
        kl_M, known_D = state.kl_M.copy(), self._informed_M[axis]
        kl_M[axis] = kl_total(table.shape_DK[known_D], table.rate_DK[known_D], *self.prior)
        return replace(
            state,
            encoders=_with(state.encoders, axis, adam),
            encoded=state.encoded.replace(axis, table),
            kl_M=kl_M,
        )

    @cached_property
    def _informed_M(self) -> list[Mask]:
        """Which entities the data tell something of; the others have the prior, unused."""
        return [seen_D | self.zeros_observed for seen_D in self.cells.seen]

    def _with_errors(self, state: PaperState, iteration: int) -> PaperState:
        """Average the cells' errors at the averaged means with those before."""
        assert state.error_N is not None
        rate_N = kernels.cell_rates(state.means, self.cells.indices_NM, backend=self.backend)
        error_N = pearson_errors(self.cells.counts_N, rate_N, self.likelihood)
        share = max(1 - ERROR_MEMORY, 1 / iteration)
        return replace(state, error_N=(1 - share) * state.error_N + share * error_N)

    def _cell_weights(self, state: PaperState) -> Floats:
        if state.error_N is not None:
            return error_weights(state.error_N, self._mean)
        return self._fixed_weights

    @cached_property
    def _fixed_weights(self) -> Floats:
        if self.reweight == "none":
            return np.ones(len(self.cells))
        typical = most_frequent(*self.cells.histogram)
        weight_N = distance_weights(self.cells.counts_N, typical, self.theta, self.eta)
        return np.asarray(weight_N / self._mean(weight_N))

    def _mean(self, values_N: Floats) -> float:
        """Return the mean over the cells of all processes."""
        return self.cells.group.all_reduce_number(float(values_N.sum())) / self.cells.n_cells


def _with(items: tuple[T, ...], number: int, item: T) -> tuple[T, ...]:
    return (*items[:number], item, *items[number + 1 :])
