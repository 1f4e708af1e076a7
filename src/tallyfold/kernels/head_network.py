"""The network of the count head: one hidden layer and a linear skip, to the logits of bins.

    logits = b + [relu(x W1 + b1), x] W2 S

S holds smooth functions of the bin and a scaled identity: bins that are near share what is learnt.
Training goes through BLAS, prediction by products in a fixed order: a row gives the same bits
beside any others. Both are in the type of the inputs: float32 in fits.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tallyfold.kernels.arrays import Ints
from tallyfold.kernels.row_products import row_products

Singles = NDArray[np.float32]

BLOCK = 4096
"""Rows that are predicted at once: they stay in the cache."""


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
        w1, b1, w2, b = np.split(params_P, np.cumsum(self.sizes)[:-1])
        n_shapes = len(self.shapes_QB)
        return w1.reshape(self.n_inputs, self.n_hidden), b1, w2.reshape(-1, n_shapes), b


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
    hidden_NH += b1
    np.maximum(hidden_NH, 0, out=hidden_NH)
    prob_NB = row_products(np.hstack([hidden_NH, x_ND]), out)
    prob_NB += b
    prob_NB -= prob_NB.max(axis=1, keepdims=True)
    np.exp(prob_NB, out=prob_NB)
    prob_NB /= prob_NB.sum(axis=1, keepdims=True)
    return prob_NB


def loss_gradient(
    network: HeadNetwork, params_P: Singles, x_ND: Singles, bin_N: Ints, gradient_P: Singles
) -> None:
    """Write the gradient of the mean of minus the log probability of each row's bin."""
    layers = _layers(network, params_P)
    g1, gb1, g2, gb = network.unpack(gradient_P)
    hidden_NH, slope_BN = _forward(x_ND, *layers)
    slope_BN[bin_N, np.arange(len(bin_N))] -= 1.0
    slope_BN *= 1 / len(bin_N)
    one_N = np.ones(len(bin_N), x_ND.dtype)
    np.matmul(slope_BN, one_N, out=gb)
    by_out = np.concatenate([slope_BN @ hidden_NH, slope_BN @ x_ND], axis=1)
    np.matmul(by_out.T, network.shapes_QB.T, out=g2)
    by_hidden_NH = slope_BN.T @ layers.out[: network.n_hidden].T
    by_hidden_NH *= hidden_NH > 0
    np.matmul(x_ND.T, by_hidden_NH, out=g1)
    np.matmul(one_N, by_hidden_NH, out=gb1)


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
    hidden_NH += b1
    np.maximum(hidden_NH, 0, out=hidden_NH)
    prob_BN = out[: len(b1)].T @ hidden_NH.T
    prob_BN += out[len(b1) :].T @ x_ND.T
    prob_BN += b[:, None]
    prob_BN -= prob_BN.max(axis=0)
    np.exp(prob_BN, out=prob_BN)
    prob_BN /= prob_BN.sum(axis=0)
    return hidden_NH, prob_BN
