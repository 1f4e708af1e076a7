"""Many fits in one call: what each would say in the same words is said once, with a count."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tallyfold.errors import ConvergenceWarning, warn

P = ParamSpec("P")
T = TypeVar("T")

_counted: ContextVar[list[bool] | None] = ContextVar("fits of one call", default=None)
"""Whether each fit of the call came to its limit; None outside of such calls."""


def many_fits(call: Callable[P, T]) -> Callable[P, T]:
    """Let a function that makes many fits say once how many of them came to their limit.

    Examples
    --------
    >>> @many_fits
    ... def search():
    ...     for _ in range(3):
    ...         with one_of_many():
    ...             warnings.warn("it would have gone on", ConvergenceWarning)
    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     search()
    >>> print(*(each.message for each in said))
    3 of 3 fits ended at their limit, before their stopping rules applied: ...
    """

    @wraps(call)
    def counted(*args: P.args, **kwargs: P.kwargs) -> T:
        if _counted.get() is not None:  # a call within another, which counts for both
            return call(*args, **kwargs)
        fits: list[bool] = []
        token = _counted.set(fits)
        try:
            return call(*args, **kwargs)
        finally:
            _counted.reset(token)
            if any(fits):
                warn(
                    f"{sum(fits):,} of {len(fits):,} fits ended at their limit, before their "
                    "stopping rules applied: they may not be at their best. Allow more by "
                    "max_iter=, or be content with less by tol=.",
                    ConvergenceWarning,
                )

    return counted


@contextmanager
def one_of_many() -> Iterator[None]:
    """Count a fit's warning that it came to its limit, if it is one of many; others are given."""
    fits = _counted.get()
    if fits is None:
        yield
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        yield
    mine = [issubclass(each.category, ConvergenceWarning) for each in said]
    fits.append(any(mine))
    for each, counted in zip(said, mine, strict=True):
        if not counted:
            _give(each)


def _give(said: Any) -> None:
    warnings.showwarning(said.message, said.category, said.filename, said.lineno)
