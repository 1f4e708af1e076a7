import numpy as np
import pyarrow as pa
import pytest

from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.interactions import (
    Interaction,
    combination_keys,
    countable,
    places_of,
    with_interactions,
)

NAMES = ["user", "item", "day"]
LABELS = [pa.array(["ann", "bob"]), pa.array(["x", "y", "z"]), pa.array([1, 2])]


def user_item(shape=(2.0, 50.0, 4.0, 1.0), rate=(2.0, 10.0, 0.5, 1.0)):
    """(ann, x), (ann, z), (bob, y), and those never seen."""
    return Interaction((0, 1), (2, 3), np.array([0, 2, 4]), np.array(shape), np.array(rate))


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    tables = [rng.gamma(2.0, 1.0, (len(labels) + 1, 2)) + 1 for labels in LABELS]
    return GammaFactors(NAMES, LABELS, tables, [table / 2 for table in tables])


def test_places_of_seen_unknown_and_never_seen_combinations():
    cells = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [-1, 1, 0], [0, -1, 0], [1, 1, -1]])
    places = user_item().places(cells.astype(np.int32))
    assert places.tolist() == [0, 2, 3, 3, 3, 2]  # the third axis is not asked for
    assert places.dtype == np.int64


def test_an_unknown_label_is_nobody_elses_combination():
    """-1 times a size plus a position may be a key of another combination."""
    every = Interaction((0, 1), (2, 3), np.arange(6), np.ones(7), np.ones(7))
    cells = np.array([[a, b, 0] for a in (-1, 0, 1) for b in (-1, 0, 1, 2)])
    known = np.all(cells[:, :2] >= 0, axis=1)
    assert np.array_equal(every.places(cells) == 6, ~known)


def test_no_cells_and_no_combinations():
    none = Interaction((0, 1), (2, 3), np.array([], np.int64), np.ones(1), np.ones(1))
    assert none.places(np.array([[0, 0, 0], [1, 1, 1]])).tolist() == [0, 0]
    assert user_item().places(np.empty((0, 3), np.int32)).tolist() == []
    assert places_of(np.array([7]), np.array([], np.int64)).tolist() == [0]


def test_keys_of_many_combinations_do_not_overflow():
    sizes = (2**31 - 1, 2**31 - 1)
    last = np.array([[2**31 - 2, 2**31 - 2]], dtype=np.int32)  # int32 alone would overflow
    assert countable(sizes)
    assert combination_keys(last, (0, 1), sizes).tolist() == [(2**31 - 1) ** 2 - 1]
    assert not countable((2**31, 2**31))
    assert not countable((2**31,) * 40)  # nor does the guard overflow


def test_keys_come_back_as_labels():
    cells = np.array([[a, b, c] for a in range(2) for b in range(3) for c in range(2)])
    interaction = Interaction((0, 2), (2, 2), np.arange(4), np.ones(5), np.ones(5))
    keys = combination_keys(cells, (0, 2), (2, 2))
    user, day = interaction.labels_at(keys)
    assert np.array_equal(user, cells[:, 0])
    assert np.array_equal(day, cells[:, 2])


def test_multipliers_of_one_are_idle():
    assert user_item(rate=(2.0, 50.0, 4.0, 1.0)).idle
    assert not user_item().idle


def test_moments_are_those_of_draws():
    rng = np.random.default_rng(0)
    first = user_item()
    second = Interaction((1, 2), (3, 2), np.array([1]), np.array([6.0, 3.0]), np.array([3.0, 3.0]))
    cells = np.array([[0, 0, 1], [0, 2, 0], [1, 1, 1], [1, 0, 0]])
    shape_N, rate_N = np.array([4.0, 9.0, 2.0, 30.0]), np.array([2.0, 1.0, 4.0, 10.0])
    mean_N, variance_N = with_interactions(
        [first, second], cells, shape_N / rate_N, shape_N / rate_N**2
    )
    drawn = rng.gamma(shape_N, 1 / rate_N, (400_000, 4))
    for each in (first, second):
        place_N = each.places(cells)
        drawn *= rng.gamma(each.shape_P1[place_N], 1 / each.rate_P1[place_N], drawn.shape)
    assert mean_N == pytest.approx(drawn.mean(axis=0), rel=0.02)
    assert variance_N == pytest.approx(drawn.var(axis=0), rel=0.1)


def test_without_interactions_moments_stay():
    mean_N, variance_N = np.array([2.0, 3.0]), np.array([0.5, 0.0])
    found = with_interactions([], np.zeros((2, 3), int), mean_N, variance_N)
    assert found[0] is mean_N  # to the last bit: a fit that learnt nothing is BPTF's
    assert found[1] is variance_N


def test_the_table_has_labels_and_the_surely_large_first(factors):
    table = user_item().to_frame(factors, top=2, level=0.9)
    assert list(table.columns) == ["user", "item", "multiplier", "low", "high"]
    # (bob, y) has the mean 8 and (ann, z) the mean 5, but known far better
    assert table[["user", "item"]].to_numpy().tolist() == [["ann", "z"], ["bob", "y"]]
    assert table["multiplier"].tolist() == [5.0, 8.0]
    assert table["low"].is_monotonic_decreasing
    assert np.all((table["low"] < table["multiplier"]) & (table["multiplier"] < table["high"]))
    wide = user_item().to_frame(factors, top=9, level=0.99)
    assert len(wide) == 2  # the third is below one
    assert np.all(wide["low"].to_numpy()[:2] < table["low"].to_numpy())
    assert not np.any(table.isna())


def test_arrays_come_back_as_they_were():
    before = user_item()
    after = Interaction.from_arrays(before.arrays())
    assert (after.axes, after.sizes) == (before.axes, before.sizes)
    for name in ("keys_P", "shape_P1", "rate_P1"):
        assert np.array_equal(getattr(after, name), getattr(before, name))
    cells = np.array([[0, 2, 1], [1, 2, 0]])
    assert np.array_equal(after.places(cells), before.places(cells))


def test_an_unknown_label_has_a_typical_multiplier_not_that_of_a_combination_never_seen():
    interaction = Interaction(
        (0, 1), (2, 3), np.array([0, 4]), np.array([8.0, 2.0, 1.0]), np.array([2.0, 2.0, 10.0])
    ).with_typical(np.array([2.0, 2.0, 0.0]))
    mean, relative = interaction.moments(np.array([[0, 0], [1, 2], [-1, 0]]))
    np.testing.assert_allclose(mean, [4.0, 0.1, 2.0])  # known, never seen, unknown: sqrt(4 * 1)
    np.testing.assert_allclose(relative, [1 / 8, 1.0, np.var([4, 4, 1, 1]) / 4])
    again = Interaction.from_arrays(interaction.arrays())
    np.testing.assert_array_equal(again.typical_2, interaction.typical_2)
