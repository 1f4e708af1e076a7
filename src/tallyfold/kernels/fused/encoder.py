"""Encoders compiled: each distinct input once, in float32, the same bits on any threads.

Weights are float32, a unit's inputs and bias side by side. A layer before a softplus or sigmoid is
divided by ln 2, because those work in powers of two; softplus signals then come in units of ln 2.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Factors, Floats
from tallyfold.kernels.encoder import (
    INPUT_CAP,
    KINDS,
    Arguments,
    AxisEncoder,
    Network,
    Weights,
    other_factors,
)
from tallyfold.kernels.fused.encoder_passes import PADDED, differentiate, evaluate
from tallyfold.kernels.fused.jit import jit_sums
from tallyfold.kernels.fused.softplus import BLOCK, CODES
from tallyfold.kernels.fused.visits import frozen, padded, sum_pieces
from tallyfold.kernels.layout import AxisLayout, distinct_inputs
from tallyfold.kernels.threads import run_chunks

CHUNK_BLOCKS = 2
MOST_CHUNKS = 128
"""Each chunk has its own sums of gradients, to be added in the chunks' order."""

WEIGHT_CAP = 1e9
"""Weights are clipped to it: with clipped inputs, no float32 sum can overflow."""

LN_2 = math.log(2.0)

Singles = NDArray[np.float32]


class Packed(NamedTuple):
    """Weights by kind (T = 2) and network (C), and the factors.

    Attributes
    ----------
    hidden_TCUI
        For every hidden unit, its M weights and its bias. No unit if there is no hidden layer; an
        odd number is made even by a unit of zeros, as the kernel takes two at a time.
    output_TCI
        The output's weights and its bias.
    table_RK
        The other axes' factors, a row for every entity of any axis.
    first_J
        Where each other axis begins in the table.
    """

    hidden_TCUI: Singles
    output_TCI: Singles
    table_RK: Singles
    first_J: Any


class Weighed(NamedTuple):
    """Weights of cells: as given, in the layout's order, and divided by their peak in the inputs'.

    The peak is the largest absolute weight.
    """

    given_N: Floats
    layout_N: Floats
    inputs_N: Floats
    peak: float


class FusedEncoder(AxisEncoder):
    """See :class:`tallyfold.kernels.encoder.AxisEncoder`; for networks of one hidden layer or none.

    Outputs and their slopes are written to arrays that the next pass overwrites: two threads must
    not use one encoder at the same time.
    """

    def __init__(self, layout: AxisLayout, network: Network) -> None:
        super().__init__(layout, network)
        self.distinct = distinct_inputs(layout)
        counts_R = _single(np.minimum(self.distinct.counts_R, INPUT_CAP))
        self.inputs = self.distinct.others_RJ.T, counts_R
        self.codes = (CODES[network.hidden_activation], CODES[network.output_activation])
        self.n_blocks = -(-len(counts_R) // BLOCK)
        self.chunk_blocks = max(CHUNK_BLOCKS, -(-self.n_blocks // MOST_CHUNKS))
        self._value_RW: Any = np.zeros((len(counts_R), 0), dtype=np.float32)
        self._slope_GWB: Any = np.empty((self.n_blocks, 0, PADDED), dtype=np.float32)
        self._packed: Packed | None = None
        self._weighed: Weighed | None = None

    def _sums(self, given: Arguments) -> tuple[Floats, Floats]:
        """Evaluate the distinct inputs, then add each cell's output to its entity."""
        self._evaluate(pack(self.layout, self.network, given.weights, given.factors))
        rows = self._value_RW, self.distinct.input_N, self._weigh(given.weight_N).layout_N
        sums_DW, n_components = sum_pieces(_add_rows, self.layout, rows), given.n_components
        return sums_DW[:, :n_components].copy(), sums_DW[:, n_components : 2 * n_components].copy()

    def _gradient(self, given: Arguments, grad_TDK: Floats) -> dict[str, Floats]:
        """Add each cell's gradient to its input's and send these back through the layers.

        Gradients are divided by their largest before they become float32, so that neither huge
        nor tiny ones are lost.
        """
        packed = pack(self.layout, self.network, given.weights, given.factors)
        if self._packed is None or not all(map(np.array_equal, self._packed, packed)):
            self._evaluate(packed)
        peak_TK = np.abs(grad_TDK).max(axis=1, initial=0.0)
        if packed.output_TCI.shape[1] == 1:
            peak_TK = peak_TK.max(axis=1, keepdims=True)
        peak_TK[peak_TK == 0.0] = 1.0
        weighed = self._weigh(given.weight_N)
        grad_DW = np.hstack(list(grad_TDK / peak_TK[:, None, :]))
        hidden, output = self._differentiate(packed, weighed.inputs_N, grad_DW)
        peak_TC1 = (weighed.peak * peak_TK)[:, :, None]
        return unpack(self.network, given.weights, hidden * peak_TC1[..., None], output * peak_TC1)

    def _evaluate(self, packed: Packed) -> None:
        """Write value and slope of every input; columns are padded to whole vectors."""
        self._packed = None
        width = 2 * packed.table_RK.shape[1]
        if self._slope_GWB.shape[1] != width:
            self._value_RW = np.zeros((len(self._value_RW), padded(width)), dtype=np.float32)
            self._slope_GWB = np.empty((self.n_blocks, width, PADDED), dtype=np.float32)
        results = self._value_RW, self._slope_GWB
        run_chunks(evaluate, self.n_blocks, self.codes, self.inputs, tuple(packed), *results)
        self._packed = packed

    def _differentiate(
        self, packed: Packed, weight_N: Floats, grad_DW: Floats
    ) -> tuple[Floats, Floats]:
        """Return the chunks' sums, added in order."""
        n_chunks = -(-self.n_blocks // self.chunk_blocks)
        hidden_HTCUI = np.zeros((n_chunks, *packed.hidden_TCUI.shape))
        output_HTCI = np.zeros((n_chunks, *packed.output_TCI.shape))
        cells = self.distinct.indptr_R1, self.distinct.entity_N, weight_N, grad_DW
        fixed = self.chunk_blocks, self.codes, self.inputs, tuple(packed), self._slope_GWB, cells
        run_chunks(differentiate, n_chunks, *fixed, (hidden_HTCUI, output_HTCI))
        return hidden_HTCUI.sum(axis=0), output_HTCI.sum(axis=0)

    def _weigh(self, weight_N: Floats) -> Weighed:
        """Return the cells' weights in both orders: the last call's, if they are the same."""
        if self._weighed is None or not np.array_equal(weight_N, self._weighed.given_N):
            given_N = np.array(weight_N, dtype=np.float64)
            peak = float(np.abs(given_N).max(initial=0.0)) or 1.0
            layout_N = frozen(given_N[self.layout.order_N], np.float64)
            inputs_N = given_N[self.distinct.source_N] / peak
            self._weighed = Weighed(given_N, layout_N, inputs_N, peak)
        return self._weighed


def pack(layout: AxisLayout, network: Network, weights: Weights, factors: Factors) -> Packed:
    """Return weights and factors for the kernel."""
    last = network.hidden_layers
    output_TCI = _with_bias(weights, last)[:, :, 0, :] / LN_2
    n_networks, n_inputs = output_TCI.shape[1], len(factors)
    hidden_TCUI = np.zeros((2, n_networks, 0, n_inputs + 1))
    if last:
        hidden_TCUI = _with_bias(weights, 0) / _unit(network.hidden_activation != "relu")
        output_TCI[:, :, :-1] *= _unit(network.hidden_activation == "softplus")
    if last and network.hidden_units % 2:
        hidden_TCUI = np.insert(hidden_TCUI, network.hidden_units, 0.0, axis=2)
        output_TCI = np.insert(output_TCI, network.hidden_units, 0.0, axis=2)
    others = other_factors(layout, factors)
    first_J = np.cumsum([0, *(len(factor_DK) for factor_DK in others[:-1])])
    table_RK = _single(np.concatenate(others))
    return Packed(_single(hidden_TCUI), _single(output_TCI), table_RK, first_J)


def unpack(
    network: Network, weights: Weights, hidden_TCUI: Floats, output_TCI: Floats
) -> dict[str, Floats]:
    """Return the kernel's sums as gradients with respect to the weights, by name.

    The gradient of a hidden unit has its output weight as a factor, which the kernel leaves out and
    which is multiplied in here.
    """
    gradient, last = {}, network.hidden_layers
    if last:
        hidden_TCUI = hidden_TCUI[:, :, : network.hidden_units]
        output_TCI = np.delete(output_TCI, slice(network.hidden_units, -1), axis=2)
    for t, kind in enumerate(KINDS):
        if last:
            output_CUO = np.clip(weights[f"{kind}_weight_1"], -WEIGHT_CAP, WEIGHT_CAP)
            hidden_CUI = hidden_TCUI[t] * output_CUO
            gradient[f"{kind}_weight_0"] = hidden_CUI[:, :, :-1].transpose(0, 2, 1).copy()
            gradient[f"{kind}_bias_0"] = hidden_CUI[:, :, -1].copy()
        unit = _unit(bool(last) and network.hidden_activation == "softplus")
        gradient[f"{kind}_weight_{last}"] = unit * output_TCI[t, :, :-1, None]
        gradient[f"{kind}_bias_{last}"] = output_TCI[t, :, -1:].copy()
    return gradient


def _with_bias(weights: Weights, layer: int) -> Floats:
    """Return both kinds of one layer: a row of weights and the bias for every unit."""
    kinds = []
    for kind in KINDS:
        weight_CIO, bias_CO = (weights[f"{kind}_{part}_{layer}"] for part in ("weight", "bias"))
        kinds.append(np.concatenate([weight_CIO.transpose(0, 2, 1), bias_CO[:, :, None]], axis=2))
    return np.asarray(np.clip(np.stack(kinds), -WEIGHT_CAP, WEIGHT_CAP))


def _unit(counted_in_ln_2: bool) -> float:
    return LN_2 if counted_in_ln_2 else 1.0


def _single(array: Floats) -> Singles:
    return np.ascontiguousarray(array, dtype=np.float32)


@jit_sums
def _add_rows(start, stop, cells, rows, sums_SW):  # type: ignore[no-untyped-def]
    """Sum the rows of cells' inputs, weighted, over the pieces start..stop."""
    value_RW, input_N, weight_N = rows
    piece_cell_S1 = cells[0]
    for s in range(start, stop):
        sums_W = sums_SW[s]
        for n in range(piece_cell_S1[s], piece_cell_S1[s + 1]):
            weight, value_W = weight_N[n], value_RW[input_N[n]]
            for w in range(len(sums_W)):
                sums_W[w] += weight * value_W[w]
