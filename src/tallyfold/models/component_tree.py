"""A tree of components: which are alike, and which of those groups are."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tallyfold.data.markup import titled
from tallyfold.errors import ParameterError, printable
from tallyfold.kernels.arrays import Floats

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class ComponentTree:
    """Components, joined two groups at a time, the most alike first.

    Attributes
    ----------
    numbers, names
        The components that are its leaves.
    links_L4
        The joins as `scipy.cluster.hierarchy.linkage` has them, by average Hellinger distance:
        the root of one minus the overlap of two components.
    """

    numbers: tuple[int, ...]
    names: tuple[str, ...]
    links_L4: Floats

    @classmethod
    def of(cls, numbers: Sequence[int], names: Sequence[str], overlap_KK: Floats) -> ComponentTree:
        """Join components by their overlaps."""
        from scipy.cluster.hierarchy import linkage, optimal_leaf_ordering

        if len(numbers) < 2:
            return cls(tuple(numbers), tuple(names), np.zeros((0, 4)))
        distance_P = np.sqrt(1 - overlap_KK[np.triu_indices(len(numbers), 1)])
        links_L4 = optimal_leaf_ordering(linkage(distance_P, "average"), distance_P)
        return cls(tuple(numbers), tuple(names), links_L4)

    def __repr__(self) -> str:
        return "\n".join(["Components, the most alike side by side", "", *self.lines()])

    def _repr_html_(self) -> str:
        lines = "\n".join(html.escape(printable(line)) for line in self.lines())
        return titled("Components, the most alike side by side", f"<pre>{lines}</pre>")

    def groups(self, number: int) -> list[list[int]]:
        """Return so many groups of components that are alike, by their numbers."""
        from scipy.cluster.hierarchy import fcluster

        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise ParameterError(f"`number` of groups must be a positive integer; got {number!r}.")
        if len(self.numbers) < 2:
            return [list(self.numbers)]
        group_K = fcluster(self.links_L4, number, "maxclust")
        found: dict[int, list[int]] = {}
        for component, group in zip(self.numbers, group_K.tolist(), strict=True):
            found.setdefault(group, []).append(component)
        return sorted(found.values())

    def to_frame(self) -> pd.DataFrame:
        """Return the joins: the components of both sides, and how far these are apart."""
        import pandas as pd

        sides = [[number] for number in self.numbers]
        rows = []
        for left, right, distance, _ in self.links_L4.tolist():
            pair = sides[int(left)], sides[int(right)]
            rows.append((*pair, distance))
            sides.append(sorted([*pair[0], *pair[1]]))
        return pd.DataFrame(rows, columns=["left", "right", "distance"])

    def lines(self) -> list[str]:
        """Return the tree as lines of text, a component each.

        Examples
        --------
        >>> overlap = np.array([[1, 0.1, 0.8], [0.1, 1, 0.2], [0.8, 0.2, 1.0]])
        >>> tree = ComponentTree.of([0, 1, 2], ["sockets", "trees", "mail"], overlap)
        >>> for line in tree.lines():
        ...     print(line)
        ├─ 1 trees
        └─┬─ 2 mail
          └─ 0 sockets
        """
        if not len(self.links_L4):
            return [f"{k} {name}" for k, name in zip(self.numbers, self.names, strict=True)]
        return self._lines(len(self.numbers) + len(self.links_L4) - 1, "", "")

    def _lines(self, node: int, first: str, rest: str) -> list[str]:
        """Return the lines of a node; the first begins with `first`, the others with `rest`."""
        if node < len(self.numbers):
            return [f"{first} {self.numbers[node]} {self.names[node]}"]
        left, right = (int(side) for side in self.links_L4[node - len(self.numbers)][:2])
        joint = f"{first}┬─" if first else "├─"
        beside = f"{rest}│ " if first else "│ "
        last = f"{rest}└─" if first else "└─"
        return [
            *self._lines(left, joint, beside),
            *self._lines(right, last, f"{rest}  "),
        ]
