"""Encoders in eager torch: any depth, any device, gradients by autograd.

Rows are taken in chunks, so that memory stays bounded; the backward pass evaluates a chunk again
instead of keeping its intermediates. Torch is imported when an encoder is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.distinct_inputs import distinct_rows, every_cell
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
"""Rows times components times width that are evaluated at a time."""


class TorchEncoder:
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`.

    Parameters
    ----------
    layout, network
        The axis's cells and the networks' form.
    distinct
        Whether cells that share a row are evaluated once.
    dtype, device
        What torch computes with, and where.
    """

    def __init__(
        self,
        layout: AxisLayout,
        network: Network,
        *,
        distinct: bool = True,
        dtype: str = "float64",
        device: str = "cpu",
    ) -> None:
        import torch

        self.layout = layout
        self.network = network
        self.to: dict[str, Any] = {"dtype": getattr(torch, dtype), "device": device}
        rows = distinct_rows(layout) if distinct else every_cell(layout)
        self.others_RJ = torch.as_tensor(rows.others_RJ, dtype=torch.int64, device=device)
        self.counts_R = torch.as_tensor(np.minimum(rows.counts_R, INPUT_CAP), **self.to)
        row_N = np.repeat(np.arange(len(rows.counts_R)), np.diff(rows.indptr_R1))
        self.row_N = torch.as_tensor(row_N, device=device)
        self.entity_N = torch.as_tensor(rows.entity_N, device=device)
        self.source_N = rows.source_N

    def forward(
        self, weights: Weights, factors: Factors, weight_N: Floats
    ) -> tuple[Floats, Floats]:
        """Evaluate the rows in chunks, then add each cell's row to its entity."""
        import torch

        n_components = check_arguments(self.layout, self.network, weights, factors, weight_N)
        values = {name: torch.as_tensor(array, **self.to) for name, array in weights.items()}
        tables = [torch.as_tensor(z_DK, **self.to) for z_DK in other_factors(self.layout, factors)]
        weight = torch.as_tensor(weight_N[self.source_N], **self.to)[:, None]
        output_RW = torch.empty((len(self.counts_R), 2 * n_components), **self.to)
        with torch.no_grad(), self._threads(n_components):
            for part in self._chunks(n_components):
                output_RW[part] = self._outputs(values, tables, part)
        sums_DW = torch.zeros((len(self.layout.indptr_D1) - 1, 2 * n_components), **self.to)
        for part in self._cells(n_components):
            term_PW = weight[part] * output_RW[self.row_N[part]]
            sums_DW.index_add_(0, self.entity_N[part], term_PW)
        sums = sums_DW.cpu().numpy().astype(np.float64)
        return sums[:, :n_components].copy(), sums[:, n_components:].copy()

    def backward(
        self,
        weights: Weights,
        factors: Factors,
        weight_N: Floats,
        shape_grad_DK: Floats,
        rate_grad_DK: Floats,
    ) -> dict[str, Floats]:
        """Add each cell's gradient to its row, then let autograd work chunk by chunk."""
        import torch

        n_components = check_arguments(self.layout, self.network, weights, factors, weight_N)
        values = {
            name: torch.as_tensor(array, **self.to).clone().requires_grad_()
            for name, array in weights.items()
        }
        tables = [torch.as_tensor(z_DK, **self.to) for z_DK in other_factors(self.layout, factors)]
        weight = torch.as_tensor(weight_N[self.source_N], **self.to)[:, None]
        grad_DW = torch.as_tensor(np.hstack([shape_grad_DK, rate_grad_DK]), **self.to)
        grad_RW = torch.zeros((len(self.counts_R), 2 * n_components), **self.to)
        for part in self._cells(n_components):
            term_PW = weight[part] * grad_DW[self.entity_N[part]]
            grad_RW.index_add_(0, self.row_N[part], term_PW)
        with self._threads(n_components):
            for part in self._chunks(n_components):
                output_RW = self._outputs(values, tables, part)
                output_RW.backward(grad_RW[part])  # type: ignore[no-untyped-call]
        return {
            name: np.zeros(value.shape)
            if value.grad is None
            else value.grad.cpu().numpy().astype(np.float64)
            for name, value in values.items()
        }

    def _rows_at_a_time(self, n_components: int) -> int:
        """Return how many rows have intermediates of a bounded size."""
        width = max(len(self.layout.reach_M), self.network.hidden_units)
        return max(1, CHUNK_NUMBERS // (n_components * width))

    def _chunks(self, n_components: int) -> Iterator[slice]:
        """Yield ranges of rows."""
        step = self._rows_at_a_time(n_components)
        for start in range(0, len(self.counts_R), step):
            yield slice(start, start + step)

    def _cells(self, n_components: int) -> Iterator[slice]:
        """Yield ranges of cells."""
        step = max(1, CHUNK_NUMBERS // (2 * n_components))
        for start in range(0, len(self.row_N), step):
            yield slice(start, start + step)

    def _threads(self, n_components: int) -> AbstractContextManager[Any]:
        """Use as many threads as other kernels, but one for little work: they wait too long."""
        little = len(self.counts_R) < self._rows_at_a_time(n_components)
        limits: AbstractContextManager[Any] = openmp().limit(limits=1 if little else thread_count())
        return limits

    def _outputs(
        self, values: dict[str, torch.Tensor], tables: list[torch.Tensor], part: slice
    ) -> torch.Tensor:
        """Return shape and rate of some rows, components side by side."""
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
