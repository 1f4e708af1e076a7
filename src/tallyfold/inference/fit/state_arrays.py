"""States of fits as named arrays: for checkpoints, and to see that all values are finite.

A state is a dataclass, named tuple, tuple, list or dict of arrays, numbers, None, or such again.
The name of an array is the path to it, such as ``posterior/axes/0/shape_DK``. A path that ends in
``_N`` is that of an array with an entry for each of this process's cells; all others are the same
in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tallyfold.kernels.arrays import Array
from tallyfold.posterior.named_arrays import Arrays

S = TypeVar("S")


def to_arrays(state: Any, path: str = "") -> Arrays:
    """Return the arrays and numbers of a state by name; what is None is left out.

    Examples
    --------
    >>> sorted(to_arrays({"a": (1.0, None), "b_N": np.zeros(3)}))
    ['a/0', 'b_N']
    """
    if state is None:
        return {}
    parts = list(_parts(state))
    if not parts and not isinstance(state, tuple | list | Mapping):
        return {path: np.asarray(state)}
    found: Arrays = {}
    for name, part in parts:
        found |= to_arrays(part, f"{path}/{name}" if path else name)
    return found


def from_arrays(like: S, arrays: Mapping[str, Array], path: str = "") -> S:
    """Return a state of the same structure as `like`, with these arrays.

    Examples
    --------
    >>> from_arrays({"a": (0.0, None)}, {"a/0": np.array(2.0), "a/1": np.array(3)})
    {'a': (2.0, 3)}
    """
    parts: list[tuple[str, Any]] = [] if like is None else list(_parts(like))
    if not parts and not isinstance(like, tuple | list | Mapping):
        return _leaf(like, arrays.get(path))  # type: ignore[no-any-return]
    made = {n: from_arrays(part, arrays, f"{path}/{n}" if path else n) for n, part in parts}
    if is_dataclass(like) and not isinstance(like, type):
        return replace(like, **made)
    if hasattr(like, "_replace"):
        return like._replace(**made)  # type: ignore[no-any-return]
    return made if isinstance(like, Mapping) else type(like)(made.values())  # type: ignore[return-value, call-arg]


def _parts(state: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that a state is made of; nothing for an array or a number."""
    if is_dataclass(state):
        yield from ((field.name, getattr(state, field.name)) for field in fields(state))
    elif hasattr(state, "_asdict"):
        yield from state._asdict().items()
    elif isinstance(state, Mapping):
        yield from ((str(name), part) for name, part in state.items())
    elif isinstance(state, tuple | list):
        yield from ((str(number), part) for number, part in enumerate(state))


def _leaf(like: Any, array: Array | None) -> Any:
    if array is None or isinstance(like, np.ndarray):
        return array
    return array.item() if array.ndim == 0 else array
