"""How the features of a cell make up the rate of a count; see `posterior.occurrence`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.row_products import row_products

LEAST_COUNT = 0.05
"""Added to counts and sums before their logarithm is an input of the network."""
LEAST_NEAR = 0.003
"""The least of what neighbours say, before its logarithm is an input of the network."""
INPUT_LIMIT = 4.0
LOWEST, HIGHEST = -60.0, 8.0
"""Log rates are kept in between."""
NO_CEILING = np.array([0.0, 1.0, 0.0])


class Features(NamedTuple):
    """What a rate is made of, for some cells.

    Attributes
    ----------
    log_base_N
        The log rate by factors and gate.
    counts_NS, sums_NS
        For each set of axes, the number of cells with a count that agree with the cell, and the
        sum of the rates of all cells that do.
    echo_N
        The strength of the mirrored cell's count; zero if it has none.
    near_NA
        How much the other labels of the cell's basket speak for a count; no column without baskets.
    """

    log_base_N: Floats
    counts_NS: Floats
    sums_NS: Floats
    echo_N: Floats
    near_NA: Floats

    def inputs(self) -> Floats:
        """Return the network's inputs, not standardised."""
        logs = [np.log(part + LEAST_COUNT) for part in (self.counts_NS, self.sums_NS)]
        near = np.log(np.maximum(self.near_NA, 0.0) + LEAST_NEAR), self.near_NA
        return np.column_stack([self.log_base_N, *logs, self.echo_N > 0, *near])

    def rows(self, which: Any) -> Features:
        """Return some of the cells."""
        return Features(*(part[which] for part in self))


@dataclass(frozen=True)
class OccurrenceWeights:
    """What is learnt about how features make up a rate.

    Attributes
    ----------
    log_pull_S, power_S
        ln a and e of each set of axes.
    line_2
        Shift and slope of the log of the product.
    log_echo
        What the mirrored cell's echo is multiplied by, in logarithms.
    centre_D, spread_D
        What the network's inputs are standardised by.
    into_DH, bias_H, out_H
        The network's weights; no hidden unit: no network.
    ceiling_3
        Shift and slope of the log rates in the end, and the probability with which the most
        certain cell is empty all the same. Zero, as in models of earlier versions: no ceiling.
    """

    log_pull_S: Floats
    power_S: Floats
    line_2: Floats
    log_echo: Floats
    centre_D: Floats
    spread_D: Floats
    into_DH: Floats
    bias_H: Floats
    out_H: Floats
    ceiling_3: Floats = field(default_factory=lambda: NO_CEILING)

    @classmethod
    def plain(cls, n_sets: int) -> OccurrenceWeights:
        """Return weights that leave the rate of factors and gate as it is."""
        n_inputs, none = 2 * n_sets + 2, np.zeros(0)
        return cls(
            np.full(n_sets, -1.0),
            np.zeros(n_sets),
            np.array([0.0, 1.0]),
            np.array([-30.0]),
            np.zeros(n_inputs),
            np.ones(n_inputs),
            np.zeros((n_inputs, 0)),
            none,
            none,
        )

    def standardised(self, features: Features) -> Floats:
        """Return the network's inputs."""
        z_ND = (features.inputs() - self.centre_D) / self.spread_D
        return np.clip(z_ND, -INPUT_LIMIT, INPUT_LIMIT, out=z_ND)

    def product(self, features: Features) -> Floats:
        """Return the log of the product of base and multipliers, by the line."""
        log_N = features.log_base_N.copy()
        pull_S = np.exp(self.log_pull_S)
        ratio_NS = np.log(pull_S + features.counts_NS) - np.log(pull_S + features.sums_NS)
        log_N += row_products(ratio_NS, self.power_S)
        return np.asarray(self.line_2[0] + self.line_2[1] * log_N)

    def log_rates(self, features: Features) -> Floats:
        """Return the log rates of cells."""
        log_N = self.product(features)
        heard_N = features.echo_N > 0
        if heard_N.any():
            echo_N = self.log_echo[0] + np.log(np.maximum(features.echo_N, 1e-300))
            log_N = np.where(heard_N, np.logaddexp(log_N, echo_N), log_N)
        if len(self.out_H):
            hidden_NH = row_products(self.standardised(features), self.into_DH) + self.bias_H
            log_N = log_N + row_products(np.maximum(hidden_NH, 0.0), self.out_H)
        log_N = np.clip(log_N, LOWEST, HIGHEST)
        return log_N if self.ceiling_3[2] == 0 else below_ceiling(log_N, *self.ceiling_3)


def below_ceiling(log_N: Floats, shift: float, slope: float, empty: float) -> Floats:
    """Return log rates at which no cell has a count with more than a probability.

    P(count) = (1 - empty) (1 - exp(-rate)), where the log rates come by a shift and a slope.

    Examples
    --------
    >>> rate = np.exp(below_ceiling(np.array([-10.0, 8.0]), 0.0, 1.0, 0.02))
    >>> (1 - np.exp(-rate)).round(6)  # of a count
    array([4.4e-05, 9.8e-01])
    """
    rate_N = np.exp(np.clip(shift + slope * log_N, LOWEST, HIGHEST))
    return np.asarray(np.log(-np.log1p((1 - empty) * np.expm1(-rate_N))))
