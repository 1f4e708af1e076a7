"""What is known of components before a fit: where factors start, and what pulls them.

A seed names labels that one component should have. It is a belief about their factors, as strong as
if a part s of each label's counts had been seen before, all in this component: with n_d counts and
a mean rate r_d, relative to that of all labels, among K components, the label's prior becomes

- Gamma(a + s * n_d, b * (a + s * n_d / (K * r_d)))

whose rate is such that a label that the data give to this component alone is not pulled anywhere,
and one that they give to others keeps about s / (1 + s) of itself here. So updates stay closed, and
what data do not support leaves. The background has the same prior for every label, at the rate that
labels have overall: it says what is common everywhere.

The first factors go where the seeds' cells are: a label starts as much above the others as it is
more frequent there than elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.factor_prior import FactorPrior

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

LEAST_START = 1e-3
"""Of a factor, relative to the mean of its component: what starts at zero would stay there."""
LEAST_LIFT, MOST_LIFT = 0.2, 8.0
"""Between which labels start, relative to the others, in a component with seeds."""
ELSEWHERE = 0.2
"""Seeded labels start in other components at this part of what they would be."""
BACKGROUND_STRENGTH = 2.0
"""How surely the background is what labels are overall, in parts of their counts."""
BACKGROUND_SHARE = 0.5
"""Of the rate, which the background starts with and is believed to have."""


@dataclass(frozen=True)
class SeededLabels:
    """Labels of an axis, by position, that a component should have."""

    component: int
    axis: int
    positions: Ints


@dataclass(frozen=True)
class Guide:
    """What is known of components before a fit.

    Attributes
    ----------
    starts
        For each axis, factors to start from instead of random ones (labels x components), one on
        average; a component of NaN starts at random. None: all do.
    seeds
        Labels that components should have.
    strength
        How surely: the part of a label's counts that is taken as seen there before.
    background
        The component of what is common everywhere; None without one.
    """

    starts: tuple[Floats, ...] | None = None
    seeds: tuple[SeededLabels, ...] = ()
    strength: float = 0.0
    background: int | None = None

    @classmethod
    def from_profiles(cls, profiles: Sequence[Floats], share_K: Floats) -> Guide:
        """Start from what components say of labels, and from their shares of the rate.

        Examples
        --------
        >>> guide = Guide.from_profiles([np.array([[0.5, 0], [0.5, 1]])] * 2, np.array([0.2, 0.8]))
        >>> first, second = guide.starts
        >>> round(float(sum(np.outer(*pair).sum() for pair in zip(first.T, second.T))), 1)
        8.0
        """
        size_K = (share_K * len(share_K)) ** (1 / len(profiles))
        starts = []
        for weight_DK in profiles:
            mean_K = np.maximum(weight_DK.mean(axis=0), 1e-300)
            starts.append(np.maximum(weight_DK / mean_K, LEAST_START) * size_K)
        return cls(tuple(starts))

    @property
    def believes(self) -> bool:
        """Whether anything is believed of components, beyond where they start."""
        return bool(self.seeds) or self.background is not None


class Guidance:
    """A guide, or none, made ready for some cells: priors of the factors, and their start.

    Parameters
    ----------
    guide
        What is known; None: nothing.
    cells
        The training cells.
    n_components, prior_shape
        The number of components, and the shape of the prior of factors nothing is known of.
    zeros_observed
        Whether cells without an entry count: then a label's rate is how many counts it has, else
        how many its cells have.
    latent
        Whether factors are of whether there is a count, so that cells are counted.
    gate
        Two axes whose pairs have multipliers, which say how frequent the labels of these axes are
        overall; None without a gate.
    """

    def __init__(
        self,
        guide: Guide | None,
        cells: TrainingCells,
        n_components: int,
        prior_shape: float,
        *,
        zeros_observed: bool,
        latent: bool = False,
        gate: Sequence[int] | None = None,
    ) -> None:
        self.guide, self.cells, self.gate = guide or Guide(), cells, gate or ()
        self.n_components, self.prior_shape = n_components, float(prior_shape)
        self.count_N = np.ones(len(cells)) if latent else cells.counts_N.astype(np.float64)
        self.priors = [FactorPrior(self.prior_shape, self.prior_shape)] * cells.n_axes
        if self.guide.believes:
            self.totals = [self._sum(axis, self.count_N) for axis in range(cells.n_axes)]
            self.exposures = [
                (seen_D if zeros_observed else seen_D * number_D).astype(np.float64)
                for seen_D, number_D in zip(cells.seen, cells.cells_per_entity, strict=True)
            ]
            self.priors = [self._prior(axis) for axis in range(cells.n_axes)]

    def _sum(self, axis: int, value_N: Floats) -> Floats:
        """Return the sums over the cells, of all processes, of every label."""
        size = self.cells.shape[axis]
        own_D = np.bincount(self.cells.indices_NM[:, axis], value_N, minlength=size)
        return np.asarray(self.cells.group.all_reduce(own_D))

    def _rate(self, axis: int) -> Floats:
        """Return each label's rate relative to that of all; one for all if the gate has it."""
        if axis in self.gate:
            return np.ones(self.cells.shape[axis])
        overall = self.totals[axis].sum() / max(self.exposures[axis].sum(), 1.0)
        relative_D = self.totals[axis] / np.maximum(self.exposures[axis], 1.0) / overall
        return np.asarray(np.maximum(relative_D, LEAST_START))

    def _prior(self, axis: int) -> FactorPrior:
        guide, total_D = self.guide, self.totals[axis]
        relative_D = self._rate(axis)
        table = (self.cells.shape[axis], self.n_components)
        shape_DK, rate_DK = np.full(table, self.prior_shape), np.full(table, self.prior_shape)
        for seed in guide.seeds:
            if seed.axis == axis:
                rows = seed.positions
                prior_D = guide.strength * total_D[rows]
                shape_DK[rows, seed.component] += prior_D
                mean_D = self.n_components * relative_D[rows]
                rate_DK[rows, seed.component] += prior_D / mean_D
        if guide.background is not None:
            prior_D = BACKGROUND_STRENGTH * total_D
            shape_DK[:, guide.background] += prior_D
            rate_DK[:, guide.background] += prior_D / relative_D / self._background_size()
        return FactorPrior(shape_DK, rate_DK)

    def _background_size(self) -> float:
        """Return how large the background's factors are believed to be, on average."""
        return float((BACKGROUND_SHARE * self.n_components) ** (1 / self.cells.n_axes))

    # -- the start ------------------------------------------------------------------------------

    def first(self, noises: Sequence[Floats]) -> list[Floats]:
        """Return factors to start from, around one, given random ones."""
        guide, starts = self.guide, list(noises)
        if guide.starts is not None:
            pairs = zip(guide.starts, noises, strict=True)
            starts = [np.where(np.isnan(start), noise, start) for start, noise in pairs]
        if not guide.believes:
            return starts
        starts = [start_DK.copy() for start_DK in starts]
        for component in sorted({seed.component for seed in guide.seeds}):
            if self._is_open(component):
                self._seed(component, starts)
        if guide.background is not None and self._is_open(guide.background):
            for axis, start_DK in enumerate(starts):
                start_DK[:, guide.background] = self._rate(axis) * self._background_size()
        return starts

    def _is_open(self, component: int) -> bool:
        starts = self.guide.starts
        return starts is None or bool(np.isnan(starts[0][0, component]))

    def _seed(self, component: int, starts: Sequence[Floats]) -> None:
        """Let a component begin where the cells of its seeds are."""
        lifts = self._lifts(component)
        for start_DK, lift_D in zip(starts, lifts, strict=True):
            start_DK[:, component] *= np.clip(lift_D, LEAST_LIFT, MOST_LIFT)
        for seed in self.guide.seeds:
            if seed.component == component:
                start_DK = starts[seed.axis]
                start_DK[seed.positions] *= ELSEWHERE
                start_DK[seed.positions, component] = MOST_LIFT

    def _lifts(self, component: int) -> list[Floats]:
        """Return how much more frequent labels are where the seeds are, on every axis.

        First where a cell has a seed on another axis; then where the labels that stand out so are.
        """
        axes = range(self.cells.n_axes)
        asked = [np.zeros(size) for size in self.cells.shape]
        for seed in self.guide.seeds:
            if seed.component == component:
                asked[seed.axis][seed.positions] = 1.0
        near = [self._lift(axis, asked, np.add) for axis in axes]
        near = [np.clip(lift_D, LEAST_LIFT, MOST_LIFT) for lift_D in near]
        return [self._lift(axis, near, np.multiply) for axis in axes]

    def _lift(self, axis: int, values: Sequence[Floats], together: np.ufunc) -> Floats:
        """Return the mean over a label's cells of what other axes' labels have, above the mean."""
        columns = [
            values[other][self.cells.indices_NM[:, other]]
            for other in range(self.cells.n_axes)
            if other != axis
        ]
        found_N = columns[0]
        for column_N in columns[1:]:
            found_N = together(found_N, column_N)
        sum_D = self._sum(axis, self.count_N * found_N)
        mean = sum_D.sum() / max(self.totals[axis].sum(), 1.0)
        if mean <= 0:  # no cell has a seed on another axis
            return np.ones(self.cells.shape[axis])
        return np.asarray(sum_D / np.maximum(self.totals[axis], 1.0) / mean)
