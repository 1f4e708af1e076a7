import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.strategies import tensors

from tallyfold import (
    CountTensor,
    k_folds,
    near_copies,
    split,
    split_entities,
    split_time,
    subsample,
)
from tallyfold.errors import DataError, LabelError, ParameterError

seeds = st.integers(0, 2**32)
shares = st.floats(0.01, 0.99)


def cells(tensor):
    rows = np.column_stack([tensor.indices, tensor.counts]).tolist()
    return {(*index, count) for *index, count in rows}


def check_parts(parts, tensor):
    train, test = parts
    assert train.axes == tensor.axes == test.axes
    assert cells(train).isdisjoint(cells(test))
    assert cells(train) | cells(test) == cells(tensor)


@given(tensor=tensors(min_nnz=2), share=shares, seed=seeds)
def test_split_is_disjoint_complete_seeded_and_of_the_size_asked(tensor, share, seed):
    parts = split(tensor, share, random_state=seed)
    check_parts(parts, tensor)
    assert parts.test.nnz == min(max(round(share * tensor.nnz), 1), tensor.nnz - 1)
    assert parts == split(tensor, share, random_state=seed)
    assert parts == split(tensor, share, random_state=np.random.default_rng(seed))


@given(tensor=tensors(min_nnz=4), n_folds=st.integers(2, 4), seed=seeds)
def test_folds_cover_every_cell_once(tensor, n_folds, seed):
    folds = k_folds(tensor, n_folds, random_state=seed)
    for fold in folds:
        check_parts(fold, tensor)
    assert sum(fold.test.nnz for fold in folds) == tensor.nnz
    assert set.union(*(cells(fold.test) for fold in folds)) == cells(tensor)
    assert max(f.test.nnz for f in folds) - min(f.test.nnz for f in folds) <= 1
    assert folds == k_folds(tensor, n_folds, random_state=seed)


@given(tensor=tensors(min_nnz=2), share=shares, seed=seeds)
def test_subsample_keeps_axes_and_a_share(tensor, share, seed):
    part = subsample(tensor, share, random_state=seed)
    assert part.axes == tensor.axes
    assert cells(part) <= cells(tensor)
    assert part.nnz == min(max(round(share * tensor.nnz), 1), tensor.nnz - 1)
    assert subsample(tensor, 1) == tensor


@given(data=st.data(), tensor=tensors(min_nnz=3), share=shares, seed=seeds)
def test_split_entities_holds_out_whole_entities(data, tensor, share, seed):
    axis = data.draw(st.sampled_from(tensor.names))
    present = int((tensor.marginal(axis, "nonzeros") > 0).sum())
    if present < 2:
        with pytest.raises(DataError, match="at least two"):
            split_entities(tensor, axis, share, random_state=seed)
        return
    parts = split_entities(tensor, axis, share, random_state=seed)
    check_parts(parts, tensor)
    known, new = (part.marginal(axis, "nonzeros") > 0 for part in parts)
    assert not (known & new).any()
    assert new.sum() == min(max(round(share * present), 1), present - 1)


@given(rows=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, unique=True))
def test_splits_do_not_depend_on_the_order_of_rows(rows):
    frame = pd.DataFrame(rows, columns=["a", "b"])
    one, other = (CountTensor.from_frame(f, axes=["a", "b"]) for f in (frame, frame[::-1]))
    assert split(one, random_state=3) == split(other, random_state=3)
    assert subsample(one, 0.5) == subsample(other, 0.5)


def test_different_seeds_differ():
    tensor = CountTensor.from_array(np.ones((20, 20), int))
    assert split(tensor, random_state=0) != split(tensor, random_state=1)
    assert k_folds(tensor, random_state=0) != k_folds(tensor, random_state=1)


def test_every_cell_is_as_likely_to_be_held_out():
    tensor = CountTensor.from_array(np.ones((4, 5), int))
    held_out = np.zeros((4, 5))
    for seed in range(2000):
        held_out += split(tensor, 0.25, random_state=seed).test.to_dense()
    assert abs(held_out / 2000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_split_time():
    frame = pd.DataFrame({"a": list("xyzx"), "month": ["2020-01", "2020-03", "2020-10", "2021-01"]})
    tensor = CountTensor.from_frame(frame, axes=["a", "month"])
    train, test = split_time(tensor, "month", after="2020-09")
    check_parts((train, test), tensor)
    assert test.to_frame()["month"].tolist() == ["2021-01", "2020-10"]
    with pytest.raises(DataError, match="leaves the test part empty; .*'2020-01' to '2021-01'"):
        split_time(tensor, "month", after="2021-01")
    with pytest.raises(LabelError, match="comparable with the labels of axis 'month'"):
        split_time(tensor, "month", after=2020)


def test_bad_parameters():
    tensor = CountTensor.from_array(np.ones((2, 2), int))
    for share in (0, 1, -0.5, "half"):
        with pytest.raises(ParameterError, match="`test_size` must be between 0 and 1"):
            split(tensor, share)
    with pytest.raises(ParameterError, match="`share` must be"):
        subsample(tensor, 2)
    with pytest.raises(ParameterError, match="at least 2; got 1"):
        k_folds(tensor, 1)
    with pytest.raises(DataError, match="4 cells cannot be cut into 5 folds"):
        k_folds(tensor, 5)
    with pytest.raises(ParameterError, match="`random_state` must be"):
        split(tensor, random_state=-1)
    with pytest.raises(LabelError, match="no axis 'x'"):
        split_entities(tensor, "x")


@pytest.mark.parametrize("cells", ["nonzero", "all"])
def test_folds_keep_groups_together(cells):
    rows = [(who, word) for who in ("ann", "bob") for word in "abcdefghij"]
    rows += [("cem", word) for word in "klmnopqrst"]
    frame = pd.DataFrame(rows, columns=["who", "word"])
    tensor = CountTensor.from_frame(frame, ["who", "word"])
    groups = near_copies(tensor, "word")
    folds = k_folds(tensor, 2, cells=cells, groups=groups)
    for _, test in folds:
        held_out = test.to_frame()
        ann, bob = (set(held_out["word"][held_out["who"] == who]) for who in ("ann", "bob"))
        assert ann == bob != set()
    assert sum(test.nnz for _, test in folds) == tensor.nnz
    with pytest.raises(DataError, match="1 groups cannot be cut into 2 folds"):
        k_folds(tensor, 2, groups=np.zeros(tensor.nnz, int))
