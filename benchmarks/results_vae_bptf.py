"""VAE-BPTF against tuned baselines on real tensors: docs/results/vae-bptf.md.

    python benchmarks/results_vae_bptf.py --data FOLDER --rows ROWS.jsonl [--tensors NAME ...]
    python benchmarks/results_vae_bptf.py --rows ROWS.jsonl ... --out docs/results/vae-bptf.md

FOLDER holds tidy Parquet tensors: a text column per axis, and `count`. Rows are appended as they
come, so that an interrupted run goes on; several processes may work on different tensors with rows
files of their own, which --rows then takes together (those of check_vae_bptf.py too). Every model
has zeros missing, holds out the same tenth of the training cells to stop, choose and calibrate,
and never sees the test part.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

import tallyfold as tf
from tallyfold.models.base import CountModel

TENSORS = {
    "nips": (["author", "word", "year"], 1.0),
    "hotel_review": (["user", "hotel", "word"], 0.3),
    "acl": (["author", "venue", "word", "year"], 0.25),
    "grocery": (["household", "category", "day"], 1.0),
    "movie_events": (["user", "genre", "day"], 1.0),
    "movie_rating": (["user", "movie", "day"], 1.0),
    "aiv5_rating": (["user", "video"], 1.0),
    "nips 10 %": (["author", "word", "year"], 0.1),
    "nips 5 %": (["author", "word", "year"], 0.05),
    "nips 1 %": (["author", "word", "year"], 0.01),
}
"""Axes, and the share of the training cells that is kept."""

SPLITS = 5
GRID = [
    {"n_components": 10},
    {"n_components": 20},
    {"n_components": 10, "prior_shape": 3.0},
    {"n_components": 10, "likelihood": "negative-binomial"},
]
MLP_PENALTIES = (0.001, 1.0, 10.0)
MEMBERS = 3


def bptf(train: tf.CountTensor) -> list[CountModel]:
    """Fit BPTF with each setting; return the one that predicts its held-out cells best."""
    fits = [tf.BPTF(**setting).fit(train) for setting in GRID]
    return [max(fits, key=lambda model: model.fitted_.validation_score or -np.inf)]


def bptf_mixture(train: tf.CountTensor) -> list[CountModel]:
    best = bptf(train)[0]
    settings = best.get_params()
    return [best] + [
        tf.BPTF(**(settings | {"random_state": seed})).fit(train) for seed in range(1, MEMBERS)
    ]


def mlp(train: tf.CountTensor) -> list[CountModel]:
    """Fit the network with each strength of its penalty; return the best on its held-out cells."""
    fits = [tf.MLPTF(loss="poisson", l2=l2).fit(train) for l2 in MLP_PENALTIES]
    return [max(fits, key=lambda model: model.fitted_.validation_score or -np.inf)]


def plain(make: Callable[[], CountModel]) -> Callable[[tf.CountTensor], list[CountModel]]:
    return lambda train: [make().fit(train)]


MODELS = {
    "VAE-BPTF": (plain(lambda: tf.VAEBPTF(zeros="missing")), SPLITS),
    "BPTF, tuned": (bptf, SPLITS),
    "main effects": (plain(tf.MainEffects), SPLITS),
    "constant, negative binomial": (plain(tf.Constant), SPLITS),
    "constant, Poisson": (plain(lambda: tf.Constant(likelihood="poisson")), SPLITS),
    "VAE-BPTF, mixture of 3": (
        plain(lambda: tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_members=MEMBERS)),
        1,
    ),
    "BPTF, tuned, mixture of 3": (bptf_mixture, 1),
    "VAE-BPTF, no interactions": (
        plain(lambda: tf.VAEBPTF(zeros="missing", amount="negative-binomial", interactions="none")),
        1,
    ),
    "MLP-TF, tuned": (mlp, 1),
    "MLP-TF, Poisson": (plain(lambda: tf.MODELS["mlp-tf"](loss="poisson")), 1),
    "VAE-BPTF, paper's form": (plain(lambda: tf.VAEBPTF.paper(max_iter=100)), 1),
    "VAE-BPTF, paper's form, truncated": (
        plain(lambda: tf.VAEBPTF.paper(max_iter=100, truncated=True)),
        1,
    ),
    "VAE-BPTF, paper's form, truncated, no reweighting": (
        plain(lambda: tf.VAEBPTF.paper(max_iter=100, truncated=True, reweight="none")),
        1,
    ),
    "VAE-BPTF, paper's form, truncated, reweighted by error": (
        plain(lambda: tf.VAEBPTF.paper(max_iter=100, truncated=True, reweight="error")),
        1,
    ),
}
"""How to fit, and on how many splits; models with one split stand beside, not in the test."""


def parts(folder: Path, name: str, split: int) -> tuple[tf.CountTensor, tf.CountTensor]:
    axes, share = TENSORS[name]
    tensor = tf.read_counts(folder / f"{name.split()[0]}.parquet", axes=axes, value="count")
    train, test = tf.split(tensor, 0.2, random_state=split)
    return (tf.subsample(train, share, random_state=split) if share < 1 else train), test


def scores(models: list[CountModel], test: tf.CountTensor) -> dict:
    """Score the mixture of models by log pmf given y >= 1, and by the error of its median."""
    logs, medians, means = [], [], []
    for model in models:
        predictive = model.predictive(test)
        log_N = predictive.log_pmf(test.counts)
        if not model.fitted_.likelihood.truncated:
            log_N = log_N - np.log1p(-np.exp(predictive.log_pmf(np.zeros_like(test.counts))))
        logs.append(log_N)
        medians.append(predictive.median())
        means.append(model.predict(test))
    mixed_N = logsumexp(logs, axis=0) - np.log(len(logs))
    median_N = medians[0] if len(models) == 1 else np.median(medians, axis=0)
    return {
        "log_pmf": float(mixed_N.mean()),
        "mae_median": float(np.abs(median_N - test.counts).mean()),
        "mae_mean": float(np.abs(np.mean(means, axis=0) - test.counts).mean()),
    }


def run(folder: Path, rows_file: Path, names: list[str], only: list[str]) -> None:
    rows = read_rows([rows_file]) if rows_file.exists() else []
    done = {(row["tensor"], row["split"], row["model"]) for row in rows if "check" not in row}
    for name in names:
        for split in range(SPLITS):
            train, test = parts(folder, name, split)
            for label, (fit, n_splits) in MODELS.items():
                if split >= n_splits or (name, split, label) in done or label not in only:
                    continue
                begin = time.perf_counter()
                models = fit(train)
                seconds = time.perf_counter() - begin
                row = {"tensor": name, "split": split, "model": label, "seconds": seconds}
                row |= {"cells": train.nnz, "iterations": models[0].n_iter_} | scores(models, test)
                row["chosen"] = chosen(models[0])
                print(json.dumps(row), flush=True)
                with rows_file.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")


def chosen(model: CountModel) -> str:
    if model.name == "bptf":
        parameters = model.get_params()
        family, shape = parameters["likelihood"], parameters["prior_shape"]
        return f"K={parameters['n_components']}, {family}, shape {shape:g}"
    names = [axis.name for axis in model.axes_]
    return ", ".join("x".join(names[a] for a in i.axes) for i in model.fitted_.interactions)


def read_rows(files: list[Path]) -> list[dict]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="run on the tensors in this folder")
    parser.add_argument("--rows", type=Path, nargs="+", required=True)
    parser.add_argument("--tensors", nargs="*", default=list(TENSORS))
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--out", type=Path, help="write the page from the rows")
    given = parser.parse_args()
    if given.data:
        run(given.data, given.rows[0], given.tensors, given.models)
    if given.out:
        from vae_bptf_page import page

        given.out.write_text(page(read_rows(given.rows), list(TENSORS), list(MODELS)))


if __name__ == "__main__":
    main()
