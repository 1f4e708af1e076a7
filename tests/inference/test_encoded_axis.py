import numpy as np
import pytest

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.paper_encoders.axis_encoder import LARGEST_INPUT, LEAST, EncodedAxis
from tallyfold.kernels.encoder import Network

NETWORKS = [
    Network(0, 0, "softplus", "softplus"),
    Network(1, 20, "softplus", "softplus"),
    Network(2, 8, "relu", "softplus"),
    Network(1, 8, "sigmoid", "sigmoid"),
]
SCALE = 0.3


def encoded(cells, axis=0, network=NETWORKS[1], shared=False):
    return EncodedAxis(
        layout=cells.layouts[axis],
        seen_M=cells.seen,
        network=network,
        n_components=4,
        shared=shared,
        mean_count=float(cells.counts_N.mean()),
        scale=SCALE,
        prior=(1.0, 2.0),
        zeros_observed=False,
        backend="numpy",
    )


@pytest.fixture(scope="module")
def cells():
    return TrainingCells(tf.simulate((20, 15, 5), 2, density=0.3, random_state=1).tensor)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_a_typical_cell_starts_with_equal_outputs(network, shared):
    """Every factor at its column's mean, every count at the mean count: means are the scale."""
    tensor = tf.CountTensor(
        [tf.Axis.numbered("a", 3), tf.Axis.numbered("b", 2)], [[0, 0], [1, 1], [2, 0]], [3, 3, 3]
    )
    axis = encoded(TrainingCells(tensor), network=network, shared=shared)
    weights = axis.start(np.random.default_rng(0))
    assert len(weights["shape_weight_0"]) == (1 if shared else 4)
    draws = [np.ones((3, 4)), np.full((2, 4), 7.0)]
    shape, rate = axis.forward(weights, draws, np.ones(3))
    one = 0.5 if network.output_activation == "sigmoid" else 1.0
    assert shape == pytest.approx(np.full((3, 4), LEAST + one))
    assert shape / rate == pytest.approx(np.full((3, 4), SCALE))


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_the_scale_of_other_axes_does_not_matter(factor, cells):
    axis, rng = encoded(cells), np.random.default_rng(0)
    weights = axis.start(rng)
    draws = [rng.gamma(1.0, 1.0, (size, 4)) for size in cells.shape]
    moved = [draws[0], draws[1] * factor, draws[2]]
    ones = np.ones(len(cells.counts_N))
    for one, other in zip(
        axis.forward(weights, draws, ones), axis.forward(weights, moved, ones), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-9)


def test_a_single_huge_draw_is_cut_off(cells):
    axis, rng = encoded(cells), np.random.default_rng(0)
    draws = [np.ones((size, 4)) for size in cells.shape]
    draws[1][0] = 1e30
    largest = max(float(inputs.max()) for inputs in axis._inputs(draws))
    assert largest <= LARGEST_INPUT
    shape, rate = axis.forward(axis.start(rng), draws, np.ones(len(cells.counts_N)))
    assert np.all(np.isfinite(shape / rate))


def test_what_is_not_finite_is_told(cells):
    axis = encoded(cells)
    weights = axis.start(np.random.default_rng(0))
    weights["rate_bias_1"] = np.full((4, 1), np.nan)
    draws = [np.ones((size, 4)) for size in cells.shape]
    with pytest.raises(FloatingPointError):
        axis.forward(weights, draws, np.ones(len(cells.counts_N)))
