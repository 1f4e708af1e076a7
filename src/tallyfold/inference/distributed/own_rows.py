"""The labels of an axis that live where their cells are: each process has the factors of its own.

Cells are dealt out in runs of an axis, the longest one in a store. Where all cells of a label are
in one process, its factors are needed there and nowhere else: sums over its cells are whole, and
only what is summed over labels is summed over processes. In a process such an axis has its own
labels alone, numbered from 0; all kernels and steps see a smaller tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tallyfold.data.axis import Axis
from tallyfold.data.tensor import CountTensor
from tallyfold.inference.distributed.process_group import ProcessGroup
from tallyfold.kernels.arrays import Mask, Positions


@dataclass(frozen=True)
class OwnRows:
    """A run of the labels of an axis: those whose cells are in this process.

    Attributes
    ----------
    axis
        The axis.
    first, after
        The run's first label, and the one that follows its last.
    size
        How many labels there are in all processes.
    """

    axis: int
    first: int
    after: int
    size: int

    @classmethod
    def of(cls, tensor: CountTensor, group: ProcessGroup) -> OwnRows | None:
        """Return the run of this process; None if each axis has labels whose cells are torn apart.

        Of several axes that would do it is the longest.
        """
        if group.size == 1:
            return None
        ends = np.zeros((0, tensor.indices.shape[1], 2), np.int64)
        if tensor.nnz:
            ends = np.stack([tensor.indices.min(axis=0), tensor.indices.max(axis=0)], axis=1)[None]
        ends_P = group.all_gather(ends)
        if len(ends_P) < group.size:  # a process has no cell
            return None
        for axis in np.argsort([-size for size in tensor.shape], kind="stable").tolist():
            if np.all(ends_P[1:, axis, 0] > ends_P[:-1, axis, 1]):
                starts = [0, *ends_P[1:, axis, 0].tolist(), tensor.shape[axis]]
                first, after = starts[group.rank : group.rank + 2]
                return cls(axis, first, after, tensor.shape[axis])
        return None

    @property
    def rows(self) -> slice:
        """The run."""
        return slice(self.first, self.after)

    def tensor(self, whole: CountTensor) -> CountTensor:
        """Return the same cells of a tensor that has this process's labels alone."""
        axes = list(whole.axes)
        axis = axes[self.axis]
        labels = axis.labels.slice(self.first, self.after - self.first)
        axes[self.axis] = Axis.of_distinct(axis.name, labels, axis.order)
        indices_NM = self.positions(whole.indices)
        return CountTensor.of_canonical(axes, indices_NM, whole.counts, part=whole.part)

    def has(self, indices_NM: Positions) -> Mask:
        """Return which cells are those of this process's labels."""
        column_N = indices_NM[:, self.axis]
        return np.asarray((self.first <= column_N) & (column_N < self.after))

    def positions(self, indices_NM: Positions) -> Positions:
        """Return positions of cells of this process's labels, numbered from its first one."""
        own_NM = np.array(indices_NM, order="F")
        own_NM[:, self.axis] -= self.first
        return own_NM
