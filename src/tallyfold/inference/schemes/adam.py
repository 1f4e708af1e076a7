"""Adam (Kingma and Ba, ICLR 2015), on named NumPy arrays and without a memory of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats

Named = Mapping[str, Floats]

MEMORY = (0.9, 0.999)
TINY = 1e-8
LONGEST = 3.0
"""The most learning rates that a parameter moves by in one step, unless the caller says."""


class Adam(NamedTuple):
    """Parameters, running means of their gradients and of the squares, and the steps taken."""

    values: dict[str, Floats]
    first: dict[str, Floats]
    second: dict[str, Floats]
    steps: int

    @classmethod
    def fresh(cls, values: Named) -> Adam:
        """Start with no memory."""
        zeros = {name: np.zeros_like(value) for name, value in values.items()}
        return cls(dict(values), zeros, dict(zeros), 0)

    def climb(self, gradient: Named, learning_rate: float, longest: float = LONGEST) -> Adam:
        """Return the parameters one step further up the gradient; this object is not changed.

        A negative `learning_rate` descends. No parameter moves by more than `longest` learning
        rates.

        Examples
        --------
        >>> adam = Adam.fresh({"x": np.array([1.0])}).climb({"x": np.array([-50.0])}, 0.1)
        >>> float(adam.values["x"][0].round(6))
        0.9
        """
        keep, keep_squares = MEMORY
        steps = self.steps + 1
        first = {n: keep * m + (1 - keep) * gradient[n] for n, m in self.first.items()}
        second = {
            n: keep_squares * v + (1 - keep_squares) * gradient[n] ** 2
            for n, v in self.second.items()
        }
        values = {}
        for name, value in self.values.items():
            size = np.sqrt(second[name] / (1 - keep_squares**steps)) + TINY
            move = first[name] / (1 - keep**steps) / size
            values[name] = value + learning_rate * np.clip(move, -longest, longest)
        return Adam(values, first, second, steps)
