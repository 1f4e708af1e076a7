"""Encoders in eager torch: any depth, any device, gradients by autograd.

Distinct inputs are taken in chunks, so that memory stays bounded; the backward pass evaluates a
chunk again instead of keeping its intermediates. Torch is imported when an encoder is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.distinct_inputs import distinct_inputs
from tallyfold.kernels.encoder import (
    INPUT_CAP,
    KINDS,
    Network,
    Weights,
    check_arguments,
    other_factors,
)
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.on_device.tensors import openmp
from tallyfold.kernels.threads import thread_count

if TYPE_CHECKING:
    import torch

CHUNK_NUMBERS = 1 << 21
"""Inputs times components times width that are evaluated at a time."""


class TorchEncoder:
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`.

    Parameters
    ----------
    layout, network
        The axis's cells and the networks' form.
    device
        Where torch computes.
    """

    def __init__(self, layout: AxisLayout, network: Network, *, device: str = "cpu") -> None:
        import torch

        self.layout, self.network, self.device = layout, network, device
        inputs = distinct_inputs(layout)
        self.others_RJ = torch.as_tensor(inputs.others_RJ, dtype=torch.int64, device=device)
        self.counts_R = self._tensor(np.minimum(inputs.counts_R, INPUT_CAP))
        input_N = np.repeat(np.arange(len(inputs.counts_R)), np.diff(inputs.indptr_R1))
        self.input_N = torch.as_tensor(input_N, device=device)
        self.entity_N = torch.as_tensor(inputs.entity_N, device=device)
        self.source_N = inputs.source_N

    def forward(
        self, weights: Weights, factors: Factors, weight_N: Floats
    ) -> tuple[Floats, Floats]:
        """Evaluate the inputs in chunks, then add each cell's output to its entity."""
        import torch

        n_components = check_arguments(self.layout, self.network, weights, factors, weight_N)
        values = {name: self._tensor(array) for name, array in weights.items()}
        tables = [self._tensor(z_DK) for z_DK in other_factors(self.layout, factors)]
        output_RW = self.counts_R.new_empty((len(self.counts_R), 2 * n_components))
        with torch.no_grad(), self._threads(n_components):
            for part in self._chunks(n_components):
                output_RW[part] = self._outputs(values, tables, part)
        n_entities = len(self.layout.indptr_D1) - 1
        sums_DW = self._weighted_sums(output_RW, weight_N, self.input_N, self.entity_N, n_entities)
        sums = sums_DW.cpu().numpy()
        return sums[:, :n_components].copy(), sums[:, n_components:].copy()

    def backward(
        self,
        weights: Weights,
        factors: Factors,
        weight_N: Floats,
        shape_grad_DK: Floats,
        rate_grad_DK: Floats,
    ) -> dict[str, Floats]:
        """Add each cell's gradient to its input's, then let autograd work chunk by chunk."""
        n_components = check_arguments(self.layout, self.network, weights, factors, weight_N)
        values = {name: self._tensor(array).requires_grad_() for name, array in weights.items()}
        tables = [self._tensor(z_DK) for z_DK in other_factors(self.layout, factors)]
        grad_DW = self._tensor(np.hstack([shape_grad_DK, rate_grad_DK]))
        n_inputs = len(self.counts_R)
        grad_RW = self._weighted_sums(grad_DW, weight_N, self.entity_N, self.input_N, n_inputs)
        with self._threads(n_components):
            for part in self._chunks(n_components):
                output_RW = self._outputs(values, tables, part)
                output_RW.backward(grad_RW[part])  # type: ignore[no-untyped-call]
        return {
            name: np.zeros(value.shape) if value.grad is None else value.grad.cpu().numpy()
            for name, value in values.items()
        }

    def _tensor(self, array: Any) -> torch.Tensor:
        import torch

        return torch.tensor(np.ascontiguousarray(array), dtype=torch.float64, device=self.device)

    def _weighted_sums(
        self,
        rows: torch.Tensor,
        weight_N: Floats,
        from_N: torch.Tensor,
        to_N: torch.Tensor,
        size: int,
    ) -> torch.Tensor:
        """Add, for every cell, its weight times row `from_N` to row `to_N` of the result."""
        weight = self._tensor(weight_N[self.source_N])[:, None]
        sums = rows.new_zeros((size, rows.shape[1]))
        for part in _ranges(len(from_N), CHUNK_NUMBERS // rows.shape[1]):
            sums.index_add_(0, to_N[part], weight[part] * rows[from_N[part]])
        return sums

    def _inputs_at_a_time(self, n_components: int) -> int:
        """Return how many inputs have intermediates of a bounded size."""
        width = max(len(self.layout.reach_M), self.network.hidden_units)
        return CHUNK_NUMBERS // (n_components * width)

    def _chunks(self, n_components: int) -> Iterator[slice]:
        return _ranges(len(self.counts_R), self._inputs_at_a_time(n_components))

    def _threads(self, n_components: int) -> AbstractContextManager[Any]:
        """Use as many threads as other kernels, but one for little work: they wait too long."""
        little = len(self.counts_R) < self._inputs_at_a_time(n_components)
        limits: AbstractContextManager[Any] = openmp().limit(limits=1 if little else thread_count())
        return limits

    def _outputs(
        self, values: dict[str, torch.Tensor], tables: list[torch.Tensor], part: slice
    ) -> torch.Tensor:
        """Return shape and rate of some inputs, components side by side."""
        import torch

        others_RJ, counts_R = self.others_RJ[part], self.counts_R[part]
        columns = [table[others_RJ[:, j]].T for j, table in enumerate(tables)]
        inputs_KRM = torch.stack([*columns, counts_R.expand_as(columns[0])], dim=2)
        outputs = [self._network(kind, values, inputs_KRM) for kind in KINDS]
        return torch.cat(outputs).T

    def _network(
        self, kind: str, values: dict[str, torch.Tensor], signal: torch.Tensor
    ) -> torch.Tensor:
        """Send inputs through one kind of network."""
        import torch
        from torch.nn import functional

        activations = {
            "softplus": functional.softplus,
            "relu": torch.relu,
            "sigmoid": torch.sigmoid,
        }
        for layer in range(self.network.hidden_layers + 1):
            last = layer == self.network.hidden_layers
            name = self.network.output_activation if last else self.network.hidden_activation
            bias_CO = values[f"{kind}_bias_{layer}"]
            signal = signal @ values[f"{kind}_weight_{layer}"] + bias_CO[:, None, :]
            signal = activations[name](signal)
        return signal[:, :, 0]


def _ranges(length: int, step: int) -> Iterator[slice]:
    """Yield ranges of `step` rows, or of one if the step is less."""
    step = max(1, step)
    return (slice(start, start + step) for start in range(0, length, step))
