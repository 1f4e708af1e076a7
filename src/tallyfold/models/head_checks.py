"""Whether a count head read from a folder can be one, checked when a model is loaded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tallyfold.kernels.head_network import HeadNetwork
from tallyfold.posterior.count_head import N_RESIDUALS, CountHead
from tallyfold.posterior.mirror import Mirror
from tallyfold.posterior.neighbours import Neighbours
from tallyfold.posterior.occurrence import Occurrence
from tallyfold.posterior.occurrence_weights import OccurrenceWeights

MOST_PARAMETER = 1e6
MOST_LOG_PULL = 100.0
LEAST_SPREAD = 1e-7
"""What numbers of a head must stay within, whatever the cell."""


def check_head(head: CountHead, axes: Sequence[Any]) -> None:
    """Raise a ValueError that says what cannot be, if something cannot."""
    lower, base = head.bins.lower_B, head.base_B
    ordered = lower.ndim == 1 and len(lower) > 0 and lower[0] >= 1 and np.all(np.diff(lower) > 0)
    require(bool(ordered) and lower.dtype == np.int64, "bins of counts that are not in order")
    require(head.bins.upper is None or head.bins.upper == lower[-1], "a scale that cannot be")
    require(base.shape == lower.shape and bool(np.all(base > 0)), "shares of other bins")
    require((head.tail is None) == (head.bins.upper is not None), "a tail that cannot be")
    if head.tail is not None:
        require(-0.5 <= head.tail.offset <= 1e6, "a tail that cannot be")
    n_functions = len(head.statistics.thresholds_T) + 1
    require(head.statistics.mean_F.shape == (n_functions,), "functions of counts without a mean")
    require(_bounded(head.statistics.mean_F), "means of functions of counts that cannot be")
    require(len(head.stages) <= 2, "more stages than there are")
    for table in head.tables:
        _check_table(head, table, axes)
    single = {table.axes for table in head.tables if len(table.axes) == 1}
    there = not head.stages or single == {(axis,) for axis in range(len(axes))}
    require(there, "networks without the margins of every axis")
    known = all(0 <= axis < len(axes) for axis in head.averaged)
    require(known, "unknown labels of axes that are not there")
    for number, stage in enumerate(head.stages):
        n_inputs = len(head.tables) * (n_functions + 1 + N_RESIDUALS * number)
        network = HeadNetwork(n_inputs, stage.n_hidden, head.shapes_QB)
        fits = stage.params_MP.ndim == 2 and stage.params_MP.shape[1] == network.n_params
        require(fits and len(stage.params_MP) > 0, "networks of another size")
        require(stage.params_MP.dtype == np.float32, "networks of another type")
        sound = _bounded(stage.params_MP)
        require(sound, "networks whose parameters are beyond all bounds")
        shapes = stage.centre_D.shape == stage.spread_D.shape == (n_inputs,)
        require(shapes, "inputs of another size")
        sound = _bounded(stage.centre_D) and _bounded(stage.spread_D, LEAST_SPREAD)
        require(sound, "inputs of a range that cannot be")


def _check_table(head: CountHead, table: Any, axes: Sequence[Any]) -> None:
    own = set(table.axes)
    there = len(own) == len(table.axes) > 0 and own <= set(range(len(axes)))
    require(there, "margins of axes that are not there")
    sizes = tuple(len(axes[axis]) for axis in table.axes)
    require(table.sizes == sizes, "margins of axes of another size")
    keys = table.keys_P
    check_keys(keys, sizes)
    width = head.n_functions + (N_RESIDUALS if len(head.stages) == 2 else 0)
    there = table.sums.n_columns == width and len(table.sums) == len(keys)
    require(there, "sums of other combinations")
    require(bool(np.all(table.sums.columns[0] >= 0)), "sums that cannot be")
    fits = table.strength_F.shape == (width - 1,) and _bounded(table.strength_F, LEAST_SPREAD)
    require(fits, "margins whose pull to the mean cannot be")


def check_occurrence(occurrence: Occurrence, axes: Sequence[Any]) -> None:
    """Raise a ValueError that says what cannot be, if something cannot."""
    require(0 < occurrence.share <= 1, "a share of all cells that cannot be")
    seen = [seen_D.shape for seen_D in occurrence.seen]
    require(seen == [(len(axis),) for axis in axes], "labels of axes of another size")
    for each in occurrence.sets:
        own = set(each.axes)
        there = len(own) == len(each.axes) > 0 and own <= set(range(len(axes)))
        require(there, "combinations of axes that are not there")
        require(each.sizes == tuple(len(axes[m]) for m in each.axes), "axes of another size")
        check_keys(each.keys_P, each.sizes)
        counts_P = each.counts_P
        sound = counts_P.shape == each.keys_P.shape and counts_P.dtype in (np.int64, np.float64)
        require(sound and bool(np.all(counts_P > 0)), "counts of combinations that cannot be")
    if occurrence.neighbours is not None:
        _check_neighbours(occurrence.neighbours, axes)
    n_near = 0 if occurrence.neighbours is None else 1
    _check_weights(occurrence.weights, len(occurrence.sets), n_near)
    prior = occurrence.prior_rate_M
    sound = prior is None or (prior.shape == (len(axes),) and prior.dtype == np.float64)
    require(sound and (prior is None or bool(np.all(prior > 0))), "priors of other axes")
    if occurrence.mirror is not None:
        _check_mirror(occurrence.mirror, axes)
    mirrored = any(each.mirrored for each in occurrence.sets)
    require(not mirrored or occurrence.mirror is not None, "mirrors of axes without a mirror")


def _check_neighbours(near: Neighbours, axes: Sequence[Any]) -> None:
    sizes = tuple(len(axis) for axis in axes)
    require(near.sizes == sizes and 0 <= near.axis < len(axes), "baskets of axes not there")
    require(0 < near.share <= 1, "baskets of a share of all cells that cannot be")
    check_keys(near.keys_P, [sizes[m] for m in near.others])
    ends, n_labels = near.indptr_P1, sizes[near.axis]
    whole = ends.shape == (len(near.keys_P) + 1,) and ends.dtype == np.int64
    whole = whole and ends[0] == 0 and ends[-1] == len(near.labels_E) and _rising(ends)
    require(whole and near.labels_E.ndim == 1, "baskets that are not whole")
    lists = near.near_DL.shape == near.weight_DL.shape and near.near_DL.ndim == 2
    fits = lists and len(near.near_DL) <= n_labels and _bounded(near.weight_DL)
    require(fits and near.weight_DL.dtype == np.float64, "neighbours that cannot be")
    for labels in (near.labels_E, near.near_DL):
        inside = labels.dtype == np.int32 and bool(np.all((labels >= 0) & (labels < n_labels)))
        require(inside, "neighbours that are not there")
    require(all(map(_rising, near.near_DL)), "neighbours that are not in order")
    first_E = np.zeros(len(near.labels_E) + 1, dtype=bool)
    first_E[ends] = True
    require(bool(np.all((np.diff(near.labels_E) > 0) | first_E[1:-1])), "baskets out of order")


def _rising(numbers: Any) -> bool:
    return bool(np.all(np.diff(numbers) > 0))


def _check_weights(weights: OccurrenceWeights, n_sets: int, n_near: int) -> None:
    n_inputs, n_hidden = 2 * (n_sets + n_near + 1), len(weights.out_H)
    shapes = {
        "log_pull_S": (n_sets,), "power_S": (n_sets,), "line_2": (2,), "log_echo": (1,),
        "centre_D": (n_inputs,), "spread_D": (n_inputs,), "into_DH": (n_inputs, n_hidden),
        "bias_H": (n_hidden,), "out_H": (n_hidden,), "ceiling_3": (3,),
    }  # fmt: skip
    for name, shape in shapes.items():
        array = getattr(weights, name)
        require(array.shape == shape and _bounded(array), f"weights {name} that cannot be")
    require(_bounded(weights.spread_D, LEAST_SPREAD), "inputs of a range that cannot be")
    require(bool(np.all(np.abs(weights.log_pull_S) < MOST_LOG_PULL)), "pulls that cannot be")
    require(0 <= weights.ceiling_3[2] < 1, "probabilities that cannot be")


def _check_mirror(mirror: Mirror, axes: Sequence[Any]) -> None:
    sizes = tuple(len(axis) for axis in axes)
    first, second = mirror.axes
    require(0 <= first < second < len(axes), "a mirror of axes that are not there")
    require(mirror.sizes == sizes, "a mirror of axes of another size")
    check_keys(mirror.keys_P, sizes)
    sides = (mirror.to_second_D, first, second), (mirror.to_first_D, second, first)
    for places, own, other in sides:
        inside = places.shape == (sizes[own],) and places.dtype == np.int32
        inside = inside and bool(np.all((places >= -1) & (places < sizes[other])))
        require(inside, "a mirror of labels that are not there")
    require(-1 <= mirror.by < len(axes), "an echo of an axis that is not there")
    length = 1 if mirror.by < 0 else sizes[mirror.by]
    sound = mirror.echo_D.shape == (length,) and _bounded(mirror.echo_D, 0.0)
    require(sound, "an echo that cannot be")


def _bounded(array: Any, least: float = -MOST_PARAMETER) -> bool:
    return bool(np.all((array >= least) & (array <= MOST_PARAMETER)))


def check_keys(keys: Any, sizes: Sequence[int]) -> None:
    """Refuse combinations of axes of these sizes that are not in order, or not there."""
    ordered = keys.ndim == 1 and keys.dtype == np.int64 and bool(np.all(np.diff(keys) > 0))
    require(ordered, "combinations that are not in order")
    inside = not len(keys) or (keys[0] >= 0 and keys[-1] < math.prod(sizes))
    require(bool(inside), "combinations that are not there")


def require(holds: bool, otherwise: str) -> None:
    """Refuse what does not hold."""
    if not holds:
        raise ValueError(f"it has {otherwise}")
