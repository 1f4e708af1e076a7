"""Where zeros count: models and rivals on held-out cells, zeros too, for docs/results/complete-logs.md.

    python benchmarks/results_complete_logs.py --data FOLDER --out ROWS
    python benchmarks/complete_logs_page.py --rows ROWS --out docs/results/complete-logs.md

FOLDER holds tidy Parquet tensors: a text column per axis, and `count`. ROWS is a folder with a
Parquet file for each tensor, split and model: an interrupted run goes on where it stopped, and a
run may be done in pieces with --tensors and --models, each a list with commas. To measure a model
anew, delete its files. Without --only, results_topics.py and results_two_axes.py are run as well.
--share takes a part of each tensor's cells, to try things; its rows are not shown on the page.
"""  # noqa: E501

import argparse
from pathlib import Path
from typing import NamedTuple

from sklearn.base import clone

import results_topics
import results_two_axes
import tallyfold as tf
from kept_rows import installed, limited_to, listed, run_missing, timed
from rivals.boosted_occurrence import BoostedCells, fit_boosted_occurrence
from tallyfold.evaluation.metrics import scores_of

METRICS = (
    "log-score",
    "occurrence",
    "amount",
    "zeros-error",
    "auc",
    "auc-within",
    "recall-20",
    "ndcg-20",
)
TEST_SIZE = 0.1
SPLITS = 3
PARTS = ("cells", "topics", "two-axes")


class Source(NamedTuple):
    """Where the cells of a table of the page come from, and what they are.

    Labels are ranked `along` an axis; near copies along it are held out together, if there are any.
    """

    file: str
    axes: list[str]
    along: str
    copies: bool = False


TENSORS = {
    "nips": Source("nips", ["author", "word", "year"], "word"),
    "nips-copies": Source("nips", ["author", "word", "year"], "word", True),
    "grocery": Source("grocery", ["household", "category", "day"], "category"),
    "movie_events": Source("movie_events", ["user", "genre", "day"], "genre"),
    "hotel_review": Source("hotel_review", ["user", "hotel", "word"], "word"),
    "acl": Source("acl", ["author", "venue", "word", "year"], "word"),
}


def library(model):
    """Return how a model of the library is fitted, from training cells, threads and groups."""
    return lambda train, threads, groups: clone(model).fit(train, groups=groups)


def bptf(n_components, gate="none"):
    return library(tf.BPTF(zeros="observed", n_components=n_components, gate=gate))


def vae_bptf(n_components):
    return library(tf.VAEBPTF(zeros="observed", n_components=n_components))


MODELS = {
    "constant": library(tf.Constant(zeros="observed")),
    "main effects": library(tf.MainEffects(zeros="observed")),
    "margins": library(tf.Margins(zeros="observed")),
    "boosting on counts": lambda train, threads, groups: fit_boosted_occurrence(
        train, threads=threads, groups=groups
    ),
    "gate alone": bptf(1, "auto"),
    "BPTF K=10": bptf(10),
    "BPTF K=10 with gate": bptf(10, "auto"),
    "VAE-BPTF K=10": vae_bptf(10),
    "VAE-BPTF K=20": vae_bptf(20),
}
NEEDS = {"boosting on counts": "lightgbm"}


def parts(folder, name, split, share):
    """Return the training and the test part of a tensor, groups of training cells, and the source.

    Without near copies, the groups are None.
    """
    source = TENSORS[name]
    tensor = tf.read_counts(folder / f"{source.file}.parquet", axes=source.axes, value="count")
    tensor = tf.subsample(tensor, share).compact()
    if not source.copies:
        return *tf.split(tensor, TEST_SIZE, cells="all", random_state=split), None, source
    groups = tf.near_copies(tensor, source.along)
    train, test = tf.split(tensor, TEST_SIZE, cells="all", random_state=split, groups=groups)
    return train, test, tf.near_copies(train, source.along), source


def measure(label, train, test, groups, source, threads):
    """Fit one model, by the clock, and score it."""
    fitted, row = timed(lambda: MODELS[label](train, threads, groups), threads)
    with limited_to(threads):
        if isinstance(fitted, BoostedCells):
            scores = fitted.scores(test, train, source.along)
        else:
            scores = scores_of(fitted, test, METRICS, train, source.along)
            row["iterations"] = fitted.n_iter_
    return row | {"train_cells": train.nnz, "test_cells": test.nnz, "scores": scores}


def run(folder, rows, tensors, models, splits, threads, share=1.0):
    """Fit and score what has no rows yet."""
    models = installed(models, NEEDS)
    shown = {name if share == 1 else f"{name}, {share:.0%} of it": name for name in tensors}
    run_missing(
        rows,
        [(name, split) for split in splits for name in shown],
        lambda name: models,
        lambda name, split: parts(folder, shown[name], split, share),
        lambda label, *data: measure(label, *data, threads),
        {"split": "all cells", "zeros": "observed"},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", type=listed(PARTS), default=PARTS)
    parser.add_argument("--tensors", type=listed(TENSORS), default=list(TENSORS))
    parser.add_argument("--models", type=listed(MODELS), default=list(MODELS))
    parser.add_argument("--splits", type=int, default=SPLITS, help="how many, and how many seeds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    splits, threads = range(given.splits), given.threads
    if "topics" in given.only:
        texts, models = list(results_topics.TEXTS), list(results_topics.MODELS)
        results_topics.run(given.data, given.out, texts, models, splits, threads)
    if "two-axes" in given.only:
        models = list(results_two_axes.MODELS)
        results_two_axes.run(given.data, given.out, models, splits, threads)
    if "cells" in given.only:
        tensors, models = given.tensors, given.models
        run(given.data, given.out, tensors, models, splits, threads, given.share)


if __name__ == "__main__":
    main()
