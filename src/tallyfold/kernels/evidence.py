"""How much a cell counts as evidence: a small network of its count and its present rate.

Two inputs (ln count, ln rate), one hidden layer of ReLU units, two softplus outputs: the weight of
the cell's count and the weight of its exposure in an entity's Gamma posterior. With the output
weights at zero and the biases at softplus^-1(1) both weights are 1 and the update is the
conjugate one: there training starts.

The network is one flat vector, so that any optimiser takes it: ``into`` (2, d), ``hidden`` (d,),
``out`` (d, 2), ``bias`` (2,), one after the other.
"""

from typing import NamedTuple

import numpy as np

from tallyfold.errors import ShapeError
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.kernels.backends import kernels_of
from tallyfold.kernels.dispatch import SMALL_WORK

SOFTPLUS_INVERSE_OF_ONE = 0.5413248546129181
"""ln(e - 1), rounded correctly, so that its softplus is 1 to the last bit."""
INPUT_RANGE = 8.0
"""Logarithms are kept within this range, and divided by `INPUT_SCALE`."""
INPUT_SCALE = 2.0


class Layers(NamedTuple):
    """Views into a flat vector."""

    into_2H: Floats
    hidden_H: Floats
    out_H2: Floats
    bias_2: Floats


def network_size(units: int) -> int:
    """Return the length of the flat vector of a network with `units` hidden units."""
    return 5 * units + 2


def layers(flat: Floats) -> Layers:
    """Cut a flat vector into layers."""
    units, rest = divmod(len(flat) - 2, 5)
    if rest or units < 0:
        raise ShapeError(f"a network has 5 d + 2 numbers for d hidden units; got {len(flat)}.")
    edges = np.cumsum([2 * units, units, 2 * units])
    into, hidden, out, bias = np.split(flat, edges)
    return Layers(into.reshape(2, units), hidden, out.reshape(units, 2), bias)


def conjugate_network(units: int, rng: np.random.Generator) -> Floats:
    """Return a network whose weights are exactly 1, with random hidden units to learn from."""
    flat = np.zeros(network_size(units))
    parts = layers(flat)
    parts.into_2H[:] = rng.normal(size=parts.into_2H.shape)
    parts.hidden_H[:] = rng.normal(size=units)
    parts.bias_2[:] = SOFTPLUS_INVERSE_OF_ONE
    return flat


def network_inputs(counts_N: Ints, rate_N: Floats) -> Floats:
    """Return (2, N) inputs of cells; read-only, so that a device may keep its copy."""
    logs_2N = np.log(np.maximum(np.stack([counts_N.astype(float), rate_N]), 1e-300))
    x_2N = np.asarray(np.clip(logs_2N, -INPUT_RANGE, INPUT_RANGE) / INPUT_SCALE)
    x_2N.flags.writeable = False
    return x_2N


def evidence_weights(flat: Floats, x_2N: Floats, *, backend: str = "auto") -> Floats:
    """Return the two weights of each cell, (2, N)."""
    net = layers(flat)
    run = kernels_of(backend, small=x_2N.shape[1] * len(flat) < SMALL_WORK).evidence_weights
    return run(net, x_2N)  # type: ignore[no-any-return]


def evidence_gradient(
    flat: Floats, x_2N: Floats, slope_2N: Floats, *, backend: str = "auto"
) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    net = layers(flat)
    run = kernels_of(backend, small=x_2N.shape[1] * len(flat) < SMALL_WORK).evidence_gradient
    return run(net, x_2N, slope_2N)  # type: ignore[no-any-return]
