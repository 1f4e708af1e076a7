"""How alike components are: the overlap of what they say of labels, on all axes.

A component spreads its rate over cells as independent choices of a label per axis would. The
overlap of two such distributions (Bhattacharyya's coefficient, sum of sqrt(p q)) is the product of
their overlaps on the axes: one if they are the same, zero if one axis has no label in common.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyfold.kernels.arrays import Floats

Profiles = Sequence[Floats]
"""Per axis, the labels' weights in each component (labels x components)."""


def overlaps_by_axis(left: Profiles, right: Profiles) -> Floats:
    """Return the overlap of every component with every other one, axis by axis.

    Examples
    --------
    >>> first = [np.array([[1.0, 0.0], [1.0, 2.0]])]
    >>> overlaps_by_axis(first, first).round(3).tolist()
    [[[1.0, 0.707], [0.707, 1.0]]]
    """
    pairs = zip(left, right, strict=True)
    return np.stack([_roots(one_DK).T @ _roots(other_DK) for one_DK, other_DK in pairs])


def overlaps(left: Profiles, right: Profiles) -> Floats:
    """Return the overlap of every component with every other one, over all axes."""
    return np.asarray(np.clip(overlaps_by_axis(left, right).prod(axis=0), 0.0, 1.0))


def overlaps_with_all(profiles: Profiles, share_K: Floats) -> Floats:
    """Return the overlap of every component with main effects.

    They spread the whole rate by the labels' shares of it, on each axis by itself: with an overlap
    of one, a component says nothing but how frequent labels are.

    Examples
    --------
    >>> apart = [np.array([[1.0, 0.0], [0.0, 1.0]])] * 2
    >>> overlaps_with_all(apart, np.array([0.5, 0.5])).round(3).tolist()
    [0.5, 0.5]
    """
    together = [
        (each_DK / np.maximum(each_DK.sum(axis=0), 1e-300) @ share_K)[:, None]
        for each_DK in profiles
    ]
    return np.asarray(overlaps(profiles, together)[:, 0])


def _roots(weight_DK: Floats) -> Floats:
    return np.asarray(np.sqrt(weight_DK / np.maximum(weight_DK.sum(axis=0), 1e-300)))
