"""Rules for parameters, as data, and the one function that applies them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, reduce
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.kernels.device import DEVICES, is_device
from tallyfold.probability.counts import CountLikelihood


@dataclass(frozen=True)
class Rule:
    """What a parameter may be, in code and in words."""

    holds: Callable[[Any], bool]
    wanted: str

    def __or__(self, other: Rule) -> Rule:
        return Rule(lambda v: self.holds(v) or other.holds(v), f"{self.wanted} or {other.wanted}")


def check_parameters(values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Refuse the first parameter that breaks its rule."""
    for name, rule in rules.items():
        if not rule.holds(values[name]):
            raise ParameterError(f"`{name}` must be {rule.wanted}; got {values[name]!r}.")


def one_of(*words: str) -> Rule:
    """Allow some words."""
    wanted = " or ".join(repr(word) for word in words)
    return Rule(lambda value: isinstance(value, str) and value in words, wanted)


def integer(least: int) -> Rule:
    """Allow whole numbers from `least` on."""
    words = {0: "a non-negative integer", 1: "a positive integer"}
    return Rule(
        lambda value: _is_integer(value) and least <= value < 2**63,
        words.get(least, f"an integer of at least {least}"),
    )


def number(
    low: float, high: float = np.inf, *, low_included: bool = False, high_included: bool = False
) -> Rule:
    """Allow numbers in a range."""

    def holds(value: Any) -> bool:
        if not _is_number(value) or not np.isfinite(value):
            return False
        above = value >= low if low_included else value > low
        return bool(above and (value <= high if high_included else value < high))

    if high == np.inf:
        words: dict[tuple[float, bool], str] = {
            (0, False): "a positive number",
            (0, True): "a non-negative number",
            (-np.inf, False): "a finite number",
        }
        return Rule(holds, words.get((low, low_included), f"a number above {low}"))
    left, right = "[" if low_included else "(", "]" if high_included else ")"
    return Rule(holds, f"a number in {left}{low:g}, {high:g}{right}")


NONE = Rule(lambda value: value is None, "None")
NUMBER = number(-np.inf)
TEXT = Rule(lambda value: isinstance(value, str), "text")
BOOLEAN = Rule(lambda value: isinstance(value, bool | np.bool_), "True or False")
VERBOSE = one_of("auto") | BOOLEAN | integer(0)
SEED = Rule(lambda value: _is_integer(value) and 0 <= value < 2**63, "a non-negative integer")
RANDOM_STATE = SEED | NONE
"""A seed, or None for a fresh one."""

PositiveInt = Annotated[int, integer(1)]
Count = Annotated[int, integer(0)]
Positive = Annotated[float, number(0)]
NonNegative = Annotated[float, number(0, low_included=True)]
Variance = Annotated[float, number(0, 1e9)]
Zeros = Literal["missing", "observed"]
Share = Annotated[float, number(0, 0.5, high_included=True)]
Seed = Annotated[int | None, RANDOM_STATE]
Device = Annotated[str, Rule(is_device, DEVICES)]
Amount = Literal["negative-binomial", "head"]
Scale = (
    Literal["auto"]
    | Annotated[
        Sequence[int],
        Rule(
            lambda value: (
                isinstance(value, list | tuple)
                and len(value) == 2
                and all(_is_integer(each) for each in value)
                and 1 <= value[0] < value[1] <= 1000
            ),
            "a pair of whole numbers such as (1, 5)",
        ),
    ]
    | None
)
Backend = Literal["auto", "numba", "numpy"]
TorchBackend = Literal["auto", "numba", "numpy", "torch"]


def choose_likelihood(family: str, truncated: bool | None, zeros: str) -> CountLikelihood:
    """Return the likelihood for a treatment of zeros; refuse what cannot go together."""
    if zeros == "observed" and (truncated or family != "poisson"):
        raise ParameterError(
            "with zeros='observed' the likelihood must be a plain Poisson: sums over all empty "
            "cells are closed for it alone. Use likelihood='poisson' and truncated=False (with a "
            "`validation` share, BPTF's calibration makes the predictive distribution negative "
            "binomial all the same), or zeros='missing'."
        )
    return CountLikelihood(family, zeros == "missing" if truncated is None else bool(truncated))


@cache
def rules_of(kind: type) -> dict[str, Rule]:
    """Return the rules of a dataclass's fields, from their types."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _rule(hints[field.name]) for field in fields(kind)}


class RulesOfFields:
    """The rules of a class's parameters, as an attribute of the class."""

    def __get__(self, instance: object, owner: type) -> dict[str, Rule]:
        return rules_of(owner)


def _rule(hint: Any) -> Rule:
    if get_origin(hint) is Annotated:
        return next(each for each in get_args(hint)[1:] if isinstance(each, Rule))
    if get_origin(hint) in (Union, UnionType):
        return reduce(or_, [_rule(each) for each in get_args(hint)])
    if get_origin(hint) is Literal:
        return one_of(*get_args(hint))
    return {bool: BOOLEAN, NoneType: NONE}[hint]


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    if _is_integer(value):
        return bool(abs(int(value)) < 2**1023)  # beyond it, no float
    return isinstance(value, float | np.floating)
