"""How a count head is trained, by the number of cells."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Recipe:
    """Sizes and rates of training.

    Attributes
    ----------
    n_hidden, n_members
        Hidden units, and networks that are averaged.
    held_out
        The share of cells that each member is scored on, a different one each.
    batch, steps, looks
        Cells in a step, steps, and after how many parts of them the held-out cells are scored.
    rate, decay, warm_up
        Of AdamW: its learning rate, the decay of weights at that rate, and the steps before the
        full rate.
    first_scale
        The spread of the first output weights.
    patience
        How many looks without a better score end the training; None: all are made.
    residuals
        Whether a second stage, on residuals of the first, is tried.
    """

    n_hidden: int = 64
    n_members: int = 2
    held_out: float = 0.1
    batch: int = 1024
    steps: int = 1600
    looks: int = 16
    rate: float = 1e-2
    decay: float = 3e-4
    warm_up: int = 100
    first_scale: float = 0.01
    patience: int | None = 6
    residuals: bool = True

    @property
    def steps_per_look(self) -> int:
        """Steps between two looks at the held-out cells."""
        return -(-self.steps // self.looks)


SMALL = 10_000
"""With fewer cells, members stop together, and the constant is kept unless they surely gain."""

LEAST = 50
"""With fewer cells nothing is trained: the constant is kept."""


def second_recipe(first: Recipe) -> Recipe:
    """Return how to train a second stage, which begins where the first one ended.

    Its score falls at first, while the rate is high: patience would end it too soon.
    """
    steps, rate = first.steps * 3 // 8, first.rate / 4
    return replace(first, steps=steps, rate=rate, decay=first.decay / 2, patience=None)


def recipe_for(n_cells: int) -> Recipe:
    """Return how to train on this many cells."""
    if n_cells < LEAST:
        return Recipe(
            n_hidden=1, n_members=1, held_out=1.0, steps=0, looks=1, first_scale=0.0,
            patience=None, residuals=False,
        )  # fmt: skip
    if n_cells < SMALL:
        return Recipe(
            n_hidden=8, n_members=5, held_out=0.2, batch=128, steps=600, looks=30, rate=3e-3,
            decay=3e-3, warm_up=50, first_scale=0.0, patience=None, residuals=False,
        )  # fmt: skip
    if n_cells < 60_000:
        decay = float(np.clip(50 / n_cells, 3e-4, 5e-3))
        return Recipe(n_hidden=32, n_members=4, batch=512, steps=2000, rate=5e-3, decay=decay)
    decay = max(200 / n_cells, 3e-4)
    if n_cells < 200_000:
        return Recipe(n_members=4, batch=512, steps=2000, decay=decay)
    steps, batch = min(max(1600, n_cells // 400), 4000), 1024 if n_cells < 800_000 else 2048
    return Recipe(batch=batch, steps=steps, decay=decay)
