"""Whether there is a count: the score of held-out cells, weights and gates."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.occurrence.held_out import best_line, log_score, slopes
from tallyfold.inference.occurrence.step import Counted
from tallyfold.inference.occurrence.training import (
    Ceiling,
    Examples,
    Multipliers,
    Network,
    trained_line,
    trained_multipliers,
    trained_network,
    unseen_log_rates,
    with_ceiling,
)
from tallyfold.posterior.occurrence_weights import Features, OccurrenceWeights


def features(n, n_sets=2, echo=False, seed=0):
    rng = np.random.default_rng(seed)
    echo_N = (rng.random(n) < 0.4) * rng.gamma(2, 0.3, n) if echo else np.zeros(n)
    return Features(
        rng.normal(-1, 1, n),
        rng.poisson(1, (n, n_sets)) * 1.0,
        rng.gamma(1, 1, (n, n_sets)),
        echo_N,
        rng.normal(0, 0.1, (n, 1)),
    )


def examples(echo=False):
    empty = features(40, echo=echo, seed=2)
    return Examples(features(30, echo=echo, seed=1), empty, np.linspace(0.5, 3, 40))


def test_score_is_that_of_counts_and_none():
    log_N, log_Z = np.array([0.0, -1.0]), np.array([-2.0])
    rates, empty = np.exp(log_N), np.exp(log_Z)
    wanted = (np.log(1 - np.exp(-rates)).sum() - 3 * empty.sum()) / 2
    assert log_score(log_N, log_Z, np.array([3.0])) == pytest.approx(wanted)


def test_slopes_of_the_score():
    rng = np.random.default_rng(0)
    log_C, weight_Z = rng.normal(-1, 1, 9), rng.gamma(1, 1, 5)
    by_N, by_Z = slopes(log_C[:4], log_C[4:], weight_Z)
    wanted = approx_fprime(log_C, lambda x: log_score(x[:4], x[4:], weight_Z), 1e-7)
    np.testing.assert_allclose(np.concatenate([by_N, by_Z]), wanted, atol=1e-6)


def test_best_line_is_the_best():
    rng = np.random.default_rng(1)
    log_N, log_Z, weight_Z = rng.normal(0, 1, 300), rng.normal(-1, 1, 300), rng.gamma(1, 2, 300)
    shift, slope, score = best_line(log_N, log_Z, weight_Z)
    found = minimize(
        lambda x: -log_score(x[0] + x[1] * log_N, x[0] + x[1] * log_Z, weight_Z), [0.0, 1.0]
    )
    np.testing.assert_allclose([shift, slope], found.x, atol=2e-3)
    assert score == pytest.approx(-found.fun, abs=1e-6)


@pytest.mark.parametrize("echo", [False, True])
def test_gradient_of_multipliers(echo):
    cells = examples(echo)
    model = Multipliers(cells.all, 2)
    params_P = np.array([-0.5, 0.2, 0.4, -0.3, 0.1, 0.2, *([-0.4] if echo else [])])

    def loss(params):
        return cells.loss(model.forward(params)[0])[0]

    log_C, transpose = model.forward(params_P)
    np.testing.assert_allclose(
        transpose(cells.loss(log_C)[1]), approx_fprime(params_P, loss, 1e-7), atol=1e-6
    )
    weights = model.weights(params_P, OccurrenceWeights.plain(2))
    np.testing.assert_allclose(weights.log_rates(cells.all), log_C)


def test_gradient_of_the_network():
    cells = examples()
    rng = np.random.default_rng(4)
    network = Network(rng.normal(-1, 1, 70), rng.normal(0, 1, (70, 3)))
    params_P = rng.normal(0, 0.5, 3 * 4 + 8)

    def loss(params):
        return cells.loss(network.forward(params)[0])[0]

    log_C, transpose = network.forward(params_P)
    np.testing.assert_allclose(
        transpose(cells.loss(log_C)[1]), approx_fprime(params_P, loss, 1e-7), atol=1e-6
    )


def test_gradient_of_the_ceiling():
    cells = examples()
    ceiling = Ceiling(np.random.default_rng(4).normal(0, 2, 70))
    params_P = np.array([0.2, 0.9, -2.0])

    def loss(params):
        return cells.loss(ceiling.forward(params)[0])[0]

    log_C, transpose = ceiling.forward(params_P)
    np.testing.assert_allclose(
        transpose(cells.loss(log_C)[1]), approx_fprime(params_P, loss, 1e-7), atol=1e-6
    )


def certain(n, empty, seed):
    """Return cells with rates as their base says, of which some are empty whatever the rate."""
    rng = np.random.default_rng(seed)
    base_N = rng.normal(-0.5, 1.5, n)
    some_N = rng.random(n) < -np.expm1(-np.exp(base_N)) * (1 - empty)
    none = np.zeros((n, 0))
    found = Features(base_N, none, none, np.zeros(n), none)
    return Examples(found.rows(some_N), found.rows(~some_N), np.ones((~some_N).sum()))


def missing(cells, weights, least):
    """Return how many cells with a probability above `least` are empty, and should be."""
    filled, empty = (-np.expm1(-np.exp(weights.log_rates(f))) for f in (cells.filled, cells.empty))
    every = np.append(filled, empty)
    return (empty > least).sum(), (1 - every[every > least]).sum()


@pytest.mark.parametrize("empty", [0.1, 0.02])
def test_the_ceiling_is_found(empty):
    train, test = certain(50_000, empty, 0), certain(50_000, empty, 1)
    line = trained_line(train)
    found = with_ceiling(line, train, line.log_rates(train.all))
    assert found.ceiling_3[2] == pytest.approx(empty, rel=0.25)
    assert test.score(found) > test.score(line)
    number, expected = missing(test, found, 0.85)
    assert number == pytest.approx(expected, rel=0.1)
    number, expected = missing(test, line, 0.99)  # the most certain are too certain
    assert number > 3 * expected


def test_cells_drawn_twice_are_one_and_weigh_as_much():
    cells = examples()
    twice = cells.rows(np.arange(30), np.repeat(np.arange(40), 2))
    one = twice.distinct()
    assert len(one.weight_Z) == 40
    line = trained_line(cells)
    assert one.score(line) == pytest.approx(twice.score(line))


def test_rates_unseen_are_those_of_weights_that_have_not_seen_the_cells():
    """What is learnt by heart helps the cells it was learnt from, and no others."""
    rng = np.random.default_rng(0)

    def noise(n):
        signs = rng.normal(0, 2, (n, 2))
        return Features(np.zeros(n), np.exp(signs), np.exp(-signs), np.zeros(n), signs[:, :1])

    cells = Examples(noise(60), noise(60), np.ones(60))
    kept = trained_network(trained_multipliers(cells), cells, 0)
    known = np.log(2)  # a half, whatever the features
    own = -cells.loss(kept.log_rates(cells.all))[0]
    unseen = -cells.loss(unseen_log_rates(kept, cells, 0))[0]
    assert own > -2 * known + 0.1
    assert unseen < -2 * known
    logs = kept.log_rates(cells.all), unseen_log_rates(kept, cells, 0)
    hidden, honest = (with_ceiling(kept, cells, log_C).ceiling_3[2] for log_C in logs)
    assert honest > hidden


def test_where_nothing_is_missing_hardly_a_ceiling_is_found():
    train, test = certain(50_000, 0.0, 0), certain(50_000, 0.0, 1)
    line = trained_line(train)
    found = with_ceiling(line, train, line.log_rates(train.all))
    assert found.ceiling_3[2] < 0.005
    assert train.score(found) >= train.score(line)
    assert test.score(found) > test.score(line) - 2e-4


def made_up(n, seed):
    """Return cells whose counts depend on what combinations say, beyond the base rate."""
    rng = np.random.default_rng(seed)
    sums_NS = rng.gamma(2, 1, (n, 2))
    counts_NS = rng.poisson(sums_NS * rng.gamma(2, 0.5, (n, 2))) * 1.0
    base_N = rng.normal(-1.5, 0.5, n)
    ratio_NS = np.log(1 + counts_NS) - np.log(1 + sums_NS)
    log_N = base_N + ratio_NS @ [1.0, 0.5]
    bent_N = log_N + 0.8 * (counts_NS[:, 0] > 2) * (counts_NS[:, 1] > 2)
    some_N = rng.random(n) < -np.expm1(-np.exp(bent_N))
    found = Features(base_N, counts_NS, sums_NS, np.zeros(n), np.empty((n, 0)))
    return Examples(found.rows(some_N), found.rows(~some_N), np.ones((~some_N).sum()))


def test_each_stage_predicts_better():
    train, test = made_up(40_000, 0), made_up(40_000, 1)
    line, product = trained_line(train), trained_multipliers(train)
    network = trained_network(product, train, 0)
    assert test.score(product) > test.score(line) + 0.02
    assert test.score(network) > test.score(product) + 0.001
    np.testing.assert_allclose(np.exp(product.log_pull_S), 1.0, atol=0.5)


def test_plain_weights_change_nothing():
    cells = features(50)
    plain = OccurrenceWeights.plain(2)
    np.testing.assert_allclose(plain.log_rates(cells), cells.log_base_N)
    shifted = replace(plain, line_2=np.array([1.0, 2.0]))
    np.testing.assert_allclose(shifted.log_rates(cells), 1 + 2 * cells.log_base_N)


@pytest.mark.parametrize("n_sets", [2, 7])
def test_a_cell_has_the_same_rate_wherever_it_stands(n_sets):
    rng = np.random.default_rng(5)
    n_inputs = 2 * n_sets + 4  # two of them are of neighbours
    weights = replace(
        OccurrenceWeights.plain(n_sets),
        centre_D=np.zeros(n_inputs),
        spread_D=np.ones(n_inputs),
        power_S=rng.normal(0.4, 0.2, n_sets),
        into_DH=rng.normal(0, 1, (n_inputs, 8)),
        bias_H=rng.normal(0, 1, 8),
        out_H=rng.normal(0, 1, 8),
    )
    cells = features(20, n_sets, echo=True)
    whole_N = weights.log_rates(cells)
    for n in range(20):
        assert weights.log_rates(cells.rows([n]))[0] == whole_N[n]
        assert np.all(weights.log_rates(cells.rows([n] * 1024)) == whole_N[n])


def test_parts_share_the_cells():
    judged, rest = examples().parts(0.3, seed=0)
    assert len(judged) + len(rest) == 30
    assert judged.weight_Z.sum() + rest.weight_Z.sum() == pytest.approx(
        np.linspace(0.5, 3, 40).sum()
    )


def test_counts_of_all_cells_grow_from_those_of_some():
    tensor = tf.simulate((9, 8, 7), 2, density=0.4).tensor
    some_N = np.arange(tensor.nnz) % 4 > 0
    fewer, more = tensor.with_cells(some_N), tensor.with_cells(~some_N)
    counted, wanted, grown = (
        Counted(TrainingCells(each), tensor.axes, 1.0) for each in (fewer, tensor, tensor)
    )
    grown.grow_from(counted, more)
    assert counted.n_combinations((0, 1)) == len(np.unique(fewer.indices[:, :2], axis=0))
    weights = OccurrenceWeights.plain(3)
    for _ in range(2):  # made from the others' counts, which are gone then
        pairs = zip(grown.occurrence(weights).sets, wanted.occurrence(weights).sets, strict=True)
        for found, other in pairs:
            assert found.axes == other.axes
            assert np.array_equal(found.keys_P, other.keys_P)
            assert np.array_equal(found.counts_P, other.counts_P)
            assert found.counts_P.dtype == np.int8
            cells = np.array([[0, 0, 0], [8, 7, 6], [3, -1, 2]], dtype=np.int32)
            assert np.array_equal(found.at(cells), other.at(cells))
