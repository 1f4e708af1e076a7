"""New entities, and new cells of known ones, taken into what a fit has left.

New cells are added to the sums that posteriors, combinations of labels and a count head are made
of: to the prior for a new entity, to what is there for a known one. No old cell is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.inference.occurrence.intake import KnownFit, take_in
from tallyfold.inference.occurrence.step import mirrored_places
from tallyfold.kernels.arrays import Mask, Positions
from tallyfold.models.cells import cell_positions, checked_tensor
from tallyfold.models.complete_logs import same_chance
from tallyfold.models.encoder_intake import EncoderIntake
from tallyfold.models.fitted import Fitted
from tallyfold.models.forecast import counted_steps
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.occurrence import NewCells


def fold_in(fitted: Fitted, counts: CountTensor, axis: str) -> Fitted:
    """Return the result of a fit with new entities of an axis."""
    number = _axis_number(fitted, counts, axis)
    return _taken_in(fitted, counts, [number], [number])


def partial(fitted: Fitted, counts: CountTensor) -> Fitted:
    """Return the result of a fit with the evidence of new cells of known entities."""
    return _taken_in(fitted, counts, [], range(len(fitted.axes)))


def update(fitted: Fitted, counts: CountTensor) -> Fitted:
    """Return the result of a fit with the evidence of new cells of known and new entities."""
    every = range(len(fitted.axes))
    return _taken_in(fitted, counts, every, every)


def _taken_in(
    fitted: Fitted, counts: CountTensor, longer: Sequence[int], changed: Sequence[int]
) -> Fitted:
    """Take new cells in: into the factors of some axes, and into the margins of a count head.

    Axes in `longer` may get new labels.
    """
    _check_cells(counts)
    _check_zeros(fitted)
    before = fitted
    fitted = _with_new_entities(fitted, counts, longer)
    positions_NM = _known_positions(fitted, counts)
    if fitted.forecaster is not None:
        fitted = _with_memory(before, fitted, counts, positions_NM)
    if fitted.occurrence is not None:
        fitted = _with_occurrence(before, fitted, counts, positions_NM, changed)
    elif "n_known" in fitted.extra:
        fitted = _with_same_chance(before, fitted, counts, positions_NM)
    elif fitted.factors is not None:
        fitted = EncoderIntake(fitted, positions_NM, counts.counts, changed).result()
    if fitted.head is None:
        return fitted
    sizes = [len(axis) for axis in fitted.axes]
    head = fitted.head.added(positions_NM, counts.counts, sizes)
    return replace(fitted, head=head)


def _with_occurrence(
    before: Fitted,
    longer: Fitted,
    counts: CountTensor,
    positions_NM: Positions,
    changed: Sequence[int],
) -> Fitted:
    """Return what tells whether there is a count, with new cells."""
    assert isinstance(before.factors, GammaFactors)
    assert isinstance(longer.factors, GammaFactors)
    assert before.occurrence is not None
    fit = KnownFit(
        before.factors.gammas, before.occurrence, float(before.parameters["prior_shape"])
    )
    mirror, places = before.occurrence.mirror, None
    if mirror is not None and longer.axes != before.axes:
        places = mirrored_places(*(longer.axes[axis] for axis in mirror.axes))
    n_filled = sum(each.counts_P.sum() for each in before.occurrence.sets[:1])
    known = _Known(before.axes, before.occurrence.share, before.occurrence.seen, n_filled)
    shares = known.shares(counts, positions_NM)
    shape = tuple(len(axis) for axis in longer.axes)
    cells = NewCells(positions_NM, shape, *shares, places)
    gammas, occurrence = take_in(fit, longer.factors.gammas, cells, changed)
    factors = GammaFactors(longer.factors.names, longer.factors.labels, gammas)
    return replace(longer, factors=factors, occurrence=occurrence)


def _with_memory(
    before: Fitted, longer: Fitted, counts: CountTensor, positions_NM: Positions
) -> Fitted:
    """Return the memory of earlier periods, with new cells: no number is learned again."""
    assert longer.forecaster is not None
    history = longer.forecaster.history
    step_D = counted_steps(before.axes[history.axis], longer.axes[history.axis], history.step_D)
    shape = [len(axis) for axis in longer.axes]
    history = history.added(positions_NM, counts.counts, shape, step_D)
    return replace(longer, forecaster=replace(longer.forecaster, history=history))


def _with_same_chance(
    before: Fitted, longer: Fitted, counts: CountTensor, positions_NM: Positions
) -> Fitted:
    """Return the one chance of a count that all cells have, with new cells."""
    n_filled, n_known = before.extra["n_known"].tolist()
    n_old, n_all = (math.prod(len(axis) for axis in each.axes) for each in (before, longer))
    every = [np.ones(len(axis), dtype=bool) for axis in before.axes]
    share, new_share = _Known(before.axes, n_known / n_old, every, n_filled).shares(
        counts, positions_NM
    )
    n_known = share * n_old + new_share * (n_all - n_old)
    return replace(longer, extra=same_chance(n_filled + counts.nnz, n_known))


class _Known(NamedTuple):
    """Which of all cells a fit knows: a share of those of the labels that it has seen.

    Attributes
    ----------
    axes, share
        Its axes, and the share.
    seen
        For each axis, which labels it has seen.
    n_filled
        How many cells with a count.
    """

    axes: Sequence[Axis]
    share: float
    seen: Sequence[Mask]
    n_filled: float

    def shares(self, counts: CountTensor, positions_NM: Positions) -> tuple[float, float]:
        """Return which share of the cells of known labels, and of new ones, will be known.

        A part by hash (`split(cells="all")`) that holds cells of known labels brings the zeros that
        were hidden among them; in proportion, if it is of some of the labels. If it has fewer than
        half of the cells with a count that it then should have, it is a part of the new labels'
        cells.
        """
        part = counts.part
        if part is None or not part.n_hash_rules:
            return self.share, 1.0
        allowed = part.allowed(counts.axes)
        added, old_N = part.share, np.ones(counts.nnz, dtype=bool)
        for axis, seen_D, column_N in zip(self.axes, self.seen, positions_NM.T, strict=True):
            number = counts.axis_number(axis.name)
            labels = counts.axes[number].labels.filter(pa.array(allowed[number]))
            place_L, known_L = axis.find(labels)
            added *= float(seen_D[place_L[known_L]].sum() / max(seen_D.sum(), 1))
            old_N &= np.append(seen_D, False)[np.minimum(column_N, len(seen_D))]
        expected = self.n_filled * added / self.share
        added = 0.0 if old_N.sum() < expected / 2 else added
        return min(1.0, self.share + added), part.share


def _check_cells(counts: CountTensor) -> None:
    checked_tensor(counts, "counts")
    if counts.nnz == 0:
        raise DataError("the tensor of new cells has no non-zero cell; there is nothing to add.")


def _check_zeros(fitted: Fitted) -> None:
    """Refuse new cells where what their empty cells say cannot be told."""
    occurrence = fitted.occurrence
    told = occurrence is not None and occurrence.prior_rate_M is not None
    told |= fitted.forecaster is not None
    if fitted.parameters["zeros"] == "observed" and not (told or "n_known" in fitted.extra):
        raise ParameterError(
            "this model of observed zeros was saved by an earlier version, which did not keep what "
            "empty cells of new entities say. Fit again to take in new cells, or use "
            "zeros='missing'."
        )


def _known_positions(fitted: Fitted, counts: CountTensor) -> Positions:
    """Return where the new cells are; refuse labels the model does not know."""
    positions_NM = np.asfortranarray(cell_positions(fitted.axes, counts, "prior"))
    for number, axis in enumerate(fitted.axes):
        unknown = np.flatnonzero(positions_NM[:, number] < 0)
        if len(unknown):
            given = counts.axis(axis.name)
            place = counts.indices[unknown[0], counts.axis_number(axis.name)]
            raise LabelError(
                f"the model does not know {given.label(int(place))!r} on axis {axis.name!r} "
                f"({len(unknown):,} cells have such a label). `update` takes new labels of all "
                "axes; or leave these cells out."
            )
    return positions_NM


def _axis_number(fitted: Fitted, counts: CountTensor, axis: str) -> int:
    """Check what is given for new entities; return their axis's position."""
    _check_cells(counts)
    names = [each.name for each in fitted.axes]
    if axis not in names or axis not in counts.names:
        raise LabelError(f"there is no axis {axis!r} in both; the model has {', '.join(names)}.")
    number = names.index(axis)
    _, known = fitted.axes[number].find(counts.axis(axis).labels)
    if known.any():
        label = counts.axis(axis).label(int(np.flatnonzero(known)[0]))
        raise LabelError(
            f"{label!r} on axis {axis!r} is known already. New cells of known entities go in with "
            "`partial`; `counts.filter` or `compact` leaves out labels without a cell."
        )
    return number


def _with_new_entities(fitted: Fitted, counts: CountTensor, numbers: Sequence[int]) -> Fitted:
    """Give some axes the labels that they do not know yet, each as an average entity for now."""
    axes = list(fitted.axes)
    for number in numbers:
        axes[number] = _longer(axes[number], counts)
    fitted, before = replace(fitted, axes=tuple(axes)), fitted.axes
    if not isinstance(fitted.factors, GammaFactors) or fitted.axes == before:
        return fitted
    gammas = fitted.factors.gammas
    for number in numbers:
        rows = np.minimum(np.arange(len(axes[number]) + 1), len(before[number]))
        gammas = gammas.replace(number, gammas.axes[number].rows(rows))
    sizes = [len(each) for each in axes]
    gammas = replace(gammas, derived=tuple(each.resized(sizes) for each in gammas.derived))
    factors = GammaFactors(fitted.factors.names, [each.labels for each in axes], gammas)
    return replace(fitted, factors=factors)


def _longer(axis: Axis, counts: CountTensor) -> Axis:
    """Return an axis with the new labels among those of the cells."""
    if axis.name not in counts.names:  # said later
        return axis
    given = counts.axis(axis.name).labels
    if given.equals(axis.labels):
        return axis
    new = given.filter(pa.array(~axis.find(given)[1]))
    if not len(new):
        return axis
    labels = pa.concat_arrays([axis.labels, new.cast(axis.labels.type)])
    return Axis.of_distinct(axis.name, labels, axis.order)
