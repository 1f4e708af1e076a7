"""The pieces together: BPTF's bound is made of kernels and Gammas, and never falls."""

import numpy as np
import pytest

from tallyfold import kernels
from tallyfold.probability import COUNTS, gamma


@pytest.mark.parametrize("likelihood", COUNTS.values(), ids=lambda c: c.name)
@pytest.mark.parametrize("r", [0.3, 50.0])
def test_no_axis_update_lowers_the_bound(likelihood, r):
    rng = np.random.default_rng(0)
    sizes, n_components = (12, 9, 4), 3
    indices = np.column_stack([rng.integers(0, size, 150) for size in sizes])
    counts = likelihood.sample(rng, rng.gamma(1.0, 2.0, 150), r) + 1
    layouts = [kernels.axis_layout(indices, counts, m, size) for m, size in enumerate(sizes)]
    shapes = [rng.gamma(5.0, 0.5, (size, n_components)) for size in sizes]
    rates = [rng.gamma(5.0, 0.5, (size, n_components)) for size in sizes]
    options = {"likelihood": likelihood.name, "dispersion": r}
    bounds = []
    for _ in range(20):
        for axis, layout in enumerate(layouts):
            geo = [gamma.geometric_mean(*pair) for pair in zip(shapes, rates, strict=True)]
            mean = [gamma.mean(*pair) for pair in zip(shapes, rates, strict=True)]
            divergence = sum(
                gamma.kl(*pair, 0.5, 0.7).sum() for pair in zip(shapes, rates, strict=True)
            )
            bounds.append(kernels.cell_bound(geo, mean, indices, counts, **options) - divergence)
            phi, exposure = kernels.bptf_axis_sums(geo, mean, layout, **options)
            shapes[axis], rates[axis] = 0.5 + geo[axis] * phi, 0.7 + exposure
    assert bounds[-1] > bounds[0] + 10
    assert np.diff(bounds).min() > -1e-9
