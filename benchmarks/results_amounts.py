"""How many, given that there is one: models and rivals, for docs/results/amounts.md.

    python benchmarks/results_amounts.py run --data FOLDER --rows ROWS
    python benchmarks/results_amounts.py page --rows ROWS --out docs/results/amounts.md

FOLDER holds tidy Parquet tensors: a text column per axis, and `count`. ROWS is a folder with a
Parquet file for each tensor, split and model: an interrupted run goes on where it stopped, and a
run may be done in pieces with --tensors, --models and --splits, each a list with commas. To
measure a model anew, delete its files.
"""

import argparse
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import tallyfold as tf
from near_copies import split_copies
from rivals.boosting import fit_boosting
from rivals.histograms import Rival, fit_constant
from rivals.rating_biases import fit_rating_biases
from tallyfold.evaluation.metrics import scores_of
from tallyfold.evaluation.row_folder import RowFolder
from tallyfold.kernels.threads import use_threads

METRICS = ("log-pmf-positive", "mae-median", "coverage-80")
SPLITS = 5
TEST_SIZE = 0.2


class Source(NamedTuple):
    """Where the cells of a row of the page come from, and what they are."""

    file: str
    axes: list[str]
    share: float = 1.0
    copies_along: str | None = None
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
}


class Way(NamedTuple):
    """How a model is fitted to training cells with so many threads."""

    fit: Callable
    only_ratings: bool = False


def library(make):
    return Way(lambda train, threads: make().fit(train))


MODELS = {
    "constant": Way(lambda train, threads: fit_constant(train)),
    "main effects": library(lambda: tf.MainEffects()),
    "boosting": Way(lambda train, threads: fit_boosting(train, threads=threads)),
    "rating biases": Way(lambda train, threads: fit_rating_biases(train), only_ratings=True),
    "VAE-BPTF (negative binomial)": library(lambda: tf.VAEBPTF(amount="negative-binomial")),
    "margins": library(lambda: tf.Margins()),
    "VAE-BPTF": library(lambda: tf.VAEBPTF()),
}


def parts(folder, name, split):
    """Return the training and the test part of a tensor."""
    source = TENSORS[name]
    tensor = tf.read_counts(folder / f"{source.file}.parquet", axes=source.axes, value="count")
    if source.copies_along:
        return split_copies(tensor, TEST_SIZE, axis=source.copies_along, random_state=split)
    train, test = tf.split(tensor, TEST_SIZE, random_state=split)
    return tf.subsample(train, source.share, random_state=split), test


def run(folder, rows, tensors, models, splits, threads):
    """Fit and score what has no rows yet; what fails is shown, has no rows, and is tried again."""
    kept = RowFolder(rows)
    for split in splits:
        for name in tensors:
            missing = [
                label
                for label in models
                if kept.read((name, split, label)) is None
                and (TENSORS[name].ratings or not MODELS[label].only_ratings)
            ]
            if not missing:
                continue
            train, test = parts(folder, name, split)
            for label in missing:
                try:
                    row = measure(label, train, test, threads)
                except Exception:
                    print(f"{name}, split {split}, {label}: failed", flush=True)
                    traceback.print_exc()
                    continue
                scores = row.pop("scores")
                key = {"dataset": name, "split": "cells", "zeros": "missing", "model": label}
                row |= key | {"seed": split, "version": tf.__version__}
                kept.write(
                    (name, split, label),
                    [row | {"metric": metric, "value": scores[metric]} for metric in METRICS],
                )
                numbers = ", ".join(f"{metric} {scores[metric]:.4f}" for metric in METRICS)
                print(
                    f"{name}, split {split}, {label}: {numbers}, {row['seconds']:.1f} s", flush=True
                )


def measure(label, train, test, threads):
    """Fit one model, by the clock, and score it."""
    with limited_to(threads):
        begin = time.perf_counter()
        fitted = MODELS[label].fit(train, threads)
        seconds = time.perf_counter() - begin
        if isinstance(fitted, Rival):
            scores = fitted.scores(test)
        else:
            scores = scores_of(fitted, test, METRICS)
    cells = {"train_cells": train.nnz, "test_cells": test.nnz}
    return cells | {"seconds": seconds, "scores": scores}


def limited_to(threads):
    """Hold BLAS, torch and our own kernels to so many threads."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    stack = ExitStack()
    stack.enter_context(threadpool_limits(threads))
    stack.enter_context(use_threads(threads))
    return stack


def listed(known, kind=str):
    """Return a reader of a list with commas of known things."""

    def read(text):
        chosen = [kind(word.strip()) for word in text.split(",")]
        unknown = [word for word in chosen if word not in known]
        if unknown:
            raise argparse.ArgumentTypeError(
                f"{unknown[0]!r} is none of {', '.join(map(str, known))}"
            )
        return chosen

    return read


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
    from amounts_page import page

    text = page(given.rows, list(TENSORS), list(MODELS))
    if given.out:
        given.out.write_text(text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
