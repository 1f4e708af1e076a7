"""Time the count head against gradient boosting on the same margins, in one run.

    python benchmarks/bench_head.py [--data FOLDER] [--threads 2]
    python benchmarks/bench_head.py --cells 1e8

FOLDER holds nips.parquet; without it the demo tensor is used. Times are of the processor, on all
threads, so that a busy machine tells the same. How the time of margins grows with cells is shown,
too, and a whole default fit. `--cells` times the head alone on a large simulated tensor, by the
clock as well, and its memory.
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.inference.cells.training import TrainingCells
from tallyfold.inference.head.cells import HeadCells
from tallyfold.kernels import use_threads


def taken(work):
    """Return what some work gives, and its seconds of processor time."""
    begin = time.process_time()
    found = work()
    return found, time.process_time() - begin


def against_boosting(train, test, threads):
    from rivals.boosting import fit_boosting

    boosted, seconds = taken(lambda: fit_boosting(train, threads=threads))
    score = float(np.mean(boosted.log_pmf(test)))
    print(f"boosting            {seconds:7.1f} s, log pmf {score:.4f}")
    with use_threads(threads):
        tf.Margins().fit(tf.subsample(train, 0.3, random_state=0))  # compiles
        model, own = taken(lambda: tf.Margins().fit(train))
        _, asked = taken(lambda: model.predictive(test))
    print(f"head                {own:7.1f} s, log pmf {model.score(test):.4f}: ", end="")
    print(f"{own / seconds:.2f} of the time of boosting, {threads} threads each")
    print(f"prediction          {asked / test.nnz * 1e6:7.2f} us a cell")
    with use_threads(threads):
        _, whole = taken(lambda: tf.VAEBPTF(zeros="missing").fit(train))
    print(f"whole default fit   {whole:7.1f} s")


def margins_of(cells):
    for _ in HeadCells.of(TrainingCells(cells), "auto", 0).inputs_by_table():
        pass


def by_share(train):
    """Print the seconds of margins out of fold at shares of the cells."""
    before = 0.0
    for share in (0.25, 0.5, 1.0):
        some = train if share == 1 else tf.subsample(train, share, random_state=0)
        _, seconds = taken(lambda: margins_of(some))  # noqa: B023
        grew = f", {seconds / before:.2f} times as long" if before else ""
        print(f"margins, {share:4.0%}       {seconds:7.2f} s{grew}")
        before = seconds


def large(n_cells, threads):
    from large_tensor import large_tensor

    tensor, begin = large_tensor(n_cells), time.perf_counter()
    with use_threads(threads):
        _, busy = taken(lambda: tf.Margins().fit(tensor))
    seconds, memory = (
        time.perf_counter() - begin,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )
    print(
        f"{tensor.nnz:,} cells: head in {seconds:.0f} s, {busy:.0f} s of processor time, ", end=""
    )
    print(f"{memory / 2**20:.2f} GiB at most, {threads} threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cells", type=float)
    options = parser.parse_args()
    if options.cells:
        large(int(options.cells), options.threads)
        return
    if options.data:
        axes = ["author", "word", "year"]
        tensor = tf.read_counts(options.data / "nips.parquet", axes=axes, value="count")
    else:
        tensor = tf.load_demo()
    train, test = tf.split(tensor, 0.2, random_state=0)
    against_boosting(train, test, options.threads)
    by_share(train)


if __name__ == "__main__":
    main()
