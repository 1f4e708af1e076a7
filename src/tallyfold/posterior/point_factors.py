"""Factors as plain numbers, without uncertainty."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Array, Floats, Mask, OverRows, Whole, all_here
from tallyfold.posterior.factors import Factors, rates_at
from tallyfold.posterior.gamma_posterior import known_rows
from tallyfold.posterior.merging import combined_values

_log = logging.getLogger("tallyfold")


@cache
def _say_one_draw() -> None:
    """Say once that there is nothing to draw from."""
    _log.warning("a point estimate has no posterior: its factors are given as one draw.")


class PointFactors(Factors):
    """One number per factor; each array has an extra last row, the mean of the entities seen."""

    def __init__(
        self, names: Sequence[str], labels: Sequence[Any], values: Sequence[Floats]
    ) -> None:
        super().__init__(names, labels)
        self.values = tuple(values)

    @classmethod
    def with_unseen(
        cls,
        names: Sequence[str],
        labels: Sequence[Any],
        values: Sequence[Floats],
        seen: Sequence[Mask],
    ) -> PointFactors:
        """Build from rows per label; entities not seen get the mean of those that were."""
        return cls(names, labels, [mean_over_seen(v, s) for v, s in zip(values, seen, strict=True)])

    def mean(self, axis: str) -> Floats:
        """Return the factors of an axis."""
        return self.values[self.axis_number(axis)][:-1]

    def sd(self, axis: str) -> Floats:
        """Return zeros: there is no uncertainty."""
        return np.zeros_like(self.mean(axis))

    def quantile(self, axis: str, p: float) -> Floats:
        """Return the factors themselves, whatever p."""
        return self.mean(axis)

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Return the same factors n times."""
        for _ in range(n):
            yield list(self.values)

    def chains(self, n_draws: int | None = None, random_state: int | None = 0) -> list[Floats]:
        """Return the factors as the only draw of a chain: there is no posterior to draw from."""
        if n_draws not in (None, 1):
            raise ParameterError(
                f"`n_draws` must be 1 or None for a point estimate, which has no posterior: all "
                f"draws would be the same; got {n_draws!r}. BPTF and GibbsBPTF have a posterior."
            )
        _say_one_draw()
        return [value[None, None] for value in self.values]

    def rate_moments(self, indices_NM: Whole) -> tuple[Floats, Floats]:
        """Return the rates, and a variance of zero."""
        rate_N = rates_at(self.values, indices_NM)
        return rate_N, np.zeros_like(rate_N)

    def arrays(self) -> dict[str, Array]:
        """Return the factors by name."""
        return {f"value_{axis}": value for axis, value in enumerate(self.values)}

    def combined(self, groups: Sequence[Sequence[int]], gated: bool = False) -> PointFactors:
        """Return factors of new components, each made of a group of the old ones."""
        return PointFactors(self.names, self.labels, combined_values(self.values, groups))

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], labels: Sequence[Any], arrays: dict[str, Array]
    ) -> PointFactors:
        """Build from what `arrays` returned."""
        return cls(names, labels, [arrays[f"value_{axis}"] for axis in range(len(names))])


def mean_over_seen(value_DK: Floats, seen_D: Mask, over_rows: OverRows = all_here) -> Floats:
    """Give rows never seen, and one more row, the mean of the rows seen.

    `over_rows` makes sums over all rows of those over the rows that are here.
    """
    rows, number = known_rows(seen_D, over_rows)
    typical_K = over_rows(value_DK[rows].sum(axis=0)) / number
    return np.vstack([np.where(seen_D[:, None], value_DK, typical_K), typical_K])
