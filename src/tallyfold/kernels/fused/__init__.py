"""Kernels compiled by numba; see :mod:`tallyfold.kernels.dispatch`."""

from tallyfold.kernels.fused.allocate import allocate_axis
from tallyfold.kernels.fused.evidence import evidence_gradient, evidence_weights
from tallyfold.kernels.fused.sweeps import (
    axis_sums,
    bptf_axis_sums,
    cell_bound,
    cell_rates,
    share_sums,
)

__all__ = [
    "allocate_axis",
    "axis_sums",
    "bptf_axis_sums",
    "cell_bound",
    "cell_rates",
    "evidence_gradient",
    "evidence_weights",
    "share_sums",
]
