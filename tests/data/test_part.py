"""Parts of all cells, zeros included: by hash or by label."""

import copy
import datetime
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import tensors

import tallyfold as tf
from tallyfold.data.hashing import cell_keys, label_hashes, label_texts
from tallyfold.data.part import HashRule, Part
from tallyfold.data.split import split_cells
from tallyfold.errors import DataError, ParameterError
from tallyfold.inference.fit.checkpoint import fingerprint

SHAPE = (12, 15, 6)
ALL = np.stack(np.unravel_index(np.arange(np.prod(SHAPE)), SHAPE), axis=1)
seeds = st.integers(0, 2**32)


@pytest.fixture
def tensor():
    made = tf.simulate(SHAPE, 3, density=0.2, random_state=4).tensor
    return tf.CountTensor.from_array(made.to_dense())


def inside(part_tensor, cells=ALL):
    return part_tensor.part.contains(part_tensor.axes, cells)


def same_cells(tensor, mask):
    """Whether the non-zero cells of a part are those of the whole that are in it."""
    return np.array_equal(tensor.to_dense() > 0, (tensor.part.whole.to_dense() > 0) & mask)


@given(share=st.floats(0.05, 0.95), seed=seeds)
def test_parts_are_disjoint_and_complete_over_all_cells(share, seed):
    whole = tf.CountTensor.from_array(np.ones(SHAPE, int))
    train, test = tf.split(whole, share, cells="all", random_state=seed)
    assert np.array_equal(inside(train), ~inside(test))
    assert same_cells(train, inside(train).reshape(SHAPE))
    assert same_cells(test, inside(test).reshape(SHAPE))
    assert train.part.share == pytest.approx(1 - share)
    assert test.part.share == pytest.approx(share)
    wide = 6 * np.sqrt(share * (1 - share) / len(ALL))
    assert abs(inside(test).mean() - share) < wide


def test_folds_cover_all_cells_once(tensor):
    folds = tf.k_folds(tensor, 4, cells="all", random_state=2)
    assert np.all(sum(inside(fold.test).astype(int) for fold in folds) == 1)
    for fold in folds:
        assert np.array_equal(inside(fold.train), ~inside(fold.test))
        assert fold.train.part.share == pytest.approx(0.75)
    thin = tf.subsample(tensor, 0.3, cells="all")
    assert thin.part.share == pytest.approx(0.3)
    assert same_cells(thin, inside(thin).reshape(SHAPE))
    assert tf.subsample(tensor, 1, cells="all") == tensor


@given(order=st.permutations(range(3)), data=st.data())
def test_labels_decide_not_positions_nor_the_order_of_axes(order, data):
    axes = [tf.Axis("user", list("abcdefgh")), tf.Axis("item", [5, 3, 9]), tf.Axis("day", [1, 2])]
    shuffled = [
        axes[n].take(np.array(data.draw(st.permutations(range(len(axes[n])))))) for n in order
    ]
    cells = np.stack(np.unravel_index(np.arange(48), (8, 3, 2)), axis=1)
    turned = np.stack(
        [shuffled[at].positions(axes[n].labels.take(cells[:, n])) for at, n in enumerate(order)],
        axis=1,
    )
    rule = HashRule(7, 0.2, 0.7)
    assert np.array_equal(rule.contains(axes, cells), rule.contains(shuffled, turned))


def test_a_split_does_not_depend_on_other_labels():
    frame = pd.DataFrame({"a": list("xyzxyz"), "b": list("pppqqq")})
    more = pd.concat([frame, pd.DataFrame({"a": list("aabb"), "b": list("pqmn")})])
    one, other = (
        tf.split(tf.CountTensor.from_frame(f, axes=["a", "b"]), 0.5, cells="all", random_state=3)
        for f in (frame, more)
    )
    kept = other.test.to_frame()
    kept = kept[kept["a"].isin(list("xyz"))]
    assert one.test.to_frame().equals(kept.reset_index(drop=True))


def test_the_type_of_labels_does_not_matter():
    day = datetime.datetime(2020, 1, 5)
    kinds = [pa.array([day]), pa.array([day], pa.timestamp("ns")), pa.array([day.date()])]
    kinds.append(pa.array(["2020-01-05"]))
    assert len({int(label_hashes(kind)[0]) for kind in kinds}) == 1
    assert label_hashes(pa.array([7])) == label_hashes(pa.array(["7"]))
    moment = pa.array([datetime.datetime(2020, 1, 5, 3, 0, 0, 120000)])
    assert label_texts(moment).to_pylist() == ["2020-01-05 03:00:00.12"]
    many = pa.array([f"w{number}" for number in range(20_000)] + [""])
    assert len(np.unique(label_hashes(many))) == len(many)
    assert np.array_equal(label_hashes(many.slice(5, 9)), label_hashes(many)[5:14])


def test_nested_splits_with_one_seed_are_independent():
    whole = tf.CountTensor.from_array(np.ones(SHAPE, int))
    outer = tf.split(whole, 0.5, cells="all")
    inner = tf.split(outer.train, 0.5, cells="all")
    assert inner.test.part.share == pytest.approx(0.25)
    assert abs(inside(inner.test).mean() - 0.25) < 0.06
    assert np.array_equal(inside(inner.train) | inside(inner.test), inside(outer.train))
    assert not np.any(inside(inner.train) & inside(inner.test))
    assert inner.test.part.whole is outer.train


def test_time_and_entities_hide_all_cells_of_labels(tensor):
    train, test = tf.split_entities(tensor, "axis_0", 0.25)
    held_out = test.marginal("axis_0", "nonzeros") > 0
    assert np.array_equal(inside(test), held_out[ALL[:, 0]])
    assert np.array_equal(inside(train), ~held_out[ALL[:, 0]])
    assert train.part.share == test.part.share == 1
    train, test = tf.split_time(tensor, "axis_2", after=3)
    assert np.array_equal(inside(test), ALL[:, 2] > 3)
    assert "without 2 of axis_2" in repr(train)
    both = tf.split(train, 0.2, cells="all").test
    assert both.part.share == pytest.approx(0.2)
    assert not np.any(inside(both) & (ALL[:, 2] > 3))
    assert "part of all cells: without 2 of axis_2" in repr(train)


def test_selections_and_filters_keep_the_part(tensor):
    train = tf.split(tensor, 0.3, cells="all").train
    mask = inside(train).reshape(SHAPE)
    some = train.sel(axis_1=[9, 2, 4])
    cells = np.stack(np.unravel_index(np.arange(12 * 3 * 6), (12, 3, 6)), axis=1)
    assert np.array_equal(inside(some, cells), mask[:, [9, 2, 4]].reshape(-1))
    one = train.sel(axis_2=5)
    cells = np.stack(np.unravel_index(np.arange(12 * 15), (12, 15)), axis=1)
    assert np.array_equal(inside(one, cells), mask[:, :, 5].reshape(-1))
    assert np.array_equal(one.part.known(one.axes), tensor.sel(axis_2=5).indices)
    inner = tf.split(one, 0.5, cells="all")
    assert inner.train.nnz + inner.test.nnz == one.nnz
    busy = train.filter(top={"axis_1": 4})
    assert busy.part == train.part
    assert np.array_equal(
        np.unique(cell_keys(busy.part.known(busy.axes), busy.shape)),
        cell_keys(tensor.sel(axis_1=busy.axis("axis_1").labels).indices, busy.shape),
    )
    assert train.compact().part == train.part
    assert train.with_cells(np.arange(3)).part is None


def test_sums_of_a_part_are_refused_where_they_would_lack_cells(tensor):
    with pytest.raises(DataError, match="Collapse the whole tensor first, then split it"):
        tf.split(tensor, cells="all").train.collapse("axis_0")
    train = tf.split_time(tensor, "axis_2", after=3).train
    assert train.collapse("axis_2").part is None
    assert train.collapse("axis_0").part.rules == train.part.rules


def test_copies_pickles_and_fingerprints_know_the_part(tensor):
    train = tf.split(tensor, cells="all").train
    assert copy.deepcopy(train) == pickle.loads(pickle.dumps(train)) == train
    bare = train.with_part(None)
    assert bare != train
    assert fingerprint(bare) != fingerprint(train)
    assert "part of all cells: 80 %" in repr(train)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "tns", "npz"])
def test_files_keep_the_part(tensor, tmp_path, ending):
    groups = tf.near_copies(tensor, "axis_1")
    train = tf.split(tensor, cells="all", groups=groups, random_state=5).train
    train = tf.split_time(tf.split(train, cells="all").train, "axis_2", after=3).train
    for number, part in enumerate((train, tensor, train.sel(axis_0=3))):
        file = tmp_path / f"{number}.{ending}"
        tf.write_counts(part, file)
        read = tf.read_counts(file)
        assert read == part
        if part.part is not None:
            assert np.array_equal(inside(read, part.indices), np.ones(part.nnz, bool))
            cells = ALL[:, : len(part.axes)][: min(part.shape)]
            assert np.array_equal(inside(read, cells), inside(part, cells))


def test_a_damaged_part_is_refused(tensor):
    train = tf.split(tensor, cells="all").train
    text = train.part.to_text()
    assert Part.from_text(text) == train.part
    with pytest.raises(ValueError, match="kind of rule"):
        Part.from_text(text.replace('"hash"', '"dice"'))


def with_copies():
    rng = np.random.default_rng(0)
    one = rng.poisson(0.7, (10, 40))
    return tf.CountTensor.from_array(np.concatenate([one, one]), ["author", "word"])


def test_copies_are_hidden_together_zeros_included():
    tensor = with_copies()
    groups = tf.near_copies(tensor, "word", similarity=0.9)
    train, test = tf.split(tensor, 0.3, cells="all", groups=groups)
    cells = np.stack(np.unravel_index(np.arange(800), (20, 40)), axis=1)
    mask = inside(test, cells).reshape(20, 40)
    assert np.array_equal(mask[:10], mask[10:])
    assert 0.2 < mask.mean() < 0.4
    assert len(np.unique(mask[:10], axis=0)) == 10  # not the same words for all
    inner = tf.split(train, 0.3, cells="all", groups=tf.near_copies(train, "word"))
    assert inner.train.nnz + inner.test.nnz == train.nnz
    with pytest.raises(ParameterError, match="near_copies returned"):
        tf.split(tensor, 0.3, cells="all", groups=np.asarray(groups))


def test_groups_of_any_cell():
    tensor = with_copies()
    groups = tf.near_copies(tensor, "word", similarity=0.9)
    assert len(groups) == tensor.nnz
    assert np.array_equal(groups.of(tensor.indices), np.asarray(groups))
    assert groups.of(np.array([[3, 5]])) == groups.of(np.array([[13, 5]]))
    assert "20 fibres along 'word', 10 of them different" in repr(groups)
    rest = tensor.with_cells(tensor.indices[:, 0] != 4)
    own = tf.near_copies(rest, "word").of(np.array([[4, 0], [4, 1], [4, 0]]))
    assert np.all(own < 0)
    assert own[0] == own[2] != own[1]
    parts = tf.split(tensor, 0.3, groups=groups)
    assert parts.train.nnz + parts.test.nnz == tensor.nnz


def test_parts_without_a_count_are_refused():
    tensor = tf.CountTensor.from_array(np.eye(3, dtype=int))
    with pytest.raises(DataError, match="test part without a cell that has a count"):
        tf.split(tensor, 0.001, cells="all")
    with pytest.raises(ParameterError, match="`cells` must be 'nonzero' or 'all'; got 'some'"):
        tf.split(tensor, cells="some")
    with pytest.raises(ParameterError, match="`test_size` must be between 0 and 1"):
        tf.split(tensor, 1.5, cells="all")
    with pytest.raises(ParameterError, match="`share` must be between 0 and 1"):
        tf.subsample(tensor, 1.5, cells="all")


class TwoProcesses:
    """What the first of two processes sees of its group."""

    size, rank = 2, 0

    def broadcast(self, make):
        return pickle.loads(pickle.dumps(make()))

    def scatter(self, array, length):
        return array[:length]


def test_processes_know_the_part_of_the_whole(tensor, monkeypatch):
    train = tf.split(tensor, cells="all").train
    monkeypatch.setattr("tallyfold.inference.distributed.scatter.current_group", TwoProcesses)
    half = tf.scatter(lambda: train)
    assert half.nnz == train.nnz // 2
    assert half.part == train.part
    assert half.part.whole is None
    ours, theirs = (split_cells(part, 0.0, 0.4, 3).test for part in (half, train))
    assert set(map(tuple, ours.indices)) <= set(map(tuple, theirs.indices))
    assert np.array_equal(inside(ours), inside(theirs))


def test_generators_and_seeds_agree(tensor):
    rng = np.random.default_rng(3)
    assert tf.split(tensor, cells="all", random_state=rng) == tf.split(
        tensor, cells="all", random_state=3
    )
    assert tf.split(tensor, cells="all", random_state=rng) != tf.split(
        tensor, cells="all", random_state=3
    )


@given(tensor=tensors(min_nnz=2), seed=seeds)
def test_counts_split_of_a_part_keeps_what_is_hidden(tensor, seed):
    try:
        train = tf.split(tensor, 0.5, cells="all", random_state=seed).train
    except DataError:
        return
    if train.nnz > 1:
        again = tf.split(train, 0.5, random_state=seed)
        assert again.train.part == train.part
        assert again.test.part is None
