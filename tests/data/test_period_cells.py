"""The cells of a period: listed or drawn, their weighted sums are those over all."""

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.data.period_cells import period_cells


@pytest.fixture(scope="module")
def tensor():
    truth = tf.simulate((40, 25, 6), 3, density=0.1, random_state=2).tensor
    late = (truth.indices[:, 0] == 7) & (truth.indices[:, 2] < 5)  # a label that comes last
    return truth.with_cells(~late)


def test_all_cells_of_known_labels(tensor):
    cells = period_cells(tensor, 2, np.arange(6), 5, most_listed=10_000)
    dense = tensor.to_dense(most_cells=10_000)
    past = dense[..., :5] > 0
    known = np.ix_(past.any((1, 2)), past.any((0, 2)))
    assert len(cells.counts_C) == past.any(2)[known].size
    assert np.all(cells.weight_C == 1)
    assert np.array_equal(cells.counts_C, dense[tuple(cells.indices_CM.T)])
    assert np.array_equal(cells.seen_C, past.any(2)[tuple(cells.indices_CM[:, :2].T)])
    now = dense[..., 5] > 0
    assert cells.n_new_labels == now.sum() - now[known].sum() >= now[7].sum() > 0
    assert not np.any(cells.indices_CM[:, 0] == 7)


def test_drawn_cells_stand_for_all(tensor):
    value = np.random.default_rng(0).random((40, 25))
    whole = period_cells(tensor, 2, np.arange(6), 5, most_listed=10_000)

    def total(cells, chosen):
        return cells.weight_C[chosen] @ value[tuple(cells.indices_CM[chosen, :2].T)]

    found = [
        period_cells(tensor, 2, np.arange(6), 5, n=150, most_listed=0, seed=s) for s in range(40)
    ]
    for kind in ("seen", "new"):
        means = [total(c, (c.seen_C == (kind == "seen")) & ~c.filled_C) for c in found]
        wanted = total(whole, (whole.seen_C == (kind == "seen")) & ~whole.filled_C)
        error = np.std(means) / np.sqrt(len(means))
        assert abs(np.mean(means) - wanted) < 4 * error + 1e-9


def test_seen_from_further_away(tensor):
    near = period_cells(tensor, 2, np.arange(6), 5, most_listed=10_000)
    far = period_cells(tensor, 2, np.arange(6), 5, known=1, most_listed=10_000)
    assert far.seen_C.sum() < near.seen_C.sum()
    assert far.n_filled <= near.n_filled


def test_hidden_cells_are_no_zeros():
    whole = tf.simulate((20, 15, 4), 2, density=0.2).tensor
    train, _ = tf.split(whole, 0.3, cells="all")
    cells = period_cells(train, 2, np.arange(4), 3, most_listed=10_000)
    assert np.all(train.part.contains(train.axes, cells.indices_CM))
