"""Labels met one by one: kept as numbers, so that a stream of documents costs little memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tallyfold.data.dropped import Dropped
from tallyfold.data.encode import Column

Relabel = Callable[[list[Any]], list[Any]]


class LabelCodes:
    """A column of labels, or of lists of labels, as positions in the list of distinct ones."""

    def __init__(self) -> None:
        self._places: dict[Hashable, int] = {}
        self._codes = array("i")
        self._ends = array("q", [0])

    def append(self, label: Hashable) -> None:
        """Add the label of one row."""
        self._codes.append(self._places.setdefault(label, len(self._places)))

    def extend(self, labels: Iterable[Hashable]) -> None:
        """Add the labels of one row."""
        for label in labels:
            self.append(label)
        self._ends.append(len(self._codes))

    def column(self, name: str, relabel: Relabel | None = None, unit: str | None = None) -> Column:
        """Return the column in Arrow, its distinct labels changed by ``relabel``."""
        labels = list(self._places)
        distinct = pa.array(relabel(labels) if relabel else labels)
        values = pa.DictionaryArray.from_arrays(
            pa.array(np.frombuffer(self._codes, np.int32)), distinct
        )
        if len(self._ends) > 1:
            ends = pa.array(np.frombuffer(self._ends, np.int64))
            values = pa.LargeListArray.from_arrays(ends, values)
        return Column(name, values, unit)


class Authors:
    """Tells authors apart by their identity where they have one, and shows them by name.

    Examples
    --------
    >>> authors = Authors()
    >>> keys = [authors.met("1", "Wei Wang"), authors.met("2", "Wei Wang"), authors.met("3", "Eva")]
    >>> authors.labels(keys)
    ['Wei Wang (1)', 'Wei Wang (2)', 'Eva']
    """

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def met(self, identity: str, name: str) -> tuple[str, str]:
        """Return the key of an author; the first name met with an identity is the one shown."""
        key = (identity, "") if identity else ("", name)
        self._names.setdefault(key, name or identity)
        return key

    def labels(self, keys: Sequence[tuple[str, str]]) -> list[str]:
        """Return a label per author: the name, and the identity where others have that name."""
        names = [self._names[key] for key in keys]
        namesakes = Counter(names)
        return [
            f"{name} ({identity})" if identity and namesakes[name] > 1 else name
            for (identity, _), name in zip(keys, names, strict=True)
        ]


def repeated_authors(number: int) -> Dropped:
    """Record authors whom a paper lists more than once."""
    return Dropped("an author listed twice counts once", labels={"repeated author": number})
