"""A cell's expected exposure and log normaliser, as in :mod:`tallyfold.kernels.likelihoods`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyfold.kernels.likelihoods import likelihood_code

if TYPE_CHECKING:
    from torch import Tensor


def expected_exposure(likelihood: str, rate_P: Tensor, count_P: Tensor, r_P: Tensor) -> Tensor:
    """Return the slope, in the rate, of the log normaliser."""
    code = likelihood_code(likelihood)
    if code == 0:
        return rate_P.new_ones(rate_P.shape)
    if code == 1:
        return -1 / (-rate_P).expm1()
    seen_P = r_P + count_P
    if code == 3:
        seen_P = seen_P + r_P / (r_P * (rate_P / r_P).log1p()).expm1()
    return seen_P / (r_P + rate_P)


def log_normaliser(likelihood: str, rate_P: Tensor, count_P: Tensor, r: float) -> Tensor:
    """Return rate (+ ln(1 - P0)), or (r + y) ln(1 + rate / r) (+ ln(1 - P0))."""
    code = likelihood_code(likelihood)
    minus_log_p0_P = rate_P if code < 2 else r * (rate_P / r).log1p()
    total_P = rate_P if code < 2 else (1 + count_P / r) * minus_log_p0_P
    if code in (1, 3):
        total_P = total_P + (-(-minus_log_p0_P).expm1()).log()
    return total_P
