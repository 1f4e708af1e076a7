"""Labels and numbers as the page needs them: the weights of an axis, rounded or packed."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.data.ordering import MOST_NUMBERS, places_of
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.posterior.factors import Factors

LEVEL = 0.9
"""Of the intervals on the page; that of `Factors.components`."""

MOST_BYTES = 4_500_000
"""How much of a model goes into a page: three numbers per label and component, and labels."""

LONGEST_LABEL = 300
LOOKED_AT = 1000
"""Labels that are looked at to tell how long those of an axis are."""

DIGITS = 4
FLOOR = 1e-12
"""Packed numbers below it are taken as zero."""

STEPS = 65_534
"""Codes for the range of the logarithms; code 0 is zero itself."""


Weights = tuple[Floats, Floats, Floats]
"""Shares of the labels in each component, and the ends of their intervals (labels x components)."""


def weights_of(factors: Factors, axis: str, components: Ints) -> Weights:
    """Return the weights that `Factors.components` tabulates, of all labels in some components."""
    mean_DK = factors.mean(axis)[:, components]
    total_K = np.maximum(mean_DK.sum(axis=0), 1e-300)
    low_DK, high_DK = (
        factors.quantile(axis, (1 + side * LEVEL) / 2)[:, components] for side in (-1, 1)
    )
    return mean_DK / total_K, low_DK / total_K, high_DK / total_K


def axis_entry(
    name: str,
    labels: Any,
    weights: Weights,
    share_K: Floats,
    limit: int,
    counted_D: Ints | None,
    expected_D: Floats | None = None,
) -> dict[str, Any]:
    """Return what the page knows of an axis: its labels, their order and their weights."""
    mean_DK, low_DK, high_DK = weights
    overall_D = mean_DK @ share_K
    if expected_D is not None:
        expected_D = expected_D / max(expected_D.sum(), 1e-300)
    kept = kept_labels(low_DK, overall_D, limit)
    labels_kept = labels.take(kept)
    texts = distinct([label_text(label) for label in labels_kept.to_pylist()])
    order = order_entry(labels_kept)
    rank = np.argsort(-overall_D[kept] if order is None else order["places"], kind="stable")
    kept = kept[rank]
    certain = np.array_equal(low_DK, high_DK)  # plain numbers have no intervals
    return {
        "name": name,
        "size": len(labels),
        "labels": [texts[place] for place in rank],
        "order": order and {"kind": order["kind"], "line": order["line"]},
        "places": order and [order["places"][place] for place in rank],
        "mean": packed(mean_DK[kept]),
        "low": None if certain else packed(low_DK[kept]),
        "high": None if certain else packed(high_DK[kept]),
        "expected": None if expected_D is None else packed(np.maximum(expected_D[kept], FLOOR)),
        "counted": None if counted_D is None else counted_D[kept].tolist(),
    }


def order_entry(labels: Any) -> dict[str, Any] | None:
    """Return where labels stand on a line, times in days; None if they are just names."""
    place_D = places_of(labels) if len(labels) > 1 else None
    if place_D is None:
        return None
    if np.issubdtype(place_D.dtype, np.datetime64):
        seconds_D = place_D.astype("datetime64[s]").astype(np.int64)
        return {"kind": "time", "places": (seconds_D / 86_400).tolist(), "line": True}
    return {"kind": "number", "places": place_D.tolist(), "line": len(labels) <= MOST_NUMBERS}


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


def label_bytes(labels: Any, n_components: int) -> int:
    """Return about how many bytes of the page a label takes, with its weights.

    Examples
    --------
    >>> import pyarrow as pa
    >>> label_bytes(pa.array(["Ann", "Bob"]), n_components=10)
    99
    """
    step = max(1, len(labels) // LOOKED_AT)
    some = [label_text(label).encode() for label in labels[::step].to_pylist()]
    return 8 * n_components + 16 + max(1, sum(map(len, some)) // max(1, len(some)))


def limits(sizes: Sequence[int], costs: Sequence[int]) -> list[int]:
    """Share out the room in a page among axes: short axes whole, the long ones alike.

    Examples
    --------
    >>> limits([50_000, 12, 70_000], costs=[100, 100, 100])
    [22494, 12, 22494]
    """
    room = MOST_BYTES
    given = [0] * len(sizes)
    by_size = sorted(range(len(sizes)), key=lambda axis: sizes[axis] * costs[axis])
    for number, axis in enumerate(by_size):
        share = room // (len(sizes) - number)
        given[axis] = min(sizes[axis], max(1, share // costs[axis]))
        room -= given[axis] * costs[axis]
    return given


def label_text(label: Any) -> str:
    """Return a label as text: midnights lose their time; endless texts say how long they are.

    Examples
    --------
    >>> import datetime
    >>> label_text(datetime.datetime(2024, 5, 1))
    '2024-05-01'
    >>> label_text("word " * 100)[-22:]
    'ord … (500 characters)'
    """
    text = str(label).removesuffix(" 00:00:00") if hasattr(label, "hour") else str(label)
    if len(text) <= LONGEST_LABEL:
        return text
    return f"{text[:LONGEST_LABEL]}… ({len(text):,} characters)"


def distinct(texts: list[str]) -> list[str]:
    """Return texts with a number after those that are there already, so that each is an address.

    Examples
    --------
    >>> distinct(["a", "b", "a"])
    ['a', 'b', 'a [2]']
    """
    if len(set(texts)) == len(texts):
        return texts
    times: Counter[str] = Counter()
    found = []
    for text in texts:
        times[text] += 1
        found.append(text if times[text] == 1 else f"{text} [{times[text]}]")
    return found


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """Return a number with few significant digits; None for one that is not finite.

    Examples
    --------
    >>> rounded(0.123456), rounded(float("nan"))
    (0.1235, None)
    """
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{digits}g}")


def packed(values: npt.ArrayLike) -> dict[str, Any]:
    """Return non-negative numbers as base64 of 16-bit logarithms between two ends.

    With numbers between 1e-12 and 1 the relative error is below 0.03 %.

    Examples
    --------
    >>> packed([1.0, 0.0])
    {'from': 0.0, 'to': 0.0, 'codes': 'AQAAAA=='}
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    shown = array >= FLOOR
    logs = np.log(array[shown])
    low, high = (float(logs.min()), float(logs.max())) if logs.size else (0.0, 0.0)
    codes = np.zeros(array.shape, dtype="<u2")
    codes[shown] = 1 + np.rint((logs - low) / ((high - low) or 1.0) * STEPS)
    text = base64.b64encode(codes.tobytes()).decode("ascii")
    return {"from": low, "to": high, "codes": text}
