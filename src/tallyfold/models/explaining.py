"""What shows a component: its cells, the components like it, and its course along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tallyfold.data.axis import Axis
from tallyfold.data.ordering import places_of
from tallyfold.data.tensor import CountTensor
from tallyfold.errors import LabelError, ParameterError
from tallyfold.kernels import dispatch as kernels
from tallyfold.models.cells import cell_positions, counts_like
from tallyfold.models.component_tree import ComponentTree
from tallyfold.models.parameters import check_parameters, integer, number
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.likeness import overlaps, overlaps_by_axis

if TYPE_CHECKING:
    import pandas as pd

Floats = npt.NDArray[np.float64]


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
    all_N = np.maximum(kernels.cell_rates(means, positions_NM), 1e-300)
    keys_PM, row_N = np.unique(positions_NM[:, chosen], axis=0, return_inverse=True)
    sums = [np.bincount(row_N.ravel(), each_N, len(keys_PM)) for each_N in (own_N, all_N)]
    share_P = sums[0] / np.maximum(sums[1], 1e-300)
    # a cell shows a component that accounts for it, and that was sure to bring it about
    order = np.argsort(-share_P * -np.expm1(-sums[0]), kind="stable")[:top]
    labels = {
        factors.names[m]: factors.labels[m].take(keys_PM[order, column]).to_pandas()
        for column, m in enumerate(chosen)
    }
    total_P = np.bincount(row_N.ravel(), counts.counts, len(keys_PM)).astype(np.int64)
    return pd.DataFrame(labels | {"count": total_P[order], "share": share_P[order]})


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
