import numpy as np
import pytest
from scipy import stats

import tallyfold as tf
from tallyfold.errors import DataError, LabelError, ParameterError
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.ranking import EmptyCells, ranking


class Known:
    """A model whose rates are given, cell by cell."""

    def __init__(self, axes, rate):
        self.axes_, self.dense = axes, np.asarray(rate, float)

    def rate(self, cells):
        return self.dense[tuple(np.asarray(cells).T)]


@pytest.fixture(scope="module")
def whole():
    return tf.simulate((15, 12, 8), n_components=3, density=0.2, random_state=3).tensor


@pytest.fixture(scope="module")
def parts(whole):
    return tf.split(whole, 0.3)


def test_perfect_reversed_and_constant_rates(whole, parts):
    train, test = parts
    filled = whole.to_dense() > 0
    best = ranking(Known(whole.axes, filled), test, train, k=1)
    worst = ranking(Known(whole.axes, ~filled), test, train)
    equal = ranking(Known(whole.axes, np.ones(whole.shape)), test, train, zeros_per_cell=19, k=4)
    assert best == (1.0, 1.0, test.nnz, 0)
    assert worst == (0.0, 0.0, test.nnz, 0)
    assert equal == (0.5, pytest.approx(4 / 20), test.nnz, 0)


@pytest.mark.parametrize("along", [None, "axis_1"])
def test_agrees_with_all_empty_cells(whole, parts, along):
    train, test = parts
    rng = np.random.default_rng(0)
    rate = rng.gamma(1.0, size=whole.shape) + (whole.to_dense() > 0)
    rate = np.round(rate, 1)  # some ties
    empty = whole.to_dense() == 0
    share = []
    for cell in map(tuple, test.indices):
        rivals = (
            rate[empty] if along is None else rate[cell[0], :, cell[2]][empty[cell[0], :, cell[2]]]
        )
        share.append(np.mean(rate[cell] > rivals) + np.mean(rate[cell] == rivals) / 2)
    found = ranking(Known(whole.axes, rate), test, train, zeros_per_cell=400, along=along)
    assert found.auc == pytest.approx(np.mean(share), abs=4 * 0.5 / np.sqrt(400 * test.nnz))


def test_recall_agrees_with_places_in_lists(whole, parts):
    train, test = parts
    rate = np.random.default_rng(0).gamma(1.0, size=whole.shape)
    found = ranking(Known(whole.axes, rate), test, train, zeros_per_cell=50, k=5)
    empty = rate[whole.to_dense() == 0]
    above = np.mean(rate[tuple(test.indices.T)][:, None] < empty, axis=1)
    expected = stats.binom.cdf(4, 50, above)  # fewer than five of fifty stand above
    assert found.recall == pytest.approx(expected.mean(), abs=4 * 0.5 / np.sqrt(test.nnz))


def test_busy_entities_alone_do_not_rank_the_others(whole, parts):
    train, test = parts
    busy = whole.marginal("axis_0")[:, None, None] * np.ones(whole.shape)
    assert ranking(Known(whole.axes, busy), test, train).auc > 0.55
    assert ranking(Known(whole.axes, busy), test, train, along="axis_1").auc == 0.5


def test_drawn_cells_are_empty_and_all_as_likely(whole):
    shape, filled = (4, 3, 2), np.array([[0, 0, 0], [1, 2, 1], [3, 2, 1], [0, 0, 0]], np.int32)
    empty = EmptyCells(shape, filled)
    drawn = np.ravel_multi_index(empty.draw(42_000, np.random.default_rng(0)).T, shape)
    times = np.bincount(drawn, minlength=24)
    taken = np.ravel_multi_index(filled.T, shape)
    assert times[taken].sum() == 0
    assert stats.chisquare(np.delete(times, np.unique(taken))).pvalue > 1e-3


def test_cells_along_an_axis_differ_on_it_only(whole):
    cells = whole.indices[:50]
    empty = EmptyCells(whole.shape, whole.indices)
    drawn, possible = empty.draw_along(cells, 1, 20, np.random.default_rng(0))
    drawn = drawn.reshape(50, 20, 3)
    assert possible.all()
    assert (drawn[:, :, [0, 2]] == cells[:, None, [0, 2]]).all()
    assert (whole.to_dense()[tuple(np.moveaxis(drawn, -1, 0))] == 0).all()
    assert len(np.unique(drawn[..., 1])) > 5


def test_nearly_full_tensors():
    dense = np.ones((40, 30), int)
    dense[5, 7] = dense[6, 8] = 0
    tensor = tf.CountTensor.from_array(dense, ["user", "item"])
    train, test = tf.split(tensor)
    model = Known(tensor.axes, dense)
    assert ranking(model, test, train).auc == 1.0
    lines = np.isin(test.indices[:, 0], [5, 6]).sum()
    assert lines > 0
    assert ranking(model, test, train, along="item")[2:] == (lines, test.nnz - lines)


def test_full_tensors_have_no_ranking():
    tensor = tf.CountTensor.from_array(np.ones((20, 10), int), ["user", "item"])
    train, test = tf.split(tensor)
    model = tf.Constant().fit(train)
    assert ranking(model, test, train) == (None, None, 0, test.nnz)
    assert METRICS["auc"].compute(model, test, train) is None
    assert METRICS["recall-10"].compute(model, test, train) is None


def test_axes_longer_than_any_number_of_cells():
    shape = (2**30,) * 3
    filled = np.random.default_rng(0).integers(2**30, size=(1000, 3)).astype(np.int32)
    empty = EmptyCells(shape, filled)
    assert empty._is_filled(filled).all()
    for axis in range(3):
        other = filled.copy()
        other[:, axis] = (other[:, axis] + 16) % shape[axis]
        assert not empty._is_filled(other).any()


def test_a_real_model_ranks_better_than_chance_under_both_treatments(parts):
    train, test = parts
    for zeros in ("missing", "observed"):
        model = tf.BPTF(n_components=3, zeros=zeros, max_iter=50).fit(train)
        found = ranking(model, test, train)
        assert found.auc > {"missing": 0.5, "observed": 0.7}[zeros]
        assert METRICS["auc"].compute(model, test, train) == pytest.approx(found.auc, abs=0.05)
        along = ranking(model, test, train, along="axis_0", random_state=0).recall
        assert max(model.axes_, key=len).name == "axis_0"
        assert METRICS["recall-10"].compute(model, test, train) == along


def test_the_seed_decides_and_cells_can_be_fewer(parts):
    train, test = parts
    model = tf.MainEffects(max_iter=10).fit(train)
    first = ranking(model, test, train, zeros_per_cell=10)
    assert ranking(model, test, train, zeros_per_cell=10) == first
    assert ranking(model, test, train, zeros_per_cell=10, random_state=1).auc != first.auc
    assert ranking(model, test, train, most_cells=7).n_cells == 7


def test_blocks_do_not_change_the_size(parts, monkeypatch):
    train, test = parts
    model = tf.MainEffects(max_iter=10).fit(train)
    whole = ranking(model, test, train)
    monkeypatch.setattr("tallyfold.evaluation.ranking.AT_ONCE", 1000)
    blocks = ranking(model, test, train)
    assert blocks.n_cells == test.nnz
    assert blocks.auc == pytest.approx(whole.auc, abs=0.02)


def test_bad_inputs_are_explained(parts):
    train, test = parts
    model = tf.Constant().fit(train)
    with pytest.raises(ParameterError, match="`zeros_per_cell` must be a positive integer; got 0"):
        ranking(model, test, train, zeros_per_cell=0)
    with pytest.raises(ParameterError, match="`k` must be at most `zeros_per_cell`.*got 10 and 5"):
        ranking(model, test, train, zeros_per_cell=5)
    with pytest.raises(LabelError, match="there is no axis 'item'; there are axis_0"):
        ranking(model, test, train, along="item")
    with pytest.raises(ParameterError, match="expected a CountTensor; got NoneType as `known`"):
        ranking(model, test, None)
    with pytest.raises(DataError, match="nothing to rank"):
        ranking(model, test.with_cells(np.zeros(test.nnz, bool)), train)
