"""The classical baseline for ratings: a mean, a bias per user and per item, a multinomial head.

Biases are shrunken means of what the others leave, in turns; how much, each axis is told by a
fifth of the training cells. The head turns predicted means into probabilities of the scale's
values; it is fitted on predictions for cells that the biases behind them have not seen.
"""

from itertools import product

import numpy as np

from rivals.histograms import Rival, Scale, fit_head

STRENGTHS = (1.0, 3.0, 10.0, 30.0, np.inf)
"""Cells' worth of no bias; infinite ones leave an axis without."""
FOLDS = 5
ROUNDS = 15


def fit_rating_biases(train):
    """Fit biases of every axis, their strengths, and the head."""
    counts_N, indices_NM = train.counts, train.indices
    fold_N = np.random.default_rng(0).integers(FOLDS, size=train.nnz)

    def biases(use_N, strengths):
        return Biases(indices_NM[use_N], counts_N[use_N], train.shape, strengths)

    def error(strengths):
        mean_N = biases(fold_N > 0, strengths).mean(indices_NM[fold_N == 0])
        return np.mean((counts_N[fold_N == 0] - mean_N) ** 2)

    strengths = min(product(STRENGTHS, repeat=len(train.shape)), key=error)
    mean_N = np.empty(train.nnz)
    for fold in range(FOLDS):
        mean_N[fold_N == fold] = biases(fold_N != fold, strengths).mean(indices_NM[fold_N == fold])
    scale = Scale.of(counts_N)
    head = fit_head(mean_N, counts_N, scale, scale.shares(counts_N))
    whole = biases(slice(None), strengths)
    return Rival(lambda test: head(whole.mean(test.indices)))


class Biases:
    """A mean, and for every axis a bias per label, by shrunken alternating means."""

    def __init__(self, indices_NM, counts_N, shape, strengths):
        self.centre = counts_N.mean()
        self.biases = [np.zeros(size) for size in shape]
        numbers = [
            np.bincount(indices_NM[:, axis], minlength=size) for axis, size in enumerate(shape)
        ]
        left_N = counts_N - self.centre
        for _ in range(ROUNDS):
            for axis, strength in enumerate(strengths):
                label_N, bias_D = indices_NM[:, axis], self.biases[axis]
                left_N += bias_D[label_N]
                bias_D[:] = np.bincount(label_N, left_N, len(bias_D)) / (numbers[axis] + strength)
                left_N -= bias_D[label_N]

    def mean(self, indices_NM):
        return self.centre + sum(bias_D[indices_NM[:, a]] for a, bias_D in enumerate(self.biases))
