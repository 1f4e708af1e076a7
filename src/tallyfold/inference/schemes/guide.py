"""Where factors start, if not at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_START = 1e-3
"""Of a factor, relative to the mean of its component: what starts at zero would stay there."""


@dataclass(frozen=True)
class Guide:
    """What is known of components before a fit.

    Attributes
    ----------
    starts
        For each axis, factors to start from instead of random ones (labels x components), one on
        average.
    """

    starts: tuple[Floats, ...]

    @classmethod
    def from_profiles(cls, profiles: Sequence[Floats], share_K: Floats) -> Guide:
        """Start from what components say of labels, and from their shares of the rate.

        Examples
        --------
        >>> guide = Guide.from_profiles([np.array([[0.5, 0], [0.5, 1]])] * 2, np.array([0.2, 0.8]))
        >>> first, second = guide.starts
        >>> round(float(sum(np.outer(*pair).sum() for pair in zip(first.T, second.T))), 1)
        8.0
        """
        size_K = (share_K * len(share_K)) ** (1 / len(profiles))
        starts = []
        for weight_DK in profiles:
            mean_K = np.maximum(weight_DK.mean(axis=0), 1e-300)
            starts.append(np.maximum(weight_DK / mean_K, LEAST_START) * size_K)
        return cls(tuple(starts))


def first_factors(guide: Guide | None, axis: int, noise_DK: Floats) -> Floats:
    """Return the factors of an axis to start from, around one: those of a guide, or noise."""
    return noise_DK if guide is None else guide.starts[axis]
