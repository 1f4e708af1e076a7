"""Encoders compiled: each distinct input once, in float32, the same bits on any threads."""

from typing import Any

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.distinct_inputs import distinct_inputs
from tallyfold.kernels.encoder import Network, Weights, check_arguments
from tallyfold.kernels.fused.encoder_passes import PADDED, differentiate, evaluate
from tallyfold.kernels.fused.encoder_weights import Packed, Singles, counts_as_inputs, pack, unpack
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.pack import VECTOR, frozen
from tallyfold.kernels.fused.pieces import sum_pieces
from tallyfold.kernels.fused.softplus import BLOCK, CODES
from tallyfold.kernels.layout import AxisLayout
from tallyfold.kernels.threads import run_chunks

CHUNK_BLOCKS = 2
MOST_CHUNKS = 128
"""Each chunk has its own sums of gradients, to be added in the chunks' order."""


class FusedEncoder:
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`; for networks of one hidden layer or none.

    The slope of every output is kept from one forward pass to the next, and so is the memory: one
    encoder serves one caller at a time.
    """

    def __init__(self, layout: AxisLayout, network: Network) -> None:
        self.layout = layout
        self.network = network
        self.inputs = distinct_inputs(layout)
        self.others_JR = self.inputs.others_RJ.T
        self.counts_R = counts_as_inputs(self.inputs.counts_R)
        self.codes = (CODES[network.hidden_activation], CODES[network.output_activation])
        self.n_blocks = -(-len(self.counts_R) // BLOCK)
        self.chunk_blocks = max(CHUNK_BLOCKS, -(-self.n_blocks // MOST_CHUNKS))
        self._lent: tuple[Singles, Singles] | None = None
        self._kept: Packed | None = None

    def forward(
        self, weights: Weights, factors: Factors, weight_N: Floats
    ) -> tuple[Floats, Floats]:
        """Evaluate the distinct inputs, then add each cell's output to its entity."""
        n_components = check_arguments(self.layout, self.network, weights, factors, weight_N)
        packed = pack(self.layout, self.network, weights, factors)
        value_RW: Any = self._evaluate(packed, factors)[0]
        first_M = np.zeros(len(factors), dtype=np.int64)  # not looked at
        extra = self.inputs.input_N, frozen(weight_N[self.layout.order_N], np.float64)
        sums_DW = sum_pieces(_add_rows, self.layout, value_RW, first_M, *extra)
        return sums_DW[:, :n_components].copy(), sums_DW[:, n_components : 2 * n_components].copy()

    def backward(
        self,
        weights: Weights,
        factors: Factors,
        weight_N: Floats,
        shape_grad_DK: Floats,
        rate_grad_DK: Floats,
    ) -> dict[str, Floats]:
        """Add each cell's gradient to its input's and send these back through the layers.

        Gradients are divided by their largest before they become float32, so that neither huge
        nor tiny ones are lost.
        """
        check_arguments(self.layout, self.network, weights, factors, weight_N)
        packed = pack(self.layout, self.network, weights, factors)
        if self._kept is None or self._lent is None or not self._kept.equals(packed):
            _, slope_GWB = self._evaluate(packed, factors)
        else:
            _, slope_GWB = self._lent
        grad_TDK = np.stack([shape_grad_DK, rate_grad_DK], dtype=np.float64)
        peak_TK = np.abs(grad_TDK).max(axis=1, initial=0.0)
        if packed.output_TCI.shape[1] == 1:
            peak_TK = peak_TK.max(axis=1, keepdims=True)
        peak_TK[peak_TK == 0.0] = 1.0
        peak = float(np.abs(weight_N).max(initial=0.0)) or 1.0
        scaled_N = weight_N[self.inputs.source_N] / peak
        grad_DW = np.hstack(list(grad_TDK / peak_TK[:, None, :]))
        hidden, output = self._differentiate(packed, slope_GWB, scaled_N, grad_DW, factors)
        peak_TC1 = (peak * peak_TK)[:, :, None]
        return unpack(self.network, weights, hidden * peak_TC1[..., None], output * peak_TC1)

    def _evaluate(self, packed: Packed, factors: Factors) -> tuple[Singles, Singles]:
        """Return value and slope of every input; columns are padded to whole vectors."""
        value_RW, slope_GWB = self._memory(2 * packed.table_RK.shape[1])
        arrays, inputs = (*packed, self._first(factors)), (self.others_JR, self.counts_R)

        def visit(start: int, stop: int) -> None:
            evaluate(start, stop, self.codes, inputs, arrays, value_RW, slope_GWB)

        run_chunks(visit, self.n_blocks)
        self._kept = packed
        return value_RW, slope_GWB

    def _memory(self, width: int) -> tuple[Singles, Singles]:
        """Return arrays for values and slopes: the last ones, if they have the right width."""
        if self._lent is None or self._lent[1].shape[1] != width:
            padded = -(-width // VECTOR) * VECTOR
            value_RW = np.zeros((len(self.counts_R), padded), dtype=np.float32)
            slope_GWB = np.empty((self.n_blocks, width, PADDED), dtype=np.float32)
            self._lent = (value_RW, slope_GWB)
        self._kept = None
        return self._lent

    def _differentiate(
        self,
        packed: Packed,
        slope_GWB: Singles,
        weight_N: Floats,
        grad_DW: Floats,
        factors: Factors,
    ) -> tuple[Floats, Floats]:
        """Return the chunks' sums, added in order."""
        n_chunks = -(-self.n_blocks // self.chunk_blocks)
        hidden_HTCUI = np.zeros((n_chunks, *packed.hidden_TCUI.shape))
        output_HTCI = np.zeros((n_chunks, *packed.output_TCI.shape))
        arrays, inputs = (*packed, self._first(factors)), (self.others_JR, self.counts_R)
        cells = (self.inputs.indptr_R1, self.inputs.entity_N, weight_N, grad_DW)
        sums = hidden_HTCUI, output_HTCI

        def visit(start: int, stop: int) -> None:
            edges = start, stop, self.chunk_blocks
            differentiate(edges, self.codes, inputs, arrays, slope_GWB, cells, sums)

        run_chunks(visit, n_chunks)
        return hidden_HTCUI.sum(axis=0), output_HTCI.sum(axis=0)

    def _first(self, factors: Factors) -> Any:
        """Return where each other axis begins in the table."""
        sizes = [len(factor) for m, factor in enumerate(factors) if m != self.layout.axis]
        return np.cumsum([0, *sizes[:-1]])


@jit_sums
def _add_rows(start, stop, cells, table, sums_SW, input_N, weight_N):  # type: ignore[no-untyped-def]
    """Sum the rows of cells' inputs, weighted, over the pieces start..stop."""
    piece_cell_S1, value_RW = cells[0], table[0]
    for s in range(start, stop):
        sums_W = sums_SW[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            weight, value_W = weight_N[n], value_RW[input_N[n]]
            for w in range(len(sums_W)):
                sums_W[w] += weight * value_W[w]
