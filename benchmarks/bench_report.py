"""What an explorer page costs: seconds to write it, and its size.

    python benchmarks/bench_report.py [--data FOLDER] [--labels N] [--components K] [--cells N]

The labels are shared out as 2:1 over two axes, beside 60 of a third. FOLDER is not needed: the
model is fitted to simulated counts by two sweeps, since the page costs the same after many. Pages
are written of the model alone, and with its training cells, which show examples of components.
"""

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.errors import ConvergenceWarning


def tensor_of(n_labels: int, n_cells: int) -> tf.CountTensor:
    """Return counts of as many labels, with names of usual length; frequent and rare ones."""
    rng = np.random.default_rng(0)
    sizes = (2 * n_labels // 3, n_labels - 2 * n_labels // 3 - 60, 60)
    cells = np.stack([(size * rng.random(n_cells) ** 2).astype(np.int64) for size in sizes], 1)
    names = ("customer", "product", "month")
    labels = [
        [f"{name} number {n}" for n in range(size)]
        for name, size in zip(names, sizes[:2], strict=False)
    ]
    months = [f"{2019 + n // 12}-{1 + n % 12:02}" for n in range(60)]
    axes = [tf.Axis(*pair) for pair in zip(names, [*labels, months], strict=True)]
    cells = np.unique(cells, axis=0)
    return tf.CountTensor(axes, cells, 1 + rng.poisson(0.5, len(cells)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="ignored; the counts are simulated")
    parser.add_argument("--labels", type=int, default=60_000)
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--cells", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    tensor = tensor_of(given.labels, given.cells)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = tf.BPTF(n_components=given.components, max_iter=2).fit(tensor, verbose=False)
    print(tensor)
    with tempfile.TemporaryDirectory() as folder:
        for what, train in (("model alone", None), ("with training cells", tensor)):
            taken = []
            for number in range(given.repeats):
                begin = time.perf_counter()
                file = tf.write_report(model, Path(folder) / f"{number}.html", train=train)
                taken.append(time.perf_counter() - begin)
            size = file.stat().st_size / 1e6
            print(f"{what}: {min(taken):.2f} to {max(taken):.2f} s, {size:.2f} MB")


if __name__ == "__main__":
    main()
