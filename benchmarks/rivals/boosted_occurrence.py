"""Whether there is a count: LightGBM on counts of combinations, with boosting for how many.

A cell's inputs say, for every proper subset of the axes, how many training cells share its labels
there, and the sum of their counts. Trees are trained on a tenth of all training cells, empty ones
drawn with weights, whose inputs are counted on the rest; then the inputs of cells to predict are
counted on all training cells, and both are scaled to the whole.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

import tallyfold as tf
from rivals.boosting import fit_boosting, proper_subsets
from rivals.histograms import Rival
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.data.hashing import cell_keys
from tallyfold.evaluation.metrics import RANKED_CELLS
from tallyfold.evaluation.ranking import ranked_lists, ranking
from tallyfold.models.scoring import EMPTY_CELLS, scores_over_all_cells

HELD_OUT = 0.1
STOPPED_ON = 0.25
"""The share of the held-out cells that tells when to stop, and calibrates."""
DRAWN = 500_000
ROUNDS = 600
PATIENCE = 30
SETTINGS = {
    "objective": "binary",
    "learning_rate": 0.05,
    "num_leaves": 31,
    "min_data_in_leaf": 200,
    "min_sum_hessian_in_leaf": 1e-3,  # few cells have a count: leaves of many have next to none
    "max_delta_step": 5.0,
    "seed": 0,
    "verbose": -1,
}


def fit_boosted_occurrence(train, *, threads, groups=None):
    """Fit trees for whether there is a count, and those of `fit_boosting` for how many."""
    import lightgbm as lgb

    rest, held_out = tf.split(train, HELD_OUT, cells="all", random_state=0, groups=groups)
    cells_NM, label_N, weight_N = labelled(held_out)
    inputs_NF = Inputs(rest).of(cells_NM)
    stops_N = np.random.default_rng(0).random(len(label_N)) < STOPPED_ON
    settings = SETTINGS | {"num_threads": threads}

    def data(use_N, **reference):
        return lgb.Dataset(inputs_NF[use_N], label_N[use_N], weight=weight_N[use_N], **reference)

    part = data(~stops_N)
    first = lgb.train(
        settings,
        part,
        ROUNDS,
        [data(stops_N, reference=part)],
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )
    score_N = first.predict(inputs_NF[stops_N], raw_score=True, num_threads=threads)
    line = calibrated(score_N, label_N[stops_N], weight_N[stops_N])
    trees = lgb.train(settings, data(np.ones(len(label_N), bool)), first.best_iteration)
    whole = Inputs(train)

    def logit(cells_NM):
        score_N = trees.predict(whole.of(cells_NM), raw_score=True, num_threads=threads)
        return line[0] + line[1] * score_N

    return BoostedCells(train.axes, logit, fit_boosting(train, threads=threads, groups=groups))


def labelled(part):
    """Return the cells of a part with a count, and empty ones that stand for all its others."""
    empty = draw_empty_cells(part, DRAWN, seed=1)
    return (
        np.concatenate([part.indices, empty.indices_ZM]),
        np.repeat([1.0, 0.0], [part.nnz, len(empty.weight_Z)]),
        np.concatenate([np.ones(part.nnz), empty.weight_Z]),
    )


def calibrated(score_N, label_N, weight_N):
    """Return the line through raw scores that fits half of the cells, if it helps the other."""

    def loss(line, use_N):
        logit_N = line[0] + line[1] * score_N[use_N]
        return weight_N[use_N] @ (np.logaddexp(0, logit_N) - label_N[use_N] * logit_N)

    half_N = np.random.default_rng(1).random(len(label_N)) < 0.5
    line = minimize(loss, [0.0, 1.0], args=(half_N,), method="Nelder-Mead").x
    return line if loss(line, ~half_N) < loss([0.0, 1.0], ~half_N) else (0.0, 1.0)


class Inputs:
    """Number and sum of the counts that cells share labels with, scaled from a part to all."""

    def __init__(self, counted):
        self.shape, self.tables = counted.shape, []
        self.share = 1.0 if counted.part is None else counted.part.share
        for axes in proper_subsets(len(counted.shape)):
            seen_L, row_N = np.unique(self.keys(counted.indices, axes), return_inverse=True)
            sums = [np.bincount(row_N), np.bincount(row_N, counted.counts)]
            self.tables.append((axes, seen_L, sums))

    def keys(self, cells_NM, axes):
        return cell_keys(cells_NM[:, axes], [self.shape[axis] for axis in axes])

    def of(self, cells_NM):
        columns = []
        for axes, seen_L, sums in self.tables:
            key_N = self.keys(cells_NM, axes)
            row_N = np.minimum(np.searchsorted(seen_L, key_N), len(seen_L) - 1)
            known_N = seen_L[row_N] == key_N
            columns += [np.log1p(sums_L[row_N] * known_N / self.share) for sums_L in sums]
        return np.stack(columns, axis=1).astype(np.float32)


@dataclass(frozen=True)
class BoostedCells:
    """What is said of all cells, zeros included: whether by `logit`, how many by `amount`."""

    axes_: tuple
    logit: object
    amount: Rival

    def rate(self, positions):
        """Return minus the log probability of a zero, by which models are ranked too."""
        return np.logaddexp(0, self.logit(positions))

    def scores(self, test, train, along):
        """Return the scores of the page, on the same empty cells and lists as the models'."""
        empty = draw_empty_cells(test, EMPTY_CELLS)
        predictive = _Hurdle(-np.logaddexp(0, -self.logit(test.indices)), self.amount.log_pmf(test))
        found = scores_over_all_cells(predictive, test, empty, -self.rate(empty.indices_ZM))
        given = {"zeros_per_cell": 10, "most_cells": RANKED_CELLS}
        lists = ranked_lists(self, test, train, k=20, along=along)
        return {
            "log-score": found.total,
            "occurrence": found.occurrence,
            "amount": found.amount,
            "zeros-error": found.error,
            "auc": ranking(self, test, train, **given).auc,
            "auc-within": ranking(self, test, train, along=along, **given).auc,
            "recall-20": lists.recall,
            "ndcg-20": lists.ndcg,
        }


@dataclass(frozen=True)
class _Hurdle:
    """The held-out counts' log probabilities: of any count, and of this one given any."""

    log_any_N: np.ndarray
    log_amount_N: np.ndarray

    def log_at_least(self, least):
        assert least == 1
        return self.log_any_N

    def log_pmf(self, counts_N):
        return self.log_any_N + self.log_amount_N
