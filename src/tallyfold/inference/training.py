"""Training cells as kernels want them: indices, counts, and one layout per axis."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from tallyfold.data.tensor import CountTensor
from tallyfold.kernels.layout import AxisLayout, axis_layout


class TrainingCells:
    """The non-zero cells of a tensor, sorted along each axis once, when first needed."""

    def __init__(self, tensor: CountTensor) -> None:
        self.shape = tensor.shape
        self.indices_NM = tensor.indices
        self.counts_N = tensor.counts

    @classmethod
    def of(
        cls,
        shape: tuple[int, ...],
        indices_NM: npt.NDArray[np.int32],
        counts_N: npt.NDArray[np.int64],
    ) -> TrainingCells:
        """Take cells that belong to no tensor."""
        cells = cls.__new__(cls)
        cells.shape, cells.indices_NM, cells.counts_N = shape, indices_NM, counts_N
        return cells

    @cached_property
    def layouts(self) -> tuple[AxisLayout, ...]:
        """The cells sorted along each axis."""
        return tuple(
            axis_layout(self.indices_NM, self.counts_N, axis, size)
            for axis, size in enumerate(self.shape)
        )

    @cached_property
    def seen(self) -> tuple[npt.NDArray[np.bool_], ...]:
        """For each axis, which entities have a cell."""
        return tuple(
            np.bincount(self.indices_NM[:, axis], minlength=size) > 0
            for axis, size in enumerate(self.shape)
        )

    @property
    def n_axes(self) -> int:
        """The number of axes."""
        return len(self.shape)
