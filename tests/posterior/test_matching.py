"""Components of several fits: partners, overlaps, and those that come back."""

import numpy as np
import pytest

from tallyfold.posterior.likeness import overlaps
from tallyfold.posterior.matching import Profiles, matched_overlaps, mutual_overlaps, recurring
from tallyfold.posterior.point_factors import PointFactors

SIZES = (12, 8)


def profiles(*components, noise=0.0, seed=0):
    """Return components that are even over some labels of both axes, and small elsewhere."""
    rng = np.random.default_rng(seed)
    weights = []
    for axis, size in enumerate(SIZES):
        weight = np.full((size, len(components)), 0.01)
        for column, component in enumerate(components):
            weight[component[axis], column] = 1.0
        weight *= np.exp(noise * rng.normal(size=weight.shape))
        weights.append(weight / weight.sum(axis=0))
    return Profiles(tuple(weights), np.full(len(components), 1 / len(components)))


A, B, C, D = (
    (slice(0, 3), slice(0, 2)),
    (slice(3, 6), slice(2, 4)),
    (slice(6, 9), slice(4, 6)),
    (slice(9, 12), slice(6, 8)),
)


def test_overlap_is_that_of_the_joint_distributions():
    one, other = profiles(A, B, noise=1.0), profiles(B, C, noise=1.0, seed=1)
    for k in range(2):
        for other_k in range(2):
            p, q = (
                np.outer(each.weights[0][:, n], each.weights[1][:, n])
                for each, n in ((one, k), (other, other_k))
            )
            wanted = np.sqrt(p * q).sum()
            assert overlaps(one.weights, other.weights)[k, other_k] == pytest.approx(wanted)


def test_partners_are_found_whatever_the_order():
    found = matched_overlaps(profiles(A, B, C), profiles(C, A, B))
    np.testing.assert_allclose(found, 1.0)
    missing = matched_overlaps(profiles(A, B, C), profiles(C, A))
    assert missing[[0, 2]] == pytest.approx(1.0)
    assert missing[1] == 0.0  # no partner is left


def test_a_fit_unlike_the_others_is_the_least_stable():
    fits = [profiles(A, B, noise=0.1, seed=n) for n in range(3)] + [profiles(C, D)]
    found = mutual_overlaps(fits)
    assert found.argmin() == 3
    assert found[:3].min() > 0.6


def test_what_comes_back_is_kept_and_the_rest_left_out():
    fits = [profiles(A, B, noise=0.2, seed=n) for n in range(3)]
    fits += [profiles(B, C, A, noise=0.2, seed=9)]
    found = recurring(fits)
    assert len(found.share_K) == 2
    np.testing.assert_allclose(sorted(matched_overlaps(found, profiles(A, B))), 1.0, atol=0.03)
    assert found.share_K.sum() == pytest.approx(1.0)
    for weight in found.weights:
        np.testing.assert_allclose(weight.sum(axis=0), 1.0)
    assert recurring([profiles(A), profiles(B), profiles(C)]) is None
    assert recurring([profiles(A)]) is None


def test_components_switched_off_have_no_say():
    means = [np.vstack([np.eye(3) * [1, 1, 1e-4] + 1e-6] * 2) for _ in range(2)]
    means[0][:, 2] = means[1][:, 2] = 1e-4
    found = Profiles.of(PointFactors(("a", "b"), [range(5)] * 2, means))
    assert len(found.share_K) == 2
