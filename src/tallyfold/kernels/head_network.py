"""The network of the count head: one hidden layer and a linear skip, to the logits of bins.

    logits = b + [relu(x W1 + b1), x] W2 S

S holds smooth functions of the bin and a scaled identity: bins that are near share what is learnt.
Training goes through BLAS, prediction by products in a fixed order: a row gives the same bits
beside any others. Both are in the type of the inputs: float32 in fits.
"""

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints
from tallyfold.kernels.backends import announce_compilation, chosen_backend
from tallyfold.kernels.row_products import row_products

Singles = NDArray[np.float32]

BLOCK = 4096
"""Rows that are predicted at once: they stay in the cache."""
AT_ONCE = 1024
"""As many for BLAS."""
SMALL_WORK = 10_000
"""Hidden units times rows below which ``"auto"`` means NumPy."""


class HeadNetwork(NamedTuple):
    """The sizes of a network, and the functions of bins that its outputs combine.

    Attributes
    ----------
    n_inputs, n_hidden
        Inputs and hidden units.
    shapes_QB
        The functions of bins.
    """

    n_inputs: int
    n_hidden: int
    shapes_QB: Singles

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """How many numbers W1, b1, W2 and b have."""
        n_shapes, n_bins = self.shapes_QB.shape
        return (
            self.n_inputs * self.n_hidden,
            self.n_hidden,
            (self.n_hidden + self.n_inputs) * n_shapes,
            n_bins,
        )

    @property
    def n_params(self) -> int:
        """The length of the vector of parameters."""
        return sum(self.sizes)

    def unpack(self, params_P: Singles) -> tuple[Singles, Singles, Singles, Singles]:
        """Return W1, b1, W2 and b as views of the vector of parameters."""
        n_1, n_b1, n_2, _ = self.sizes
        first, second = n_1 + n_b1, n_1 + n_b1 + n_2
        w1 = params_P[:n_1].reshape(self.n_inputs, self.n_hidden)
        w2 = params_P[first:second].reshape(-1, len(self.shapes_QB))
        return w1, params_P[n_1:first], w2, params_P[second:]


def probabilities(network: HeadNetwork, params_P: Singles, x_ND: Singles) -> Singles:
    """Return the probabilities of all bins for each row of inputs.

    Examples
    --------
    >>> network = HeadNetwork(2, 1, np.eye(3, dtype=np.float32))
    >>> params = np.zeros(network.n_params, dtype=np.float32)
    >>> probabilities(network, params, np.ones((1, 2), dtype=np.float32)).round(3).tolist()[0][0]
    0.3330000042915344
    """
    w1, b1, w2, b = network.unpack(params_P)
    layers = _Layers(w1, b1, row_products(w2, network.shapes_QB), b)
    prob_NB = np.empty((len(x_ND), len(b)), dtype=x_ND.dtype)
    for start in range(0, len(x_ND), BLOCK):
        part = slice(start, start + BLOCK)
        prob_NB[part] = _predicted(x_ND[part], *layers)
    return prob_NB


def _predicted(x_ND: Singles, w1: Singles, b1: Singles, out: Singles, b: Singles) -> Singles:
    """Return the probabilities of bins; nothing here depends on where a row stands."""
    hidden_NH = row_products(x_ND, w1)
    rectify(hidden_NH, b1)
    prob_NB = row_products(np.hstack([hidden_NH, x_ND]), out)
    prob_NB += b
    prob_NB -= prob_NB.max(axis=1, keepdims=True)
    np.exp(prob_NB, out=prob_NB)
    prob_NB /= prob_NB.sum(axis=1, keepdims=True)
    return prob_NB


def expectations(
    network: HeadNetwork, params_MP: Singles, x_ND: Singles, function_BF: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the members' mean expectations of functions of the bin, (N, F).

    Through BLAS, unlike `probabilities`: where rows are not asked for alone.
    """
    layers = [_layers(network, params_P) for params_P in params_MP]
    function_FB = np.ascontiguousarray(function_BF.T / len(layers), dtype=x_ND.dtype)
    found_FN = np.zeros((len(function_FB), len(x_ND)), dtype=x_ND.dtype)
    for start in range(0, len(x_ND), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for each in layers:
            found_FN[:, part] += function_FB @ _forward(x_ND[part], *each)[1]
    return found_FN.T.astype(np.float64)


def log_likelihoods(
    network: HeadNetwork, params_P: Singles, x_ND: Singles, bin_N: Ints
) -> NDArray[np.float64]:
    """Return the log probability of each row's bin, at least ln 1e-30; through BLAS."""
    layers, prob_N = _layers(network, params_P), np.empty(len(x_ND), dtype=x_ND.dtype)
    for start in range(0, len(x_ND), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        prob_BN = _forward(x_ND[part], *layers)[1]
        prob_N[part] = prob_BN[bin_N[part], np.arange(prob_BN.shape[1])]
    return np.log(np.maximum(prob_N, 1e-30)).astype(np.float64)


def loss_gradient(
    network: HeadNetwork, params_P: Singles, x_ND: Singles, bin_N: Ints, gradient_P: Singles
) -> None:
    """Write the gradient of the mean of minus the log probability of each row's bin."""
    layers = _layers(network, params_P)
    g1, gb1, g2, gb = network.unpack(gradient_P)
    hidden_NH, slope_BN = _forward(x_ND, *layers)
    slope_BN[bin_N, np.arange(len(bin_N))] -= 1.0
    slope_BN *= 1 / len(bin_N)
    np.sum(slope_BN, axis=1, out=gb)
    by_out = np.concatenate([slope_BN @ hidden_NH, slope_BN @ x_ND], axis=1)
    np.matmul(by_out.T, network.shapes_QB.T, out=g2)
    by_hidden_NH = slope_BN.T @ layers.out[: network.n_hidden].T
    stop_at_zeros(by_hidden_NH, hidden_NH)
    np.matmul(x_ND.T, by_hidden_NH, out=g1)
    np.sum(by_hidden_NH, axis=0, out=gb1)


def rectify(hidden_NH: Singles, b_H: Singles, *, backend: str = "auto") -> None:
    """Add biases, and put zero where the sum is below."""
    if _compiles(hidden_NH, backend):
        _fused().rectify(hidden_NH, b_H)
        return
    hidden_NH += b_H
    np.maximum(hidden_NH, 0, out=hidden_NH)


def stop_at_zeros(slope_NH: Singles, hidden_NH: Singles, *, backend: str = "auto") -> None:
    """Put zero where a hidden unit is zero."""
    if _compiles(slope_NH, backend):
        _fused().stop_at_zeros(slope_NH, hidden_NH)
        return
    slope_NH *= hidden_NH > 0


def _compiles(array: Singles, backend: str) -> bool:
    return chosen_backend(backend, small=array.size < SMALL_WORK) != "numpy"


@cache  # steps are so short that looking the module up would be a tenth of them
def _fused() -> Any:
    announce_compilation()
    return import_module("tallyfold.kernels.fused.head_network")


class _Layers(NamedTuple):
    """Weights as they are multiplied with: the functions of bins are in the outer ones."""

    w1: Singles
    b1: Singles
    out: Singles
    b: Singles


def _layers(network: HeadNetwork, params_P: Singles) -> _Layers:
    w1, b1, w2, b = network.unpack(params_P)
    return _Layers(w1, b1, w2 @ network.shapes_QB, b)


def _forward(
    x_ND: Singles, w1: Singles, b1: Singles, out: Singles, b: Singles
) -> tuple[Singles, Singles]:
    """Return the hidden layer, and the probabilities of bins: a row per bin, which sums faster."""
    hidden_NH = x_ND @ w1
    rectify(hidden_NH, b1)
    prob_BN = out[: len(b1)].T @ hidden_NH.T
    prob_BN += out[len(b1) :].T @ x_ND.T
    prob_BN += b[:, None]
    prob_BN -= prob_BN.max(axis=0)
    np.exp(prob_BN, out=prob_BN)
    prob_BN /= prob_BN.sum(axis=0)
    return hidden_NH, prob_BN
