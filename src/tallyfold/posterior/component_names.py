"""What components are called: by labels that set them apart, or as somebody has named them.

A component is told from the others by the axes on which its labels are least like those of all
components together: by the Kullback-Leibler divergence of its profile. It is called by two labels
of the longest axis among those that tell it best, and in brackets by one of another that does.
Axes whose labels are words come before those of numbers and identifiers such as "user 12", and
times come last.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.errors import ParameterError, did_you_mean

Floats = npt.NDArray[np.float64]

NAMED = 2
"""How many labels of the axis that names a component."""
TELLING = 0.5
"""An axis tells a component from others with at least this part of the largest divergence."""
LOOKED_AT = 200
"""Labels that are looked at to tell whether an axis has words."""
LONGEST_LABEL, LONGEST_NAME = 24, 80
STEP = re.compile(r"[./\\:]+")
"""What parts the steps of a path or of a dotted name."""
TIME = re.compile(r"(1[5-9]|20)\d\d(-(\d\d|Q\d|W\d\d)\b.*)?")
"""What years, quarters, months, weeks, days and hours look like."""
SURE = 1.645
"""Standard deviations to the lower end of a 90 % interval."""

BACKGROUND = "background"
"""The name of the component of what is common everywhere, in models that have one."""

TIMES, OTHERS, WORDS = range(3)
"""Kinds of labels, those last that name a component best."""

Component = int | str
"""A component, by its number or by its name."""


class AxisWeights(NamedTuple):
    """The factors of an axis: means, standard deviations, and the labels of the rows."""

    mean_DK: Floats
    sd_DK: Floats
    labels: Any


def automatic_names(axes: Sequence[AxisWeights], share_K: Floats) -> list[str]:
    """Return a name for each component, all different.

    Examples
    --------
    >>> import pyarrow as pa
    >>> mean = np.array([[5.0, 0.1], [3.0, 0.1], [0.1, 4.0], [0.1, 5.0], [1.0, 1.0]])
    >>> words = pa.array(["socket", "server", "tree", "node", "the"])
    >>> even = AxisWeights(np.ones((2, 2)), np.zeros((2, 2)), pa.array(["a", "b"]))
    >>> axes = [AxisWeights(mean, np.zeros((5, 2)), words), even]
    >>> automatic_names(axes, np.array([0.5, 0.5]))
    ['socket, server', 'node, tree']
    """
    if len(share_K) == 1:
        return ["everything"]
    parts, firsts = [], []
    for axis in axes:
        part_DK, sure_DK = _divergence(axis, share_K)
        parts.append(part_DK.sum(axis=0))
        firsts.append([_first(axis.labels, sure_D) for sure_D in sure_DK.T])
    rank_M = np.array([(kind_of(axis.labels), len(axis.labels)) for axis in axes])
    names = []
    for component, part_M in enumerate(np.stack(parts, axis=1)):
        telling = np.flatnonzero(part_M >= TELLING * part_M.max()).tolist()
        first = max(telling, key=lambda m: (*rank_M[m], -m))
        rest = [m for m in telling if m != first and rank_M[m, 0] == WORDS]
        beside = sorted(rest, key=lambda m: -part_M[m])[:1]
        name = ", ".join(firsts[first][component])
        names.append(name + "".join(f" ({firsts[m][component][0]})" for m in beside))
    times = Counter(names)
    return [f"{name} [{k}]" if times[name] > 1 else name for k, name in enumerate(names)]


def _divergence(axis: AxisWeights, share_K: Floats) -> tuple[Floats, Floats]:
    """Return each label's part in the divergence of a component, and the part it surely has."""
    total_K = np.maximum(axis.mean_DK.sum(axis=0), 1e-300)
    p_DK = axis.mean_DK / total_K
    overall_D1 = np.maximum(p_DK @ share_K, 1e-300)[:, None]
    # a lower end by Wilson and Hilferty: it need not be exact, and has no special function
    spread_DK = axis.sd_DK / np.maximum(axis.mean_DK, 1e-300)
    low_DK = p_DK * np.clip(1 - spread_DK**2 / 9 - SURE * spread_DK / 3, 0, None) ** 3
    part_DK, sure_DK = (
        each_DK * np.log(np.maximum(each_DK, 1e-300) / overall_D1) for each_DK in (p_DK, low_DK)
    )
    return part_DK, sure_DK


def kind_of(labels: Any) -> int:
    """Return what most labels, among the first ones, are: texts without a digit, times, or else."""
    some = [in_words(labels[row].as_py()) for row in range(min(len(labels), LOOKED_AT))]
    if 2 * sum(not any(map(str.isdecimal, each)) for each in some) > len(some):
        return WORDS
    return TIMES if 2 * sum(bool(TIME.fullmatch(each)) for each in some) > len(some) else OTHERS


def _first(labels: Any, sure_D: Floats) -> list[str]:
    """Return the first labels by what they surely add, in words; at least one."""
    order = np.argsort(-sure_D, kind="stable")[:NAMED]
    return [
        _short(labels[int(row)].as_py()) for n, row in enumerate(order) if n == 0 or sure_D[row] > 0
    ]


def in_words(label: Any) -> str:
    """Write a label: a day without its midnight, a number without its zeros."""
    if hasattr(label, "isoformat"):
        return str(label.isoformat()).removesuffix("T00:00:00")
    return f"{label:g}" if isinstance(label, float) else str(label)


def _short(label: Any) -> str:
    """Write a label, a long one by its beginning; a path by its end, where paths differ.

    Examples
    --------
    >>> _short("distutils.command.build_ext"), _short("an ordinary label that is very long")
    ('…command.build_ext', 'an ordinary label that …')
    """
    text = in_words(label)
    if len(text) <= LONGEST_LABEL:
        return text
    if " " not in text and (steps := [m.end() for m in STEP.finditer(text)]):
        start = next((n for n in steps if len(text) - n < LONGEST_LABEL), steps[-1])
        return f"…{text[start:][-LONGEST_LABEL + 1 :]}"
    return f"{text[: LONGEST_LABEL - 1]}…"


# -- names that are given -----------------------------------------------------------------------


def numbers_of(components: Sequence[Component], names: Sequence[str]) -> list[int]:
    """Return the numbers of components given by number or by name; each at most once.

    Examples
    --------
    >>> numbers_of([1, "trees"], ["trees", "sockets"])
    [1, 0]
    """
    if isinstance(components, str) or not isinstance(components, Sequence | np.ndarray):
        raise ParameterError(
            f"components must be a list of numbers or names, such as [3, 7]; got {components!r}."
        )
    numbers = [number_of(each, names) for each in components]
    if twice := [number for number, times in Counter(numbers).items() if times > 1]:
        raise ParameterError(f"component {twice[0]} ({names[twice[0]]}) is given twice.")
    return numbers


def number_of(component: Component, names: Sequence[str]) -> int:
    """Return the number of a component given by number or by name."""
    if isinstance(component, str):
        if component in names:
            return list(names).index(component)
        meant = did_you_mean(component, names)
        raise ParameterError(
            f"there is no component called {component!r}.{meant} Numbers and names are those of "
            "model.components(axis)."
        )
    whole = isinstance(component, int | np.integer) and not isinstance(component, bool)
    if not whole or not 0 <= component < len(names):
        raise ParameterError(
            f"a component must be a number from 0 to {len(names) - 1}, as in "
            f"model.components(axis), or its name; got {component!r}."
        )
    return int(component)


def renamed(
    given: Sequence[str | None], changes: Mapping[Component, str | None], names: Sequence[str]
) -> tuple[str | None, ...]:
    """Return given names with some changed; None gives a component its automatic name again."""
    if not isinstance(changes, Mapping) or not changes:
        raise ParameterError(
            f"names must be given by component, such as {{3: 'networking'}}; got {changes!r}."
        )
    new = list(given)
    for component, name in changes.items():
        new[number_of(component, names)] = name if name is None else checked_name(name)
    known = [name for name in new if name is not None]
    if twice := [name for name, times in Counter(known).items() if times > 1]:
        raise ParameterError(f"two components cannot both be called {twice[0]!r}.")
    return tuple(new)


def checked_name(name: Any) -> str:
    """Refuse what cannot be told from a number, or be read on a line."""
    sound = isinstance(name, str) and name.isprintable() and name == name.strip()
    if not sound or not 0 < len(name) <= LONGEST_NAME or name.isdecimal():
        raise ParameterError(
            f"the name of a component must be a text of 1 to {LONGEST_NAME} printable characters, "
            f"no number, without space at its ends; got {name!r}."
        )
    return str(name)
