"""What is known of components before a fit: where factors start, and what pulls them.

A seed names labels that one component should have. It is as if a part s of a label's counts had
been seen before, all in this component. With n_d counts and an exposure of E_dk its factor becomes

- Gamma(a + s * n_d + its counts in k, a * b + (1 + s) * E_dk)

so updates stay closed: a label that the data give to this component alone is not pulled anywhere,
and one that they give to others keeps about s / (1 + s) of itself here. What data do not support
leaves. Seeds that are found divide all labels of an axis: each has been seen before in every
component, in parts. The background has seen a part of the counts of every label, in proportion: it
says what is common everywhere.

The first factors go where the seeds' cells are: a label starts as much above the others as it is
more frequent there than elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.factor_prior import FactorPrior
from tallyfold.inference.schemes.found_seeds import LEAST_LIFT, MOST_LIFT, FoundSeeds
from tallyfold.inference.schemes.gamma_chain import GammaChain

if TYPE_CHECKING:
    from tallyfold.posterior.gamma_posterior import GammaPosterior

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

LEAST_START = 1e-3
"""Of a factor, relative to the mean of its component: what starts at zero would stay there."""
ELSEWHERE = 0.2
"""Seeded labels start in other components at this part of what they would be."""
BACKGROUND_STRENGTH = 1.0
"""How much the background has seen before, in parts of the exposure of every label."""
BACKGROUND_SHARE = 0.3
"""The part of every label's counts that it has seen in them, and starts with."""


FIRST_LEARNT, LEARNT_EVERY = 8, 4
"""From which iteration on, and how often, the correlation of neighbours is learnt."""


class Factored(Protocol):
    """A state of factors, with what is learnt of their priors."""

    @property
    def posterior(self) -> GammaPosterior:
        """The factors' posteriors."""

    @property
    def prior_rate_M(self) -> Floats:
        """The rates of their priors."""

    @property
    def correlation_M(self) -> Floats:
        """The correlations of neighbours."""


@dataclass(frozen=True)
class SeededLabels:
    """Labels of an axis, by position, that a component should have."""

    component: int
    axis: int
    positions: Ints


@dataclass(frozen=True)
class Course:
    """What is known of an axis whose labels follow each other.

    Attributes
    ----------
    step_D
        The step of each label.
    correlation
        Of the factors of one step and the next; None learns it.
    """

    step_D: npt.NDArray[np.int64]
    correlation: float | None = None


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
    found
        Seeds of all labels of an axis, found in the cells.
    strength
        How surely: the part of a label's counts that is taken as seen there before.
    background
        The component of what is common everywhere; None without one.
    courses
        By axis, whose labels follow each other.
    """

    starts: tuple[Floats, ...] | None = None
    seeds: tuple[SeededLabels, ...] = ()
    found: FoundSeeds | None = None
    strength: float = 0.0
    background: int | None = None
    courses: Mapping[int, Course] = field(default_factory=dict)

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
        return bool(self.seeds) or self.found is not None or self.background is not None


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
    latent
        Whether factors are of whether there is a count, so that cells are counted.
    """

    def __init__(
        self,
        guide: Guide | None,
        cells: TrainingCells,
        n_components: int,
        prior_shape: float,
        *,
        latent: bool = False,
    ) -> None:
        self.guide, self.cells = guide or Guide(), cells
        self.n_components, first = n_components, float(prior_shape)
        self.count_N = np.ones(len(cells)) if latent else cells.counts_N.astype(np.float64)
        self.priors = [FactorPrior(first, first, over_rows=total) for total in cells.over_all_rows]
        if self.guide.believes:
            self.totals = [self._sum(axis, self.count_N) for axis in range(cells.n_axes)]
            self.priors = [self._prior(axis, first) for axis in range(cells.n_axes)]
        self.correlation_M = np.zeros(cells.n_axes)
        for axis, course in self.guide.courses.items():
            chain = GammaChain.of(first, course.step_D, cells.seen[axis])
            self.priors[axis] = replace(self.priors[axis], chain=chain)
            self.correlation_M[axis] = course.correlation or 0.0

    def learnt(self, state: Factored, iteration: int, but: int | None = None) -> Floats:
        """Return the correlations of neighbours, now and then learnt anew.

        Not before components have parted, and not those of the axis `but`.
        """
        found_M = state.correlation_M
        if iteration < FIRST_LEARNT or iteration % LEARNT_EVERY:
            return found_M
        for axis, course in self.guide.courses.items():
            chain, table = self.priors[axis].chain, state.posterior.axes[axis]
            if course.correlation is None and axis != but and chain is not None:
                b, before = float(state.prior_rate_M[axis]), float(found_M[axis])
                learnt = chain.learnt_correlation(table, b, before)
                found_M = replaced(found_M, axis, learnt)
        return found_M

    def _sum(self, axis: int, value_N: Floats) -> Floats:
        """Return the sums over the cells, of all processes, of every label."""
        size = self.cells.shape[axis]
        own_D = np.bincount(self.cells.indices_NM[:, axis], value_N, minlength=size)
        return np.asarray(self.cells.group.all_reduce(own_D))

    def _prior(self, axis: int, first: float) -> FactorPrior:
        guide, total_D = self.guide, self.totals[axis]
        table = (self.cells.shape[axis], self.n_components)
        shape_DK, again_DK = np.full(table, first), np.ones(table)
        for seed in guide.seeds:
            if seed.axis == axis:
                rows = seed.positions
                shape_DK[rows, seed.component] += guide.strength * total_D[rows]
                again_DK[rows, seed.component] += guide.strength
        if guide.found is not None and guide.found.axis == axis:
            share_DK = guide.found.share_DK
            shape_DK += guide.strength * total_D[:, None] * share_DK
            pulled_DK = (share_DK.sum(axis=0) > 0) * share_DK.sum(axis=1, keepdims=True)
            again_DK += guide.strength * pulled_DK
        if guide.background is not None:
            seen = BACKGROUND_STRENGTH * BACKGROUND_SHARE
            shape_DK[:, guide.background] += seen * total_D
            again_DK[:, guide.background] += BACKGROUND_STRENGTH
        return FactorPrior(first, shape_DK, again_DK)

    def _background_start(self, axis: int, gate: Sequence[int]) -> Floats:
        """Return how frequent labels are, one on average; all alike if a gate says it."""
        size = (BACKGROUND_SHARE * self.n_components) ** (1 / self.cells.n_axes)
        total_D = np.ones(self.cells.shape[axis]) if axis in gate else self.totals[axis]
        return np.asarray(np.maximum(total_D / max(total_D.mean(), 1e-12), LEAST_START) * size)

    # -- the start ------------------------------------------------------------------------------

    def first(self, noises: Sequence[Floats], gate: Sequence[int] | None = None) -> list[Floats]:
        """Return factors to start from, around one, given random ones.

        `gate` are two axes whose pairs have multipliers, which say how frequent their labels are.
        """
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
                start_DK[:, guide.background] = self._background_start(axis, gate or ())
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


def replaced(number_M: Floats, axis: int, number: float) -> Floats:
    """Return numbers of all axes with another one for an axis."""
    new_M = number_M.copy()
    new_M[axis] = number
    return new_M
