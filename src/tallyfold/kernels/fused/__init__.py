"""Compiled kernels; everything numba touches lives in this folder."""
