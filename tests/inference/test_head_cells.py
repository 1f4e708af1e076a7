"""The cells a count head is trained on: what their margins may know, and what they may not."""

import numpy as np
import pytest
from tests.inference.margin_counts import simulate_margins

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.head import cells as head_cells
from tallyfold.inference.head.cells import FOLDS_PER_PART, N_FOLDS, N_PARTS, HeadCells
from tallyfold.posterior.count_head import HeadStage
from tallyfold.posterior.margins import UNIT

TENSOR = simulate_margins((8, 6, 5), 120)


def of(tensor, held_out=None, seed=0):
    first = None if held_out is None else TrainingCells(held_out)
    return HeadCells.of(TrainingCells(tensor), None, seed, first)


def with_counts(tensor, counts):
    return tf.CountTensor(tensor.axes, tensor.indices, counts)


def changed(cells, rows):
    """Return the same cells with other counts in some rows, and the same histogram functions."""
    counts_N = cells.counts_N.copy()
    counts_N[rows] += 3
    # bins, thresholds, means and pulls stay those of the unchanged counts: only sums may differ
    new = HeadCells(**(vars_of(cells) | {"counts_N": counts_N}))
    new.__dict__.update(constant=cells.constant, head=cells.head)
    return new


def inputs_besides(cells, part):
    """Return inputs that leave out a part of the folds, a table after the other, unchanged."""
    n_inputs = len(cells.axis_sets) * cells.head.n_functions
    plain = HeadStage(np.zeros(n_inputs), np.ones(n_inputs), np.empty((0, 0), np.float32), 1)
    return cells.inputs_besides(part, plain)


def vars_of(cells):
    return {name: getattr(cells, name) for name in HeadCells.__dataclass_fields__}


@pytest.fixture(scope="module")
def cells():
    return of(TENSOR)


def inputs_differ(one, other):
    """Return, for each cell, whether any of its inputs differs."""
    pairs = zip(one, other, strict=True)
    return np.any([np.any(a != b, axis=1) for a, b in pairs], axis=0)


def test_a_cells_fold_and_place_depend_on_its_positions_alone():
    whole = of(TENSOR)
    other = of(with_counts(TENSOR, TENSOR.counts[::-1]))
    assert np.array_equal(whole.indices_NM, other.indices_NM)
    assert np.array_equal(whole.fold_N, other.fold_N)
    half = of(TENSOR.with_cells(np.arange(TENSOR.nnz) % 2 == 0))
    fold = dict(zip(map(tuple, whole.indices_NM.tolist()), whole.fold_N, strict=True))
    own = [fold[tuple(cell)] for cell in half.indices_NM.tolist()]
    assert own == half.fold_N.tolist()
    assert set(fold.values()) == set(range(N_FOLDS))
    assert not np.array_equal(of(TENSOR, seed=1).fold_N, whole.fold_N)


def test_a_cells_inputs_know_nothing_of_its_own_count_nor_of_its_fold(cells):
    for fold in range(N_FOLDS):
        own_N = cells.fold_N == fold
        other = changed(cells, own_N)
        differ_N = inputs_differ(cells.inputs_by_table(), other.inputs_by_table())
        assert not differ_N[own_N].any()
        assert differ_N[~own_N].mean() > 0.9


def test_one_count_is_told_to_all_that_share_a_label_but_its_fold(cells):
    row = 17
    differ_N = inputs_differ(cells.inputs_by_table(), changed(cells, [row]).inputs_by_table())
    shares_N = np.any(cells.indices_NM == cells.indices_NM[row], axis=1)
    assert np.array_equal(differ_N, shares_N & (cells.fold_N != cells.fold_N[row]))


def test_inputs_besides_a_part_know_nothing_of_its_folds_either(cells):
    for part in (0, 3):
        inside_N = cells.fold_N // FOLDS_PER_PART == part
        other = changed(cells, inside_N)
        besides_TNF = inputs_besides(cells, part)
        assert not inputs_differ(besides_TNF, inputs_besides(other, part)).any()
        assert inputs_differ(besides_TNF, inputs_besides(cells, -1))[~inside_N].mean() > 0.9
    assert not inputs_differ(inputs_besides(cells, -1), cells.inputs_by_table()).any()


def test_inputs_are_of_the_size_of_those_of_new_cells(cells):
    """What is left out is made up for: the mean number of cells is that of all margins, nearly."""
    x_ND, head = np.hstack(list(cells.inputs_by_table())), cells.head
    sums = [table.sums_at(table.rows_of(cells.indices_NM)) for table in head.tables]
    new_ND = np.hstack(list(head.inputs_by_table(sums)))
    assert x_ND.shape == new_ND.shape
    counted = np.arange(0, x_ND.shape[1], head.n_functions)
    singles = counted[:3]
    ratio = np.expm1(x_ND[:, singles]).mean(axis=0) / np.expm1(new_ND[:, singles]).mean(axis=0)
    assert ratio == pytest.approx(np.ones(3), abs=0.08)
    fewer = np.hstack(inputs_besides(cells, 0))[:, singles]
    rest_N = cells.fold_N >= FOLDS_PER_PART
    ratio = np.expm1(fewer[rest_N]).mean(axis=0) / np.expm1(new_ND[rest_N][:, singles]).mean(axis=0)
    assert ratio == pytest.approx(np.ones(3), abs=0.15)


def test_sums_of_residuals_at_a_cell_know_nothing_of_its_part_of_the_folds(cells):
    rng = np.random.default_rng(0)
    value_NK3 = rng.integers(-99, 99, (len(cells), N_PARTS, 3), dtype=np.int32)
    part_N = cells.fold_N // FOLDS_PER_PART
    found = cells.residual_sums(value_NK3)
    for grouping, sums_N3 in zip(cells.groupings, found, strict=True):
        row_N = grouping.rows()
        for n in range(0, len(cells), 7):
            others = (row_N == row_N[n]) & (part_N != part_N[n])
            assert sums_N3[n].tolist() == value_NK3[others, part_N[n]].sum(axis=0).tolist()


def test_residuals_of_a_combination_are_pulled_to_zero(cells):
    value_NK3 = np.ones((len(cells), N_PARTS, 3), dtype=np.int32)
    value_NK3[:, :, 1:] = UNIT // 2
    head = cells.with_residuals(value_NK3[:, 0, 1:])
    tables = zip(head.tables, cells.residual_inputs(head, value_NK3), strict=True)
    scale = N_PARTS / (N_PARTS - 1)
    for (table, x_N2), sums_N3 in zip(tables, cells.residual_sums(value_NK3), strict=True):
        counted_N1 = scale * sums_N3[:, :1]
        assert x_N2 == pytest.approx(0.5 * counted_N1 / (counted_N1 + table.strength_F[-2:]))


def test_margins_are_sums_over_all_cells(cells):
    for table in cells.head.tables:
        positions = np.stack(np.unravel_index(table.keys_P, table.sizes), axis=1)
        for at, sums_F in zip(positions, table.sums_PF, strict=True):
            own = np.all(TENSOR.indices[:, list(table.axes)] == at, axis=1)
            assert sums_F[0] == own.sum()
            logs = np.round(np.log(TENSOR.counts[own]) * UNIT).sum()
            assert sums_F[1] == logs
            for t, above in zip(cells.head.statistics.thresholds_T, sums_F[2:], strict=True):
                assert above == UNIT * (TENSOR.counts[own] > t).sum()


def test_held_out_cells_stand_first_and_are_found_there():
    held_out = TENSOR.with_cells(np.arange(TENSOR.nnz) % 4 == 0)
    train = TENSOR.with_cells(np.arange(TENSOR.nnz) % 4 != 0)
    cells = of(TENSOR, held_out)
    assert (cells.n_first, len(cells)) == (held_out.nnz, TENSOR.nnz)
    rows = cells.rows_of(held_out.indices)
    assert sorted(rows.tolist()) == list(range(held_out.nnz))
    assert np.array_equal(cells.indices_NM[cells.order_N[rows]], held_out.indices)
    assert np.array_equal(cells.drawn_counts_N[rows], held_out.counts)
    assert sorted(cells.order_N.tolist()) == list(range(TENSOR.nnz))
    assert np.all(cells.rows_of(train.indices) == -1)
    assert np.all(of(TENSOR).rows_of(held_out.indices) == -1)


def test_too_many_cells_are_trained_on_in_part_and_the_others_make_the_margins(monkeypatch):
    monkeypatch.setattr(head_cells, "MOST_CELLS", 40)
    cells = of(TENSOR)
    assert 20 < len(cells) < 60
    assert len(cells) + len(cells.rest) == TENSOR.nnz
    table = cells.head.tables[0]
    assert table.sums_PF[:, 0].sum() == len(cells.rest)
    own = np.bincount(TENSOR.indices[cells.rest.kept_N, 0], minlength=8)
    assert table.sums_at(np.searchsorted(table.keys_P, np.arange(8)))[:, 0].tolist() == own.tolist()
    others = changed(cells, slice(None)).inputs_by_table()
    assert not inputs_differ(cells.inputs_by_table(), others).any()
    assert cells.histogram[1].sum() == TENSOR.nnz


def test_margins_of_the_others_are_pulled_as_if_they_were_all(monkeypatch):
    """Their pull comes from their counts alone, as it does if all cells are trained on."""
    monkeypatch.setattr(head_cells, "MOST_CELLS", 40)
    cells = of(TENSOR)
    monkeypatch.undo()
    rest = TENSOR.with_cells(cells.rest.kept_N)
    whole = of(rest)
    whole.__dict__["constant"] = cells.constant
    for one, other in zip(cells.head.tables, whole.head.tables, strict=True):
        assert np.array_equal(one.sums_PF, other.sums_PF)
        assert one.strength_F == pytest.approx(other.strength_F, rel=1e-9)


def test_in_the_end_margins_are_of_all_cells_however_few_are_trained_on(monkeypatch):
    monkeypatch.setattr(head_cells, "MOST_CELLS", 40)
    monkeypatch.setattr("tallyfold.inference.head.rest.CELLS_AT_ONCE", 9)
    cells = of(TENSOR)
    for _ in range(2):  # what was let go is made again
        found = cells.all_tables()
        monkeypatch.undo()
        for one, other in zip(found, of(TENSOR).all_tables(), strict=True):
            assert np.array_equal(one.keys_P, other.keys_P)
            assert np.array_equal(one.sums_PF[:, 0], other.sums_PF[:, 0])
            assert np.array_equal(one.sums_PF, of_all(cells, one))


def of_all(cells, table):
    """Return the sums of all cells, of the same functions of counts."""
    key_N = np.ravel_multi_index(TENSOR.indices[:, list(table.axes)].T, table.sizes)
    value_NF = cells.constant.statistics.values(TENSOR.counts)
    return [value_NF[key_N == key].sum(axis=0).tolist() for key in table.keys_P]


def test_margins_that_cannot_be_numbered_with_their_counts_are_the_same(monkeypatch):
    monkeypatch.setattr(head_cells, "MOST_CELLS", 40)
    wanted = of(TENSOR).head.tables
    monkeypatch.setattr("tallyfold.inference.head.rest.LARGEST_KEY", 1)
    for one, other in zip(of(TENSOR).head.tables, wanted, strict=True):
        assert np.array_equal(one.keys_P, other.keys_P)
        assert np.array_equal(one.sums_PF, other.sums_PF)
