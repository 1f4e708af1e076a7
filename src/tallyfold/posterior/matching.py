"""Components of several fits: which is which, and which come back in most of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.posterior.factors import Factors
from tallyfold.posterior.likeness import overlaps

RECURS = 0.5
"""A component recurs in a fit that has one with at least this overlap, on all axes together."""
MOST, SOME = 0.5, 1 / 3
"""Components that recur in at least this share of the fits are kept; or in some, if need be."""


class Profiles(NamedTuple):
    """What the components of a fit say of labels, those switched off left out.

    Attributes
    ----------
    weights
        Per axis, each label's share of a component (labels x components).
    share_K
        Each component's share of the rate.
    names
        What was asked for by name, such as a seeded component; None for the others. Empty: nothing.
    """

    weights: tuple[Floats, ...]
    share_K: Floats
    names: tuple[str | None, ...] = ()

    @classmethod
    def of(cls, factors: Factors, names: Sequence[str | None] = ()) -> Profiles:
        """Take the components of a fit that are not switched off."""
        on_K = ~factors.switched_off()
        means = [factors.mean(name)[:, on_K] for name in factors.names]
        weights = [mean_DK / np.maximum(mean_DK.sum(axis=0), 1e-300) for mean_DK in means]
        named = [name for name, on in zip(names, on_K, strict=False) if on]
        return cls(tuple(weights), factors.shares()[on_K], tuple(named))

    @property
    def known_names(self) -> tuple[str | None, ...]:
        """The names, one for each component."""
        return self.names or (None,) * len(self.share_K)


def matched_overlaps(own: Profiles, other: Profiles) -> Floats:
    """Return the overlap of each component with its partner in another fit; 0 without one.

    Partners are those with the largest sum of overlaps, each component having one at most. Of
    components that were asked for by name, those of the same name are partners.
    """
    from scipy.optimize import linear_sum_assignment

    overlap_KL = overlaps(own.weights, other.weights)
    found_K = np.zeros(len(own.share_K))
    same_KL, different_KL = _by_name(own.known_names, other.known_names)
    overlap_KL[different_KL] = 0.0
    # two is more than any two other pairs could have
    rows, columns = linear_sum_assignment(overlap_KL + 2.0 * same_KL, maximize=True)
    found_K[rows] = overlap_KL[rows, columns]
    return found_K


def _by_name(own: Sequence[str | None], other: Sequence[str | None]) -> tuple[Mask, Mask]:
    """Return which pairs have the same name, and which have two different ones."""
    pairs = [[(a, b) for b in other] for a in own]
    same = [[a is not None and a == b for a, b in row] for row in pairs]
    different = [[None not in (a, b) and a != b for a, b in row] for row in pairs]
    return np.array(same, dtype=bool), np.array(different, dtype=bool)


def mutual_overlaps(fits: Sequence[Profiles]) -> Floats:
    """Return, for each fit, the mean overlap of its components with their partners in others."""
    return np.array(
        [
            np.mean([matched_overlaps(own, other).mean() for other in fits if other is not own])
            for own in fits
        ]
    )


def recurring(fits: Sequence[Profiles], least: float = MOST) -> Profiles | None:
    """Return the centres of groups of components that come back in most fits; None if none do.

    Most are a share `least` of them, and two fits.

    Components of all fits are joined, the most alike first, by the average distance of groups, as
    long as this is that of an overlap of `RECURS`. Components of one fit count as wholly different:
    a fit that tells two apart speaks against joining them; components of the same name are one
    group. A centre has the mean of what the components of a group say of labels, and of their
    shares in the fits that have them.
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    axes = zip(*(fit.weights for fit in fits), strict=True)
    pooled = [np.concatenate(parts, axis=1) for parts in axes]
    fit_P = np.repeat(np.arange(len(fits)), [len(fit.share_K) for fit in fits])
    share_P = np.concatenate([fit.share_K for fit in fits])
    if len(fit_P) < 2:
        return None
    distance_PP = np.sqrt(1 - overlaps(pooled, pooled))
    names = [name for fit in fits for name in fit.known_names]
    same_PP, different_PP = _by_name(names, names)
    distance_PP[different_PP | (fit_P[:, None] == fit_P)] = 1.0
    distance_PP[same_PP] = 0.0
    links = linkage(distance_PP[np.triu_indices(len(fit_P), 1)], "average")
    group_P = fcluster(links, np.sqrt(1 - RECURS), "distance")
    kept = [
        np.flatnonzero(group_P == group)
        for group in np.unique(group_P)
        if len(set(fit_P[group_P == group])) >= max(2.0, least * len(fits))
    ]
    if not kept:
        return None
    weights = [
        np.stack([weight_DP[:, rows].mean(axis=1) for rows in kept], axis=1) for weight_DP in pooled
    ]
    share_K = np.array([share_P[rows].sum() / len(set(fit_P[rows])) for rows in kept])
    known = [next((names[row] for row in rows if names[row]), None) for rows in kept]
    return Profiles(tuple(weights), share_K / share_K.sum(), tuple(known))
