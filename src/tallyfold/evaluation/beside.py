"""What a model predicts of each label of an axis beside given labels, over all other axes.

A prediction is of one cell; axes that are not given are averaged over. Where these are few cells
all of them are predicted. Else labels that are hardly among the first are put aside round by round,
each predicted at more combinations of the other labels than the one before, drawn in proportion to
the factors' rates. The factors' own sum over all combinations is known in closed form, so that
only the ratio of predictions to it is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.models.base import CountModel

Prediction = Callable[[CountModel, Positions], Floats]

CELLS = 1 << 18
"""How many cells are predicted in all."""
CELLS_AT_ONCE = 1 << 16
FEWEST_DRAWS = 64
"""The fewest combinations of the other labels at which labels are compared."""
STEP = 1e-4
UNIFORM = 0.1
"""The share of combinations that are drawn evenly: no prediction is left out."""


class Beside(NamedTuple):
    """Predictions of labels, averaged over the axes that are not given.

    Attributes
    ----------
    labels_C
        The labels predicted, by position: those that came through the rounds.
    mean_C
        Their mean predictions.
    error_C
        Standard errors of these from drawing combinations; 0 where all cells were predicted.
    """

    labels_C: Ints
    mean_C: Floats
    error_C: Floats

    def first(self, top: int) -> Beside:
        """Return the labels with the largest predictions, largest first."""
        order = np.argsort(-self.mean_C, kind="stable")[:top]
        return Beside(self.labels_C[order], self.mean_C[order], self.error_C[order])


@dataclass(frozen=True)
class Combinations:
    """Combinations of labels of the axes that are averaged over, and the weights of each."""

    labels_SL: Positions
    weight_S: Floats
    exact: bool


@dataclass(frozen=True)
class AxisBeside:
    """An axis whose labels are ranked beside given labels.

    Attributes
    ----------
    model
        A fitted model with factors.
    own
        The axis, by number.
    rows
        The given labels: their positions by axis number.
    value
        What is predicted of cells: one of `PREDICTIONS`.
    """

    model: CountModel
    own: int
    rows: Mapping[int, int]
    value: Prediction

    @property
    def rest(self) -> list[int]:
        """The axes that are averaged over."""
        return [m for m in range(len(self.means)) if m != self.own and m not in self.rows]

    @property
    def means(self) -> list[Floats]:
        """Mean factors of every axis."""
        factors = self.model.posterior_
        return [factors.mean(name) for name in factors.names]

    @property
    def n_combinations(self) -> int:
        """The number of combinations of the labels that are averaged over."""
        return prod(len(self.model.axes_[axis]) for axis in self.rest)

    def given_K(self) -> Floats:
        """Return the product of the given labels' factors."""
        means = self.means
        ones_K = np.ones(means[0].shape[1])
        return np.asarray(np.prod([ones_K, *(means[m][row] for m, row in self.rows.items())], 0))

    def base(self) -> Floats:
        """Return each label's mean rate by factors alone."""
        means = self.means
        rest_K = [means[axis].mean(axis=0) for axis in self.rest]
        return np.asarray(means[self.own] @ np.prod([self.given_K(), *rest_K], axis=0))

    def strongest(self, top: int, rng: np.random.Generator, cells: int = CELLS) -> Beside:
        """Return predictions of the `top` first labels, largest first, from about so many cells."""
        base_D, least = self.base(), max(4 * top, 32)
        fewest = min(FEWEST_DRAWS, self.n_combinations)
        labels_C = np.argsort(-base_D, kind="stable")[: max(cells // fewest, least)]
        while len(labels_C) * self.n_combinations > cells and len(labels_C) > least:
            cells //= 2
            found = self.predicted(labels_C, base_D, max(cells // len(labels_C), 2), rng)
            labels_C = found.first(max(len(labels_C) // 8, least)).labels_C
        labels_C = np.sort(labels_C)  # of equal ones, the first on the axis
        return self.predicted(labels_C, base_D, max(cells // len(labels_C), 2), rng).first(top)

    def predicted(
        self, labels_C: Ints, base_D: Floats, most: int, rng: np.random.Generator
    ) -> Beside:
        """Return predictions of labels, from at most so many combinations of the other labels."""
        drawn = self.combinations(most, rng)
        shape = len(labels_C), len(drawn.weight_S)
        value_CS = self._values(self.cells(labels_C, drawn)).reshape(shape) * drawn.weight_S
        mean_C = value_CS.mean(axis=1)
        if drawn.exact:
            return Beside(labels_C, mean_C, np.zeros(len(mean_C)))
        parts = [self.means[m][drawn.labels_SL[:, i]] for i, m in enumerate(self.rest)]
        own_CK = self.means[self.own][labels_C] * self.given_K()
        rate_CS = own_CK @ np.prod(parts, axis=0).T * drawn.weight_S
        rate_C = np.maximum(rate_CS.mean(axis=1), 1e-300)
        residual_CS = value_CS - (mean_C / rate_C)[:, None] * rate_CS
        error_C = residual_CS.std(axis=1, ddof=1) / np.sqrt(shape[1])
        known_C = base_D[labels_C] / rate_C
        return Beside(labels_C, mean_C * known_C, error_C * known_C)

    def cells(self, labels_C: Ints, drawn: Combinations) -> Positions:
        """Return the cells of labels with all combinations, label by label."""
        n, s = len(labels_C), len(drawn.weight_S)
        positions = np.empty((n * s, len(self.model.axes_)), np.int32, order="F")
        positions[:, self.own] = np.repeat(labels_C, s)
        for axis, row in self.rows.items():
            positions[:, axis] = row
        for column, axis in enumerate(self.rest):
            positions[:, axis] = np.tile(drawn.labels_SL[:, column], n)
        return positions

    def combinations(self, most: int, rng: np.random.Generator) -> Combinations:
        """Return all combinations of the other axes' labels; if these are too many, draw some."""
        sizes, number = [len(self.model.axes_[axis]) for axis in self.rest], self.n_combinations
        if number <= most:
            labels = np.unravel_index(np.arange(number), sizes) if sizes else ()
            labels_SL = np.array(labels, dtype=np.int32).reshape(len(sizes), number).T
            return Combinations(labels_SL, np.ones(number), True)
        tables = [self.means[axis] for axis in self.rest]
        totals = [table.sum(axis=0) for table in tables]
        share_K = self.given_K() * self.means[self.own].sum(axis=0) * np.prod(totals, axis=0)
        share_K = share_K / max(share_K.sum(), 1e-300)
        even_S = rng.random(most) < UNIFORM
        component_S = rng.choice(len(share_K), most, p=share_K / share_K.sum())
        labels_SL = np.empty((most, len(sizes)), dtype=np.int32)
        for column, (table, total_K) in enumerate(zip(tables, totals, strict=True)):
            labels_SL[:, column] = rng.integers(0, sizes[column], most)
            for component in np.unique(component_S[~even_S]):
                where = np.flatnonzero(~even_S & (component_S == component))
                chance_D = table[:, component] / total_K[component]
                labels_SL[where, column] = rng.choice(sizes[column], len(where), p=chance_D)
        chance_S = np.full(most, UNIFORM)
        parts = [t[labels_SL[:, i]] / totals[i] for i, t in enumerate(tables)]
        chance_S += (1 - UNIFORM) * number * (np.prod(parts, axis=0) @ share_K)
        return Combinations(labels_SL, 1 / chance_S, False)

    def elasticities(self, labels_C: Ints, rng: np.random.Generator) -> Floats:
        """Return by which share labels' predictions grow with a share of the factors' rate."""
        drawn = self.combinations(FEWEST_DRAWS, rng)
        positions, shape = self.cells(labels_C, drawn), (len(labels_C), len(drawn.weight_S))
        value_CS = self._values(positions).reshape(shape) * drawn.weight_S
        share_CS = elasticities(self.model, positions).reshape(shape)
        total_C = np.maximum(value_CS.sum(axis=1), 1e-300)
        return np.asarray((share_CS * value_CS).sum(axis=1) / total_C)

    def _values(self, positions: Positions) -> Floats:
        starts = range(0, len(positions), CELLS_AT_ONCE)
        parts = [self.value(self.model, positions[at : at + CELLS_AT_ONCE]) for at in starts]
        return np.concatenate(parts)


def mean_counts(model: CountModel, positions: Positions) -> Floats:
    """Return the mean counts of cells, as `predict` does."""
    return np.asarray(model._point(positions, "mean"), dtype=np.float64)


PREDICTIONS: dict[str, Prediction] = {"count": mean_counts, "probability": CountModel.probability}
"""What labels are ranked by: a number per cell."""


def elasticities(model: CountModel, positions: Positions) -> Floats:
    """Return by which share the mean counts of cells grow with a share of the factors' rate."""
    fitted = model.fitted_
    if fitted.occurrence is not None:  # that of 1 - exp(-rate)
        rate_N = model._rates(positions)
        return np.asarray(rate_N / np.maximum(np.expm1(rate_N), 1e-300))
    if not fitted.has_distribution:
        return np.full(len(positions), fitted.calibration.exponent)
    mean_N, variance_N = model._moments(positions)
    low, high = (
        np.asarray(fitted.predictive(positions, _moments((by * mean_N, by**2 * variance_N))).mean())
        for by in (1.0, 1.0 + STEP)
    )
    return (high / np.maximum(low, 1e-300) - 1) / STEP


def _moments(given: tuple[Floats, Floats]) -> Callable[[Positions], tuple[Floats, Floats]]:
    return lambda _: given
