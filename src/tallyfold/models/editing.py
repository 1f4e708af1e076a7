"""Components that people have named, put together or left out: a new result from an old one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tallyfold.errors import NoFactorsError, ParameterError
from tallyfold.models.fitted import Fitted
from tallyfold.posterior.component_names import BACKGROUND, Component, numbers_of, renamed


class Edit(NamedTuple):
    """What is to be done with the components of a model, all by the numbers they have in it.

    Attributes
    ----------
    rename
        New names by component; None for the automatic one. That of a component that is merged is
        the name of what it becomes.
    merge
        Groups of components that become one each.
    drop
        Components to leave out.
    """

    rename: Mapping[Component, str | None] | None = None
    merge: Sequence[Sequence[Component]] = ()
    drop: Sequence[Component] = ()


def names_of(fitted: Fitted) -> list[str]:
    """Return what the components of a fit are called: as they were named, else automatically."""
    if fitted.factors is None:
        raise NoFactorsError("this model has no factors, so no components. BPTF has, for one.")
    automatic, given = fitted.factors.automatic_names, fitted.component_names
    if not given:
        return automatic
    taken = {name for name in given if name is not None}
    return [
        own or (f"{name} [{number}]" if name in taken else name)
        for number, (own, name) in enumerate(zip(given, automatic, strict=True))
    ]


def by_size(fitted: Fitted) -> Fitted:
    """Return a fit whose components are in the order of their size: their numbers are ranks.

    The background is the last of those that are not switched off.
    """
    if fitted.factors is None:
        return fitted
    order = fitted.factors.by_size().tolist()
    if BACKGROUND in fitted.component_names:
        background = fitted.component_names.index(BACKGROUND)
        off_K = fitted.factors.switched_off()
        order.sort(key=lambda k: (bool(off_K[k]), k == background))
    return _combined(fitted, [[number] for number in order])


def edited(fitted: Fitted, edit: Edit) -> Fitted:
    """Return what a fit has left with its components edited."""
    names = names_of(fitted)
    groups = _groups(fitted, edit, names)
    given = fitted.component_names or (None,) * len(names)
    if edit.rename is not None:
        given = renamed(given, edit.rename, names)
    fitted = replace(fitted, component_names=given)
    if groups == [[number] for number in range(len(names))]:
        return fitted
    changed = {"n_components": len(groups)}
    fitted = _combined(fitted, groups)
    record = replace(fitted.record, held_out=None)  # its scores were those of other predictions
    return by_size(
        replace(
            fitted, validation_score=None, parameters=fitted.parameters | changed, record=record
        )
    )


def _groups(fitted: Fitted, edit: Edit, names: Sequence[str]) -> list[list[int]]:
    """Return what each new component is made of; refuse what cannot be done."""
    dropped = numbers_of(edit.drop, names)
    merged = [numbers_of(group, names) for group in edit.merge]
    if any(len(group) < 2 for group in merged):
        raise ParameterError("`merge` needs two components or more, such as [3, 7].")
    every = [*dropped, *(number for group in merged for number in group)]
    if twice := [number for number in every if every.count(number) > 1]:
        raise ParameterError(
            f"component {twice[0]} ({names[twice[0]]}) is to be merged or dropped more than once."
        )
    if every and fitted.others:
        raise ParameterError(
            f"a mixture of {1 + len(fitted.others)} fits cannot be edited, since each member has "
            "components of its own; those that are listed are the first one's. Fit with "
            "n_members=1. (`rename` works.)"
        )
    if len(dropped) == len(names):
        raise ParameterError("a model needs a component; not all can be dropped.")
    rest = [[number] for number in range(len(names)) if number not in every]
    return sorted([*rest, *merged])


def _combined(fitted: Fitted, groups: Sequence[Sequence[int]]) -> Fitted:
    """Return a fit with new components, each made of a group of old ones."""
    factors, given = fitted.factors, fitted.component_names
    assert factors is not None
    if groups == [[number] for number in range(factors.n_components)]:
        return fitted
    names = [[given[number] for number in group if given and given[number]] for group in groups]
    stable = fitted.component_stability
    changes: dict[str, Any] = {}
    weight_K = fitted.extra.get("component_weights")
    if weight_K is not None:
        sums = np.array([weight_K[list(group)].sum() for group in groups])
        changes["extra"] = fitted.extra | {"component_weights": sums}
    return replace(
        fitted,
        factors=factors.combined(groups, gated=fitted.gate is not None),
        component_names=tuple(own[0] if own else None for own in names) if given else (),
        component_stability=tuple(stable[g[0]] if len(g) == 1 else None for g in groups)
        if stable
        else (),
        **changes,
    )


def in_words(edit: Edit, names: Sequence[str]) -> str:
    """Say what an edit did, with the names that components had."""

    def named(components: Sequence[Component]) -> str:
        return " and ".join(repr(names[number]) for number in numbers_of(components, names))

    said = [f"merged {named(group)}" for group in edit.merge]
    said += [f"dropped {named(edit.drop)}"] if len(edit.drop) else []
    for component, name in (edit.rename or {}).items():
        new = "its automatic name" if name is None else repr(name)
        said.append(f"renamed {named([component])} to {new}")
    return "; ".join(said)
