"""A part of the training cells that the fit does not see: to stop in time, and to calibrate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tallyfold.data.groups import CellGroups
from tallyfold.data.split import drawn_groups, split_cells
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.cells.held_out import HeldOutCells
from tallyfold.inference.distributed.own_rows import OwnRows
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.distributed.scatter import scatter_draw
from tallyfold.kernels import dispatch as kernels
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability.counts import CountLikelihood

MIN_CELLS = 20
"""With fewer cells than this to validate on, there is no validation."""


class ValidationCells:
    """Cells that were held out of a fit, and how to score them."""

    def __init__(
        self, tensor: CountTensor, backend: str = "auto", own_rows: OwnRows | None = None
    ) -> None:
        self.cells = HeldOutCells(tensor, own_rows)
        self.backend = backend

    def rates(self, factors: Sequence[Floats]) -> Floats:
        """Return the rates of the cells."""
        return kernels.cell_rates(factors, self.cells.indices_NM, backend=self.backend)

    def score(
        self, factors: Sequence[Floats], likelihood: CountLikelihood, dispersion: float | None
    ) -> float:
        """Return the mean log pmf of the cells at these factors."""
        log_pmf_N = likelihood.log_pmf(self.cells.counts_N, self.rates(factors), dispersion)
        return self.cells.group.all_reduce_number(float(log_pmf_N.sum())) / self.cells.n_cells


def hold_out(
    tensor: CountTensor,
    share: float | None,
    seed: int,
    groups: Ints | CellGroups | None = None,
    zeros: bool = False,
) -> tuple[CountTensor, CountTensor | None]:
    """Split off a share of the cells for validation, if there are enough of them.

    With groups, a share of these: cells of a group stay together. With `zeros`, a share of all
    cells, those without a count included; nothing if either side had no count.
    """
    group = current_group()
    if not share or group.all_reduce_number(tensor.nnz) * share < MIN_CELLS:
        return tensor, None
    if zeros:
        train, held_out = split_cells(tensor, 0.0, share, seed, groups)
        least = min(group.all_reduce_number(part.nnz) for part in (train, held_out))
        return (train, held_out) if least else (tensor, None)
    if groups is not None and len(np.unique(np.asarray(groups))) > 1:
        rng = np.random.default_rng([seed, 1])
        is_held_out = drawn_groups(np.asarray(groups), share, rng)
        return tensor.with_cells(~is_held_out), tensor.with_cells(is_held_out)
    is_held_out = scatter_draw(group, tensor.nnz, share, seed)
    return tensor.with_cells(~is_held_out), tensor.with_cells(is_held_out)
