"""Decayed sums of the past: all keys at once, as a plain loop gives them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyfold.kernels.decayed_sums import decayed_sums, decayed_sums_reference


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 30)), max_size=60, unique=True))
@pytest.mark.parametrize("decay", [0.3, 0.97, 1.0])
def test_the_reference_agrees(decay, places):
    key_E, step_E = np.array(sorted(places), dtype=np.int64).reshape(-1, 2).T
    value_EF = np.random.default_rng(len(places)).random((len(key_E), 2))
    fast = decayed_sums(key_E, step_E, value_EF, decay)
    slow = decayed_sums_reference(key_E, step_E, value_EF, decay)
    assert np.allclose(fast, slow, rtol=1e-13, atol=0)  # powers of arrays may differ in a last bit
