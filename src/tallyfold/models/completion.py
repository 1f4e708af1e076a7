"""What follows the loop of a fit: the count head, and the calibration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tallyfold.data.split import checked_groups
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit.calibration import MOST_CELLS, calibrate
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.inference.head.cells import HeadCells
from tallyfold.inference.head.step import HeadState, compared, head_phases, trained_head
from tallyfold.models.fitted import Fitted, Moments
from tallyfold.models.parameters import Scale


def fit_groups(groups: npt.ArrayLike, tensor: CountTensor) -> npt.NDArray[np.int64]:
    """Return the groups that a fit is given, one process or none."""
    if current_group().size > 1:
        raise ParameterError(
            "`groups` cannot be given in several processes: cells of a group may be in different "
            "ones. Fit in one process, or leave them out."
        )
    return checked_groups(groups, tensor)


def head_phases_for(
    tensor: CountTensor,
    held_out: CountTensor | None,
    scale: Scale,
    seed: int,
    groups_N: npt.NDArray[np.int64] | None = None,
) -> list[Phase]:
    """Return the phases that train a count head, on all cells; `held_out` are those of a fit."""
    ends = None if scale is None else "auto" if isinstance(scale, str) else (scale[0], scale[1])
    first = None if held_out is None else TrainingCells(held_out)
    return head_phases(HeadCells.of(TrainingCells(tensor), ends, seed, first, groups_N), seed)


def without_head(outcome: Outcome) -> Outcome:
    """Return the outcome of the phases before those of a head."""
    state = outcome.state
    return outcome._replace(state=state.before if isinstance(state, HeadState) else state)


def with_head(fitted: Fitted, outcome: Outcome, phases: Sequence[Phase]) -> Fitted:
    """Return the result of a fit with the head that it trained, if it did."""
    if not isinstance(outcome.state, HeadState):
        return fitted
    return replace(fitted, head=trained_head(outcome, phases))


def calibrated(
    fitted: Fitted,
    moments: Moments,
    outcome: Outcome,
    phases: Sequence[Phase],
    held_out: CountTensor,
) -> Fitted:
    """Fit scale, exponent and dispersion of the predictive to cells the factors have not seen.

    `moments` gives mean and variance of the rates of cells.

    A head is left out if the calibrated distribution of the rates surely predicts them better.
    """
    assert fitted.likelihood is not None
    cells = HeldOutCells(held_out)
    some = cells.every(-(-cells.n_cells // MOST_CELLS))
    counts, mean, variance = (
        cells.group.all_gather(array)
        for array in (cells.counts_N[some], *moments(cells.indices_NM[some]))
    )
    calibration = calibrate(counts, mean, variance, fitted.likelihood, fitted.dispersion)
    fitted, head = replace(fitted, calibration=calibration, head=None), fitted.head
    log_pmf_N = (
        fitted.predictive(cells.indices_NM, moments).given_positive().log_pmf(cells.counts_N)
    )
    if head is None:
        score = cells.group.all_reduce_number(float(log_pmf_N.sum())) / cells.n_cells
    else:
        head, score = compared(head, outcome, phases, cells, log_pmf_N)
    return replace(fitted, head=head, validation_score=score + (fitted.validation_score or 0.0))
