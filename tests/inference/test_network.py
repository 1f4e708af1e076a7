import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
from tests.inference.states import same_states

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.network import (
    NetworkStep,
    cell_keys,
    draw_empty,
    network_of,
    rates,
)
from tallyfold.probability.counts import COUNTS

LIKELIHOODS = pytest.mark.parametrize(
    "likelihood", [None, COUNTS["poisson", False], COUNTS["poisson", True]]
)


@pytest.fixture(scope="module")
def parts():
    return tf.split(tf.simulate((20, 15, 6), 2, density=0.4, random_state=2).tensor)


def make_step(parts, likelihood=None, negatives=0, **parameters):
    small = {"embedding_size": 3, "hidden_units": 5, "batch_size": 100}
    return NetworkStep(
        TrainingCells(parts.train), parts.test, likelihood, negatives, **(small | parameters)
    )


def rows(cells):
    return set(map(tuple, np.asarray(cells).tolist()))


@LIKELIHOODS
def test_training_and_predicting_are_the_same_network(likelihood, parts):
    """Torch's loss is that of NumPy's rates."""
    import torch

    step = make_step(parts, likelihood)
    state = step.start()
    values = {name: torch.tensor(array) for name, array in state.values.items()}
    cells, counts = parts.train.indices, parts.train.counts
    loss = float(step.batch_loss(values, cells, counts))
    rate = rates(state.values, cells, likelihood)
    if likelihood is None:
        assert rate.min() > 0
        expected = np.mean((rate - counts) ** 2)
    else:
        expected = -likelihood.log_pmf(counts, rate).mean()
    assert loss == pytest.approx(expected, rel=1e-5)


@LIKELIHOODS
def test_gradients_by_finite_differences(likelihood, parts):
    import torch

    step = make_step(parts, likelihood)
    state = step.advance(step.start(), 1)[0].values  # at the start, some units stand at 0
    values = {n: torch.tensor(a, dtype=torch.float64, requires_grad=True) for n, a in state.items()}
    cells, counts = parts.train.indices[:50], parts.train.counts[:50]
    step.batch_loss(values, cells, counts).backward()
    for name in ("embedding_1", "weight_0", "bias_1", "weight_2"):
        place = tuple(np.array(values[name].shape) - 1)
        changes = []
        for h in (1e-6, -1e-6):
            moved = {n: v.detach().clone() for n, v in values.items()}
            moved[name][place] += h
            changes.append(float(step.batch_loss(moved, cells, counts)))
        found = float(values[name].grad[place])
        assert (changes[0] - changes[1]) / 2e-6 == pytest.approx(found, rel=1e-4, abs=1e-8)


@LIKELIHOODS
def test_it_starts_at_the_mean_count_and_learns(likelihood, parts):
    step = make_step(parts, likelihood, learning_rate=0.01)
    state = step.start()
    rate = rates(state.values, parts.train.indices, likelihood)
    assert rate.mean() == pytest.approx(parts.train.counts.mean(), rel=0.3)
    losses = []
    for epoch in range(1, 15):
        state, loss = step.advance(state, epoch)
        losses.append(loss)
    assert losses[-1] < losses[0]
    assert state.steps == 14 * -(-parts.train.nnz // 100)


@pytest.mark.parametrize("negatives", [0, 3])
def test_an_epoch_depends_on_its_number_and_the_state_alone(negatives, parts):
    step = make_step(parts, negatives=negatives)
    one, _ = step.advance(step.start(), 1)
    copy = deepcopy(one)
    two, loss = step.advance(one, 2)
    assert same_states(one, copy)
    again, loss_again = make_step(parts, negatives=negatives).advance(copy, 2)
    assert loss == loss_again
    assert same_states(two, again)
    assert not np.array_equal(two.values["weight_0"], step.advance(copy, 3)[0].values["weight_0"])


def test_l2_pulls_parameters_to_zero(parts):
    sizes = []
    for l2 in (0.0, 1e4):
        step = make_step(parts, l2=l2, learning_rate=0.01)
        state = step.start()
        for epoch in range(1, 10):
            state, _ = step.advance(state, epoch)
        sizes.append(float((state.values["weight_0"] ** 2).sum()))
    assert sizes[1] < sizes[0] / 2


def test_empty_cells_are_never_non_zeros(parts):
    step = make_step(parts, negatives=3)
    known = rows(parts.train.indices) | rows(parts.test.indices)
    for epoch in range(5):
        rng = np.random.default_rng(epoch)
        cells, counts = step._with_zeros(parts.train.indices, parts.train.counts, rng)
        empty = cells[counts == 0]
        assert len(empty) == 3 * parts.train.nnz
        assert not rows(empty) & known
        assert len(rows(empty)) > 0.5 * (np.prod(parts.train.shape) - len(known))
    cells, counts = step._validation_cells
    assert not rows(cells[counts == 0]) & known
    assert np.sum(counts == 0) == 3 * parts.test.nnz


def test_keys_of_a_shape_beyond_64_bits():
    shape = (2**31 - 1, 2**31 - 1, 2**31 - 1, 8)
    rng = np.random.default_rng(0)
    cells = draw_empty(shape, cell_keys(np.array([[0, 0, 0, 0]])), 10_000, rng)
    assert len(np.unique(cell_keys(cells))) == len(rows(cells)) == 10_000
    assert not rows(draw_empty(shape, np.sort(cell_keys(cells)), 10_000, rng)) & rows(cells)


def test_keys_tell_all_cells_of_a_tensor_apart():
    shape = (64, 32, 16, 8)
    cells = np.stack(np.unravel_index(np.arange(np.prod(shape)), shape), axis=1)
    assert len(np.unique(cell_keys(cells))) == len(cells)


@pytest.mark.parametrize("n_empty", [0, 1])
def test_a_tensor_without_room_for_zeros(n_empty):
    every = np.stack(np.unravel_index(np.arange(12), (4, 3)), axis=1)
    keys = np.sort(cell_keys(every[n_empty:]))
    found = draw_empty((4, 3), keys, 36, np.random.default_rng(0))
    assert rows(found) <= rows(every[:n_empty])
    assert (len(found) > 0) == (n_empty > 0)


def test_entities_never_trained_are_the_mean_of_the_others(parts):
    state = make_step(parts).start()
    seen = [np.ones(size, bool) for size in parts.train.shape]
    seen[0][4] = False
    network = network_of(state, seen, negatives=0)
    mean = np.delete(state.values["embedding_0"].astype(float), 4, axis=0).mean(axis=0)
    np.testing.assert_allclose(network["embedding_0"][[4, -1]], [mean, mean], rtol=1e-5, atol=1e-8)
    assert np.array_equal(network["embedding_0"][0], state.values["embedding_0"][0])
    trained = network_of(state, seen, negatives=3)
    assert np.array_equal(trained["embedding_0"][:-1], state.values["embedding_0"])


def test_torch_is_not_loaded_by_the_registry_nor_by_predicting(parts, tmp_path):
    model = tf.MLPTF(max_iter=1).fit(parts.train)
    model.save(tmp_path / "model")
    code = (
        "import sys, tallyfold as tf, numpy as np; tf.MODELS; "
        f"tf.load({str(tmp_path / 'model')!r}).predict(np.array([[0, 0, 0]])); "
        "print('torch' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_torchs_settings_are_left_alone(parts):
    import torch

    before = torch.get_num_threads(), torch.get_rng_state().clone()
    step = make_step(parts, negatives=3)
    step.advance(step.start(), 1)
    assert torch.get_num_threads() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])
