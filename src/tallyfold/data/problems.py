"""What is wrong with a table, gathered so that all of it is said in one message."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tallyfold.errors import DataError

SHOWN = 5
"""How many rows of a kind are named."""


class RowNumbers(NamedTuple):
    """The numbers, in the whole table, of rows that are a part of it.

    Examples
    --------
    >>> RowNumbers(100, np.array([0, 3])).of(np.array([1])).tolist()
    [103]
    """

    first: int = 0
    kept: npt.NDArray[np.integer] | None = None

    def of(self, where: npt.NDArray[np.integer]) -> npt.NDArray[np.integer]:
        """Return the numbers of rows, given their positions in the part."""
        return self.first + (where if self.kept is None else self.kept[where])


ALL_ROWS = RowNumbers()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a column: how many rows have it, and the first of them.

    Attributes
    ----------
    error
        The kind of error that it is.
    wanted
        What the column must be.
    kind
        What the rows are instead.
    remedy
        What to do.
    number
        How many rows.
    rows
        The numbers of the first.
    shown
        What those hold, if there is anything to show.
    row_word
        What to call a row.
    """

    error: type[DataError]
    wanted: str
    kind: str
    remedy: str
    number: int
    rows: Sequence[int]
    shown: Sequence[str] | None = None
    row_word: str = "row"

    def __str__(self) -> str:
        if self.shown is None:
            places = f"at {self.row_word} {', '.join(map(str, self.rows))}"
        else:
            pairs = zip(self.rows, self.shown, strict=True)
            places = ", ".join(f"{self.row_word} {row}: {text}" for row, text in pairs)
        left = self.number - len(self.rows)
        more = f" and {left:,} more" if left else ""
        return f"{self.wanted}; got {self.number:,} {self.kind}, {places}{more}. {self.remedy}"

    def with_more(self, later: Problem) -> Problem:
        """Return the problem with the rows of a later part of the table, too."""
        room = SHOWN - len(self.rows)
        shown = None
        if self.shown is not None and later.shown is not None:
            shown = [*self.shown, *later.shown[:room]]
        rows = [*self.rows, *later.rows[:room]]
        return replace(self, number=self.number + later.number, rows=rows, shown=shown)


class Problems:
    """All that is wrong with a table.

    Examples
    --------
    >>> problems = Problems()
    >>> with problems.gathered():
    ...     raise DataError("a is bad.")
    >>> with problems.gathered():
    ...     raise DataError("so is b.")
    >>> problems.raise_all()
    Traceback (most recent call last):
        ...
    tallyfold.errors.DataError: the table has 2 problems:
      (1) a is bad.
      (2) so is b.
    """

    def __init__(self) -> None:
        self._problems: dict[tuple[str, str], Problem] = {}
        self._errors: list[DataError] = []

    def __bool__(self) -> bool:
        return bool(self._problems or self._errors)

    def note(self, problem: Problem) -> None:
        """Add a problem, to one of its kind if there is one."""
        key = (problem.wanted, problem.kind)
        known = self._problems.get(key)
        self._problems[key] = problem if known is None else known.with_more(problem)

    def add(self, others: Problems) -> None:
        """Add what another look at the table has found."""
        for problem in others._problems.values():
            self.note(problem)
        self._errors += others._errors

    @contextlib.contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep an error about the data for later."""
        try:
            yield
        except DataError as error:
            self._errors.append(error)

    def raise_all(self) -> None:
        """Raise one error that says all; nothing if nothing is wrong."""
        found = [problem.error(str(problem)) for problem in self._problems.values()]
        found += self._errors
        if len(found) == 1:
            raise found[0]
        if found:
            kinds = {type(error) for error in found}
            kind = kinds.pop() if len(kinds) == 1 else DataError
            lines = [f"  ({number}) {error}" for number, error in enumerate(found, start=1)]
            raise kind.of_lines([f"the table has {len(found)} problems:", *lines])
