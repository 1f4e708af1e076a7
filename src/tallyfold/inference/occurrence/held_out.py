"""Held-out cells with and without a count, and how well rates tell one from the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.data.empty_cells import base_cells, draw_empty_cells, thinned
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.kernels.arrays import Floats, Ints, Positions
from tallyfold.posterior.occurrence_weights import HIGHEST, LOWEST
from tallyfold.probability.counts import COUNTS

Rates = Callable[[Positions], Floats]

MOST_FILLED = 200_000
"""Held-out cells with a count that are used: more would not change what is learnt."""
EMPTY = 150_000
"""Empty cells that are drawn; their weights make them stand for all."""
LOOKED_AT = 20_000, 50_000
"""Cells with and without a count that decide when passes end: some of the others."""


@dataclass(frozen=True)
class OccurrenceCells:
    """Cells that a fit has not seen, the same ones in every process.

    Attributes
    ----------
    filled_NM, counts_N
        Positions of cells that have a count, and the counts.
    empty_ZM, weight_Z
        Positions of cells that have none, and how many cells each stands for.
    group, n_filled
        The processes that the cells are spread over, and how many cells have a count in all; None:
        each process has all cells.
    """

    filled_NM: Positions
    counts_N: Ints
    empty_ZM: Positions
    weight_Z: Floats
    group: ProcessGroup = ALONE
    n_filled: int | None = None

    @classmethod
    def of(cls, held_out: CountTensor, group: ProcessGroup, seed: int) -> OccurrenceCells:
        """Draw empty cells of a held-out part; processes put together what each holds out."""
        base_BM = base_cells(held_out)
        base_BM = thinned(base_BM, seed, int(group.all_reduce_number(len(base_BM))))
        if group.size > 1:
            base_BM, _ = _gathered(base_BM, group)
            indices_NM, order_N = _gathered(held_out.indices, group)
            counts_N = group.all_gather(held_out.counts)[order_N]
            held_out = CountTensor.of_canonical(
                held_out.axes, indices_NM, counts_N, part=held_out.part
            )
        empty = draw_empty_cells(held_out, EMPTY, seed, base_BM=base_BM)
        filled_NM, counts_N, weight_Z = held_out.indices, held_out.counts, empty.weight_Z
        step = -(-len(filled_NM) // MOST_FILLED)
        if step > 1:
            rng = np.random.default_rng([seed, 5])
            some = np.sort(rng.choice(len(filled_NM), len(filled_NM) // step, replace=False))
            weight_Z = weight_Z * (len(some) / len(filled_NM))
            filled_NM, counts_N = np.asfortranarray(filled_NM[some]), counts_N[some]
        return cls(filled_NM, counts_N, np.asfortranarray(empty.indices_ZM), weight_Z)

    def __len__(self) -> int:
        """Return the number of cells that have a count."""
        return len(self.filled_NM)

    @cached_property
    def fewer(self) -> OccurrenceCells:
        """Some of the cells, enough to see when passes stop to help."""
        steps = [
            -(-len(part) // most)
            for part, most in zip((self.filled_NM, self.empty_ZM), LOOKED_AT, strict=True)
        ]
        some_N, some_Z = (slice(None, None, max(step, 1)) for step in steps)
        weight_Z = self.weight_Z[some_Z] * max(steps[1], 1) / max(steps[0], 1)
        filled_NM, empty_ZM = self.filled_NM[some_N], self.empty_ZM[some_Z]
        return OccurrenceCells(
            np.asfortranarray(filled_NM),
            self.counts_N[some_N],
            np.asfortranarray(empty_ZM),
            weight_Z,
        )

    def score(self, rates: Rates) -> float:
        """Return the calibrated log score of the cells at some rates, per cell with a count."""
        log_N, log_Z = (
            np.log(np.maximum(rates(c), 1e-300)) for c in (self.filled_NM, self.empty_ZM)
        )
        return best_line(log_N, log_Z, self.weight_Z)[2]

    def count_score(self, rates: Rates) -> float:
        """Return the log pmf of Poisson counts, those of zero too, per cell with a count."""
        log_pmf_N = COUNTS["poisson", False].log_pmf(self.counts_N, rates(self.filled_NM))
        total = self.group.all_reduce(log_pmf_N.sum() - self.weight_Z @ rates(self.empty_ZM))
        return float(total / (self.n_filled or len(self)))

    def of_rows(self, own: OwnRows, group: ProcessGroup) -> OccurrenceCells:
        """Return those of the cells whose factors live in this process."""
        here_N, here_Z = own.has(self.filled_NM), own.has(self.empty_ZM)
        return OccurrenceCells(
            own.positions(self.filled_NM[here_N]),
            self.counts_N[here_N],
            own.positions(self.empty_ZM[here_Z]),
            self.weight_Z[here_Z],
            group,
            len(self),
        )


def _gathered(indices_NM: Positions, group: ProcessGroup) -> tuple[Positions, npt.NDArray[np.intp]]:
    """Return the cells of all processes in their order, and where each stood."""
    all_NM = group.all_gather(indices_NM)
    order_N = np.lexsort(all_NM.T[::-1])
    return np.asfortranarray(all_NM[order_N]), order_N


def log_score(log_N: Floats, log_Z: Floats, weight_Z: Floats) -> float:
    """Return the mean log probability of a count minus that of the empty cells.

    P(no count) = exp(-rate); per cell with a count.

    Examples
    --------
    >>> round(log_score(np.zeros(1), np.array([-2.0]), np.array([3.0])), 4)
    -0.8647
    """
    log_N, log_Z = np.clip(log_N, LOWEST, HIGHEST), np.clip(log_Z, LOWEST, HIGHEST)
    seen_N = np.log(-np.expm1(-np.exp(log_N)))
    return float((seen_N.sum() - weight_Z @ np.exp(log_Z)) / len(log_N))


def slopes(log_N: Floats, log_Z: Floats, weight_Z: Floats) -> tuple[Floats, Floats]:
    """Return the derivative of `log_score` by the log rate of each cell."""
    rate_N, rate_Z = (
        np.exp(np.clip(log_N, LOWEST, HIGHEST)),
        np.exp(np.clip(log_Z, LOWEST, HIGHEST)),
    )
    by_N = rate_N * np.exp(-rate_N) / -np.expm1(-rate_N)
    inside_N, inside_Z = (abs(log - np.clip(log, LOWEST, HIGHEST)) == 0 for log in (log_N, log_Z))
    return inside_N * by_N / len(log_N), inside_Z * (-weight_Z * rate_Z) / len(log_N)


def best_line(log_N: Floats, log_Z: Floats, weight_Z: Floats) -> tuple[float, float, float]:
    """Return the shift and slope of log rates with the best score, and that score.

    Newton's steps with a line search; the score is concave in both.

    Examples
    --------
    >>> shift, slope, _ = best_line(np.zeros(5), np.zeros(5), np.ones(5))
    >>> round(shift, 3), round(slope, 3)
    (-0.367, 1.0)
    """
    centre = float(np.mean(log_N))
    at_N, at_Z = log_N - centre, log_Z - centre
    x_2 = np.array([centre, 1.0])
    best = log_score(log_N, log_Z, weight_Z)
    for _ in range(20):
        slope_N, slope_Z = slopes(x_2[0] + x_2[1] * at_N, x_2[0] + x_2[1] * at_Z, weight_Z)
        gradient_2 = np.array(
            [slope_N.sum() + slope_Z.sum(), slope_N @ at_N + slope_Z @ at_Z - 1e-6 * (x_2[1] - 1)]
        )
        rate_N = np.exp(np.clip(x_2[0] + x_2[1] * at_N, LOWEST, HIGHEST))
        bend_N = slope_N * (rate_N / -np.expm1(-rate_N) - 1)  # minus the second derivative
        bend_Z = -slope_Z
        both = float(bend_N @ at_N + bend_Z @ at_Z)
        hessian = np.array(
            [
                [bend_N.sum() + bend_Z.sum(), both],
                [both, float(bend_N @ at_N**2 + bend_Z @ at_Z**2)],
            ]
        ) + np.diag([1e-9, 1e-6])
        step_2 = np.linalg.solve(hessian, gradient_2)
        for _ in range(8):
            new_2 = x_2 + step_2
            score = log_score(new_2[0] + new_2[1] * at_N, new_2[0] + new_2[1] * at_Z, weight_Z)
            if score > best and new_2[1] > 0:
                break
            step_2 = step_2 / 4
        else:
            break
        gain, x_2, best = score - best, new_2, score
        if gain < 1e-7:
            break
    return float(x_2[0] - x_2[1] * centre), float(x_2[1]), best
