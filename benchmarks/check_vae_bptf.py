"""What must hold of VAE-BPTF beyond its scores: stability, new entities, recovery of the truth.

    python benchmarks/check_vae_bptf.py stability --data FOLDER --rows ROWS.jsonl
    python benchmarks/check_vae_bptf.py fold-in --data FOLDER --rows ROWS.jsonl
    python benchmarks/check_vae_bptf.py recovery --rows ROWS.jsonl

Rows are appended as they come; a run that was interrupted goes on. The page is written by
`results_vae_bptf.py --out`.
"""

import argparse
import json
import time
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

import tallyfold as tf
from results_vae_bptf import TENSORS, read_rows
from tallyfold.errors import TallyfoldError

SEEDS = 20
SHARES = (0.01, 0.05)
REAL = [name for name in TENSORS if "%" not in name]


def forms() -> dict:
    return {"default": tf.VAEBPTF, "paper": lambda **p: tf.VAEBPTF.paper(max_iter=30, **p)}


# -- stability ---


def stability(data: Path, rows: Path, seeds: int, shares: list[float], only: list[str]) -> None:
    done = known(rows, "stability", "tensor", "share", "seed", "form")
    for seed in range(seeds):  # outermost, so that a run cut short has all tensors
        for share in shares:
            for name in [*REAL, "synthetic recipe"]:
                train, test = thinned(data, name, share, seed)
                for form, make in forms().items():
                    key = (name, share, seed, form)
                    if key in done or form not in only:
                        continue
                    begin = time.perf_counter()
                    row = dict(zip(("tensor", "share", "seed", "form"), key, strict=True))
                    row |= one_fit(make(random_state=seed), train, test)
                    keep(rows, "stability", row | {"seconds": time.perf_counter() - begin})


@cache
def whole(data: Path, name: str) -> tf.CountTensor:
    return tf.read_counts(data / f"{name}.parquet", axes=TENSORS[name][0], value="count")


def thinned(
    data: Path, name: str, share: float, seed: int
) -> tuple[tf.CountTensor, tf.CountTensor]:
    if name == "synthetic recipe":
        tensor = tf.simulate.paper(random_state=seed).tensor
    else:
        tensor = whole(data, name)
    train, test = tf.split(tensor, 0.2, random_state=seed)
    return tf.subsample(train, share, random_state=seed), tf.subsample(test, 0.2, random_state=0)


def one_fit(model: tf.VAEBPTF, train: tf.CountTensor, test: tf.CountTensor) -> dict:
    """Score a fit and the constant with the same likelihood; a failure is a row too."""
    try:
        model.fit(train)
    except TallyfoldError as error:
        return {"cells": train.nnz, "error": f"{type(error).__name__}: {error}"}
    truncated = model.fitted_.likelihood.truncated
    constant = tf.Constant(likelihood="poisson", truncated=truncated).fit(train)
    score, least = model.score(test, unknown="prior"), constant.score(test, unknown="prior")
    values = [model.predict(test, unknown="prior"), *model.fitted_.factors.shapes]
    finite = bool(np.isfinite(score) and all(np.all(np.isfinite(v)) for v in values))
    return {"cells": train.nnz, "score": score, "constant": least, "finite": finite, "error": None}


# -- new entities ---


def fold_in(data: Path, rows: Path) -> None:
    """Fold in nips authors with 10 cells or more, 30 % of whose cells are hidden."""
    done = known(rows, "fold-in", "seed")
    tensor = tf.read_counts(data / "nips.parquet", axes=TENSORS["nips"][0], value="count")
    for seed in range(3):
        if (seed,) in done:
            continue
        old, new = tf.split_entities(tensor, "author", 0.1, random_state=seed)
        old = old.compact()
        words = old.axis("word").labels.to_pylist()
        busy = new.sel(word=words).compact().filter(min_nonzeros={"author": 10})
        shown, hidden = tf.split(busy, 0.3, random_state=seed)
        shown = shown.compact()
        base = tf.VAEBPTF(zeros="missing", amount="negative-binomial", random_state=seed).fit(old)
        base.fold_in(shown, "author")  # compiled before it is timed
        begin = time.perf_counter()
        model = base.fold_in(shown, "author")
        seconds = time.perf_counter() - begin
        refit = tf.VAEBPTF(zeros="missing", amount="negative-binomial", random_state=seed).fit(
            joined(old, shown)
        )
        row = {
            "seed": seed,
            "authors": len(shown.axis("author")),
            "hidden": hidden.nnz,
            "milliseconds": 1000 * seconds,
            "constant": tf.Constant(likelihood="negative-binomial")
            .fit(old)
            .score(hidden, unknown="prior"),
            "axis mean": base.score(hidden, unknown="prior"),
            "fold-in": model.score(hidden, unknown="prior"),
            "refit": refit.score(hidden, unknown="prior"),
        }
        keep(rows, "fold-in", row)


def joined(one: tf.CountTensor, two: tf.CountTensor) -> tf.CountTensor:
    import pandas as pd

    frame = pd.concat([one.to_frame(), two.to_frame()])
    return tf.CountTensor.from_frame(frame, axes=list(one.names), value="count")


# -- recovery ---


def recovery(rows: Path) -> None:
    """Simulate from the model; look for the number of components, the factors, the coverage."""
    done = known(rows, "recovery", "seed", "n_components")
    for seed in range(3):
        truth = tf.simulate((120, 100, 60), 4, prior_shape=0.5, density=0.5, random_state=seed)
        train, test = tf.split(truth.tensor, 0.2, random_state=seed)
        for n_components in (2, 3, 4, 5, 6):
            if (seed, n_components) in done:
                continue
            model = tf.VAEBPTF(
                zeros="missing",
                amount="negative-binomial",
                n_components=n_components,
                prior_shape=0.5,
                random_state=seed,
            )
            model.fit(train)
            row = {"seed": seed, "n_components": n_components, "score": model.score(test)}
            if n_components == 4:
                raw = replaced_posterior(model)
                row |= {"correlation": matched(model, truth)}
                row |= {"rate coverage": coverage(model.posterior_, truth)}
                row |= {"mean-field rate coverage": coverage(raw, truth)}
                row |= {"factor coverage": factor_coverage(model, truth)}
                row["predictive coverage"] = predictive_coverage(model, test)
            keep(rows, "recovery", row)


def replaced_posterior(model: tf.VAEBPTF):
    """Return the mean-field posterior, before its spread is corrected."""
    return model.fitted_.factors


def factor_coverage(model: tf.VAEBPTF, truth) -> float:
    """Return how often a true factor lies in its 90 % interval, scales matched."""
    names, order = aligned(model, truth)
    inside = []
    for name, true in zip(names, truth.factors, strict=True):
        scale = true.sum(axis=0) / model.posterior_.mean(name)[:, order].sum(axis=0)
        low = model.posterior_.quantile(name, 0.05)[:, order] * scale
        high = model.posterior_.quantile(name, 0.95)[:, order] * scale
        inside.append(((true >= low) & (true <= high)).ravel())
    return float(np.mean(np.concatenate(inside)))


def aligned(model: tf.VAEBPTF, truth) -> tuple[list, np.ndarray]:
    """Return the model's components in the truth's order."""
    names = model.posterior_.names
    total = sum(
        np.corrcoef(true.T, model.posterior_.mean(name).T)[: true.shape[1], true.shape[1] :]
        for name, true in zip(names, truth.factors, strict=True)
    )
    return list(names), linear_sum_assignment(-total)[1]


def matched(model: tf.VAEBPTF, truth) -> float:
    """Return the smallest correlation of an estimated factor with the true one."""
    names, order = aligned(model, truth)
    return min(
        float(np.corrcoef(true[:, k], model.posterior_.mean(name)[:, order[k]])[0, 1])
        for name, true in zip(names, truth.factors, strict=True)
        for k in range(len(order))
    )


def coverage(factors, truth) -> float:
    """Return how often a cell's true rate lies in the 90 % interval of its posterior draws."""
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 5000) for size in truth.tensor.shape], axis=1)
    draws = [
        np.prod([f[cells[:, m]] for m, f in enumerate(drawn)], axis=0).sum(axis=1)
        for drawn in factors.draws(200, rng)
    ]
    true = np.prod([f[cells[:, m]] for m, f in enumerate(truth.factors)], axis=0).sum(axis=1)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    return float(np.mean((true >= low) & (true <= high)))


def predictive_coverage(model: tf.VAEBPTF, test: tf.CountTensor) -> float:
    """Return how often a held-out count lies in its 90 % predictive interval."""
    low, high = model.interval(test, 0.9).T
    return float(np.mean((test.counts >= low) & (test.counts <= high)))


# -- rows ---


def known(rows: Path, check: str, *names: str) -> set:
    found = read_rows([rows]) if rows.exists() else []
    return {tuple(row[name] for name in names) for row in found if row.get("check") == check}


def keep(rows: Path, check: str, row: dict) -> None:
    print(check, json.dumps(row), flush=True)
    with rows.open("a") as stream:
        stream.write(json.dumps({"check": check} | row) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check", choices=["stability", "fold-in", "recovery"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--shares", type=float, nargs="*", default=list(SHARES))
    parser.add_argument("--forms", nargs="*", default=list(forms()))
    given = parser.parse_args()
    if given.check == "stability":
        stability(given.data, given.rows, given.seeds, given.shares, given.forms)
    elif given.check == "fold-in":
        fold_in(given.data, given.rows)
    else:
        recovery(given.rows)


if __name__ == "__main__":
    main()
