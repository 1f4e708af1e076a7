"""Mixtures of fits: independent members whose predictive distributions are mixed."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tallyfold.errors import InterruptedWarning
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.predictive import matched_mixture
from tallyfold.probability.mixture import CountMixture

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
        folder = None if checkpoint is None else os.path.join(checkpoint, f"member-{number}")
        try:
            member, stopped = fit_one(number, folder)
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


def member_predictive(member: Fitted, positions: Positions) -> CountMixture:
    """Return the predictive distributions of cells under one member."""
    assert member.likelihood is not None
    moments = member.moments(positions)
    return matched_mixture(*moments, member.likelihood, member.dispersion, member.calibration)
