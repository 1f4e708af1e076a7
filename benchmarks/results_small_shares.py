"""Whether the count head is ever worse than a constant on few cells, for docs/results/amounts.md.

    python benchmarks/results_small_shares.py run --data FOLDER --rows rows.csv
    python benchmarks/results_small_shares.py table --rows rows.csv

FOLDER is that of results_amounts.py. For every seed a fifth of a tensor's cells is held out and a
hundredth of the others is learned from. A row a fit is kept: an interrupted run goes on.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import tallyfold as tf
from kept_rows import limited_to, listed
from results_amounts import TENSORS, TEST_SIZE
from rivals.histograms import fit_constant

NAMES = ["nips", "grocery", "movie_events", "movie_rating", "aiv5_rating", "hotel_review", "acl"]
SHARE, SEEDS = 0.01, 20
ROUNDING = 1e-9
SURELY = 2.0
"""Standard errors of the mean difference over held-out cells that are more than noise."""


def measure(tensor, seed):
    """Return how the head and the constant score the same held-out cells."""
    train, test = tf.split(tensor, TEST_SIZE, random_state=seed)
    few = tf.subsample(train, SHARE, random_state=seed)
    model = tf.Margins().fit(few)
    head_N, constant_N = model.log_pmf(test), fit_constant(few).log_pmf(test)
    gain_N = head_N - constant_N
    return {
        "cells": few.nnz,
        "constant": constant_N.mean(),
        "head": head_N.mean(),
        "gain": gain_N.mean(),
        "error": gain_N.std() / np.sqrt(len(gain_N)),
        "learned": len(model._fitted.head.stages) > 0,
    }


def run(folder, path, names, n_seeds, threads):
    """Measure what has no row yet."""
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    done = {(row["tensor"], row["seed"]) for row in rows}
    for name in names:
        source = TENSORS[name]
        tensor = tf.read_counts(folder / f"{source.file}.parquet", axes=source.axes, value="count")
        for seed in range(n_seeds):
            if (name, seed) not in done:
                with limited_to(threads):
                    rows.append({"tensor": name, "seed": seed} | measure(tensor, seed))
                pd.DataFrame(rows).to_csv(path, index=False)
                print(rows[-1], flush=True)


def table(path):
    """Return a row per tensor."""
    lines = [
        "| tensor 1 % | cells | constant | head | gain, mean | gain, least | networks kept | "
        "below | surely below |",
        "|---" * 9 + "|",
    ]
    for name, part in pd.read_csv(path).groupby("tensor", sort=False):
        least = part.loc[part["gain"].idxmin()]
        below = (part["gain"] < -ROUNDING).sum()
        surely = (part["gain"] < -ROUNDING - SURELY * part["error"]).sum()
        lines.append(
            f"| {name} | {part['cells'].mean():,.0f} | {part['constant'].mean():.4f} | "
            f"{part['head'].mean():.4f} | {part['gain'].mean():+.4f} | "
            f"{least['gain']:+.4f} ± {least['error']:.4f} | "
            f"{part['learned'].sum()} of {len(part)} | {below} | {surely} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="fit and score")
    running.add_argument("--data", type=Path, required=True)
    running.add_argument("--tensors", type=listed(NAMES), default=NAMES)
    running.add_argument("--seeds", type=int, default=SEEDS)
    running.add_argument("--threads", type=int, default=1)
    for command in (running, commands.add_parser("table", help="print the table")):
        command.add_argument("--rows", type=Path, required=True)
    given = parser.parse_args()
    if given.command == "run":
        run(given.data, given.rows, given.tensors, given.seeds, given.threads)
    else:
        print(table(given.rows))


if __name__ == "__main__":
    main()
