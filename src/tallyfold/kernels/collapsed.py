"""Shares of cells over components with each cell's own count taken out (CVB0), in one pass.

A cell that has a count stands for a latent Poisson count of at least one (Bernoulli-Poisson): with
the rate x, its mean is x / (1 - exp(-x)), at most `MOST_LATENT`. That latent count is divided over
components twice: first in proportion to the product of the axes' means, then in proportion to the
product of what is left of these means when the first division is taken out of them. No share
depends on itself, so nothing has to be kept per cell, and one pass serves all axes.
"""

from importlib import import_module
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Factors, Floats, Whole
from tallyfold.kernels.backends import announce_compilation, chosen_backend
from tallyfold.kernels.layout import AxisLayout, check_factors, check_weights, entities

SMALL_WORK = 50_000
"""Cells times components times axes below which ``"auto"`` means NumPy."""
AT_ONCE = 1 << 15
MOST_LATENT = 5.0
"""Of a cell. Labels that always have a count together would otherwise grow with every pass, since
no rate is the largest that explains them; a rate of five is a count with 99.3 %."""
MOST_BUFFERS, BUFFER_BYTES = 8, 1 << 29
"""Parts of the cells that are summed side by side: how many, and the memory of their sums."""


class CollapsedSums(NamedTuple):
    """What one pass over the cells gives.

    Attributes
    ----------
    sums
        For each axis, the latent counts of its entities by component.
    latent_N
        The latent count of each cell.
    log_seen
        The sum over cells of the log probability of a count.
    """

    sums: list[Floats]
    latent_N: Floats
    log_seen: float


def collapsed_sums(
    means: Factors,
    scales: Factors,
    layout: AxisLayout,
    prior_shape: float,
    gate_N: Floats,
    *,
    backend: str = "auto",
) -> CollapsedSums:
    """Divide the latent counts of all cells over components, and sum them by entity.

    Parameters
    ----------
    means, scales
        Means and inverse rates of the Gamma factors, one (D, K) array per axis.
    layout
        The cells, best in the order of the longest axis.
    prior_shape
        Of the factors: no mean falls below it times the scale when a cell is taken out.
    gate_N
        A multiplier of each cell's rate, in the cells' original order.

    Examples
    --------
    >>> from tallyfold.kernels.layout import axis_layout
    >>> layout = axis_layout(np.array([[0, 1]]), np.array([1]), 0, 1)
    >>> ones = [np.ones((1, 1)), np.ones((2, 1))]
    >>> found = collapsed_sums(ones, ones, layout, 1.0, np.ones(1))
    >>> found.latent_N.round(3).tolist(), found.sums[1].round(3).tolist()
    ([1.582], [[0.0], [1.582]])
    """
    n_components = check_factors([means, scales], layout.reach_M)
    check_weights(gate_N, layout)
    small = len(gate_N) * n_components * len(means) < SMALL_WORK
    if chosen_backend(backend, small=small) != "numba":
        return reference_sums(means, scales, layout, prior_shape, gate_N)
    announce_compilation()
    n_bytes = 8 * n_components * sum(len(each) for m, each in enumerate(means) if m != layout.axis)
    buffers = max(1, min(MOST_BUFFERS, BUFFER_BYTES // max(n_bytes, 1)))
    fused = import_module("tallyfold.kernels.fused.collapsed")
    return CollapsedSums(*fused.collapsed_sums(means, scales, layout, prior_shape, gate_N, buffers))


def reference_sums(
    means: Factors, scales: Factors, layout: AxisLayout, prior_shape: float, gate_N: Floats
) -> CollapsedSums:
    """Do the same in NumPy, some cells at a time."""
    columns: list[Whole] = [layout.others_NJ[:, j] for j in range(len(means) - 1)]
    columns.insert(layout.axis, entities(layout))
    sums = [np.zeros_like(mean_DK) for mean_DK in means]
    latent_N, log_seen = np.empty(len(gate_N)), 0.0
    for start in range(0, len(gate_N), AT_ONCE):
        rows = [column[start : start + AT_ONCE] for column in columns]
        cells = layout.order_N[start : start + AT_ONCE]
        mean_MNK = np.stack([mean[row] for mean, row in zip(means, rows, strict=True)])
        scale_MNK = np.stack([scale[row] for scale, row in zip(scales, rows, strict=True)])
        share_NK = mean_MNK.prod(axis=0)
        total_N1 = share_NK.sum(axis=1, keepdims=True)
        rate_N1 = total_N1 * gate_N[cells, None]
        seen_N1 = -np.expm1(-rate_N1)
        latent_N1 = np.where(rate_N1 > 1e-12, rate_N1 / np.maximum(seen_N1, 1e-300), 1.0)
        latent_N1 = np.minimum(latent_N1, MOST_LATENT)
        own_NK = share_NK * (latent_N1 / total_N1)
        left_MNK = np.maximum(mean_MNK - own_NK * scale_MNK, prior_shape * scale_MNK)
        share_NK = left_MNK.prod(axis=0)
        share_NK *= latent_N1 / share_NK.sum(axis=1, keepdims=True)
        for sums_DK, row in zip(sums, rows, strict=True):
            np.add.at(sums_DK, row, share_NK)
        latent_N[cells] = latent_N1[:, 0]
        log_seen += float(np.log(np.maximum(seen_N1, 1e-300)).sum())
    return CollapsedSums(sums, latent_N, log_seen)
