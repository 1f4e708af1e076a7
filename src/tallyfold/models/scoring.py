"""The score of held-out cells: of those with a count, or of all cells of a part, zeros included."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.empty_cells import EmptyCells, draw_empty_cells, weighted_sum
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError
from tallyfold.models.cells import Unknown, cell_positions, counts_like
from tallyfold.posterior.component_names import TIMES, kind_of
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.mixture import CountMixture

if TYPE_CHECKING:
    from tallyfold.models.fitted_model import FittedModel

Floats = npt.NDArray[np.float64]

_log = logging.getLogger("tallyfold")

ALONG_AN_AXIS = ("auc-within", "recall-10", "recall-20", "ndcg-20")
"""Scores that rank the labels of one axis for given labels of all others."""
EMPTY_CELLS = 300_000
"""How many empty cells are drawn to score a part that has too many to list."""
CELLS_AT_ONCE = 1 << 18


class CellScores(NamedTuple):
    """Log predictive probabilities of all cells of a part, per cell that has a count.

    Attributes
    ----------
    occurrence
        Of whether there is a count, over zeros and non-zeros.
    amount
        Of how many, given that there is at least one.
    error
        The standard error of `occurrence` that comes from drawing empty cells; 0 if all of them
        are listed.
    """

    occurrence: float
    amount: float
    error: float

    @property
    def total(self) -> float:
        """The log probability of all counts, zeros included, per cell that has one."""
        return self.occurrence + self.amount


def ranked_axis(axes: Sequence[Axis]) -> str:
    """Return the axis whose labels such scores rank if nobody says, and that others name.

    It is the one with the most labels, but for those of times or with another order: nobody asks
    for the next month of a user and a shop.

    Examples
    --------
    >>> from tallyfold.data.axis_order import AxisOrder
    >>> ranked_axis([Axis("user", ["ann", "bob"]), Axis("day", [1, 2, 3], AxisOrder("ordered"))])
    'user'
    >>> ranked_axis([Axis("user", ["ann", "bob"]), Axis("day", ["2024-05-01", "2024-05-02", "x"])])
    'user'
    """

    def rank(axis: Axis) -> tuple[bool, int]:
        return axis.order is None and kind_of(axis.labels) != TIMES, len(axis)

    return max(axes, key=rank).name


def with_axis(score: str, axes: Sequence[Axis]) -> str:
    """Return a score's name, with the axis whose labels it ranks, if it does.

    Examples
    --------
    >>> axes = [Axis("user", ["ann", "bob", "eve"]), Axis("day", [1, 2])]
    >>> with_axis("auc-within", axes), with_axis("occurrence", axes)
    ('auc-within (user)', 'occurrence')
    """
    return f"{score} ({ranked_axis(axes)})" if score in ALONG_AN_AXIS else score


def knows_zeros(model: FittedModel, predictive: CountDistribution) -> bool:
    """Return whether a fitted model says how probable a zero is: its zeros are observed."""
    if model.fitted_.parameters.get("zeros") == "missing":
        return False
    given_positive = isinstance(predictive, CountMixture) and predictive.likelihood.truncated
    return predictive.with_zeros() is not None and not given_positive


def log_zeros(
    model: FittedModel, tensor: CountTensor, cells_ZM: npt.NDArray[np.int32], unknown: Unknown
) -> Floats:
    """Return the log probability of a zero in cells, by their positions on a tensor's axes."""
    parts = [np.empty(0)]
    for start in range(0, len(cells_ZM), CELLS_AT_ONCE):
        some = cells_ZM[start : start + CELLS_AT_ONCE]
        cells = CountTensor.of_canonical(tensor.axes, some, np.ones(len(some), np.int64))
        parts.append(model._log_zero(cell_positions(model.axes_, cells, unknown)))
    return np.concatenate(parts)


def scores_over_all_cells(
    predictive: CountDistribution, tensor: CountTensor, empty: EmptyCells, log_zero_Z: Floats
) -> CellScores:
    """Return the scores of a part: `predictive` is of its non-zero cells."""
    any_N = predictive.log_at_least(1)
    amount = float(np.mean(predictive.log_pmf(tensor.counts) - any_N))
    zeros, error = weighted_sum(empty, log_zero_Z)
    occurrence = (float(any_N.sum()) + zeros) / tensor.nnz
    return CellScores(occurrence, amount, error / tensor.nnz)


@cache
def say_counts_only() -> None:
    """Say once that zeros have no part in a score that could have them."""
    _log.warning(
        "the tensor is not known to be a part of all cells, so only its counts are scored, not its "
        "zeros. split(tensor, cells='all') holds out zeros, too, and teaches nothing hidden as one."
    )


def mean_log_score(model: FittedModel, tensor: CountTensor, unknown: Unknown) -> float:
    """Return the score of a tensor's cells; see `CountModel.score`."""
    tensor = counts_like(model.axes_, tensor)
    if tensor.nnz == 0:
        raise DataError("the tensor has no non-zero cell; there is nothing to score.")
    predictive = model.predictive(tensor, unknown=unknown)
    if tensor.part is None and knows_zeros(model, predictive):
        say_counts_only()
    if tensor.part is None or not knows_zeros(model, predictive):
        return float(np.mean(predictive.log_pmf(tensor.counts)))
    empty = draw_empty_cells(tensor, EMPTY_CELLS)
    log_zero_Z = log_zeros(model, tensor, empty.indices_ZM, unknown)
    return scores_over_all_cells(predictive, tensor, empty, log_zero_Z).total
