"""Time one outer sweep of PTF-KL against one outer iteration of pyttb's CP-APR.

    python benchmarks/bench_ptf_kl.py [--data FOLDER] [--components 10] [--inner 10]

FOLDER holds nips.parquet (author, word, year, count); the file itself will do as well. Without
one, a tensor of its size is simulated. Both start at the same factors, count empty cells as zeros
and update every axis the same number of times; the losses they reach are printed to show it.
"""

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.schemes.cp_apr import CPAPRStep
from tallyfold.kernels import thread_count
from tallyfold.probability.counts import COUNTS

AXES = ["author", "word", "year"]


def read(place: Path) -> tf.CountTensor:
    file = place / "nips.parquet" if place.is_dir() else place
    return tf.read_counts(file, axes=AXES, value="count")


def simulate() -> tf.CountTensor:
    rng = np.random.default_rng(0)
    shape = (6417, 4377, 14)
    columns = [(size * rng.random(761_000) ** 2).astype(int) for size in shape]
    cells = np.unique(np.column_stack(columns), axis=0)
    axes = [tf.Axis.numbered(name, size) for name, size in zip(AXES, shape, strict=True)]
    return tf.CountTensor(axes, cells, rng.geometric(0.75, len(cells)))


def ours(step: CPAPRStep, repeats: int) -> tuple[float, float]:
    """Return the median seconds of the first sweep, and the log-likelihood after it."""
    state, seconds = step.start(), []
    step.advance(state, 1)  # compile, and sort the cells
    for _ in range(repeats):
        begin = time.perf_counter()
        _, loss = step.advance(state, 1)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), step._log_factorials - loss * len(step.cells.counts_N)


def theirs(step: CPAPRStep, inner: int) -> tuple[float, float]:
    """Return the same of pyttb, once; its own clock leaves the checks before out."""
    import pyttb

    first = step.start()
    cells = step.cells
    sparse = pyttb.sptensor(
        np.asarray(cells.indices_NM, dtype=int), cells.counts_N[:, None].astype(float), cells.shape
    )
    start = pyttb.ktensor(list(first.factors), first.weight_K)
    options = {"maxiters": 1, "maxinneriters": inner, "init": start, "printitn": 0}
    *_, output = pyttb.cp_apr(sparse, step.n_components, algorithm="mu", **options)
    return float(output["times"][0]), float(output["obj"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with nips.parquet, or the file")
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--inner", type=int, default=10, help="updates of an axis per visit")
    parser.add_argument("--repeats", type=int, default=5, help="of ours")
    options = parser.parse_args()
    tensor = read(options.data) if options.data else simulate()
    print(f"{tensor!r}, K={options.components}, {options.inner} inner, {thread_count()} threads")
    step = CPAPRStep(
        cells=TrainingCells(tensor),
        likelihood=COUNTS["poisson", False],
        zeros_observed=True,
        n_components=options.components,
        max_inner=options.inner,
        backend="numba",
    )
    fast, likelihood = ours(step, options.repeats)
    print(f"PTFKL   {fast:8.3f} s a sweep            log-likelihood {likelihood:.6g}")
    slow, likelihood = theirs(step, options.inner)
    print(f"pyttb   {slow:8.3f} s an outer iteration  log-likelihood {likelihood:.6g}")
    print(f"PTFKL is {slow / fast:.1f} times faster")


if __name__ == "__main__":
    main()
