"""Numbers that must be whole, in files that may hold anything."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.posterior.count_head import CountHead
from tallyfold.posterior.named_arrays import whole


@pytest.mark.parametrize("array", [np.array([2.0, 3.0]), np.array(2), np.array([True])])
def test_other_numbers_are_refused(array):
    with pytest.raises(ValueError, match="whole numbers; got an array of"):
        whole(array)


def test_a_head_whose_sizes_are_no_whole_numbers_is_refused():
    tensor = tf.simulate((12, 10, 5), 1, density=0.5, random_state=0).tensor
    arrays = tf.Margins(zeros="missing").fit(tensor).fitted_.head.arrays()
    assert CountHead.from_arrays(arrays) is not None
    sizes = next(name for name in arrays if name.endswith("/sizes"))
    with pytest.raises(ValueError, match="float64"):
        CountHead.from_arrays(arrays | {sizes: arrays[sizes].astype(float)})
