"""The posterior of one axis as its encoders give it, and the way back of a gradient.

For entity s and component k the paper has

    shape_sk = sum_n weight_n h(f_k(z of the other axes, y)),   rate_sk = the same with g_k.

As it stands, a draw that is too large makes larger shapes, which draw larger factors. Here the
encoders work in units. Factors go in as multiples of their column's present mean (over the
entities that have cells), so that no axis's scale depends on another's: it moves only as the
weights are taught to. Counts go in as multiples of their mean, and the rate comes out in units of
1 / scale, where scale is what all factors must be for the cells to have the mean count as their
rate. So encoders whose two outputs are about equal are about right from the start, whatever the
scale of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from tallyfold.inference.distributed.process_group import ALONE, ProcessGroup
from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.kernels.encoder import KINDS, AxisEncoder, Network, axis_encoder
from tallyfold.kernels.layout import AxisLayout
from tallyfold.posterior.closed_sums import ClosedSums

Weights = dict[str, Floats]

LEAST = 1e-3
"""Added to every shape, and to every rate in its unit."""

LARGEST_INPUT = 20.0
"""A factor further above its column's mean than this goes in as this."""

HIDDEN_SD = 0.3
OUTPUT_SD = 0.1
RATE_SHIFT = 0.1
"""The paper's mean of the rate encoder's output weights."""


@dataclass
class EncodedAxis:
    """The Gamma posteriors of an axis's entities, from the draws of the other axes.

    Parameters
    ----------
    layout, seen_M
        The cells in the axis's order, and for every axis which entities have any.
    network, n_components, shared
        The encoders: their form, and whether the components share one.
    mean_count, scale
        The mean of the training cells, and the size of factors that gives this rate.
    prior
        The shape and rate of an entity without a cell; where zeros are observed, its exposure is
        added to the rate, which then is the exact posterior.
    group
        The processes whose cells are summed.
    zeros_observed
        Whether the rate also has the exposure to all cells, the empty ones among them.
    """

    layout: AxisLayout
    seen_M: Sequence[Mask]
    network: Network
    n_components: int
    shared: bool
    mean_count: float
    scale: float
    prior: tuple[float, float]
    zeros_observed: bool
    backend: str = "auto"
    group: ProcessGroup = ALONE

    @cached_property
    def encoder(self) -> AxisEncoder:
        """The kernel, its cells in order."""
        return axis_encoder(self.layout, self.network, backend=self.backend)

    def start(self, rng: np.random.Generator) -> Weights:
        """Draw small weights; output biases make the outputs for a typical cell equal."""
        n_sets = 1 if self.shared else self.n_components
        widths = [len(self.seen_M), *[self.network.hidden_units] * self.network.hidden_layers, 1]
        weights: Weights = {}
        for kind in KINDS:
            signal = np.ones((n_sets, widths[0]))  # a typical cell: every input at its mean
            for layer, (wide, narrow) in enumerate(pairwise(widths)):
                is_last = layer == self.network.hidden_layers
                shift = RATE_SHIFT if is_last and kind == "rate" else 0.0
                sd = OUTPUT_SD if is_last else HIDDEN_SD
                weight = rng.normal(shift, sd, (n_sets, wide, narrow))
                bias = rng.normal(shift, sd, (n_sets, narrow))
                signal = np.einsum("ci,cio->co", signal, weight)
                if is_last:
                    bias = _typical_output(self.network.output_activation) - signal
                weights |= {f"{kind}_weight_{layer}": weight, f"{kind}_bias_{layer}": bias}
                signal = _activate(signal + bias, self.network.hidden_activation)
        return weights

    def forward(
        self, weights: Weights, draws: Sequence[Floats], weight_N: Floats
    ) -> tuple[Floats, Floats]:
        """Return shapes and rates; raise FloatingPointError if they are not finite."""
        inputs = self._inputs(draws)
        shape_DK, rate_DK = self.encoder.forward(self._raw(weights), inputs, weight_N)
        shape_DK, rate_DK = self.group.all_reduce(shape_DK), self.group.all_reduce(rate_DK)
        axis = self.layout.axis
        known_D1 = self.seen_M[axis][:, None]
        exposure = ClosedSums.of_all(draws).exposure(axis) if self.zeros_observed else 0.0
        shape_DK = np.where(known_D1, LEAST + shape_DK, self.prior[0])
        rate_DK = np.where(known_D1, (LEAST + rate_DK) / self.scale, self.prior[1]) + exposure
        if not (np.all(np.isfinite(shape_DK)) and np.all(np.isfinite(rate_DK))):
            raise FloatingPointError("the encoders gave shapes or rates that are not finite")
        return shape_DK, rate_DK

    def backward(
        self,
        weights: Weights,
        draws: Sequence[Floats],
        weight_N: Floats,
        by_shape_DK: Floats,
        by_rate_DK: Floats,
    ) -> Weights:
        """Turn a gradient by shapes and rates into one by the weights."""
        inputs = self._inputs(draws)
        gradient = self.encoder.backward(
            self._raw(weights), inputs, weight_N, by_shape_DK, by_rate_DK / self.scale
        )
        whole = {n: self.group.all_reduce(np.asarray(g, np.float64)) for n, g in gradient.items()}
        return self._raw(whole)

    def _inputs(self, draws: Sequence[Floats]) -> list[Floats]:
        """Return the factors as multiples of their columns' means; its own are not looked at."""
        inputs = list(draws)
        for axis, (z_DK, seen_D) in enumerate(zip(draws, self.seen_M, strict=True)):
            if axis != self.layout.axis:
                mean_K = z_DK[seen_D].mean(axis=0)
                inputs[axis] = np.minimum(z_DK / mean_K, LARGEST_INPUT)
        return inputs

    def _raw(self, weights: Weights) -> Weights:
        """Divide the count's weights by the mean count: the kernel takes counts as they are."""
        raw = dict(weights)
        for kind in KINDS:
            first = weights[f"{kind}_weight_0"].copy()
            first[:, -1] /= self.mean_count
            raw[f"{kind}_weight_0"] = first
        return raw


def _typical_output(activation: str) -> float:
    """Return what the output unit must get for a cell to add 1 (softplus) or 1/2 (sigmoid)."""
    return float(np.log(np.expm1(1.0))) if activation == "softplus" else 0.0


def _activate(signal: Floats, activation: str) -> Floats:
    if activation == "relu":
        return np.maximum(signal, 0.0)
    soft = np.logaddexp(0.0, signal)
    return soft if activation == "softplus" else np.exp(signal - soft)
