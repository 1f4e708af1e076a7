"""One visit to an encoder: its posteriors as a function of its numbers, and how well they predict.

The anchored encoder of an axis gives entity d and component k the Gamma posterior

- shape_dk = a + sum_n f_n y_n share_nk
- rate_dk  = a b c + sum_n g_n e_n prod_other E_k

where f_n and g_n, the weights of the cell's count and of its exposure, come from a small network
of (ln y_n, ln rate_n) (`kernels.evidence`), and a, c are learnt. With f = g = c = 1 this is the
conjugate update. Multipliers of combinations of axes have the same form with one component:
shape_p = a + sum_n f_n y_n, rate_p = c + sum_n g_n e_n rate_n / (multiplier of p).

The loss is minus the log predictive of held-out cells, plus a Gaussian penalty that pulls the
numbers to where they started. All gradients are exact (checked against autograd in the tests).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, minimize

from tallyfold.inference.cells.held_out import HeldOutCells, Target
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.evidence import evidence_gradient, evidence_weights
from tallyfold.kernels.layout import AxisLayout

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_Cells = tuple[npt.NDArray[np.integer], Ints, Floats, Floats]
"""Combinations, counts, network inputs and exposures of cells."""

N_PRIOR = 2
"""An encoder's first numbers: ln a and ln c; its network follows."""
LEAST_RATE = 1e-290
"""Smaller rates are taken as this one, as in the kernels."""
LOG_RANGE = 6.0
PRIOR_SD = 2.0


def axis_posterior(
    numbers: Floats,
    inputs_2N: Floats,
    shares: tuple[Sequence[Floats], Floats],
    exposures: tuple[Sequence[Floats], Floats],
    layout: AxisLayout,
    prior_rate: float,
    backend: str,
    group: ProcessGroup = ALONE,
) -> tuple[Floats, Floats]:
    """Return the shapes and rates an axis's encoder gives its entities.

    `shares` are the geometric means of all factors and count / rate of each cell, `exposures` the
    arithmetic means and the exposure of each cell.
    """
    weight_2N = evidence_weights(numbers[N_PRIOR:], inputs_2N, backend=backend)
    a, rate = axis_prior(numbers, prior_rate)
    geo, count_share_N = shares
    mean, exposure_N = exposures
    phi_DK = kernels.axis_sums(geo, layout, weight_2N[0] * count_share_N, backend=backend)
    seen_DK = kernels.axis_sums(mean, layout, weight_2N[1] * exposure_N, backend=backend)
    own_DK = geo[layout.axis][: len(phi_DK)]
    return a + own_DK * group.all_reduce(phi_DK), rate + group.all_reduce(seen_DK)


def axis_prior(numbers: Floats, prior_rate: float) -> tuple[float, float]:
    """Return the shape and rate of the prior of an axis's factors."""
    a = float(np.exp(numbers[0]))
    return a, a * prior_rate * float(np.exp(numbers[1]))


def multiplier_posterior(
    numbers: Floats,
    inputs_2N: Floats,
    place_N: npt.NDArray[np.integer],
    n_places: int,
    counts_N: Ints,
    exposure_N: Floats,
    backend: str,
    group: ProcessGroup = ALONE,
) -> tuple[Floats, Floats]:
    """Return the shapes and rates an encoder gives the multipliers of combinations."""
    a, c = np.exp(numbers[:N_PRIOR])
    counted_P1, exposed_P1 = multiplier_sums(
        numbers, inputs_2N, place_N, n_places, counts_N, exposure_N, backend
    )
    return a + group.all_reduce(counted_P1), c + group.all_reduce(exposed_P1)


def multiplier_sums(
    numbers: Floats,
    inputs_2N: Floats,
    place_N: npt.NDArray[np.integer],
    n_places: int,
    counts_N: Ints,
    exposure_N: Floats,
    backend: str,
) -> tuple[Floats, Floats]:
    """Return, per combination, the weighted counts and exposures of some cells."""
    weight_2N = evidence_weights(numbers[N_PRIOR:], inputs_2N, backend=backend)
    return (
        np.bincount(place_N, weight_2N[0] * counts_N, minlength=n_places).astype(float),
        np.bincount(place_N, weight_2N[1] * exposure_N, minlength=n_places).astype(float),
    )


@dataclass
class AxisVisit:
    """All that one visit to an axis needs; nothing here changes during the visit."""

    axis: int
    cells: TrainingCells
    held_out: HeldOutCells
    target: Target
    geo: Sequence[Floats]
    mean: Sequence[Floats]
    prior_rate: float
    inputs_2N: Floats
    exposure_N: Floats
    held_multiplier_V: Floats
    backend: str

    def __post_init__(self) -> None:
        rate_N = kernels.cell_rates(self.geo, self.cells.indices_NM, backend=self.backend)
        self.count_share_N = self.cells.counts_N / np.maximum(rate_N, LEAST_RATE)
        self.seen_D1 = self.cells.seen[self.axis][:, None]

    def posterior(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the shapes and rates of all entities."""
        return axis_posterior(
            numbers,
            self.inputs_2N,
            (self.geo, self.count_share_N),
            (self.mean, self.exposure_N),
            self.cells.layouts[self.axis],
            self.prior_rate,
            self.backend,
            self.cells.group,
        )

    @property
    def n_cells(self) -> int:
        """How many cells the loss is a sum over."""
        return self.held_out.n_cells

    def held_rates(self, shape_DK: Floats, rate_DK: Floats) -> Floats:
        """Return the mean rates of the held-out cells; entities without a cell get the average."""
        mean_DK = shape_DK / rate_DK
        typical_K = mean_DK.mean(axis=0, where=self.seen_D1)
        known_DK = np.where(self.seen_D1, mean_DK, typical_K)
        factors = with_factor(self.mean, self.axis, known_DK)
        rate_V = kernels.cell_rates(factors, self.held_out.indices_NM, backend=self.backend)
        return rate_V * self.held_multiplier_V

    def loss(self, numbers: Floats) -> tuple[float, Floats]:
        """Return minus the total log predictive of the held-out cells, and its gradient."""
        shape_DK, rate_DK = self.posterior(numbers)
        held_V = self.held_rates(shape_DK, rate_DK)
        slope_V = self.target.slope(held_V) * self.held_multiplier_V
        pull_DK = self.held_out.axis_sums(self.mean, self.axis, slope_V, self.backend)
        shared_K = pull_DK.sum(axis=0, where=~self.seen_D1) / self.seen_D1.sum()  # see held_rates
        pull_DK = np.where(self.seen_D1, (pull_DK + shared_K) / rate_DK, 0.0)
        push_DK = shape_DK / rate_DK * pull_DK
        by_shape = with_factor(self.geo, self.axis, self.geo[self.axis] * pull_DK)
        by_rate = with_factor(self.mean, self.axis, push_DK)
        cells_NM = self.cells.indices_NM
        slope_2N = np.stack(
            [
                self.count_share_N * kernels.cell_rates(by_shape, cells_NM, backend=self.backend),
                -self.exposure_N * kernels.cell_rates(by_rate, cells_NM, backend=self.backend),
            ]
        )
        a, rate = axis_prior(numbers, self.prior_rate)
        prior_2 = [a * pull_DK.sum() - rate * push_DK.sum(), -rate * push_DK.sum()]
        network = evidence_gradient(
            numbers[N_PRIOR:], self.inputs_2N, slope_2N, backend=self.backend
        )
        total = float(self.target.log_pmf(held_V).sum())
        sums = self.cells.group.all_reduce(np.concatenate([[total], network]))
        return -float(sums[0]), -np.concatenate([prior_2, sums[1:]])


@dataclass
class InteractionVisit:
    """All that one visit to the multipliers of some axes needs."""

    counts_N: Ints
    place_N: npt.NDArray[np.integer]
    n_places: int
    held_place_V: Ints
    matter_N: Ints | slice
    target: Target
    inputs_2N: Floats
    exposure_N: Floats
    held_others_V: Floats
    backend: str
    group: ProcessGroup

    def posterior(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return the shapes and rates of all combinations; the last is one never seen."""
        return self._posterior(numbers, slice(None))

    @property
    def n_cells(self) -> int:
        """How many cells the loss is a sum over."""
        return int(self.group.all_reduce_number(len(self.held_place_V)))

    def held_rates(self, shape_P1: Floats, rate_P1: Floats) -> Floats:
        """Return the mean rates of the held-out cells."""
        return np.asarray(self.held_others_V * (shape_P1 / rate_P1)[self.held_place_V])

    def loss(self, numbers: Floats) -> tuple[float, Floats]:
        """Return minus the total log predictive of the held-out cells, and its gradient."""
        shape_P1, rate_P1 = self._posterior(numbers, self.matter_N)
        held_V = self.held_rates(shape_P1, rate_P1)
        slope_V = self.target.slope(held_V) * self.held_others_V
        pull_P1 = self._sums(self.held_place_V, slope_V) / rate_P1
        push_P1 = shape_P1 / rate_P1 * pull_P1
        place, counts, inputs, exposure = self._cells(self.matter_N)
        slope_2N = np.stack([counts * pull_P1[place], -exposure * push_P1[place]])
        a, c = np.exp(numbers[:N_PRIOR])
        network = evidence_gradient(numbers[N_PRIOR:], inputs, slope_2N, backend=self.backend)
        total = float(self.target.log_pmf(held_V).sum())
        sums = self.group.all_reduce(np.concatenate([[total], network]))
        prior_2 = [a * pull_P1.sum(), -c * push_P1.sum()]
        return -float(sums[0]), -np.concatenate([prior_2, sums[1:]])

    def _posterior(self, numbers: Floats, which: Ints | slice) -> tuple[Floats, Floats]:
        place, counts, inputs, exposure = self._cells(which)
        return multiplier_posterior(
            numbers, inputs, place, self.n_places, counts, exposure, self.backend, self.group
        )

    def _cells(self, which: Ints | slice) -> _Cells:
        if isinstance(which, slice):
            return self.place_N, self.counts_N, self.inputs_2N, self.exposure_N
        return self._selected

    @cached_property
    def _selected(self) -> _Cells:
        which = self.matter_N
        inputs = np.ascontiguousarray(self.inputs_2N[:, which])
        return self.place_N[which], self.counts_N[which], inputs, self.exposure_N[which]

    def _sums(self, place: npt.NDArray[np.integer], weight: Floats) -> Floats:
        sums_P1 = np.bincount(place, weight, minlength=self.n_places)
        return self.group.all_reduce(sums_P1.astype(float, copy=False))


def train(
    visit: AxisVisit | InteractionVisit,
    numbers: Floats,
    start: Floats,
    weight_variance: float,
    steps: int,
    n_total: int | None = None,
) -> Floats:
    """Improve an encoder's numbers by a few steps of L-BFGS.

    A visit to some entities alone stands for `n_total` cells: of so many the loss is the mean that
    the pull to the start is weighed against.
    """
    variance = np.full(len(start), weight_variance)
    variance[:N_PRIOR] = PRIOR_SD**2
    n_cells = max(visit.n_cells, 1)
    n_all = n_cells if n_total is None else n_total

    def penalised(x: Floats) -> tuple[float, Floats]:
        value, gradient = visit.loss(x)
        away = x - start
        pull = float((away**2 / variance).sum()) / 2
        return value / n_cells + pull / n_all, gradient / n_cells + away / variance / n_all

    room = np.where(np.arange(len(start)) < N_PRIOR, LOG_RANGE, np.inf)
    found = minimize(
        penalised,
        numbers,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(start - room, start + room),
        options={"maxiter": steps, "maxfun": 2 * steps + 2},
    )
    return np.asarray(found.x)


def with_factor(factors: Sequence[Floats], axis: int, replaced: Floats) -> list[Floats]:
    """Return factors, that of one axis replaced."""
    return [replaced if m == axis else factor for m, factor in enumerate(factors)]
