"""The labels of an axis and their weights in every component, as the page needs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.posterior.factors import Factors
from tallyfold.report.explorer.packing import packed
from tallyfold.report.ordering import order_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEVEL = 0.9
"""Of the intervals on the page; that of `Factors.components`."""

MOST_NUMBERS = 900_000
MOST_LABELS = 40_000
"""How much of a model goes into a page: three numbers per label and component, and labels."""

LONGEST_LABEL = 300


class Weights(NamedTuple):
    """Shares of the labels in each component, with the ends of their intervals."""

    mean_DK: Floats
    low_DK: Floats
    high_DK: Floats

    @property
    def certain(self) -> bool:
        """Whether there are no intervals: the factors are plain numbers."""
        return bool(np.array_equal(self.low_DK, self.high_DK))


def weights_of(factors: Factors, axis: str) -> Weights:
    """Return the weights that `Factors.components` tabulates, of all labels."""
    mean_DK = factors.mean(axis)
    total_K = np.maximum(mean_DK.sum(axis=0), 1e-300)
    ends = [factors.quantile(axis, (1 + side * LEVEL) / 2) for side in (-1, 1)]
    return Weights(mean_DK / total_K, ends[0] / total_K, ends[1] / total_K)


def axis_entry(
    name: str, labels: Any, weights: Weights, share_K: Floats, limit: int, counted_D: Ints | None
) -> dict[str, Any]:
    """Return what the page knows of an axis: its labels, their order and their weights."""
    overall_D = weights.mean_DK @ share_K
    kept = kept_labels(weights.low_DK, overall_D, limit)
    texts = [label_text(label) for label in labels.take(kept).to_pylist()]
    order = order_of(texts)
    rank = np.argsort(-overall_D[kept] if order is None else order.places, kind="stable")
    kept = kept[rank]
    entry: dict[str, Any] = {
        "name": name,
        "size": len(labels),
        "labels": [texts[place] for place in rank],
        "order": order and {"kind": order.kind, "line": order.line},
        "places": order and [order.places[place] for place in rank],
        "mean": packed(weights.mean_DK[kept]),
        "low": None if weights.certain else packed(weights.low_DK[kept]),
        "high": None if weights.certain else packed(weights.high_DK[kept]),
        "counted": None if counted_D is None else counted_D[kept].tolist(),
    }
    return entry


def kept_labels(low_DK: Floats, overall_D: Floats, limit: int) -> Ints:
    """Return the positions of the labels that stand first in some component.

    By their surely reached weight, or by how much that is above their weight overall.
    """
    if len(low_DK) <= limit:
        return np.arange(len(low_DK))
    best_D = np.full(len(low_DK), len(low_DK))
    lift_DK = low_DK / np.maximum(overall_D, 1e-300)[:, None]
    for column_D in (*low_DK.T, *lift_DK.T):
        order = np.argsort(-column_D, kind="stable")
        best_D[order] = np.minimum(best_D[order], np.arange(len(order)))
    return np.sort(np.argsort(best_D, kind="stable")[:limit])


def limits(sizes: Sequence[int], n_components: int) -> list[int]:
    """Share out the room in a page among axes: short axes whole, the long ones alike.

    Examples
    --------
    >>> limits([50_000, 12, 70_000], n_components=10)
    [14994, 12, 14994]
    """
    room = min(MOST_LABELS, MOST_NUMBERS // (3 * n_components))
    given = [0] * len(sizes)
    by_size = sorted(range(len(sizes)), key=lambda axis: sizes[axis])
    for number, axis in enumerate(by_size):
        given[axis] = min(sizes[axis], max(1, room // (len(sizes) - number)))
        room -= given[axis]
    return given


def label_text(label: Any) -> str:
    """Return a label as text: midnights lose their time, endless texts their end.

    Examples
    --------
    >>> import datetime
    >>> label_text(datetime.datetime(2024, 5, 1))
    '2024-05-01'
    """
    text = str(label).removesuffix(" 00:00:00") if hasattr(label, "hour") else str(label)
    return text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
