"""The network on memories: its gradient, and that it begins as nothing."""

import numpy as np
from scipy.optimize import check_grad

from tallyfold.posterior.past_network import NetworkParams, logit


def test_gradient_against_differences():
    rng = np.random.default_rng(0)
    x_ND, logit_N, label_N = rng.standard_normal((30, 4)), rng.standard_normal(30), rng.random(30)
    like = NetworkParams.first(4)
    value_P = rng.standard_normal(like.flat().size) / 3

    def loss(value_P):
        told_N = like.with_flat(value_P).logits(x_ND, logit_N)
        return float(np.sum(np.logaddexp(0, told_N) - label_N * told_N))

    def slope(value_P):
        params = like.with_flat(value_P)
        unit_NU = params.units(x_ND)
        error_N = 1 / (1 + np.exp(-params.logits(x_ND, logit_N, unit_NU))) - label_N
        return params.gradient(x_ND, logit_N, unit_NU, error_N).flat()

    assert check_grad(loss, slope, value_P) < 1e-5


def test_it_begins_as_the_smoothed_past():
    x_ND, log_zero_N = np.random.default_rng(1).random((5, 3)), np.log(np.linspace(0.1, 0.9, 5))
    told_N = NetworkParams.first(3).logits(x_ND, logit(log_zero_N))
    assert np.allclose(-np.logaddexp(0, told_N), log_zero_N)
