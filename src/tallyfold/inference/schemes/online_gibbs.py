"""Gibbs sampling of the beta-negative-binomial CP model, on all cells or on mini-batches.

Rates are sum_r weight_r prod_m u_mr: columns u_mr ~ Dirichlet(a), weight_r ~ Gamma(g, rate q_r),
q_r = (1 - p_r) / p_r, p_r ~ Beta(c eps, c (1 - eps)). Counts are split over components by
multinomials; n_r is what component r gets. docs/models/online-gibbs.md has the derivations.

Zeros observed: u ~ Dirichlet(a + counts), p ~ Beta(c eps + n, c (1 - eps) + g), and the weight
is Gamma(g + n, rate 1 + q) = Gamma(g + n, scale p).

Zeros missing: with X_i the exposure of entity i (sum over its cells seen of the others' product),

- theta_i = weight u_i has density prod_i Gamma(a + n_i, X_i + q) times (sum theta)^(g - D a). For
  D a > g the power is an integral over Gamma densities: s ~ Gamma(D a - g, sum theta), then
  theta_i ~ Gamma(a + n_i, X_i + q + s). Else a Metropolis step corrects for it. Both are exact.
- weight ~ Gamma(g + n, sum_i u_i X_i + q)
- q: as a ratio of Gammas, t ~ Gamma(c, 1 + q), then q ~ Gamma(c (1 - eps) + g, weight + t)

On mini-batches counts and exposures are replaced by averages over the batches so far,
s_t = (1 - rho_t) s_(t-1) + rho_t (N / B) batch sums, rho_t = (t + t0)^-kappa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.first_draws import SHAPE as START_SHAPE
from tallyfold.inference.schemes.gibbs import (
    EXPOSURES,
    FACTORS,
    LEAST,
    MOST,
    Part,
    exposure_sums,
    mean_log_pmf,
    no_draws,
    with_draw,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability import gamma
from tallyfold.probability.counts import CountLikelihood

BATCHES = 4
"""What random numbers are for, after those of `gibbs`."""

LOG_LEAST, LOG_MOST = float(np.log(LEAST)), float(np.log(MOST))


class Batch(TrainingCells):
    """Some of the training cells."""

    def __init__(self, cells: TrainingCells, chosen_B: Ints) -> None:
        self.shape = cells.shape
        self.indices_NM = np.asfortranarray(cells.indices_NM[chosen_B])
        self.counts_N = cells.counts_N[chosen_B]


@dataclass(frozen=True)
class Averaging:
    """How mini-batches are averaged: their size, and rho_t = (t + t0)^-kappa."""

    batch_size: int
    t0: float
    kappa: float

    def rho(self, iteration: int) -> float:
        """Return the weight of the newest batch."""
        return float((iteration + self.t0) ** -self.kappa)


@dataclass(frozen=True)
class Prior:
    """The constants of the prior, as in the module's text."""

    dirichlet: float
    c: float
    g: float
    eps: float


class Draw(NamedTuple):
    """One axis's columns, and the weights and odds (1 - p) / p of the components."""

    column_DK: Floats
    weight_K: Floats
    odds_K: Floats


@dataclass(frozen=True)
class OnlineGibbsState:
    """The present draw, the draws kept, and on mini-batches the averages so far.

    Attributes
    ----------
    columns, weight_K, odds_K
        Of the components.
    draws, weight_draws_SK
        The factors kept, the weights multiplied into those of the first axis, and the weights.
    counts, exposures
        Averages over mini-batches, per axis; empty if every iteration visits all cells.
    """

    columns: tuple[Floats, ...]
    weight_K: Floats
    odds_K: Floats
    draws: tuple[Floats, ...]
    weight_draws_SK: Floats
    counts: tuple[Floats, ...] = ()
    exposures: tuple[Floats, ...] = ()


@dataclass
class OnlineGibbsStep:
    """One draw of every axis and of the weights; see the module's text.

    Attributes
    ----------
    cells, likelihood, zeros_observed
        What is fitted to, and how; the likelihood is a Poisson, plain or truncated.
    n_components, prior
        The number of components, and the constants of the prior.
    part
        Burn-in, or the draws after it.
    averaging
        How mini-batches are averaged; None visits all cells in every iteration.
    seed
        Of all randomness.
    """

    cells: TrainingCells
    likelihood: CountLikelihood
    zeros_observed: bool
    n_components: int
    prior: Prior
    part: Part
    averaging: Averaging | None = None
    seed: int = 0
    backend: str = "auto"

    def __post_init__(self) -> None:
        self._order = lru_cache(maxsize=1)(self._shuffle)

    def start(self, previous: object = None) -> OnlineGibbsState:
        """Split the counts almost evenly over components; no draw is kept yet."""
        rng = np.random.default_rng([self.seed, 0])
        counts = [self._even_split(rng, axis) for axis in range(self.cells.n_axes)]
        columns = [self._first_column(rng, counts_DK) for counts_DK in counts]
        exposures = [self._plain_exposure(columns, axis) for axis in range(self.cells.n_axes)]
        seen_K = (columns[0] * exposures[0]).sum(axis=0)
        weight_K = np.clip(counts[0].sum(axis=0) / np.maximum(seen_K, LEAST), LEAST, MOST)
        return OnlineGibbsState(
            tuple(columns),
            weight_K,
            self.prior.g / weight_K,
            no_draws(columns),
            np.empty((0, self.n_components)),
            tuple(counts) if self.averaging else (),
            tuple(exposures) if self.averaging else (),
        )

    def advance(self, state: OnlineGibbsState, iteration: int) -> tuple[OnlineGibbsState, float]:
        """Draw all once; the objective is the mean log pmf of the cells visited, at the draw."""
        number = self.part.before + iteration
        cells, columns, averages = self.batch(number), list(state.columns), []
        weight_K, odds_K = state.weight_K, state.odds_K
        for axis in range(cells.n_axes):
            sums = self._sums(axis, folded(columns, weight_K, axis), cells, number)
            if self.averaging is not None:
                before = state.counts[axis], state.exposures[axis]
                sums = self._averaged(before, sums, cells, number)
                averages.append(sums)
            rng = np.random.default_rng([self.seed, number, axis, FACTORS])
            now = Draw(columns[axis], weight_K, odds_K)
            columns[axis], weight_K, odds_K = draw_axis(
                rng, *sums, now, self.prior, self.zeros_observed
            )
        factors = folded(columns, weight_K, 0)
        draws, weight_draws = state.draws, state.weight_draws_SK
        if self.part.keeps(iteration):
            draws, (weight_draws,) = (
                with_draw(draws, factors),
                with_draw([weight_draws], [weight_K]),
            )
        counts, exposures = tuple(s[0] for s in averages), tuple(s[1] for s in averages)
        new = OnlineGibbsState(
            tuple(columns), weight_K, odds_K, draws, weight_draws, counts, exposures
        )
        return new, self._log_pmf(factors, weight_K, cells)

    def validation_score(self, state: OnlineGibbsState) -> None:
        """Return None: all draws are wanted, so nothing stops a chain early."""
        return

    def batch(self, iteration: int) -> TrainingCells:
        """Return the cells of an iteration: every pass over all cells is in a new order."""
        if self.averaging is None:
            return self.cells
        n_cells = len(self.cells.counts_N)
        n_batches = -(-n_cells // self.averaging.batch_size)
        turn, number = divmod(iteration - 1, n_batches)
        start, stop = number * n_cells // n_batches, (number + 1) * n_cells // n_batches
        return Batch(self.cells, self._order(turn)[start:stop])

    def _shuffle(self, turn: int) -> Ints:
        rng = np.random.default_rng([self.seed, turn, 0, BATCHES])
        return rng.permutation(len(self.cells.counts_N))

    def _sums(
        self, axis: int, factors: list[Floats], cells: TrainingCells, iteration: int
    ) -> tuple[Floats, Floats]:
        """Allocate the counts; return, per entity, what each component gets and its exposure."""
        layout, counter = cells.layouts[axis], iteration * cells.n_axes + axis
        counts_DK = kernels.allocate_axis(factors, layout, self.seed, counter, backend=self.backend)
        if self.zeros_observed:  # over all cells the others' product is one
            return counts_DK.astype(float), np.full((1, self.n_components), 1 / self._scale(cells))
        rng = np.random.default_rng([self.seed, iteration, axis, EXPOSURES])
        exposure_DK = exposure_sums(rng, factors, cells, layout, self.likelihood, 1.0, self.backend)
        return counts_DK.astype(float), exposure_DK

    def _averaged(
        self,
        before: tuple[Floats, Floats],
        sums: tuple[Floats, Floats],
        cells: TrainingCells,
        iteration: int,
    ) -> tuple[Floats, Floats]:
        """Average a batch's sums, scaled up to all cells, with those before it."""
        assert self.averaging is not None
        rho, scale = self.averaging.rho(iteration), self._scale(cells)
        counts_DK, exposure_DK = (
            (1 - rho) * old + rho * scale * new for old, new in zip(before, sums, strict=True)
        )
        return counts_DK, exposure_DK

    def _scale(self, cells: TrainingCells) -> float:
        return len(self.cells.counts_N) / len(cells.counts_N)

    def _log_pmf(self, factors: list[Floats], weight_K: Floats, cells: TrainingCells) -> float:
        total = float(weight_K.sum()) / self._scale(cells) if self.zeros_observed else None
        mean = mean_log_pmf(factors, cells, self.likelihood, 1.0, total, self.backend)
        return mean if total is None else mean * self._scale(cells)

    def _even_split(self, rng: np.random.Generator, axis: int) -> Floats:
        size = self.cells.shape[axis]
        noise_DK = rng.gamma(START_SHAPE, 1 / START_SHAPE, (size, self.n_components))
        total_D = np.bincount(self.cells.indices_NM[:, axis], self.cells.counts_N, minlength=size)
        return np.asarray(noise_DK * (total_D / noise_DK.sum(axis=1))[:, None])

    def _first_column(self, rng: np.random.Generator, counts_DK: Floats) -> Floats:
        """Follow the totals if zeros count; else be flat, since busy entities are exposed more."""
        column_DK = rng.gamma(START_SHAPE, 1 / START_SHAPE, counts_DK.shape)
        if self.zeros_observed:
            column_DK = self.prior.dirichlet + counts_DK
        return np.asarray(column_DK / column_DK.sum(axis=0))

    def _plain_exposure(self, columns: list[Floats], axis: int) -> Floats:
        if self.zeros_observed:
            return np.ones((1, self.n_components))
        layout, ones_N = self.cells.layouts[axis], np.ones(len(self.cells.counts_N))
        return kernels.axis_sums(columns, layout, ones_N, backend=self.backend)


def draw_axis(
    rng: np.random.Generator,
    counts_DK: Floats,
    exposure_DK: Floats,
    now: Draw,
    prior: Prior,
    zeros_observed: bool,
) -> Draw:
    """Draw one axis's columns, the weights and the odds, given allocated counts and exposures."""
    n_K = counts_DK.sum(axis=0)
    if zeros_observed:
        column_DK = _normalised(gamma.sample_log(rng, prior.dirichlet + counts_DK, np.ones(1)))[0]
        odds_K = draw_odds_collapsed(rng, n_K, prior)
        return Draw(column_DK, _sample(rng, prior.g + n_K, 1 + odds_K), odds_K)
    column_DK, weight_K = draw_scaled_column(rng, counts_DK, exposure_DK, now, prior)
    seen_K = (column_DK * exposure_DK).sum(axis=0)
    weight_K = _sample(rng, prior.g + n_K, seen_K + now.odds_K)
    return Draw(column_DK, weight_K, draw_odds(rng, weight_K, now.odds_K, prior))


def draw_scaled_column(
    rng: np.random.Generator, counts_DK: Floats, exposure_DK: Floats, now: Draw, prior: Prior
) -> tuple[Floats, Floats]:
    """Draw columns and weights together where zeros are missing; see the module's text."""
    power = prior.g - len(counts_DK) * prior.dirichlet
    rate_DK = exposure_DK + now.odds_K
    if power < 0:
        rate_DK = rate_DK + _sample(rng, np.full_like(now.weight_K, -power), now.weight_K)
    log_theta_DK = gamma.sample_log(rng, prior.dirichlet + counts_DK, np.clip(rate_DK, LEAST, MOST))
    column_DK, log_weight_K = _normalised(log_theta_DK)
    weight_K = np.exp(np.clip(log_weight_K, LOG_LEAST, LOG_MOST))
    if power <= 0:
        return column_DK, weight_K
    log_ratio_K = power * (np.log(weight_K) - np.log(now.weight_K))
    accept_K = -rng.standard_exponential(len(weight_K)) < log_ratio_K
    return (
        np.where(accept_K, column_DK, now.column_DK),
        np.where(accept_K, weight_K, now.weight_K),
    )


def draw_odds(rng: np.random.Generator, weight_K: Floats, odds_K: Floats, prior: Prior) -> Floats:
    """Draw q = (1 - p) / p given the weights."""
    other_K = _sample(rng, np.full_like(odds_K, prior.c), 1 + odds_K)
    shape = prior.c * (1 - prior.eps) + prior.g
    return _sample(rng, np.full_like(odds_K, shape), weight_K + other_K)


def draw_odds_collapsed(rng: np.random.Generator, n_K: Floats, prior: Prior) -> Floats:
    """Draw q = (1 - p) / p, p ~ Beta(c eps + n, c (1 - eps) + g), as a ratio of Gammas."""
    one = np.ones(1)
    log_rest_K = gamma.sample_log(rng, np.full_like(n_K, prior.c * (1 - prior.eps) + prior.g), one)
    log_own_K = gamma.sample_log(rng, prior.c * prior.eps + n_K, one)
    return np.asarray(np.exp(np.clip(log_rest_K - log_own_K, LOG_LEAST, LOG_MOST)))


def folded(columns: Sequence[Floats], weight_K: Floats, axis: int) -> list[Floats]:
    """Multiply one axis's columns by the weights, so that rates are plain products."""
    return [column * weight_K if m == axis else column for m, column in enumerate(columns)]


def _normalised(log_theta_DK: Floats) -> tuple[Floats, Floats]:
    """Return columns that sum to one, none of them zero, and the logarithms of their sums."""
    log_sum_K = logsumexp(log_theta_DK, axis=0)
    column_DK = np.exp(np.maximum(log_theta_DK - log_sum_K, LOG_LEAST))
    return column_DK, np.asarray(log_sum_K)


def _sample(rng: np.random.Generator, shape_K: Floats, rate_K: Floats) -> Floats:
    """Draw Gamma variables, kept away from zero and infinity."""
    log_K = gamma.sample_log(rng, shape_K, np.clip(rate_K, LEAST, MOST))
    return np.asarray(np.exp(np.clip(log_K, LOG_LEAST, LOG_MOST)))
