"""What shows a component: its cells, the components like it, and its course along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.ordering import places_of
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints, Whole
from tallyfold.models.cells import cell_positions, counts_like
from tallyfold.models.component_tree import ComponentTree
from tallyfold.models.fitted import Fitted
from tallyfold.models.parameters import check_parameters, integer, number
from tallyfold.posterior.component_names import BACKGROUND
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.likeness import overlaps, overlaps_by_axis, overlaps_with_all

if TYPE_CHECKING:
    import pandas as pd


ALIKE = 0.9
"""With such an overlap with main effects, or more, a component says next to nothing beyond them."""

CELLS_AT_A_TIME = 65_536


def examples(
    factors: Factors,
    axes: Sequence[Axis],
    counts: CountTensor,
    component: int,
    of: Sequence[str] | None,
    top: int,
) -> pd.DataFrame:
    """Return the cells, or combinations of labels, that show a component best."""
    import pandas as pd

    check_parameters({"top": top}, {"top": integer(1)})
    counts = counts_like(axes, counts, "counts")
    positions_NM = np.asfortranarray(cell_positions(axes, counts))
    chosen = _chosen_axes(factors, of)
    means = [factors.mean(name) for name in factors.names]
    own_N = kernels.cell_rates([mean[:, [component]] for mean in means], positions_NM)
    all_N = kernels.cell_rates(means, positions_NM)
    keys_PM, row_N = np.unique(positions_NM[:, chosen], axis=0, return_inverse=True)
    own_P, all_P = (
        np.bincount(row_N.ravel(), each_N, len(keys_PM)).astype(np.float64)
        for each_N in (own_N, all_N)
    )
    share_P, clear_P = _clearness(own_P, all_P)
    order = np.argsort(-clear_P, kind="stable")[:top]
    labels = {
        factors.names[m]: factors.labels[m].take(keys_PM[order, column]).to_pandas()
        for column, m in enumerate(chosen)
    }
    total_P = np.bincount(row_N.ravel(), counts.counts, len(keys_PM)).astype(np.int64)
    return pd.DataFrame(labels | {"count": total_P[order], "share": share_P[order]})


def expected_of_labels(fitted: Fitted, axis: str, components: slice = slice(None)) -> Floats | None:
    """Return what components expect of each label of an axis; None without a gate.

    With one their factors say what there is beyond the gate only.
    """
    factors = fitted.factors
    if fitted.gate is None or not isinstance(factors, GammaFactors):
        return None
    expected_DK = factors.expected(True, components)[factors.axis_number(axis)]
    return np.asarray(expected_DK.sum(axis=1))


def with_background(frame: pd.DataFrame, fitted: Fitted, axis: str, top: int) -> pd.DataFrame:
    """Return a list of components in which the background is last, by what it expects of labels.

    With a gate its factors say what is common beyond the gate; the gate's part is put in here, into
    weights and intervals alike.
    """
    import pandas as pd

    own = frame[frame["name"] == BACKGROUND]
    if own.empty:
        return frame
    factors, component = fitted.factors, int(own["component"].iloc[0])
    assert factors is not None
    number, column = factors.axis_number(axis), slice(component, component + 1)
    mean_D = factors.mean(axis)[:, component]
    gated_D = expected_of_labels(fitted, axis, column)
    expected_D = mean_D if gated_D is None else gated_D
    total = max(expected_D.sum(), 1e-300)
    order = np.argsort(-expected_D, kind="stable")[:top]
    weight_T = expected_D[order] / total
    ends = [factors.quantile(axis, p)[order, component] for p in (0.05, 0.95)]
    low_T, high_T = (weight_T * end_T / np.maximum(mean_D[order], 1e-300) for end_T in ends)
    labels = factors.labels[number].take(order).to_pandas()
    new = own.head(1).loc[own.index[:1].repeat(len(order))].reset_index(drop=True)
    new = new.assign(
        rank=np.arange(1, len(order) + 1), label=labels, weight=weight_T, low=low_T, high=high_T
    )
    return pd.concat([frame[frame["name"] != BACKGROUND], new], ignore_index=True)


def clearest_cells(
    factors: Factors, positions_NM: Whole, components: Ints, top: int
) -> list[tuple[Ints, Floats]]:
    """Return, for each of some components, the cells that show it best, and its share of them.

    They are those of `examples`, for all components in one pass over the cells.
    """
    means = [factors.mean(name) for name in factors.names]
    none = np.empty(0, np.int64), np.empty(0), np.empty(0)
    found = [none] * len(components)
    for start in range(0, len(positions_NM), CELLS_AT_A_TIME):
        part_BM = positions_NM[start : start + CELLS_AT_A_TIME]
        rate_BK = np.ones((len(part_BM), means[0].shape[1]))
        for mean_DK, row_B in zip(means, part_BM.T, strict=True):
            rate_BK *= mean_DK[row_B]
        own_BK, all_B1 = rate_BK[:, components], rate_BK.sum(axis=1)[:, None]
        share_BK, clear_BK = _clearness(own_BK, all_B1)
        least = max(0, len(part_BM) - top)
        bar_K = np.partition(clear_BK, least, axis=0)[least]
        for place, bar in enumerate(bar_K.tolist()):
            row_P = np.flatnonzero(clear_BK[:, place] >= bar)
            best = row_P + start, clear_BK[row_P, place], share_BK[row_P, place]
            found[place] = _first(found[place], best, top)
    return [(row_P, share_P) for row_P, _, share_P in found]


Cells = tuple[Ints, Floats, Floats]
"""Cells, how clearly they show a component, and its part of their rates."""


def _first(some: Cells, more: Cells, top: int) -> Cells:
    """Return the clearest of some cells and more of them that come later."""
    rows, clear, shares = (np.concatenate(pair) for pair in zip(some, more, strict=True))
    order = np.argsort(-clear, kind="stable")[:top]
    return rows[order], clear[order], shares[order]


def _clearness(own: Floats, total: Floats) -> tuple[Floats, Floats]:
    """Return a component's part of rates, and how clearly they show it.

    They do where it accounts for them, and was sure to bring about a count.
    """
    share = own / np.maximum(total, 1e-300)
    return share, share * -np.expm1(-own)


def _chosen_axes(factors: Factors, of: Sequence[str] | None) -> list[int]:
    if of is None:
        return list(range(len(factors.names)))
    if isinstance(of, str) or not len(of) or len(set(of)) < len(of):
        raise ParameterError(
            f"`of` must be different axes, such as [{factors.names[0]!r}], or None for whole "
            f"cells; got {of!r}."
        )
    return [factors.axis_number(name) for name in of]


def similar(factors: Factors, names: Sequence[str], component: int) -> pd.DataFrame:
    """Return the other components, the most alike first."""
    import pandas as pd

    means = [factors.mean(name) for name in factors.names]
    own = [mean_DK[:, [component]] for mean_DK in means]
    overlap_MK = overlaps_by_axis(own, means)[:, 0]
    listed = [k for k in _listed(factors) if k != component]
    frame = pd.DataFrame(
        {
            "component": listed,
            "name": [names[k] for k in listed],
            "share": factors.shares()[listed],
            "overlap": overlap_MK.prod(axis=0)[listed],
        }
        | {f"on {name}": overlap_MK[m, listed] for m, name in enumerate(factors.names)}
    )
    return frame.sort_values("overlap", ascending=False, kind="stable", ignore_index=True)


def tree(factors: Factors, names: Sequence[str]) -> ComponentTree:
    """Return a tree of the components that are not switched off."""
    listed = _listed(factors)
    means = [factors.mean(name)[:, listed] for name in factors.names]
    return ComponentTree.of(listed, [names[k] for k in listed], overlaps(means, means))


def beyond_main_effects(factors: Factors) -> str:
    """Return, in words, that components carry next to nothing beyond main effects, if so.

    That is where each has an overlap of at least `ALIKE` with main effects; else the text is empty.
    """
    listed = _listed(factors)
    if len(listed) < 2:
        return ""
    share_K = factors.shares()[listed]
    means = [factors.mean(name)[:, listed] for name in factors.names]
    least = float(overlaps_with_all(means, share_K / share_K.sum()).min())
    if least < ALIKE:
        return ""
    return (
        f"The {len(listed)} components carry next to nothing beyond main effects: all have their "
        f"labels in nearly the same shares, an overlap of at least {int(100 * least) / 100:.2f} "
        "where 1 is the same. They say how frequent labels are, not which go together."
    )


def _listed(factors: Factors) -> list[int]:
    return [int(k) for k in np.flatnonzero(~factors.switched_off())]


def course(
    factors: Factors, component: int, axes: Sequence[Axis], axis: str, level: float
) -> pd.DataFrame:
    """Return the weights of a component's labels along an ordered axis."""
    import pandas as pd

    check_parameters({"level": level}, {"level": number(0, 1)})
    number_of_axis = factors.axis_number(axis)
    labels = factors.labels[number_of_axis]
    place_D = places_of(labels)
    if place_D is None and axes[number_of_axis].order is not None:
        place_D = axes[number_of_axis].steps()
    if place_D is None:
        raise LabelError(
            f"the labels of axis {axis!r} have no order: they are no numbers, dates, time bins or "
            f"names of months or weekdays, such as {labels[0].as_py()!r}. components({axis!r}) "
            f"lists the strongest; ordered=[{axis!r}], where counts are read, declares an order."
        )
    order = np.argsort(place_D, kind="stable")
    mean_DK = factors.mean(axis)
    ends = [factors.quantile(axis, (1 + side * level) / 2)[:, component] for side in (-1, 1)]
    total = max(float(mean_DK[:, component].sum()), 1e-300)
    part_DK = mean_DK / np.maximum(mean_DK.sum(axis=0), 1e-300) * factors.shares()
    part_D = part_DK[:, component] / np.maximum(part_DK.sum(axis=1), 1e-300)
    return pd.DataFrame(
        {
            "label": labels.take(order).to_pandas(),
            "weight": mean_DK[order, component] / total,
            "low": ends[0][order] / total,
            "high": ends[1][order] / total,
            "part": part_D[order],
        }
    )
