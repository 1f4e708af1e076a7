"""Arrays by name, where the names of what belongs together begin alike: ``head/table_0/keys``."""

from __future__ import annotations

from tallyfold.kernels.arrays import Array

Arrays = dict[str, Array]


def named(prefix: str, arrays: Arrays) -> Arrays:
    """Return arrays with a prefix before their names."""
    return {prefix + name: array for name, array in arrays.items()}


def part_of(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose names have a prefix, without it.

    Examples
    --------
    >>> list(part_of(named("a/", {"b": 1}) | {"c": 2}, "a/"))
    ['b']
    """
    return {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}


def numbered(arrays: Arrays, name: str) -> list[Arrays]:
    """Return the parts ``name_0/``, ``name_1/`` and so on."""
    starts = {each.partition("/")[0] for each in arrays if "/" in each}
    number = sum(each.startswith(f"{name}_") for each in starts)
    return [part_of(arrays, f"{name}_{each}/") for each in range(number)]


def whole(array: Array) -> tuple[int, ...]:
    """Return the numbers of an array that must be whole ones: a file may hold anything.

    Examples
    --------
    >>> import numpy as np
    >>> whole(np.array([2, 3]))
    (2, 3)
    """
    if array.dtype.kind != "i" or array.ndim != 1:
        raise ValueError(f"whole numbers; got an array of {array.dtype} {array.shape}")
    return tuple(array.tolist())
