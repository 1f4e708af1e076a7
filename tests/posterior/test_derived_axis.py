from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tallyfold.posterior.derived_axis import (
    DerivedAxis,
    combination_keys,
    countable,
    rows_of_keys,
)
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable

NAMES = ["user", "item", "day"]
LABELS = [pa.array(["ann", "bob"]), pa.array(["x", "y", "z"]), pa.array([1, 2])]


def derived_axis(axes, sizes, keys, shape, rate, widest=None):
    columns = [
        None if a is None else np.array(a, dtype=float)[:, None] for a in (shape, rate, widest)
    ]
    return DerivedAxis(axes, sizes, np.array(keys, dtype=np.int64), GammaTable(*columns))


def user_item(shape=(2.0, 50.0, 4.0, 1.0), rate=(2.0, 10.0, 0.5, 1.0)):
    """(ann, x), (ann, z), (bob, y), and those never seen."""
    return derived_axis((0, 1), (2, 3), [0, 2, 4], shape, rate)


@pytest.fixture
def factors():
    rng = np.random.default_rng(0)
    tables = [rng.gamma(2.0, 1.0, (len(labels) + 1, 2)) + 1 for labels in LABELS]
    return GammaFactors(NAMES, LABELS, GammaPosterior.of(tables, [table / 2 for table in tables]))


def test_rows_of_seen_unknown_and_never_seen_combinations():
    cells = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [-1, 1, 0], [0, -1, 0], [1, 1, -1]])
    rows = user_item().rows_of(cells.astype(np.int32))
    assert rows.tolist() == [0, 2, 3, 3, 3, 2]  # the third axis is not asked for
    assert rows.dtype == np.int64


def test_an_unknown_label_is_nobody_elses_combination():
    """-1 times a size plus a position may be a key of another combination."""
    every = derived_axis((0, 1), (2, 3), np.arange(6), np.ones(7), np.ones(7))
    cells = np.array([[a, b, 0] for a in (-1, 0, 1) for b in (-1, 0, 1, 2)])
    known = np.all(cells[:, :2] >= 0, axis=1)
    assert np.array_equal(every.rows_of(cells) == 6, ~known)


def test_no_cells_and_no_combinations():
    none = derived_axis((0, 1), (2, 3), [], np.ones(1), np.ones(1))
    assert none.rows_of(np.array([[0, 0, 0], [1, 1, 1]])).tolist() == [0, 0]
    assert user_item().rows_of(np.empty((0, 3), np.int32)).tolist() == []
    assert rows_of_keys(np.array([7]), np.array([], np.int64)).tolist() == [0]


def test_keys_of_many_combinations_do_not_overflow():
    sizes = (2**31 - 1, 2**31 - 1)
    last = np.array([[2**31 - 2, 2**31 - 2]], dtype=np.int32)  # int32 alone would overflow
    assert countable(sizes)
    assert combination_keys(last, (0, 1), sizes).tolist() == [(2**31 - 1) ** 2 - 1]
    assert not countable((2**31, 2**31))
    assert not countable((2**31,) * 40)  # nor does the guard overflow


def test_keys_come_back_as_labels(factors):
    """Every combination of users and days, the first multiplier the largest."""
    shape = [50.0, 40.0, 30.0, 20.0, 1.0]
    table = derived_axis((0, 2), (2, 2), np.arange(4), shape, np.ones(5)).to_frame(factors, 9, 0.9)
    pairs = [["ann", 1], ["ann", 2], ["bob", 1], ["bob", 2]]
    assert table[["user", "day"]].to_numpy().tolist() == pairs


def test_multipliers_of_one_are_idle():
    assert user_item(rate=(2.0, 50.0, 4.0, 1.0)).idle
    assert not user_item().idle


def test_moments_are_those_of_draws(factors):
    rng = np.random.default_rng(0)
    first = user_item()
    second = derived_axis((1, 2), (3, 2), [1], [6.0, 3.0], [3.0, 3.0])
    cells = np.array([[0, 0, 1], [0, 2, 0], [1, 1, 1], [1, 0, 0]], dtype=np.int32)
    axes = tuple(GammaTable(20 * t.shape_DK, 20 * t.rate_DK) for t in factors.gammas.axes)
    mean_N, variance_N = GammaPosterior(axes, (first, second)).rate_moments(cells)
    drawn = np.ones((400_000, 4, 2))
    for axis, table in enumerate(axes):
        own = table.rows(cells[:, axis])
        drawn *= rng.gamma(own.shape_DK, 1 / own.rate_DK, drawn.shape)
    drawn = drawn.sum(axis=2)
    for each in (first, second):
        own = each.table.rows(each.rows_of(cells))
        drawn *= rng.gamma(own.shape_DK[:, 0], 1 / own.rate_DK[:, 0], drawn.shape)
    assert mean_N == pytest.approx(drawn.mean(axis=0), rel=0.02)
    assert variance_N == pytest.approx(drawn.var(axis=0), rel=0.1)


def test_multipliers_of_all_combinations_together(factors):
    second = derived_axis((1, 2), (3, 2), [1], [6.0, 3.0], [3.0, 3.0])
    cells = np.array([[0, 0, 1], [0, 2, 0], [1, 1, 1]])
    posterior = GammaPosterior(factors.gammas.axes, (user_item(), second))
    assert posterior.multipliers(cells).tolist() == [1.0 * 2.0, 5.0 * 1.0, 8.0 * 1.0]
    assert factors.gammas.multipliers(cells).tolist() == [1.0, 1.0, 1.0]


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
    after = DerivedAxis.from_arrays(before.arrays())
    assert (after.axes, after.sizes) == (before.axes, before.sizes)
    assert np.array_equal(after.keys_P, before.keys_P)
    for name in ("shape_DK", "rate_DK"):
        assert np.array_equal(getattr(after.table, name), getattr(before.table, name))
    assert (after.table.widest_DK, after.typical_2) == (None, None)
    cells = np.array([[0, 2, 1], [1, 2, 0]])
    assert np.array_equal(after.rows_of(cells), before.rows_of(cells))


def test_an_unknown_label_has_a_typical_multiplier_not_that_of_a_combination_never_seen():
    derived = derived_axis((0, 1), (2, 3), [0, 4], [8.0, 2.0, 1.0], [2.0, 2.0, 10.0], [9.0] * 3)
    derived = derived.with_typical(np.array([2.0, 2.0, 0.0]))
    mean, relative = derived.moments(np.array([[0, 0], [1, 2], [-1, 0]]))
    np.testing.assert_allclose(mean, [4.0, 0.1, 2.0])  # known, never seen, unknown: sqrt(4 * 1)
    np.testing.assert_allclose(relative, [1 / 8, 1.0, np.var([4, 4, 1, 1]) / 4])
    again = DerivedAxis.from_arrays(derived.arrays())
    np.testing.assert_array_equal(again.typical_2, derived.typical_2)
    np.testing.assert_array_equal(again.table.widest_DK, derived.table.widest_DK)


def test_factors_with_derived_axes_come_back_from_arrays_as_they_were(factors):
    second = derived_axis((1, 2), (3, 2), [1], [6.0, 3.0], [3.0, 3.0], [5.0, 2.0])
    second = second.with_typical(np.array([1.0, 1.0]))
    axes = tuple(replace(table, widest_DK=table.shape_DK / 2) for table in factors.gammas.axes)
    before = GammaFactors(NAMES, LABELS, GammaPosterior(axes, (user_item(), second)))
    after = GammaFactors.from_arrays(NAMES, LABELS, before.arrays())
    assert before.arrays().keys() == after.arrays().keys()
    for name, array in before.arrays().items():
        assert np.array_equal(after.arrays()[name], array), name
    assert [each.axes for each in after.gammas.derived] == [(0, 1), (1, 2)]


def test_intervals_of_multipliers_are_as_wide_as_their_widths_say(factors):
    narrow = derived_axis((0, 1), (2, 3), [2], [50.0, 1.0], [10.0, 1.0])
    wide = derived_axis((0, 1), (2, 3), [2], [50.0, 1.0], [10.0, 1.0], [5.0, 1.0])
    one, other = (each.to_frame(factors, 1, 0.9) for each in (narrow, wide))
    assert one["multiplier"].tolist() == other["multiplier"].tolist() == [5.0]
    assert float(other["low"].iloc[0]) < float(one["low"].iloc[0])
    assert float(other["high"].iloc[0]) > float(one["high"].iloc[0])


def test_keys_of_longer_axes_are_of_the_same_combinations():
    cells = np.array([[0, 0], [0, 2], [1, 1]])
    before = user_item()
    after = before.resized((4, 5))
    assert after.sizes == (4, 5)
    assert np.array_equal(after.rows_of(cells), before.rows_of(cells))
    assert after.rows_of(np.array([[3, 4], [0, 4]])).tolist() == [3, 3]


def test_new_combinations_begin_as_those_never_seen():
    before = user_item()
    after = before.with_keys(np.array([1, 2, 5]))  # 2 has a row already
    assert after.keys_P.tolist() == [0, 1, 2, 4, 5]
    means = before.mean_P1
    assert after.mean_P1.tolist() == [means[0], means[3], means[1], means[2], means[3], means[3]]
