"""Constant: one prediction for every cell, the first line of every table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.fit.loop import Phase
from tallyfold.inference.fit.stopping import StoppingRules
from tallyfold.kernels.arrays import Floats, Positions
from tallyfold.models.base import CountModel
from tallyfold.models.fitted import Fitted, names_and_labels
from tallyfold.models.parameters import Scale, Zeros, choose_likelihood
from tallyfold.posterior.count_head import histogram_head
from tallyfold.posterior.point_factors import PointFactors
from tallyfold.probability.counts import CountLikelihood
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.fit_constant import fit_constant


@dataclass(frozen=True)
class ConstantState:
    """The histogram of the counts, and the rate and dispersion fitted to it."""

    value_V: Floats
    frequency_V: Floats
    rate: float = 0.0
    dispersion: float | None = None


@dataclass(frozen=True)
class ConstantStep:
    """Fit one rate, and one dispersion, by maximum likelihood: done in a single step.

    Without a likelihood the histogram itself is the fit; the rate is that of a Poisson with as many
    zeros, or with the same mean if zeros are missing.
    """

    cells: TrainingCells
    likelihood: CountLikelihood | None
    zeros_observed: bool

    def start(self, previous: object = None) -> ConstantState:
        """Return the histogram of the counts."""
        values, frequency = np.unique(self.cells.counts_N, return_counts=True)
        if self.zeros_observed:
            n_seen = float(np.prod(self.cells.shape, dtype=float)) * self.cells.share
            empty = max(n_seen - len(self.cells.counts_N), 0.0)
            values, frequency = np.append(values, 0), np.append(frequency, empty)
        return ConstantState(values.astype(float), frequency.astype(float))

    def advance(self, state: ConstantState, iteration: int) -> tuple[ConstantState, float]:
        """Fit the constant; the objective is the mean log pmf."""
        if self.likelihood is None:
            return self._histogram(state)
        fit = fit_constant(self.likelihood, state.value_V, state.frequency_V)
        return replace(state, rate=fit.rate, dispersion=fit.r), fit.log_pmf

    def _histogram(self, state: ConstantState) -> tuple[ConstantState, float]:
        share_V = state.frequency_V / state.frequency_V.sum()
        rate = float(share_V @ state.value_V)
        if self.zeros_observed:
            rate = float(-np.log(max(share_V[-1], 1e-300)))
        log_V = np.log(np.maximum(share_V, 1e-300))
        return replace(state, rate=rate), float(share_V @ log_V)

    def validation_score(self, state: ConstantState) -> None:
        """Return None: there is nothing to stop early."""
        return


@dataclass(kw_only=True, eq=False, repr=False)
class Constant(CountModel):
    """The same distribution for every cell.

    Parameters
    ----------
    zeros
        Whether cells without an entry are ``"missing"`` or ``"observed"`` zeros.
    likelihood, truncated
        The distribution: the ``"histogram"`` of the training counts with a fitted tail, or one that
        is fitted as in `BPTF`.
    scale
        For the histogram: the smallest and the largest value that counts can have; ``"auto"``
        recognises a bounded scale, None never has one.
    statistic
        What ``predict`` answers with, whatever its `point`: the ``"mean"``, ``"median"`` or
        ``"mode"`` of the training counts; None follows `point`.

    Examples
    --------
    >>> import tallyfold as tf, pandas as pd
    >>> frame = pd.DataFrame({"a": [1, 2, 3, 4], "b": [1, 2, 3, 4], "n": [1, 1, 1, 5]})
    >>> tensor = tf.CountTensor.from_frame(frame, axes=["a", "b"], value="n")
    >>> model = tf.Constant().fit(tensor)
    >>> model.predict(tensor).round(3).tolist(), model.predict(tensor, "median").tolist()
    ([2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 1.0, 1.0])
    """

    name: ClassVar[str] = "constant"
    takes_hidden_for_zeros: ClassVar[bool] = False

    zeros: Zeros = "missing"
    likelihood: Literal["histogram", "poisson", "negative-binomial"] = "histogram"
    truncated: bool | None = None
    scale: Scale = "auto"
    statistic: Literal["mean", "median", "mode"] | None = None

    def _likelihood(self) -> CountLikelihood:
        if self.likelihood == "histogram":
            return choose_likelihood("poisson", self.truncated, self.zeros)
        if self.zeros == "observed":  # all cells have one rate, so any family is closed here
            choose_likelihood("poisson", self.truncated, self.zeros)
            return CountLikelihood(self.likelihood, False)
        return choose_likelihood(self.likelihood, self.truncated, self.zeros)

    def _phases(self, cells: TrainingCells, held_out: CountTensor | None) -> Sequence[Phase]:
        likelihood = None if self.likelihood == "histogram" else self._likelihood()
        step = ConstantStep(cells, likelihood, self.zeros == "observed")
        rules = StoppingRules(max_iter=2, tol=1.0)  # the second step finds nothing to improve
        return [Phase("fit", step, step.start, rules)]

    def _make_fitted(
        self, state: ConstantState, axes: Sequence[Axis], cells: TrainingCells
    ) -> Fitted:
        likelihood, head = self._likelihood(), None
        if self.likelihood == "histogram":
            scale = tuple(self.scale) if isinstance(self.scale, list) else self.scale
            head = histogram_head(*cells.histogram, scale)  # type: ignore[arg-type]
        values = [np.ones((len(axis) + 1, 1)) for axis in axes]
        values[0] = values[0] * state.rate
        return Fitted(
            tuple(axes),
            PointFactors(*names_and_labels(axes), values),
            likelihood,
            state.dispersion if likelihood.dispersed else None,
            extra={"statistics": _statistics(state.value_V, state.frequency_V)},
            head=head,
        )

    def _point(
        self, positions: Positions, point: str, predictive: CountDistribution | None = None
    ) -> Floats:
        """Return the same statistic of the training counts for every cell."""
        statistic = self.statistic or point
        value = self.fitted_.extra["statistics"][("mean", "median", "mode").index(statistic)]
        return np.full(len(positions), float(value))


def _statistics(values_V: Floats, frequency_V: Floats) -> Floats:
    """Return mean, median and mode of counts given by their histogram."""
    order = np.argsort(values_V)
    values_V, frequency_V = values_V[order], frequency_V[order]
    mean = values_V @ frequency_V / frequency_V.sum()
    below = np.cumsum(frequency_V) >= frequency_V.sum() / 2
    return np.array([mean, values_V[np.argmax(below)], values_V[np.argmax(frequency_V)]])
