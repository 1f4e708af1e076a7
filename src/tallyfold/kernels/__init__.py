"""Arrays in, arrays out: the gather, multiply and sum work that all models share.

Names carry axes: N cells, M axes, J = M - 1 other axes, D one axis's entities, K components,
R table rows, W table columns, S pieces, C chunks.
"""

from tallyfold.kernels.device import use_device
from tallyfold.kernels.dispatch import (
    allocate_axis,
    axis_sums,
    bptf_axis_sums,
    cell_bound,
    cell_rates,
    share_sums,
)
from tallyfold.kernels.layout import AxisLayout, axis_layout
from tallyfold.kernels.likelihoods import LIKELIHOODS
from tallyfold.kernels.threads import thread_count, use_threads

__all__ = [
    "LIKELIHOODS",
    "AxisLayout",
    "allocate_axis",
    "axis_layout",
    "axis_sums",
    "bptf_axis_sums",
    "cell_bound",
    "cell_rates",
    "share_sums",
    "thread_count",
    "use_device",
    "use_threads",
]
