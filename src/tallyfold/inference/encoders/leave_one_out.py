"""Encoders trained on the training cells themselves, each left out of its own sum.

Cell n of entity d is predicted from the posterior that the entity's other cells give:

- shape_nk = shape_dk - f_n y_n share_nk
- rate_nk  = rate_dk - g_n e_n prod_other E_k

so that a cell's weights f_n and g_n help all cells of its entity but the cell itself. The cell
still reaches its own prediction through the factors of the other axes, which have seen it: this
objective is too sure of itself, and what it gives is kept by held-out cells, as in `anchored`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tallyfold.inference.cells.held_out import Target
from tallyfold.inference.encoders.objective import (
    N_PRIOR,
    AxisVisit,
    InteractionVisit,
    axis_prior,
    with_factor,
)
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import evidence_gradient, evidence_weights

Floats = npt.NDArray[np.float64]

CELLS_AT_ONCE = 100_000


@dataclass
class LeaveOneOutAxisVisit(AxisVisit):
    """A visit to an axis whose loss is that of the training cells.

    Attributes
    ----------
    own_target
        The predictive distribution at the training cells.
    multiplier_N
        What their rates are multiplied by.
    """

    own_target: Target
    multiplier_N: Floats

    @property
    def n_cells(self) -> int:
        """How many cells the loss is a sum over."""
        return self.cells.n_cells

    def loss(self, numbers: Floats) -> tuple[float, Floats]:
        """Return minus the total log predictive of the training cells, and its gradient."""
        weight_2N = evidence_weights(numbers[N_PRIOR:], self.inputs_2N, backend=self.backend)
        shape_DK, rate_DK = self.posterior(numbers)
        a, prior = axis_prior(numbers, self.prior_rate)
        pull_DK, push_DK = np.zeros_like(shape_DK), np.zeros_like(rate_DK)
        slope_2N = np.empty_like(weight_2N)
        total = 0.0
        for part in _parts(len(self.cells)):
            entity = self.cells.indices_NM[part, self.axis]
            others, shares_NK, exposures_NK = self._own_terms(part)
            shape_NK = np.maximum(shape_DK[entity] - weight_2N[0, part, None] * shares_NK, a)
            rate_NK = np.maximum(rate_DK[entity] - weight_2N[1, part, None] * exposures_NK, prior)
            mean_N = (shape_NK / rate_NK * others).sum(axis=1) * self.multiplier_N[part]
            target = _part_of(self.own_target, part)
            total += float(target.log_pmf(mean_N).sum())
            pull_NK = (target.slope(mean_N) * self.multiplier_N[part])[:, None] * others / rate_NK
            push_NK = -pull_NK * shape_NK / rate_NK
            np.add.at(pull_DK, entity, pull_NK)
            np.add.at(push_DK, entity, push_NK)
            slope_2N[0, part] = -(pull_NK * shares_NK).sum(axis=1)
            slope_2N[1, part] = -(push_NK * exposures_NK).sum(axis=1)
        everywhere = self.cells.group.all_reduce
        pull_DK, push_DK = everywhere(pull_DK), everywhere(push_DK)
        slope_2N += self._by_entity(pull_DK, push_DK)
        network = evidence_gradient(
            numbers[N_PRIOR:], self.inputs_2N, slope_2N, backend=self.backend
        )
        by_rate = prior * push_DK.sum()
        sums = everywhere(np.concatenate([[total], network]))
        prior_2 = [a * pull_DK.sum() + by_rate, by_rate]
        return -float(sums[0]), -np.concatenate([prior_2, sums[1:]])

    def _own_terms(self, part: slice) -> tuple[Floats, Floats, Floats]:
        """Return prod_other E, and what a cell of weight one adds to its entity's sums."""
        cells = self.cells.indices_NM[part]
        others = np.ones((len(cells), self.mean[0].shape[1]))
        shares = self.geo[self.axis][cells[:, self.axis]] * self.count_share_N[part, None]
        for axis in range(cells.shape[1]):
            if axis != self.axis:
                others *= self.mean[axis][cells[:, axis]]
                shares *= self.geo[axis][cells[:, axis]]
        return others, shares, others * self.exposure_N[part, None]

    def _by_entity(self, pull_DK: Floats, push_DK: Floats) -> Floats:
        """Return what the cells' weights do to the predictions of all cells of their entities."""
        by_shape = with_factor(self.geo, self.axis, self.geo[self.axis] * pull_DK)
        by_rate = with_factor(self.mean, self.axis, push_DK)
        cells_NM = self.cells.indices_NM
        return np.stack(
            [
                self.count_share_N * kernels.cell_rates(by_shape, cells_NM, backend=self.backend),
                self.exposure_N * kernels.cell_rates(by_rate, cells_NM, backend=self.backend),
            ]
        )


@dataclass
class LeaveOneOutInteractionVisit(InteractionVisit):
    """A visit to the multipliers of some axes whose loss is that of the training cells.

    Attributes
    ----------
    own_target
        The predictive distribution at the training cells.
    others_N
        Their rates without these multipliers.
    """

    own_target: Target
    others_N: Floats

    @property
    def n_cells(self) -> int:
        """How many cells the loss is a sum over."""
        return int(self.group.all_reduce_number(len(self.own_target.counts_N)))

    def loss(self, numbers: Floats) -> tuple[float, Floats]:
        """Return minus the total log predictive of the training cells, and its gradient."""
        weight_2N = evidence_weights(numbers[N_PRIOR:], self.inputs_2N, backend=self.backend)
        shape_P1, rate_P1 = self.posterior(numbers)
        a, c = np.exp(numbers[:N_PRIOR])
        shape_N = np.maximum(shape_P1[self.place_N] - weight_2N[0] * self.counts_N, a)
        rate_N = np.maximum(rate_P1[self.place_N] - weight_2N[1] * self.exposure_N, c)
        mean_N = self.others_N * shape_N / rate_N
        pull_N = self.own_target.slope(mean_N) * self.others_N / rate_N
        push_N = -pull_N * shape_N / rate_N
        pull_P1, push_P1 = self._sums(self.place_N, pull_N), self._sums(self.place_N, push_N)
        slope_2N = np.stack(
            [
                self.counts_N * (pull_P1[self.place_N] - pull_N),
                self.exposure_N * (push_P1[self.place_N] - push_N),
            ]
        )
        network = evidence_gradient(
            numbers[N_PRIOR:], self.inputs_2N, slope_2N, backend=self.backend
        )
        total = float(self.own_target.log_pmf(mean_N).sum())
        own = [a * pull_N.sum(), c * push_N.sum()]
        sums = self.group.all_reduce(np.concatenate([[total], own, network]))
        return -float(sums[0]), -sums[1:]


def _parts(n_cells: int) -> Iterator[slice]:
    """Yield parts of the cells, so that no temporary array has a row for every cell."""
    for start in range(0, n_cells, CELLS_AT_ONCE):
        yield slice(start, min(start + CELLS_AT_ONCE, n_cells))


def _part_of(target: Target, part: slice) -> Target:
    return replace(target, counts_N=target.counts_N[part], dispersion_N=target.dispersion_N[part])
