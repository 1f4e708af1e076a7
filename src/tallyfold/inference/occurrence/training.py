"""Weights of the features of whether there is a count, by L-BFGS on held-out cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from tallyfold.inference.occurrence.held_out import best_line, log_score, slopes
from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.blas import one_blas_thread
from tallyfold.posterior.occurrence_weights import (
    HIGHEST,
    LOWEST,
    Features,
    OccurrenceWeights,
    below_ceiling,
)

PULL = 1e-4
"""How strongly parameters are held where they start."""
FIRST_POWER = 0.4
HIDDEN_UNITS = 8
MULTIPLIER_STEPS, NETWORK_STEPS = 60, 120
FIRST_CEILING, CEILING_STEPS = np.array([0.0, 1.0, -3.0]), 60
CEILING_PULL = 0.25
"""In log score of all cells together. The start is no nearer to having no ceiling, since hardly a
gradient leads away from there."""
FOLDS = 3
"""Parts that the examples are cut into, for log rates by weights that have not seen them."""
LEAST_FOR_NETWORK = 1_000
"""With fewer held-out cells that have a count there is no network."""


@dataclass(frozen=True)
class Examples:
    """Cells to learn from.

    Attributes
    ----------
    filled, empty
        Features of cells with and without a count.
    weight_Z
        How many cells each empty one stands for.
    """

    filled: Features
    empty: Features
    weight_Z: Floats

    def __len__(self) -> int:
        """Return the number of cells with a count."""
        return len(self.filled.log_base_N)

    def score(self, weights: OccurrenceWeights) -> float:
        """Return the log score per cell with a count."""
        logs = weights.log_rates(self.filled), weights.log_rates(self.empty)
        return log_score(*logs, self.weight_Z)

    def parts(self, share: float, seed: int) -> tuple[Examples, Examples]:
        """Return a share of the cells to judge by, and the rest to learn from, in this order."""
        rng = np.random.default_rng([seed, 11])
        own_N = rng.random(len(self)) < share
        own_Z = rng.random(len(self.weight_Z)) < share
        return self.rows(own_N, own_Z), self.rows(~own_N, ~own_Z)

    def rows(self, which_N: Any, which_Z: Any) -> Examples:
        """Return some of the cells with a count, and of those without."""
        filled, empty = self.filled.rows(which_N), self.empty.rows(which_Z)
        return Examples(filled, empty, self.weight_Z[which_Z])

    def distinct(self) -> Examples:
        """Return the examples with empty cells of the same features as one that stands for all.

        One cell may be drawn many times; nobody has not seen it who has seen it once.
        """
        x_ZD = np.column_stack(self.empty)
        _, first_U, of_Z = np.unique(x_ZD, axis=0, return_index=True, return_inverse=True)
        weight_U = np.bincount(of_Z.ravel(), self.weight_Z).astype(np.float64)
        return Examples(self.filled, self.empty.rows(first_U), weight_U)

    @property
    def all(self) -> Features:
        """All cells, those with a count first."""
        pairs = zip(self.filled, self.empty, strict=True)
        return Features(*(np.concatenate(pair) for pair in pairs))

    def loss(self, log_C: Floats) -> tuple[float, Floats]:
        """Return minus the log score at log rates of all cells, and its derivative by them."""
        log_N, log_Z = log_C[: len(self)], log_C[len(self) :]
        by_N, by_Z = slopes(log_N, log_Z, self.weight_Z)
        return -log_score(log_N, log_Z, self.weight_Z), -np.concatenate([by_N, by_Z])


def trained_line(examples: Examples) -> OccurrenceWeights:
    """Return weights that only shift and stretch the log rates of factors and gate."""
    plain = OccurrenceWeights.plain(examples.filled.counts_NS.shape[1])
    logs = examples.filled.log_base_N, examples.empty.log_base_N
    shift, slope, _ = best_line(*logs, examples.weight_Z)
    return replace(plain, line_2=np.array([shift, slope]))


def trained_multipliers(examples: Examples) -> OccurrenceWeights:
    """Return weights of multipliers, line and echo."""
    features = examples.all
    plain = OccurrenceWeights.plain(features.counts_NS.shape[1])
    n_sets, has_echo = len(plain.power_S), bool((features.echo_N > 0).any())
    first_P = np.concatenate(
        [plain.log_pull_S, np.full(n_sets, FIRST_POWER), [0.0, 0.0], [0.0] * has_echo]
    )
    model = Multipliers(features, n_sets)
    found_P = _minimised(model, examples, first_P, MULTIPLIER_STEPS)
    return model.weights(found_P, plain)


def trained_network(weights: OccurrenceWeights, examples: Examples, seed: int) -> OccurrenceWeights:
    """Return the weights with a network on top."""
    features = examples.all
    x_ND = features.inputs()
    some = slice(0, 2 * len(examples))
    started = replace(
        weights, centre_D=x_ND[: len(examples)].mean(axis=0), spread_D=x_ND[some].std(axis=0) + 1e-3
    )
    rng = np.random.default_rng([seed, 13])
    n_inputs = x_ND.shape[1]
    into_P = 0.3 * rng.standard_normal(n_inputs * HIDDEN_UNITS)
    first_P = np.concatenate([into_P, np.zeros(2 * HIDDEN_UNITS)])
    network = Network(weights.log_rates(features), started.standardised(features))
    with one_blas_thread():
        found_P = _minimised(network, examples, first_P, NETWORK_STEPS)
    into_DH, bias_H, out_H = network.unpack(found_P)
    return replace(started, into_DH=into_DH, bias_H=bias_H, out_H=out_H)


def trained_like(kept: OccurrenceWeights, examples: Examples, seed: int) -> OccurrenceWeights:
    """Return weights of the same kind as others, without a ceiling, learnt from examples."""
    product = kept.power_S.any()
    weights = trained_multipliers(examples) if product else trained_line(examples)
    return trained_network(weights, examples, seed) if len(kept.out_H) else weights


def unseen_log_rates(kept: OccurrenceWeights, examples: Examples, seed: int) -> Floats:
    """Return log rates of examples by weights of the same kind that have not seen them."""
    rng = np.random.default_rng([seed, 17])
    fold_N = rng.integers(0, FOLDS, len(examples))
    fold_Z = rng.integers(0, FOLDS, len(examples.weight_Z))
    log_N, log_Z = np.empty(len(fold_N)), np.empty(len(fold_Z))
    for fold in range(FOLDS):
        own_N, own_Z = fold_N == fold, fold_Z == fold
        weights = trained_like(kept, examples.rows(~own_N, ~own_Z), seed)
        log_N[own_N] = weights.log_rates(examples.filled.rows(own_N))
        log_Z[own_Z] = weights.log_rates(examples.empty.rows(own_Z))
    return np.concatenate([log_N, log_Z])


def with_ceiling(
    weights: OccurrenceWeights, examples: Examples, log_C: Floats
) -> OccurrenceWeights:
    """Return the weights with a ceiling of the probabilities, if that is better for the cells.

    Rates alone make the most certain of many cells too certain, and they hide it from the cells
    that weights were learnt from: so `log_C` are the log rates by weights that have not seen them.
    """
    model = Ceiling(log_C)
    pull = CEILING_PULL / len(examples)
    found_3 = _minimised(model, examples, FIRST_CEILING, CEILING_STEPS, pull)
    if examples.loss(model.forward(found_3)[0])[0] >= examples.loss(log_C)[0]:
        return weights
    return replace(weights, ceiling_3=np.append(found_3[:2], expit(found_3[2])))


def _minimised(
    model: Multipliers | Network | Ceiling,
    examples: Examples,
    first_P: Floats,
    steps: int,
    pull: float = PULL,
) -> Floats:
    def loss(params_P: Floats) -> tuple[float, Floats]:
        log_C, transpose = model.forward(params_P)
        value, by_C = examples.loss(log_C)
        away_P = params_P - first_P
        return value + pull * float(away_P @ away_P), transpose(by_C) + 2 * pull * away_P

    found = minimize(loss, first_P, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return np.asarray(found.x)


Forward = tuple[Floats, Callable[[Floats], Floats]]
"""Log rates, and what turns derivatives by them into those by parameters."""


@dataclass(frozen=True)
class Multipliers:
    """Log rates of cells as a function of pulls, powers, line and echo."""

    features: Features
    n_sets: int

    def weights(self, params_P: Floats, plain: OccurrenceWeights) -> OccurrenceWeights:
        """Return the weights that parameters stand for."""
        log_pull_S, power_S, rest = np.split(params_P, [self.n_sets, 2 * self.n_sets])
        line_2 = np.array([rest[0], np.exp(rest[1])])
        log_echo = rest[2:] if len(rest) > 2 else plain.log_echo
        return replace(
            plain, log_pull_S=log_pull_S, power_S=power_S, line_2=line_2, log_echo=log_echo
        )

    def forward(self, params_P: Floats) -> Forward:
        """Return log rates and their transpose."""
        n, features = self.n_sets, self.features
        pull_S, power_S, slope = (
            np.exp(params_P[:n]),
            params_P[n : 2 * n],
            np.exp(params_P[2 * n + 1]),
        )
        above_CS, below_CS = pull_S + features.counts_NS, pull_S + features.sums_NS
        ratio_CS = np.log(above_CS) - np.log(below_CS)
        inner_C = features.log_base_N + ratio_CS @ power_S
        product_C = params_P[2 * n] + slope * inner_C
        echoed = len(params_P) > 2 * n + 2
        log_C, share_C = product_C, np.ones(len(product_C))
        if echoed:
            log_echo_C = params_P[-1] + np.log(np.maximum(features.echo_N, 1e-300))
            heard_C = features.echo_N > 0
            log_C = np.where(heard_C, np.logaddexp(product_C, log_echo_C), product_C)
            share_C = np.where(heard_C, np.exp(product_C - log_C), 1.0)

        def transpose(by_C: Floats) -> Floats:
            by_product_C = by_C * share_C
            by_inner_C = slope * by_product_C
            by_pull_CS = pull_S * (1 / above_CS - 1 / below_CS) * power_S
            parts = [
                by_inner_C @ by_pull_CS,
                by_inner_C @ ratio_CS,
                [by_product_C.sum(), slope * float(by_product_C @ inner_C)],
                [float(by_C @ (1 - share_C))] if echoed else [],
            ]
            return np.concatenate(parts)

        return log_C, transpose


@dataclass(frozen=True)
class Network:
    """Log rates of cells as a function of a network's weights."""

    log_C: Floats
    z_CD: Floats

    def unpack(self, params_P: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the weights into and out of hidden units, and biases in between."""
        n_inputs = self.z_CD.shape[1]
        n_hidden = len(params_P) // (n_inputs + 2)
        into, bias_H, out_H = np.split(params_P, np.cumsum([n_inputs * n_hidden, n_hidden]))
        return into.reshape(n_inputs, n_hidden), bias_H, out_H

    def forward(self, params_P: Floats) -> Forward:
        """Return log rates and their transpose."""
        into_DH, bias_H, out_H = self.unpack(params_P)
        hidden_CH = np.maximum(self.z_CD @ into_DH + bias_H, 0.0)

        def transpose(by_C: Floats) -> Floats:
            by_hidden_CH = by_C[:, None] * out_H * (hidden_CH > 0)
            into = self.z_CD.T @ by_hidden_CH
            return np.concatenate([into.ravel(), by_hidden_CH.sum(axis=0), by_C @ hidden_CH])

        return self.log_C + hidden_CH @ out_H, transpose


@dataclass(frozen=True)
class Ceiling:
    """Log rates of cells as a function of shift, slope and the log odds of the ceiling."""

    log_C: Floats

    def forward(self, params_P: Floats) -> Forward:
        """Return log rates and their transpose."""
        shift, slope, odds = params_P
        empty = expit(odds)
        line_C = shift + slope * self.log_C
        found_C = below_ceiling(self.log_C, shift, slope, empty)
        rate_C = np.exp(np.clip(line_C, LOWEST, HIGHEST))
        # by the probability of a count, of which the new log rate is a function
        by_some_C = np.exp(np.exp(found_C) - found_C)
        by_line_C = by_some_C * (1 - empty) * rate_C * np.exp(-rate_C)
        by_line_C *= (line_C > LOWEST) & (line_C < HIGHEST)
        by_odds_C = by_some_C * np.expm1(-rate_C) * empty * (1 - empty)

        def transpose(by_C: Floats) -> Floats:
            by_shift_C = by_C * by_line_C
            return np.array([by_shift_C.sum(), by_shift_C @ self.log_C, by_C @ by_odds_C])

        return found_C, transpose
