"""Mixtures of fits: independent members whose predictive distributions are mixed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tallyfold.errors import InterruptedWarning
from tallyfold.inference.encoders.entity_dispersion import with_dispersions
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.interactions import with_interactions
from tallyfold.posterior.predictive import matched_mixture
from tallyfold.probability.mixture import CountMixture

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int32]


def fit_members(
    fit_one: Callable[[int, str | None], tuple[Fitted, bool]],
    n_members: int,
    checkpoint: str | os.PathLike[str] | None,
) -> Fitted:
    """Fit one member after the other; return the first, with the others in it.

    `fit_one` is given a member's number and where to checkpoint; it returns the member and whether
    its fit was interrupted. Ctrl-C keeps the members that are whole, and the one it came upon only
    if there is no other.
    """
    members: list[Fitted] = []
    stopped = False
    for number in range(n_members):
        place = None if checkpoint is None else os.path.join(checkpoint, f"member-{number}")
        try:
            member, stopped = fit_one(number, place)
            members.append(member)
        except KeyboardInterrupt:
            if not members:
                raise
            stopped = True
        if stopped:
            break
    if not stopped:
        return replace(members[0], others=tuple(members[1:]))
    whole = [each for each in members if each.reason != "interrupted"] or members
    warnings.warn(
        f"the fit was interrupted; the model has {len(whole)} of {n_members} members.",
        InterruptedWarning,
        stacklevel=3,
    )
    return replace(whole[0], others=tuple(whole[1:]), reason="interrupted")


def member_moments(member: Fitted, positions: Positions) -> tuple[Floats, Floats]:
    """Return mean and variance of the rates of cells under one member."""
    assert member.factors is not None
    moments = member.factors.rate_moments(positions)
    return with_interactions(member.interactions, positions, *moments)


def member_predictive(member: Fitted, positions: Positions) -> CountMixture:
    """Return the predictive distributions of cells under one member."""
    assert member.likelihood is not None
    moments = member_moments(member, positions)
    common = matched_mixture(*moments, member.likelihood, member.dispersion, member.calibration)
    if "entity_dispersion" not in member.extra:
        return common
    entity_N = positions[:, int(member.extra["dispersion_axis"])]
    return with_dispersions(common, member.extra["entity_dispersion"], entity_N)
