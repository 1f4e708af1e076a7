"""Mixtures of fits: independent members whose predictive distributions are mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tallyfold.errors import InterruptedWarning, warn
from tallyfold.kernels.arrays import Positions
from tallyfold.models.fitted import Fitted
from tallyfold.probability.categorical import mixed_categorical
from tallyfold.probability.distribution import CountDistribution
from tallyfold.probability.hurdle import HurdleCounts
from tallyfold.probability.log_mean import log_mean
from tallyfold.probability.mixture import CountMixture, mixed


def fit_members(fit_one: Callable[[int], tuple[Fitted, bool]], n_members: int) -> Fitted:
    """Fit one member after the other; return the first, with the others in it.

    `fit_one` is given a member's number; it returns the member and whether
    its fit was interrupted. Ctrl-C keeps the members that are whole, and the one it came upon only
    if there is no other.
    """
    members: list[Fitted] = []
    stopped = False
    for number in range(n_members):
        try:
            member, stopped = fit_one(number)
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
    warn(
        f"the fit was interrupted; the model has {len(whole)} of {n_members} members.",
        InterruptedWarning,
    )
    return replace(whole[0], others=tuple(whole[1:]), reason="interrupted")


def mixed_predictive(members: Sequence[Fitted], positions: Positions) -> CountDistribution:
    """Return the predictive distributions of cells, those of all members mixed.

    If the rates of one member predict better than its count head, those of all are used.
    """
    if any(member.head is None for member in members):
        members = [replace(member, head=None) for member in members]
    parts = [member.predictive(positions) for member in members]
    if all(isinstance(part, CountMixture) for part in parts):
        return mixed(parts)  # type: ignore[arg-type]
    zeros = [part.log_zero_N for part in parts if isinstance(part, HurdleCounts)]
    given = [part.given_positive() for part in parts]
    by_rates = all(isinstance(part, CountMixture) for part in given)
    amount: CountDistribution = mixed(given) if by_rates else mixed_categorical(given)  # type: ignore[arg-type]
    if not zeros:
        return amount
    return HurdleCounts(log_mean(np.array(zeros)), amount)
