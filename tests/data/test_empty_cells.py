"""Empty cells: all of them, or drawn with weights that make sums right on average."""

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.data import empty_cells
from tallyfold.data.empty_cells import draw_empty_cells, weighted_sum


def small(shape=(9, 8, 7)):
    made = tf.simulate(shape, 3, density=0.15, random_state=1).tensor
    return tf.CountTensor.from_array(made.to_dense())


def brute_force(tensor, value):
    """Return the sum of a dense array over the empty cells of the tensor's part."""
    cells = np.stack(np.unravel_index(np.arange(tensor.size), tensor.shape), axis=1)
    inside = np.ones(len(cells), bool)
    if tensor.part is not None:
        inside = tensor.part.contains(tensor.axes, cells)
    return value[inside.reshape(tensor.shape) & (tensor.to_dense() == 0)].sum()


def parts(tensor):
    train, test = tf.split(tensor, 0.3, cells="all", random_state=2)
    later = tf.split_time(tensor, tensor.names[-1], after=3).test
    inner = tf.split(train, 0.4, cells="all").test
    read = test.with_part(type(test.part)(test.part.rules))  # the whole is not known
    return {"whole": tensor, "train": train, "test": test, "later": later, "inner": inner,
            "read": read, "selected": test.sel(**{tensor.names[0]: [7, 2, 3, 5]})}  # fmt: skip


@pytest.mark.parametrize("name", ["whole", "train", "test", "later", "inner", "read", "selected"])
@pytest.mark.parametrize("shape", [(9, 8), (9, 8, 7), (8, 5, 4, 6)])
def test_weighted_sums_are_those_over_all_empty_cells(shape, name):
    tensor = parts(small(shape))[name]
    value = np.random.default_rng(0).gamma(0.3, size=tensor.shape)
    wanted = brute_force(tensor, value)
    listed = draw_empty_cells(tensor)
    assert listed.exact
    assert weighted_sum(listed, value[tuple(listed.indices_ZM.T)]) == (pytest.approx(wanted), 0)
    sums, errors = [], []
    for seed in range(40):
        drawn = draw_empty_cells(tensor, 500, seed, most_listed=0)
        assert not drawn.exact
        assert 350 < len(drawn.weight_Z) < 700
        total, error = weighted_sum(drawn, value[tuple(drawn.indices_ZM.T)])
        sums.append(total)
        errors.append(error)
    assert abs(np.mean(sums) - wanted) < 4 * np.std(sums) / np.sqrt(40)
    assert 0.6 < np.std(sums) / np.mean(errors) < 1.4


def test_drawn_cells_are_empty_and_of_the_part():
    for tensor in parts(small()).values():
        drawn = draw_empty_cells(tensor, 800, most_listed=0)
        assert np.all(tensor.to_dense()[tuple(drawn.indices_ZM.T)] == 0)
        assert drawn.indices_ZM.dtype == np.int32
        if tensor.part is not None:
            assert tensor.part.contains(tensor.axes, drawn.indices_ZM).all()


def test_seeds_decide():
    tensor = small()
    one, same, other = (draw_empty_cells(tensor, 100, seed, most_listed=0) for seed in (1, 1, 2))
    assert np.array_equal(one.indices_ZM, same.indices_ZM)
    assert np.array_equal(one.weight_Z, same.weight_Z)
    assert not np.array_equal(one.indices_ZM, other.indices_ZM)


def test_axes_with_more_cells_than_a_key_holds():
    size = 2_000_000
    rng = np.random.default_rng(0)
    axes = [tf.Axis.numbered(f"a{n}", size) for n in range(4)]
    cells = np.unique(rng.integers(size, size=(300, 4)), axis=0)
    tensor = tf.CountTensor(axes, cells, np.ones(len(cells), int))
    assert tensor.size > 2**63
    test = tf.split(tensor, 0.5, cells="all").test
    drawn = draw_empty_cells(test, 20_000)
    assert not set(map(tuple, drawn.indices_ZM.tolist())) & set(map(tuple, cells.tolist()))
    number, error = weighted_sum(drawn, np.ones(len(drawn.weight_Z)))
    assert abs(number - tensor.size / 2) < 4 * error


def test_few_counts_and_no_counts():
    full = tf.CountTensor.from_array(np.ones((3, 3), int))
    assert len(draw_empty_cells(full).weight_Z) == 0
    assert len(draw_empty_cells(full, 50, most_listed=0).weight_Z) == 0
    none = full.with_cells(np.zeros(9, bool))
    drawn = draw_empty_cells(none, 500, most_listed=0)
    assert weighted_sum(drawn, np.ones(len(drawn.weight_Z)))[0] == pytest.approx(9)


@pytest.mark.parametrize("shape", [(9, 8), (6, 5, 4), (5, 4, 3, 4), (4, 3, 3, 2, 3)])
def test_how_likely_cells_are_drawn_adds_up_to_one(shape):
    tensor = small(shape)
    sampler = empty_cells._Sampler.of(tensor, empty_cells.base_cells(tensor))
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    assert sampler._density(cells.astype(np.int32)).sum() == pytest.approx(1)


def test_what_an_author_has_elsewhere_is_drawn_often():
    """Zeros that a model expects least are words of the author, where the author was active."""
    rng = np.random.default_rng(0)
    n_authors, n_words, n_venues, n_years = 200, 600, 20, 20
    words = rng.integers(n_words, size=(n_authors, 12))
    baskets = rng.integers((n_venues, n_years), size=(n_authors, 4, 2))
    where = [(a, *baskets[a, i], w) for a in range(n_authors) for i in range(4) for w in words[a]]
    cells = np.unique(np.array(where), axis=0)
    kept = cells[rng.random(len(cells)) < 0.5]
    known, active = (
        {tuple(cell) for cell in kept[:, axes].tolist()} for axes in ([0, 3], [0, 1, 2])
    )
    names = ["author", "venue", "year", "word"]
    tensor = tf.CountTensor.from_frame(pd.DataFrame(kept, columns=names), names)
    expected = {
        (a, v, y, w) for a, v, y, w in cells.tolist() if (a, w) in known and (a, v, y) in active
    }
    expected -= set(map(tuple, kept.tolist()))
    drawn = draw_empty_cells(tensor, 50_000)
    labels = [axis.labels.to_numpy()[column] for axis, column in
              zip(tensor.axes, drawn.indices_ZM.T, strict=True)]  # fmt: skip
    hit = [tuple(map(int, cell)) in expected for cell in zip(*labels, strict=True)]
    total, error = weighted_sum(drawn, np.array(hit))
    assert abs(total - len(expected)) < 5 * error
    assert error < 0.05 * total
