"""Gradient boosting on margins: LightGBM, and a multinomial head on what it predicts.

A cell's inputs say, for every proper subset of the axes, what the training cells that share its
labels there look like: how many they are, their mean log count and their share above one. Those
of a training cell leave out its own fold; otherwise trees learn to read its count off the sums.
"""

from itertools import chain, combinations

import numpy as np

from rivals.histograms import Rival, Scale, fit_head

FOLDS = 5
ROUNDS = 500
PATIENCE = 20
SETTINGS = {
    "objective": "poisson",
    "learning_rate": 0.08,
    "num_leaves": 63,
    "min_data_in_leaf": 50,
    "feature_fraction": 0.8,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "max_bin": 127,
    "seed": 0,
    "verbose": -1,
}


def fit_boosting(train, *, threads, groups=None):
    """Boost trees for y - 1, stopped on a tenth of the cells, which fits the head as well.

    Cells of a group, if groups are given, are in the same fold and held out together.
    """
    import lightgbm as lgb

    rng = np.random.default_rng(0)
    _, group_N = np.unique(np.arange(train.nnz) if groups is None else groups, return_inverse=True)
    counts_N, fold_N = train.counts, rng.integers(FOLDS, size=group_N.max() + 1)[group_N]
    held_out = (rng.random(group_N.max() + 1) < 0.1)[group_N]
    margins = [Margin(train, axes, fold_N) for axes in proper_subsets(len(train.shape))]
    inputs_NF = np.concatenate([margin.out_of_fold() for margin in margins], axis=1)

    part = lgb.Dataset(inputs_NF[~held_out], counts_N[~held_out] - 1)
    trees = lgb.train(
        SETTINGS | {"num_threads": threads},
        part,
        ROUNDS,
        [lgb.Dataset(inputs_NF[held_out], counts_N[held_out] - 1, reference=part)],
        callbacks=[lgb.early_stopping(PATIENCE, verbose=False)],
    )

    def score(inputs_NF):
        return np.log(trees.predict(inputs_NF, num_threads=threads) + 1e-4)

    scale = Scale.of(counts_N)
    constant_V = scale.shares(counts_N)
    head = fit_head(score(inputs_NF[held_out]), counts_N[held_out], scale, constant_V)
    return Rival(lambda test: head(score(np.concatenate([m.of(test) for m in margins], axis=1))))


def proper_subsets(n_axes):
    return chain.from_iterable(combinations(range(n_axes), size) for size in range(1, n_axes))


class Margin:
    """Number, sum of log y and number above one of the training cells that share labels."""

    def __init__(self, train, axes, fold_N):
        self.axes, self.fold_N = axes, fold_N
        self.seen_L, self.row_N = np.unique(self.keys(train), return_inverse=True)
        what = [None, np.log(train.counts), train.counts > 1]
        cell_N = self.row_N * FOLDS + fold_N
        size = len(self.seen_L) * FOLDS
        self.sums_3LK = [np.bincount(cell_N, w, size).reshape(-1, FOLDS) for w in what]
        self.mean_log = what[1].mean()

    def keys(self, cells):
        shape = [cells.shape[axis] for axis in self.axes]
        return np.ravel_multi_index(tuple(cells.indices[:, axis] for axis in self.axes), shape)

    def out_of_fold(self):
        """Inputs of the training cells: sums over the other folds, scaled up to all of them."""
        left = [
            sums.sum(axis=1)[self.row_N] - sums[self.row_N, self.fold_N] for sums in self.sums_3LK
        ]
        return self._inputs(*(FOLDS / (FOLDS - 1) * sums_N for sums_N in left))

    def of(self, cells):
        """Inputs of other cells: sums over all training cells, zero for labels never seen."""
        key_N = self.keys(cells)
        row_N = np.minimum(np.searchsorted(self.seen_L, key_N), len(self.seen_L) - 1)
        seen_N = self.seen_L[row_N] == key_N
        return self._inputs(*(sums.sum(axis=1)[row_N] * seen_N for sums in self.sums_3LK))

    def _inputs(self, number_N, log_N, above_N):
        mean_N = (log_N + 3 * self.mean_log) / (number_N + 3)
        share_N = (above_N + 0.5) / (number_N + 2)
        return np.stack([np.log1p(number_N), mean_N, share_N], axis=1).astype(np.float32)
