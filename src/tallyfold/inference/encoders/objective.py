"""What an encoder is trained on: how well the posterior it gives predicts held-out cells.

The loss is minus the log predictive of held-out cells, plus a Gaussian penalty that pulls the
parameters to where they started. All gradients are exact (checked against autograd in the tests).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import Bounds, minimize

from tallyfold.inference.cells.held_out import Target
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.inference.encoders.evidence import N_PRIOR, AxisEvidence, AxisPrior, Rows
from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.posterior.gamma_posterior import GammaTable

LOG_RANGE = 6.0
PRIOR_SD = 2.0
DECIMALS = 3
"""What the way from an encoder's start to its parameters is rounded to: a search makes a million
times as much of the last digit of a sum, which depends on the order cells were added up in."""


@dataclass(frozen=True)
class AxisObjective:
    """The log predictive of held-out cells as a function of an axis's encoder.

    Attributes
    ----------
    evidence, prior
        What gives the posterior.
    held_rows, held_scale_V
        How the rows reach the held-out cells, and what their rates are multiplied by.
    target
        The predictive distribution at the held-out cells.
    seen_D
        Which rows have cells of their own; the others are predicted by the mean of these. Of a
        derived axis all: combinations never seen have the prior.
    """

    evidence: AxisEvidence
    prior: AxisPrior
    held_rows: Rows
    held_scale_V: Floats
    target: Target
    seen_D: Mask
    group: ProcessGroup = ALONE

    def posterior(self, params: Floats) -> GammaTable:
        """Return the posterior of the rows of the evidence."""
        return self.prior.posterior(params, self.evidence.sums(params), self.group)

    @property
    def n_cells(self) -> int:
        """The number of held-out cells in all processes."""
        return int(self.group.all_reduce_number(len(self.held_scale_V)))

    @cached_property
    def _all_seen(self) -> bool:
        return bool(self.seen_D.all())

    def held_rates(self, table: GammaTable) -> Floats:
        """Return the mean rates of the held-out cells."""
        known_DK = table.mean_DK
        if not self._all_seen:
            seen_D1 = self.seen_D[:, None]
            known_DK = np.where(seen_D1, known_DK, known_DK.mean(axis=0, where=seen_D1))
        return self.held_rows.exposures_transpose(known_DK) * self.held_scale_V

    def loss(self, params: Floats) -> tuple[float, Floats]:
        """Return minus the total log predictive of the held-out cells, and its gradient."""
        table = self.posterior(params)
        held_V = self.held_rates(table)
        slope_V = self.target.slope(held_V) * self.held_scale_V
        by_mean_DK = self.group.all_reduce(self.held_rows.exposures(slope_V))
        if not self._all_seen:  # see held_rates
            seen_D1 = self.seen_D[:, None]
            shared_K = by_mean_DK.sum(axis=0, where=~seen_D1) / seen_D1.sum()
            by_mean_DK = np.where(seen_D1, by_mean_DK + shared_K, 0.0)
        by_shape_DK = by_mean_DK / table.rate_DK
        by_rate_DK = -table.mean_DK * by_shape_DK
        prior_2 = self.prior.gradient(params, by_shape_DK.sum(), by_rate_DK.sum())
        network = self.evidence.gradient(params, by_shape_DK, by_rate_DK)
        total = float(self.target.log_pmf(held_V).sum())
        sums = self.group.all_reduce(np.concatenate([[total], network]))
        return -float(sums[0]), -np.concatenate([prior_2, sums[1:]])


def train(
    objective: AxisObjective,
    params: Floats,
    start: Floats,
    weight_variance: float,
    steps: int,
    n_total: int | None = None,
) -> Floats:
    """Improve an encoder's parameters by a few steps of L-BFGS.

    An objective of some rows alone stands for `n_total` held-out cells: the loss is a mean, and
    the pull to the start is divided by `n_total`.
    """
    variance = np.full(len(start), weight_variance)
    variance[:N_PRIOR] = PRIOR_SD**2
    n_cells = max(objective.n_cells, 1)
    n_all = n_cells if n_total is None else n_total

    def penalised(x: Floats) -> tuple[float, Floats]:
        value, gradient = objective.loss(x)
        away = x - start
        pull = float((away**2 / variance).sum()) / 2
        return value / n_cells + pull / n_all, gradient / n_cells + away / variance / n_all

    room = np.where(np.arange(len(start)) < N_PRIOR, LOG_RANGE, np.inf)
    found = minimize(
        penalised,
        params,
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(start - room, start + room),
        options={"maxiter": steps, "maxfun": 2 * steps + 2},
    )
    return np.asarray(start + np.round(found.x - start, DECIMALS))
