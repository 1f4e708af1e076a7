"""Time new entities taken into a fitted model, beside a plain pass over the same cells.

    python benchmarks/bench_fold_in.py [--data FOLDER]

FOLDER holds nips.parquet (author, word, year, count): a tenth of its authors come new, those of
them with ten cells or more. Without it, users of the demo do. What new cells cost should grow with
them, not with the model: the yardstick is one sweep of plain NumPy BPTF over these cells alone.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kernels_plain
import tallyfold as tf

SHARES = (1.0, 0.1, 0.01)
"""Of the newcomers, taken in together."""


def newcomers(tensor: tf.CountTensor, axis: str) -> tuple[tf.CountTensor, tf.CountTensor]:
    """Return cells of nine tenths of the entities, and of the busy ones among the others."""
    old, new = tf.split_entities(tensor, axis, 0.1, random_state=0)
    old = old.compact()
    known = {each.name: each.labels.to_pylist() for each in old.axes if each.name != axis}
    return old, new.sel(**known).compact().filter(min_nonzeros={axis: 10})


def shortest(works: dict[str, Callable[[], object]], repeats: int) -> dict[str, tuple[float, ...]]:
    """Return each work's shortest time by the clock and of processors; they take turns."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            begin = time.perf_counter(), time.process_time()
            work()
            if turn:  # the first compiles
                now = time.perf_counter(), time.process_time()
                taken[name].append((now[0] - begin[0], now[1] - begin[1]))
    return {name: tuple(map(min, zip(*times, strict=True))) for name, times in taken.items()}


def report(model: tf.VAEBPTF, cells: tf.CountTensor, axis: str, repeats: int) -> None:
    rng = np.random.default_rng(0)
    k = model.n_components
    factors = [[rng.gamma(1.0, 1.0, (size, k)) for size in cells.shape] for _ in range(2)]
    found = shortest(
        {
            "plain": lambda: kernels_plain.sweep(*map(list, factors), cells.indices, cells.counts),
            "fold in": lambda: model.fold_in(cells, axis),
        },
        repeats,
    )
    (plain, _), (clock, processors) = found["plain"], found["fold in"]
    print(
        f"{len(cells.axis(axis)):>6,} new, {cells.nnz:>8,} cells: {1000 * clock:7.1f} ms ", end=""
    )
    print(f"({1000 * processors:.1f} of processors), {clock / plain:.1f} plain sweeps over them")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    file = options.data and options.data / "nips.parquet"
    if file and file.exists():
        tensor = tf.read_counts(file, axes=["author", "word", "year"], value="count")
    else:
        tensor = tf.load_demo()
    axis = tensor.names[0]
    old, new = newcomers(tensor, axis)
    model = tf.VAEBPTF(amount="negative-binomial", max_iter=4).fit(
        old
    )  # what a fold-in costs does not depend on the fit
    print(f"a model of {old.nnz:,} cells, {len(old.axis(axis)):,} labels on axis {axis!r}")
    labels = new.axis(axis).labels.to_pylist()
    for share in SHARES:
        some = labels[: max(1, int(share * len(labels)))]
        report(model, new.sel(**{axis: some}).compact(), axis, options.repeats)


if __name__ == "__main__":
    main()
