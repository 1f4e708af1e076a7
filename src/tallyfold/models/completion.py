"""What follows the loop of a fit: the count head, and the calibration."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tallyfold.data.split import checked_groups
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import ParameterError
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit import large_files
from tallyfold.inference.fit.calibration import MOST_CELLS, calibrate
from tallyfold.inference.fit.large_files import rows_of_all, seen_by_all
from tallyfold.inference.fit.loop import Outcome, Phase
from tallyfold.inference.head.cells import HeadCells
from tallyfold.inference.head.step import HeadState, compared, head_phases, trained_head
from tallyfold.inference.occurrence.held_out import OccurrenceCells
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.models.fitted import Fitted, Moments
from tallyfold.models.parameters import Scale
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.margins import MOST_SETS, n_proper_subsets

_log = logging.getLogger("tallyfold")


@cache
def say_switched_off(number: int, n_components: int) -> None:
    """Say once how many components a fit has left without a part in the rates."""
    _log.warning(
        "%d of %d components are switched off: the data need no more. They are not listed: "
        "components(axis, least=0), or tallyfold components MODEL --component N, shows them.",
        number,
        n_components,
    )


def count_switched_off(fitted: Fitted) -> None:
    """Count the components that a fit has switched off; if there are any, say so."""
    if fitted.factors is None or not current_group().first:
        return
    off_K = fitted.factors.switched_off()
    if off_K.any():
        say_switched_off(int(off_K.sum()), len(off_K))


@cache
def say_margins(used: int, possible: int) -> None:
    """Say once that some combinations of axes are not learned from, and which."""
    _log.warning(
        "how many: learned from the margins of %d of %d combinations of axes. With five axes and "
        "more these are single axes, all but one, and pairs, at most %d; none has labels that "
        "combine in more ways than there are 64-bit numbers.",
        used,
        possible,
        MOST_SETS,
    )


def fit_groups(groups: npt.ArrayLike, tensor: CountTensor) -> Ints:
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
    groups_N: Ints | None = None,
) -> list[Phase]:
    """Return the phases that train a count head, on all cells; `held_out` are those of a fit."""
    ends = None if scale is None else "auto" if isinstance(scale, str) else (scale[0], scale[1])
    first = None if held_out is None else TrainingCells(held_out)
    cells = HeadCells.of(TrainingCells(tensor), ends, seed, first, groups_N)
    _ = cells.constant  # refuses counts outside of the scale, before anything is fitted
    used, possible = len(cells.axis_sets), n_proper_subsets(len(tensor.names))
    if used < possible and current_group().first:
        say_margins(used, possible)
    return head_phases(cells, seed)


def together(fitted: Fitted, cells: TrainingCells, folder: str | os.PathLike[str] | None) -> Fitted:
    """Return the result of a fit with all its factors, also those that live in other processes.

    Of a long axis they are put together in the folder of the fit's checkpoint, if there is one that
    all processes see: in memory each process has those that are asked for.
    """
    own, factors, group = cells.own_rows, fitted.factors, cells.group
    if own is None or not isinstance(factors, GammaFactors):
        return fitted

    def whole(rows: Floats) -> Floats:
        """Put the rows together; the last one, of labels never seen, all processes have."""
        mine = rows if group.rank == group.size - 1 else rows[:-1]
        large = rows[:1].nbytes * own.size >= large_files.LARGE
        if large and folder is not None and seen_by_all(Path(folder), group):
            return rows_of_all(Path(folder), mine, own.size + 1, group)
        return group.all_gather(mine)

    table = factors.gammas.axes[own.axis].each(whole)
    gammas = factors.gammas.replace(own.axis, table)
    return replace(fitted, factors=GammaFactors(factors.names, factors.labels, gammas))


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
    cells, head = HeldOutCells(held_out), fitted.head
    fitted = replace(fitted, head=None)
    whether = fitted.validation_score or 0.0
    if fitted.parameters["zeros"] == "observed" and fitted.occurrence is None:
        fitted, whether = _with_zeros(fitted, moments, held_out, cells)
    else:
        fitted = _without_zeros(fitted, moments, cells)
    log_pmf_N = (
        fitted.predictive(cells.indices_NM, moments).given_positive().log_pmf(cells.counts_N)
    )
    if head is None:
        score = cells.group.all_reduce_number(float(log_pmf_N.sum())) / cells.n_cells
    else:
        head, score = compared(head, outcome, phases, cells, log_pmf_N)
    return replace(fitted, head=head, validation_score=score + whether)


def _without_zeros(fitted: Fitted, moments: Moments, cells: HeldOutCells) -> Fitted:
    """Calibrate on cells that have a count."""
    assert fitted.likelihood is not None
    some = cells.every(-(-cells.n_cells // MOST_CELLS))
    counts, mean, variance = (
        cells.group.all_gather(array)
        for array in (cells.counts_N[some], *moments(cells.indices_NM[some]))
    )
    calibration = calibrate(counts, mean, variance, fitted.likelihood, fitted.dispersion)
    return replace(fitted, calibration=calibration)


def _with_zeros(
    fitted: Fitted, moments: Moments, held_out: CountTensor, cells: HeldOutCells
) -> tuple[Fitted, float]:
    """Calibrate on all cells; return also how well it is told whether they have a count."""
    assert fitted.likelihood is not None
    found = OccurrenceCells.of(held_out, cells.group, fitted.parameters["random_state"]).fewer
    filled, empty = moments(found.filled_NM), moments(found.empty_ZM)
    calibration = calibrate(
        np.append(found.counts_N, np.zeros(len(found.empty_ZM), dtype=np.int64)),
        np.append(filled[0], empty[0]),
        np.append(filled[1], empty[1]),
        fitted.likelihood,
        fitted.dispersion,
        weight_N=np.append(np.ones(len(found)), found.weight_Z),
    )
    fitted = replace(fitted, calibration=calibration)
    some_N = fitted.predictive(found.filled_NM, moments).log_at_least(1)
    none_Z = fitted.predictive(found.empty_ZM, moments).log_pmf(0)
    return fitted, float(some_N.sum() + found.weight_Z @ none_Z) / len(found)
