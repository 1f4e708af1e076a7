"""Encoders in eager torch: any depth, any device, gradients by autograd.

Distinct inputs are taken in chunks, so that memory stays bounded; the backward pass evaluates a
chunk again instead of keeping its intermediates. Torch is imported when an encoder is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.kernels.encoder import (
    INPUT_CAP,
    KINDS,
    Arguments,
    AxisEncoder,
    Network,
    other_factors,
)
from tallyfold.kernels.layout import AxisLayout, distinct_inputs
from tallyfold.kernels.tensors import floats, int64, openmp, ranges
from tallyfold.kernels.threads import thread_count

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_NUMBERS = 1 << 21
"""Inputs times components times width of a chunk."""


class TorchEncoder(AxisEncoder):
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`; on the device in use."""

    def __init__(self, layout: AxisLayout, network: Network) -> None:
        super().__init__(layout, network)
        inputs = distinct_inputs(layout)
        self.others_JR = int64(inputs.others_RJ.T)
        self.counts_R = floats(np.minimum(inputs.counts_R, INPUT_CAP))
        self.input_N = int64(np.repeat(np.arange(len(inputs.counts_R)), np.diff(inputs.indptr_R1)))
        self.entity_N = int64(inputs.entity_N)
        self.source_N = inputs.source_N

    def _sums(self, given: Arguments) -> tuple[Floats, Floats]:
        """Evaluate the inputs in chunks, then add each cell's output to its entity."""
        import torch

        n_components = given.n_components
        values = {name: floats(array) for name, array in given.weights.items()}
        tables = [floats(z_DK) for z_DK in other_factors(self.layout, given.factors)]
        output_RW = self.counts_R.new_empty((len(self.counts_R), 2 * n_components))
        with torch.no_grad(), self._threads(n_components):
            for part in self._chunks(n_components):
                output_RW[part] = self._outputs(values, tables, part)
        n_entities = len(self.layout.indptr_D1) - 1
        weight = floats(given.weight_N[self.source_N])
        sums = _weighted_sums(output_RW, weight, self.input_N, self.entity_N, n_entities)
        sums = sums.cpu().numpy()
        return sums[:, :n_components].copy(), sums[:, n_components:].copy()

    def _gradient(self, given: Arguments, grad_TDK: Floats) -> dict[str, Floats]:
        """Add each cell's gradient to its input's, then let autograd work chunk by chunk."""
        values = {name: floats(array).requires_grad_() for name, array in given.weights.items()}
        tables = [floats(z_DK) for z_DK in other_factors(self.layout, given.factors)]
        grad_DW, weight = floats(np.hstack(list(grad_TDK))), floats(given.weight_N[self.source_N])
        n_inputs = len(self.counts_R)
        grad_RW = _weighted_sums(grad_DW, weight, self.entity_N, self.input_N, n_inputs)
        with self._threads(given.n_components):
            for part in self._chunks(given.n_components):
                output_RW = self._outputs(values, tables, part)
                output_RW.backward(grad_RW[part])  # type: ignore[no-untyped-call]
        return {
            name: np.zeros(value.shape) if value.grad is None else value.grad.cpu().numpy()
            for name, value in values.items()
        }

    def _inputs_at_a_time(self, n_components: int) -> int:
        """Return the number of inputs of a chunk, whose intermediates have a bounded size."""
        width = max(len(self.layout.reach_M), self.network.hidden_units)
        return CHUNK_NUMBERS // (n_components * width)

    def _chunks(self, n_components: int) -> Iterator[slice]:
        return ranges(len(self.counts_R), self._inputs_at_a_time(n_components))

    def _threads(self, n_components: int) -> AbstractContextManager[Any]:
        """Use as many threads as other kernels; one if there is less than a chunk to do."""
        little = len(self.counts_R) < self._inputs_at_a_time(n_components)
        limits: AbstractContextManager[Any] = openmp().limit(limits=1 if little else thread_count())
        return limits

    def _outputs(self, values: dict[str, Tensor], tables: list[Tensor], part: slice) -> Tensor:
        """Return shape and rate of some inputs, components side by side."""
        import torch

        pairs = zip(tables, self.others_JR, strict=True)
        columns = [table_DK[others_R[part]].T for table_DK, others_R in pairs]
        inputs_KRM = torch.stack([*columns, self.counts_R[part].expand_as(columns[0])], dim=2)
        return torch.cat([self._network(kind, values, inputs_KRM) for kind in KINDS]).T

    def _network(self, kind: str, values: dict[str, Tensor], signal: Tensor) -> Tensor:
        """Send inputs through one kind of network."""
        from torch.nn import functional

        for layer, name in enumerate(self.network.activations):
            bias_CO = values[f"{kind}_bias_{layer}"]
            signal = signal @ values[f"{kind}_weight_{layer}"] + bias_CO[:, None, :]
            signal = getattr(functional, name)(signal)
        return signal[:, :, 0]


def _weighted_sums(rows: Tensor, weight_N: Tensor, from_N: Tensor, to_N: Tensor, size: int) -> Any:
    """Add, for every cell, its weight times row `from_N` to row `to_N` of the result."""
    sums = rows.new_zeros((size, rows.shape[1]))
    for part in ranges(len(from_N), CHUNK_NUMBERS // rows.shape[1]):
        sums.index_add_(0, to_N[part], weight_N[part, None] * rows[from_N[part]])
    return sums
