"""What a user has not had yet: popularity, EASE and ALS, for tensors of two axes."""

from dataclasses import dataclass

import numpy as np

import tallyfold as tf
from tallyfold.evaluation.ranking import ranked_lists

EASE_PENALTIES = (30.0, 100.0, 200.0, 300.0, 500.0, 1000.0, 2000.0)
ALS_SETTINGS = [
    (n_factors, penalty, weight)
    for n_factors in (64, 128, 256)
    for penalty in (30.0, 100.0, 300.0)
    for weight in (5.0, 10.0, 20.0)
]
PASSES = 15


@dataclass(frozen=True)
class Recommender:
    """A score for each user and item: enough for lists, and nothing else."""

    axes_: tuple
    score_UI: np.ndarray

    def rate(self, positions):
        return self.score_UI[positions[:, 0], positions[:, 1]]


def fit_popularity(train):
    """Score an item by how many users had it."""
    users_I = np.asarray(seen(train).sum(axis=0)).ravel()
    return Recommender(train.axes, np.tile(users_I, (train.shape[0], 1)))


def fit_ease(train):
    """Fit EASE (Steck, 2019), its penalty chosen on a tenth of the cells."""
    return chosen(train, EASE_PENALTIES, ease)


def ease(train, penalty):
    x_UI = seen(train)
    inverse_II = np.linalg.inv((x_UI.T @ x_UI).toarray() + penalty * np.eye(train.shape[1]))
    weight_II = inverse_II / -np.diag(inverse_II)
    np.fill_diagonal(weight_II, 0.0)
    return Recommender(train.axes, x_UI @ weight_II)


def fit_als(train):
    """Fit ALS for implicit feedback (Hu, Koren and Volinsky, 2008), settings chosen likewise."""
    return chosen(train, ALS_SETTINGS, lambda train, setting: als(train, *setting))


def als(train, n_factors, penalty, weight):
    """Factors by the package implicit; what was seen has a confidence of 1 + weight."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        n_factors,
        regularization=penalty,
        alpha=1.0 + weight,  # the package has no 1 +
        iterations=PASSES,
        num_threads=1,
        random_state=0,
    )
    model.fit(seen(train).astype(np.float32), show_progress=False)
    return Recommender(train.axes, model.user_factors @ model.item_factors.T)


def chosen(train, settings, fit):
    """Fit with the setting whose lists are best on a tenth of all training cells."""
    rest, held_out = tf.split(train, 0.1, cells="all", random_state=0)
    item = train.names[1]

    def gain(setting):
        return ranked_lists(fit(rest, setting), held_out, rest, k=20, along=item).ndcg

    best = max(settings, key=gain)
    print(f"  chosen: {best}", flush=True)
    return fit(train, best)


def seen(train):
    """Return which users had which items, as a sparse matrix."""
    from scipy import sparse

    ones = np.ones(train.nnz)
    return sparse.csr_matrix((ones, (train.indices[:, 0], train.indices[:, 1])), train.shape)
