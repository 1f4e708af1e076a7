"""How many, given that there is one: models and rivals, for docs/results/amounts.md.

    python benchmarks/results_amounts.py run --data FOLDER --rows ROWS
    python benchmarks/results_amounts.py page --rows ROWS --out docs/results/amounts.md

FOLDER holds tidy Parquet tensors: a text column per axis, and `count`. ROWS is a folder with a
Parquet file for each tensor, split and model: an interrupted run goes on where it stopped, and a
run may be done in pieces with --tensors, --models and --splits, each a list with commas. To
measure a model anew, delete its files. The page keeps all rows beside it, in a .jsonl, which takes
the place of ROWS where only its text changes.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import tallyfold as tf
from kept_rows import limited_to, listed, run_missing, timed
from rivals.boosting import fit_boosting
from rivals.histograms import Rival, fit_constant
from rivals.rating_biases import fit_rating_biases
from tallyfold.evaluation.metrics import scores_of

METRICS = ("log-pmf-positive", "mae-median", "coverage-80")
EARLIER = Path(__file__).parents[1] / "docs/results/amounts_means.jsonl"
SPLITS = 5
TEST_SIZE = 0.2


class Source(NamedTuple):
    """Where the cells of a row of the page come from, and what they are."""

    file: str
    axes: list[str]
    share: float = 1.0
    copies_along: str | None = None
    new: str | None = None
    ratings: bool = False


NIPS = ["author", "word", "year"]
TENSORS = {
    "nips": Source("nips", NIPS),
    "nips copies": Source("nips", NIPS, copies_along="word"),
    "nips 10 %": Source("nips", NIPS, share=0.1),
    "nips 5 %": Source("nips", NIPS, share=0.05),
    "nips 1 %": Source("nips", NIPS, share=0.01),
    "grocery": Source("grocery", ["household", "category", "day"]),
    "movie_events": Source("movie_events", ["user", "genre", "day"]),
    "movie_rating": Source("movie_rating", ["user", "movie", "day"], ratings=True),
    "aiv5_rating": Source("aiv5_rating", ["user", "video"], ratings=True),
    "hotel_review": Source("hotel_review", ["user", "hotel", "word"]),
    "acl": Source("acl", ["author", "venue", "word", "year"]),
    "nips new years": Source("nips", NIPS, new="year"),
    "nips new words": Source("nips", NIPS, new="word"),
    "nips new authors": Source("nips", NIPS, new="author"),
    "movie_events new users": Source("movie_events", ["user", "genre", "day"], new="user"),
    "movie_rating new users": Source(
        "movie_rating", ["user", "movie", "day"], new="user", ratings=True
    ),
    "aiv5_rating new users": Source("aiv5_rating", ["user", "video"], new="user", ratings=True),
}


class Way(NamedTuple):
    """How a model is fitted to training cells with so many threads."""

    fit: Callable
    only_ratings: bool = False


def library(make):
    return Way(lambda train, threads, groups: make().fit(train, groups=groups))


MODELS = {
    "constant": Way(lambda train, threads, groups: fit_constant(train)),
    "main effects": library(lambda: tf.MainEffects()),
    "boosting": Way(
        lambda train, threads, groups: fit_boosting(train, threads=threads, groups=groups)
    ),
    "rating biases": Way(
        lambda train, threads, groups: fit_rating_biases(train), only_ratings=True
    ),
    "VAE-BPTF (negative binomial)": library(
        lambda: tf.VAEBPTF(zeros="missing", amount="negative-binomial")
    ),
    "margins": library(lambda: tf.Margins()),
    "VAE-BPTF": library(lambda: tf.VAEBPTF(zeros="missing")),
}


def parts(folder, name, split):
    """Return the training and the test part of a tensor, and groups of training cells or None."""
    source = TENSORS[name]
    tensor = tf.read_counts(folder / f"{source.file}.parquet", axes=source.axes, value="count")
    if source.copies_along:
        groups = tf.near_copies(tensor, source.copies_along)
        train, test = tf.split(tensor, TEST_SIZE, random_state=split, groups=groups)
        return train, test, tf.near_copies(train, source.copies_along)
    if source.new:
        return *tf.split_entities(tensor, source.new, TEST_SIZE, random_state=split), None
    train, test = tf.split(tensor, TEST_SIZE, random_state=split)
    return tf.subsample(train, source.share, random_state=split), test, None


def run(folder, rows, tensors, models, splits, threads):
    """Fit and score what has no rows yet."""
    run_missing(
        rows,
        [(name, split) for split in splits for name in tensors],
        lambda name: [
            label for label in models if TENSORS[name].ratings or not MODELS[label].only_ratings
        ],
        lambda name, split: parts(folder, name, split),
        lambda label, *data: measure(label, *data, threads),
        {"split": "cells", "zeros": "missing"},
    )


def measure(label, train, test, groups, threads):
    """Fit one model, by the clock, and score it."""
    fitted, row = timed(lambda: MODELS[label].fit(train, threads, groups), threads)
    with limited_to(threads):
        if isinstance(fitted, Rival):
            scores = fitted.scores(test)
        else:
            scores = scores_of(fitted, test, METRICS)
    return row | {"train_cells": train.nnz, "test_cells": test.nnz, "scores": scores}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="fit and score")
    running.add_argument("--data", type=Path, required=True)
    running.add_argument("--tensors", type=listed(TENSORS), default=list(TENSORS))
    running.add_argument("--models", type=listed(MODELS), default=list(MODELS))
    running.add_argument("--splits", type=listed(range(SPLITS), int), default=range(SPLITS))
    running.add_argument("--threads", type=int, default=1)
    paging = commands.add_parser("page", help="write the page from the rows")
    paging.add_argument("--out", type=Path, help="default: print it")
    for command in (running, paging):
        command.add_argument("--rows", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "run":
        run(given.data, given.rows, given.tensors, given.models, given.splits, given.threads)
        return
    from amounts_page import page, read_rows

    rows = read_rows(given.rows)
    text = page(rows, pd.read_json(EARLIER, lines=True), list(TENSORS), list(MODELS))
    if not given.out:
        print(text, end="")
        return
    given.out.write_text(text)
    rows.to_json(given.out.with_suffix(".jsonl"), orient="records", lines=True)


if __name__ == "__main__":
    main()
