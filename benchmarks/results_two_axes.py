"""Films that a user has not seen yet: lists of twenty, models beside recommenders.

    python benchmarks/results_two_axes.py --data FOLDER --out ROWS

FOLDER holds movie_rating.parquet: user, movie, day and `count`. Ratings are summed over days; users
and films with fewer than five are left out. A fifth of all cells is hidden, and of the hidden cells
those with a rating are to be found among all films that the user is not known to have seen. Rows
are kept in ROWS as in results_complete_logs.py.
"""

import argparse
from pathlib import Path

import tallyfold as tf
from kept_rows import installed, limited_to, listed, run_missing, timed
from rivals.recommenders import fit_als, fit_ease, fit_popularity
from tallyfold.evaluation.ranking import ranked_lists
from tallyfold.models.base import CountModel

NAME = "movie_rating as user x movie"
TEST_SIZE = 0.2
LEAST = 5
SPLITS = 3
ALL_LISTS = 10**6

MODELS = {
    "popularity": fit_popularity,
    "ALS": fit_als,
    "EASE": fit_ease,
    "BPTF": lambda train: tf.BPTF(zeros="observed").fit(train),
    "VAE-BPTF K=10": lambda train: tf.VAEBPTF(zeros="observed").fit(train),
    "VAE-BPTF K=50": lambda train: tf.VAEBPTF(zeros="observed", n_components=50).fit(train),
}
NEEDS = {"ALS": "implicit"}


def parts(folder, split):
    """Return the training and the test part."""
    whole = tf.read_counts(
        folder / "movie_rating.parquet", axes=["user", "movie", "day"], value="count"
    )
    pairs = whole.collapse("day").filter(min_nonzeros={"user": LEAST, "movie": LEAST})
    return tf.split(pairs, TEST_SIZE, cells="all", random_state=split)


def measure(label, train, test, threads):
    """Fit one model, by the clock, and score its lists, those of all users with hidden films."""
    fitted, row = timed(lambda: MODELS[label](train), threads)
    by = "probability" if isinstance(fitted, CountModel) else "rate"
    with limited_to(threads):
        lists = ranked_lists(fitted, test, train, k=20, along="movie", most_lists=ALL_LISTS, by=by)
    scores = {"ndcg-20": lists.ndcg, "recall-20": lists.recall}
    return row | {"train_cells": train.nnz, "test_cells": test.nnz, "scores": scores}


def run(folder, rows, models, splits, threads):
    """Fit and score what has no rows yet."""
    models = installed(models, NEEDS)
    run_missing(
        rows,
        [(NAME, split) for split in splits],
        lambda name: models,
        lambda name, split: parts(folder, split),
        lambda label, *data: measure(label, *data, threads),
        {"split": "cells", "zeros": "observed"},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", type=listed(MODELS), default=list(MODELS))
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    run(given.data, given.out, given.models, range(given.splits), given.threads)


if __name__ == "__main__":
    main()
