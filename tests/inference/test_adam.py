import numpy as np
import pytest

from tallyfold.inference.schemes.adam import LONGEST, Adam


def test_it_takes_the_steps_that_torch_takes():
    import torch

    rng = np.random.default_rng(0)
    value = torch.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    adam = Adam.fresh({"x": value.detach().numpy().copy()})
    optimiser = torch.optim.Adam([value], lr=0.03)
    for _ in range(20):
        gradient = rng.normal(size=(3, 2))
        value.grad = -torch.tensor(gradient)  # torch descends
        optimiser.step()
        adam = adam.climb({"x": gradient}, 0.03)
    assert adam.values["x"] == pytest.approx(value.detach().numpy(), rel=1e-10)
    assert adam.steps == 20


def test_no_step_is_longer_than_the_limit():
    adam = Adam.fresh({"x": np.zeros(1)})
    for _ in range(2000):
        adam = adam.climb({"x": np.array([1e-3])}, 0.0)
    moved = adam.climb({"x": np.array([1e9])}, 0.1).values["x"]
    assert 0 < moved[0] <= 0.1 * LONGEST


def test_it_does_not_change_itself():
    adam = Adam.fresh({"x": np.ones(2), "y": np.zeros((1, 3))})
    once = adam.climb({"x": np.ones(2), "y": np.ones((1, 3))}, 0.1)
    once.climb({"x": np.ones(2), "y": np.ones((1, 3))}, 0.1)
    assert adam.steps == 0
    assert adam.values["x"].tolist() == [1, 1]
    assert adam.first["y"].tolist() == [[0, 0, 0]]
    assert once.values["x"] == pytest.approx([1.1, 1.1])
