"""Products of factors over axes and their sum over components, plain and in logarithms.

Plain where every rate of a chunk can be divided by. A chunk with one that cannot is taken in
logarithms, as a whole; the compiled kernels do so cell by cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, reduce
from operator import add, mul
from typing import TYPE_CHECKING

from tallyfold.kernels.reference import LOG_CAP

if TYPE_CHECKING:
    from torch import Tensor

LOW, HIGH = 1e-200, 1e200
"""Rates in between are safe to divide by."""


class Products:
    """The factors at some cells, multiplied.

    Parameters
    ----------
    tables
        The factors, one (D, K) tensor per axis.
    columns
        The positions of all cells on each axis.
    part
        Which cells to take.
    axis
        The axis whose factors are left out of the product of the others.
    """

    def __init__(
        self, tables: Sequence[Tensor], columns: Sequence[Tensor], part: slice, axis: int = 0
    ) -> None:
        pairs = zip(tables, columns, strict=True)
        self.rows = [table_DK.index_select(0, column_N[part]) for table_DK, column_N in pairs]
        self.own_PK = self.rows.pop(axis)

    @cached_property
    def others_PK(self) -> Tensor:
        """The product over the other axes."""
        return reduce(mul, self.rows)

    @cached_property
    def rate_P(self) -> Tensor:
        """The rate of each cell, as it comes: perhaps zero, infinite or NaN."""
        return (self.own_PK * self.others_PK).sum(1)

    @cached_property
    def safe(self) -> bool:
        """Whether all rates can be divided by."""
        return bool(((self.rate_P > LOW) & (self.rate_P < HIGH)).all())

    @cached_property
    def log_others_PK(self) -> Tensor:
        """The logarithm of the product over the other axes, -inf where a factor is zero."""
        return reduce(add, [row_PK.log() for row_PK in self.rows])

    @cached_property
    def log_rate_P(self) -> Tensor:
        """The logarithm of the rate, -inf where it is zero."""
        return (self.own_PK.log() + self.log_others_PK).logsumexp(1)

    @cached_property
    def bounded_rate_P(self) -> Tensor:
        """The rate, kept away from zero and infinity."""
        return self.rate_P if self.safe else self.log_rate_P.clamp(-LOG_CAP, LOG_CAP).exp()

    def times(self, scale_P: Tensor) -> Tensor:
        """Return scales of cells (not negative) times the product over the other axes, capped."""
        if self.safe:
            return scale_P[:, None] * self.others_PK
        return (scale_P.log()[:, None] + self.log_others_PK).clamp(max=LOG_CAP).exp()

    def shares(self, count_P: Tensor, floor: float) -> Tensor:
        """Return count / rate times the others' product; zero where the rate is zero."""
        if self.safe:
            return self.times(count_P / self.rate_P.clamp(min=floor))
        log_rate_P = self.log_rate_P.clamp(min=math.log(floor) if floor > 0 else -math.inf)
        log_scale_P = count_P.log() - log_rate_P.where(log_rate_P > -math.inf, math.inf)
        return (log_scale_P[:, None] + self.log_others_PK).clamp(max=LOG_CAP).exp()
