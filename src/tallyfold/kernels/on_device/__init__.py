"""Kernels in torch, float64, on the device in use; see :mod:`tallyfold.kernels.device`.

Cells are taken in chunks, so that no array of cells times components is ever made. Arguments and
results are NumPy arrays; cells are copied to the device once, factors and weights at each call.

On the CPU the bits depend neither on chunks nor on threads, of which there is one. On CUDA sums
per entity are taken by ``index_add_``, whose order varies: two runs agree to rounding only, unless
``torch.use_deterministic_algorithms(True)`` is set.
"""

from tallyfold.kernels.on_device.evidence import evidence_gradient, evidence_weights
from tallyfold.kernels.on_device.rates import cell_bound, cell_rates
from tallyfold.kernels.on_device.sums import axis_sums, bptf_axis_sums, share_sums

__all__ = [
    "axis_sums",
    "bptf_axis_sums",
    "cell_bound",
    "cell_rates",
    "evidence_gradient",
    "evidence_weights",
    "share_sums",
]
