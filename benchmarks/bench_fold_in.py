"""New entities taken into a fitted model: what it costs, and how near it comes to a refit.

    python benchmarks/bench_fold_in.py [--data FOLDER] [--zeros missing|observed]

FOLDER holds nips.parquet (author, word, year, count) and grocery.parquet (household, category, day,
count); without it, the demo serves.

With missing zeros a tenth of the authors come new, those of them with ten cells or more. What new
cells cost should grow with them, not with the model: the yardstick is one sweep of plain NumPy BPTF
over these cells alone.

With observed zeros four fifths of all cells are for training. A model is fitted to nine tenths of
the labels of the longest axis; the others are folded in with their training cells, and scored on
the remaining fifth of their cells, zeros included: beside the mean of the axis (unknown="prior")
and a fit to all training cells.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kernels_plain
import tallyfold as tf
from tallyfold.data.empty_cells import draw_empty_cells
from tallyfold.models.scoring import EMPTY_CELLS, log_zeros, scores_over_all_cells

AXES = {"nips": ["author", "word", "year"], "grocery": ["household", "category", "day"]}
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


def occurrence(model: tf.VAEBPTF, test: tf.CountTensor, unknown: str = "error") -> float:
    """Return the log probability of whether test cells have a count, per cell that has one."""
    empty = draw_empty_cells(test, EMPTY_CELLS)
    log_zero = log_zeros(model, test, empty.indices_ZM, unknown)
    predictive = model.predictive(test, unknown=unknown)
    return scores_over_all_cells(predictive, test, empty, log_zero).occurrence


def report_observed(name: str, tensor: tf.CountTensor, components: int, repeats: int) -> None:
    """Print how near new labels of the longest axis come to a refit, and what they cost."""
    number = int(np.argmax(tensor.shape))
    axis = tensor.names[number]
    train, test = tf.split(tensor, 0.2, cells="all", random_state=0)
    old, new = tf.split_entities(train, axis, 0.1, random_state=0)
    old = old.compact()
    others = {each.name: each.labels.to_pylist() for each in old.axes if each.name != axis}
    new = new.sel(**others).compact()
    test = test.sel(**others, **{axis: new.axis(axis).labels.to_pylist()})
    model = tf.VAEBPTF(n_components=components, zeros="observed").fit(old)
    refit = tf.VAEBPTF(n_components=components, zeros="observed").fit(train)
    low, high = occurrence(model, test, "prior"), occurrence(refit, test)
    print(f"{name}: {new.nnz:,} cells of {len(new.axis(axis)):,} new labels of {axis!r}")
    print(f"  axis mean {low:.3f}, refit {high:.3f}, ", end="")
    for way, larger in (("fold_in", model.fold_in(new, axis)), ("update", model.update(new))):
        found = occurrence(larger, test)
        share = (found - low) / (high - low)
        print(f"{way} {found:.3f} ({100 * share:.1f} % of the way), ", end="")
    print()
    works = {"fold_in": lambda: model.fold_in(new, axis), "update": lambda: model.update(new)}
    for way, (clock, processors) in shortest(works, repeats).items():
        print(f"  {way}: {1000 * clock:.1f} ms ({1000 * processors:.1f} of processors)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--zeros", choices=("missing", "observed"), default="missing")
    parser.add_argument("--components", type=int, default=10)
    options = parser.parse_args()
    files = {name: options.data / f"{name}.parquet" for name in AXES if options.data}
    found = {
        name: tf.read_counts(file, axes=AXES[name], value="count")
        for name, file in files.items()
        if file.exists()
    }
    found = found or {"demo": tf.load_demo()}
    if options.zeros == "observed":
        for name, tensor in found.items():
            report_observed(name, tensor, options.components, options.repeats)
        return
    tensor = next(iter(found.values()))
    axis = tensor.names[0]
    old, new = newcomers(tensor, axis)
    model = tf.VAEBPTF(zeros="missing", amount="negative-binomial", max_iter=4).fit(
        old
    )  # what a fold-in costs does not depend on the fit
    print(f"a model of {old.nnz:,} cells, {len(old.axis(axis)):,} labels on axis {axis!r}")
    labels = new.axis(axis).labels.to_pylist()
    for share in SHARES:
        some = labels[: max(1, int(share * len(labels)))]
        report(model, new.sel(**{axis: some}).compact(), axis, options.repeats)


if __name__ == "__main__":
    main()
