"""Measures how stable components are, and what their consensus is worth.

    python benchmarks/check_stability.py --components 10 --runs 4
    python benchmarks/check_stability.py --simulated 18 --components 8 --runs 5
    python benchmarks/check_stability.py --file nips.parquet --axes author,word,year --runs 4

VAE-BPTF on the demo tensor; BPTF on a file of counts, or on simulated tensors (four components, 60
x 50 x 12 labels). Some of all cells are hidden. The consensus of `--runs` fits is scored on them
beside fits with other seeds, all to the same cells; stability is the mean overlap of components
with those of these fits.
"""

import argparse
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.posterior.matching import Profiles, matched_overlaps, mutual_overlaps


def main() -> None:
    """Print a line per model, or per simulated tensor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--simulated", type=int, default=0, help="how many simulated tensors")
    parser.add_argument("--file", type=Path, help="counts, in a column of that name")
    parser.add_argument("--axes", type=lambda text: text.split(","))
    asked = parser.parse_args()
    logging.disable(logging.WARNING)  # that components are switched off
    for name, train, test in _tensors(asked):
        given = {"n_components": asked.components, "zeros": "observed", "prior_shape": 0.1}
        kind = tf.VAEBPTF if name == "demo" else tf.BPTF
        found = tf.stability(train, kind(**given), asked.runs)
        consensus = found.consensus(train)
        seeds = range(1, asked.runs + 1)
        fits = [kind(**given, random_state=seed).fit(train) for seed in seeds]
        profiles, own = [Profiles.of(f.posterior_) for f in fits], Profiles.of(consensus.posterior_)
        scores, overlaps = [fit.score(test) for fit in fits], mutual_overlaps(profiles)
        surer = np.mean([matched_overlaps(own, each).mean() for each in profiles])
        if not asked.simulated:
            print(found.runs.round(4).to_string(index=False))
            print(found.table.round(3).to_string(index=False))
        print(
            f"{name}: {asked.runs} fits, score {min(scores):.4f} to {max(scores):.4f}, median "
            f"{np.median(scores):.4f}, stability {np.median(overlaps):.3f}; consensus of "
            f"{consensus.n_components}, score {consensus.score(test):.4f}, stability {surer:.3f}",
            flush=True,
        )


def _tensors(
    asked: argparse.Namespace,
) -> Iterator[tuple[str, tf.CountTensor, tf.CountTensor]]:
    """Yield names, and cells to fit to and to score."""
    if asked.file:
        tensor = tf.read_counts(asked.file, axes=asked.axes, value="count")
        yield asked.file.stem, *tf.split(tensor, 0.2, cells="all", random_state=0)
    elif not asked.simulated:
        yield "demo", *tf.split(tf.load_demo(), 0.2, cells="all", random_state=0)
    for seed in range(asked.simulated):
        made = tf.simulate((60, 50, 12), 4, density=0.08, random_state=seed).tensor
        yield f"simulated {seed}", *tf.split(made, 0.3, cells="all", random_state=1)


if __name__ == "__main__":
    main()
