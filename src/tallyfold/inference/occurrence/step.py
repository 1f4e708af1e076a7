"""The phases that fit whether there is a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.inference.occurrence.neighbours import found_neighbours
from tallyfold.inference.occurrence.training import (
    LEAST_FOR_NETWORK,
    Examples,
    trained_like,
    trained_line,
    trained_multipliers,
    trained_network,
    unseen_log_rates,
    with_ceiling,
)
from tallyfold.inference.schemes.collapsed import CollapsedState, CollapsedStep
from tallyfold.kernels.arrays import Positions
from tallyfold.kernels.margins import short_counts
from tallyfold.posterior.derived_axis import combination_keys, countable, rows_of_keys
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.posterior.mirror import Mirror
from tallyfold.posterior.neighbours import Neighbours
from tallyfold.posterior.occurrence import (
    CombinationCounts,
    Occurrence,
)
from tallyfold.posterior.occurrence_weights import OccurrenceWeights

JUDGED = 0.3
"""The share of held-out cells that decide what is kept; all train it afterwards."""
LEAST_GAIN = 5e-4
"""In log score per cell with a count: what gains less is left out."""
LEAST_TOTAL = 1.0
"""In log score of all cells that judge together."""
OCCURRENCE_STEPS = 3
MOST_SETS = 12
LAST_PASSES = 10
"""Passes over all cells, those included that were held out, at the end."""
SAME_LABELS = 0.5
"""Axes mirror each other if this share of either's labels is on the other."""


@dataclass(frozen=True)
class OccurrenceState:
    """Factors and gate, and the weights of what combinations of labels add.

    Attributes
    ----------
    factors
        The state of the factors.
    weights
        The weights in use.
    score
        The log score of cells that had no part in the weights; zero before there are any.
    """

    factors: CollapsedState
    weights: OccurrenceWeights
    score: float = 0.0


class OccurrenceStep:
    """Learns weights from held-out cells, with frozen factors: multipliers first, then a network.

    Three iterations: multipliers, a network, and what proved to help once more with all cells,
    below a ceiling of the probabilities.
    """

    def __init__(
        self,
        sweeps: CollapsedStep,
        counted: Counted,
        held_out: OccurrenceCells | None,
        seed: int,
        near: bool = False,
    ) -> None:
        self.sweeps, self.held_out, self.seed = sweeps, held_out, seed
        self.counted, self.near = counted, near

    def start(self, state: CollapsedState) -> OccurrenceState:
        """Begin with the rates of factors and gate as they are."""
        return OccurrenceState(state, OccurrenceWeights.plain(len(self.counted.axis_sets)))

    def examples(self, state: CollapsedState) -> Examples:
        """Return the features of held-out cells, made once.

        They are of rounded factors. Weights are found by hundreds of steps, which would make one
        in the last digit, where processes sum in another order, one in the second.
        """
        if "_made" not in self.__dict__:
            gammas = self.sweeps.complete_posterior(state).rounded()
            found = self.counted.occurrence(self.start(state).weights)
            found = replace(found, neighbours=self.neighbours(state))
            sums, cells = found.closed_sums(gammas), self.held_out
            assert cells is not None
            self._made = Examples(
                found.features(gammas, sums, cells.filled_NM),
                found.features(gammas, sums, cells.empty_ZM),
                cells.weight_Z,
            )
        return self._made

    def neighbours(self, state: CollapsedState) -> Neighbours | None:
        """Return what labels say of others in their basket, learnt once from training cells."""
        if not self.near:
            return None
        if "_near" not in self.__dict__:
            cells, gate = self.counted.cells, self.sweeps.gates[state.gate] or ()
            indices_NM = cells.group.all_gather(cells.indices_NM)
            share = self.counted.share
            self._near = found_neighbours(
                indices_NM, cells.shape, share, gate, self.seed, self.counted.n_combinations
            )
        return self._near

    def advance(self, state: OccurrenceState, iteration: int) -> tuple[OccurrenceState, float]:
        """Train one more part; the objective is the score of cells that judge it."""
        judged, rest = self.examples(state.factors).parts(JUDGED, self.seed)
        if iteration == 1:
            weights, _ = self.with_multipliers(state.factors)
        elif iteration == 2 and len(rest) >= LEAST_FOR_NETWORK:
            found = trained_network(state.weights, rest, self.seed)
            better = self._gains(judged, found, state.weights)
            weights = found if better else state.weights
        elif iteration == 3:
            weights = self._again(state.weights, self.examples(state.factors))
            return replace(state, weights=weights), state.score
        else:
            weights = state.weights
        score = judged.score(weights)
        return replace(state, weights=weights, score=score), score

    def with_multipliers(self, state: CollapsedState) -> tuple[OccurrenceWeights, float]:
        """Return weights with multipliers, if they gain, and the score of cells that judge them."""
        judged, rest = self.examples(state).parts(JUDGED, self.seed)
        line, product = trained_line(rest), trained_multipliers(rest)
        weights = product if self._gains(judged, product, line) else line
        return weights, judged.score(weights)

    @staticmethod
    def _gains(judged: Examples, new: OccurrenceWeights, old: OccurrenceWeights) -> bool:
        """Return whether new weights predict better, by more than chance may do."""
        gain = judged.score(new) - judged.score(old)
        return gain > max(LEAST_GAIN, LEAST_TOTAL / max(len(judged), 1))

    def _again(self, kept: OccurrenceWeights, examples: Examples) -> OccurrenceWeights:
        """Return weights of the same kind, learnt from all examples.

        Few examples, which have no network, say nothing of a ceiling either.
        """
        weights = trained_like(kept, examples, self.seed)
        if not len(kept.out_H):
            return weights
        cells = examples.distinct()
        return with_ceiling(weights, cells, unseen_log_rates(kept, cells, self.seed))

    def validation_score(self, state: OccurrenceState) -> None:
        """Return None: whatever is kept has been judged already."""
        return


class LastPasses:
    """Passes over all cells, those included that were held out: nothing is left unused.

    `more` are the cells that were held out, if any.
    """

    def __init__(
        self,
        sweeps: CollapsedStep,
        axes: Sequence[Axis],
        learner: OccurrenceStep,
        more: CountTensor | None = None,
    ) -> None:
        self.sweeps, self.learner = sweeps, learner
        self.counted = Counted(sweeps.cells, axes, sweeps.share)
        if more is not None:
            self.counted.grow_from(learner.counted, more)

    def start(self, before: OccurrenceState, earlier: CollapsedStep) -> OccurrenceState:
        """Take the factors over; pairs that only held-out cells have begin as those never seen."""
        state = before.factors
        earlier.cells.forget_layouts()
        old, new = earlier.gate_keys(state.gate), self.sweeps.gate_keys(state.gate)
        rows_P1 = np.append(rows_of_keys(new, old), len(old))
        table = state.gate_table.rows(rows_P1) if len(new) else state.gate_table
        return replace(before, factors=replace(state, gate_table=table))

    def advance(self, state: OccurrenceState, iteration: int) -> tuple[OccurrenceState, float]:
        """Make one pass."""
        factors, objective = self.sweeps.advance(state.factors, iteration + 5)
        return replace(state, factors=factors), objective

    def validation_score(self, state: OccurrenceState) -> None:
        """Return None: no cell is held out any more."""
        return

    def result(self, state: OccurrenceState) -> tuple[GammaPosterior, Occurrence]:
        """Return the posterior of the factors, and all else that tells whether there is a count."""
        gammas = self.sweeps.complete_posterior(state.factors)
        self.sweeps.cells.forget_layouts()
        occurrence = self.counted.occurrence(state.weights)
        prior_rate_M = self.sweeps.prior_shape * state.factors.prior_rate_M
        near = self.learner.neighbours(state.factors) if len(state.weights.out_H) else None
        if near is not None:
            cells = self.sweeps.cells
            near = near.filled(cells.group.all_gather(cells.indices_NM), self.counted.share)
        return gammas, replace(occurrence, prior_rate_M=prior_rate_M, neighbours=near)


class Counted:
    """The counts of combinations among some cells."""

    def __init__(self, cells: TrainingCells, axes: Sequence[Axis], share: float) -> None:
        self.cells, self.axes, self.share = cells, axes, share
        self._kept: dict[tuple[int, ...], CombinationCounts] = {}
        self._fewer: tuple[Counted, CountTensor] | None = None

    def grow_from(self, fewer: Counted, more: CountTensor) -> None:
        """Make counts from those of fewer cells, which are let go then, and of all others."""
        self._fewer = fewer, more

    def n_combinations(self, axes: tuple[int, ...]) -> int:
        """Return how many combinations some axes have."""
        return len(self._count(axes).keys_P)

    @cached_property
    def axis_sets(self) -> list[tuple[tuple[int, ...], bool]]:
        """The sets of axes whose combinations are counted, and whether those of mirrors."""
        n_axes, shape = self.cells.n_axes, self.cells.shape
        sizes = [1] if n_axes == 2 else sorted({2, n_axes - 1})
        sets = [(s, False) for size in sizes for s in combinations(range(n_axes), size)]
        if self.mirrored_axes is not None and n_axes > 2:
            own = set(self.mirrored_axes)
            sets += [
                (s, True)
                for size in sizes
                for s in combinations(range(n_axes), size)
                if own <= set(s)
            ]
        return [each for each in sets if countable([shape[m] for m in each[0]])][:MOST_SETS]

    @cached_property
    def mirrored_axes(self) -> tuple[int, int] | None:
        """The first two axes with about the same labels, if all cells can be numbered."""
        if not countable(self.cells.shape):
            return None
        for first, second in combinations(range(len(self.axes)), 2):
            one, other = self.axes[first], self.axes[second]
            if one.labels.type != other.labels.type:
                continue
            if other.find(one.labels)[1].sum() >= SAME_LABELS * max(len(one), len(other)):
                return first, second
        return None

    def occurrence(self, weights: OccurrenceWeights) -> Occurrence:
        """Return the counts with weights."""
        sets = tuple(self._count(axes, mirrored) for axes, mirrored in self.axis_sets)
        return Occurrence(self.share, self.cells.seen, sets, weights, self._mirror)

    def _count(self, axes: tuple[int, ...], mirrored: bool = False) -> CombinationCounts:
        """Count the combinations of the cells of all processes; once for each set of axes."""
        if axes not in self._kept:
            self._kept[axes] = self._made(axes)
        return replace(self._kept[axes], mirrored=mirrored)

    def _made(self, axes: tuple[int, ...]) -> CombinationCounts:
        shape = self.cells.shape
        if self._fewer is not None and axes in self._fewer[0]._kept:
            before = self._fewer[0]._kept.pop(axes)
            more_NM = self.cells.group.all_gather(self._fewer[1].indices)
            return before.added(more_NM, shape, np.ones(len(more_NM)))
        return self._gathered(CombinationCounts.of(axes, shape, self.cells.indices_NM))

    def _gathered(self, own: CombinationCounts) -> CombinationCounts:
        group = self.cells.group
        if group.size == 1:
            return own
        keys_P, row_N = np.unique(group.all_gather(own.keys_P), return_inverse=True)
        counts_P = np.zeros(len(keys_P), dtype=np.int64)
        np.add.at(counts_P, row_N, group.all_gather(own.counts_P.astype(np.int64)))
        return replace(own, keys_P=keys_P, counts_P=short_counts(counts_P))

    @cached_property
    def _mirror(self) -> Mirror | None:
        if self.mirrored_axes is None:
            return None
        cells, (first, second) = self.cells, self.mirrored_axes
        indices_NM = cells.group.all_gather(cells.indices_NM)
        keys_P = np.unique(combination_keys(indices_NM, range(cells.n_axes), cells.shape))
        places = mirrored_places(self.axes[first], self.axes[second])
        return Mirror.of((first, second), *places, cells.shape, keys_P, indices_NM, self.share)


def mirrored_places(first: Axis, second: Axis) -> tuple[Positions, Positions]:
    """Return where the labels of two axes stand on the other; -1 if they do not."""
    to_second_D, to_first_D = second.find(first.labels)[0], first.find(second.labels)[0]
    return to_second_D.astype(np.int32), to_first_D.astype(np.int32)
