"""How much a cell counts as evidence: a small network of its count and its present rate.

Two inputs (ln count, ln rate), one hidden layer of ReLU units, two softplus outputs: the weight of
the cell's count and the weight of its exposure in an entity's Gamma posterior. With the output
weights at zero and the biases at softplus^-1(1) both weights are 1 and the update is the
conjugate one: there training starts.

The network is one flat vector, so that any optimiser takes it: ``into`` (2, d), ``hidden`` (d,),
``out`` (d, 2), ``bias`` (2,), one after the other.
"""

from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tallyfold.errors import ShapeError
from tallyfold.kernels.announce import announce_compilation
from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.kernels.backends import chosen_backend
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
    """Return how many numbers a network with so many hidden units has."""
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
    faster = _faster(flat, x_2N, backend)
    if faster is None:
        return _outputs(flat, x_2N)[0]
    return faster.evidence_weights(layers(flat), x_2N)  # type: ignore[no-any-return]


def evidence_gradient(
    flat: Floats, x_2N: Floats, slope_2N: Floats, *, backend: str = "auto"
) -> Floats:
    """Return the gradient of sum(slope * weights) with respect to the network."""
    faster = _faster(flat, x_2N, backend)
    if faster is None:
        return _gradient(flat, x_2N, slope_2N)
    return faster.evidence_gradient(layers(flat), x_2N, slope_2N)  # type: ignore[no-any-return]


def _faster(flat: Floats, x_2N: Floats, backend: str) -> Any:
    """Return the module that the back-end asks for; None for this one."""
    work = x_2N.shape[1] * max(len(flat), 1)
    chosen = chosen_backend(backend, small=work < SMALL_WORK)
    if chosen == "numpy":
        return None
    if chosen == "torch":
        return import_module("tallyfold.kernels.on_device.evidence")
    announce_compilation()
    return import_module("tallyfold.kernels.fused.evidence")


def _outputs(flat: Floats, x_2N: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the weights, what goes into the softplus, and the hidden units."""
    net = layers(flat)
    hidden_NH = np.maximum(x_2N.T @ net.into_2H + net.hidden_H, 0.0)
    inner_2N = (hidden_NH @ net.out_H2 + net.bias_2).T
    return np.logaddexp(inner_2N, 0.0), inner_2N, hidden_NH


def _gradient(flat: Floats, x_2N: Floats, slope_2N: Floats) -> Floats:
    net = layers(flat)
    _, inner_2N, hidden_NH = _outputs(flat, x_2N)
    inner_slope_2N = slope_2N * np.exp(-np.logaddexp(-inner_2N, 0.0))
    hidden_slope_NH = (inner_slope_2N.T @ net.out_H2.T) * (hidden_NH > 0)
    parts = (
        x_2N @ hidden_slope_NH,
        hidden_slope_NH.sum(axis=0),
        (inner_slope_2N @ hidden_NH).T,
        inner_slope_2N.sum(axis=1),
    )
    return np.concatenate([np.ravel(part) for part in parts])
