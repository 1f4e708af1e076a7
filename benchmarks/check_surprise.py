"""Whether probabilities near one, and what is called odd, hold on hidden cells.

    python benchmarks/check_surprise.py [--data FOLDER] [--tensors demo,grocery,nips]

FOLDER holds grocery.parquet (household, category, day, count) and nips.parquet (author, word, year,
count). A tenth of all cells is hidden, zeros too. Of the hidden cells that VAE-BPTF gives a count
with more than a probability, the table has the share that the model expects to have one, the share
that has one, and the number of empty ones over the number expected. Cells of pairs that the gate
has not seen are left out: they are never that probable. Below the table is the share of hidden
counts with a `p` of less than a hundredth in `surprise`, which should be a hundredth, and how many
have a `by_chance`, the number of counts that would be as odd, below it: hardly any.
"""

import argparse
from pathlib import Path

import numpy as np

import tallyfold as tf
from tallyfold.data.empty_cells import are_empty
from tallyfold.models.scoring import log_zeros

AXES = {"grocery": ["household", "category", "day"], "nips": ["author", "word", "year"]}
ABOVE = (0.5, 0.8, 0.9, 0.95, 0.99)
CELLS_AT_ONCE = 4_000_000
LEAST_P = 0.01


def empty_cells(model: tf.VAEBPTF, test: tf.CountTensor):
    """Yield the hidden empty cells of all pairs that the gate has seen, some at a time."""
    gate = model.fitted_.derived[0]
    (other,) = (axis for axis in range(len(test.shape)) if axis not in gate.axes)
    pairs_PA = np.stack(np.unravel_index(gate.keys_P, gate.sizes), axis=1)
    size = test.shape[other]
    step = max(1, CELLS_AT_ONCE // size)
    for at in range(0, len(pairs_PA), step):
        some_PA = pairs_PA[at : at + step]
        cells_CM = np.empty((len(some_PA) * size, len(test.shape)), np.int32)
        cells_CM[:, gate.axes] = np.repeat(some_PA, size, axis=0)
        cells_CM[:, other] = np.tile(np.arange(size), len(some_PA))
        yield cells_CM[are_empty(test, cells_CM)]


def table(model: tf.VAEBPTF, test: tf.CountTensor) -> list[str]:
    """Return a line for each probability: cells above it, and the share that has a count."""
    filled_N = -np.expm1(log_zeros(model, test, test.indices, "error"))
    chances = (-np.expm1(log_zeros(model, test, c, "error")) for c in empty_cells(model, test))
    empty_Z = np.concatenate([chance[chance > min(ABOVE)] for chance in chances])
    lines = ["above   cells  expected  found  empty/expected"]
    for least in ABOVE:
        has, has_not = filled_N[filled_N > least], empty_Z[empty_Z > least]
        number = len(has) + len(has_not)
        if not number:
            lines.append(f"{least:5.2f}    none")
            continue
        missing = number - has.sum() - has_not.sum()
        expected, found, ratio = 1 - missing / number, len(has) / number, len(has_not) / missing
        lines.append(f"{least:5.2f}  {number:6,}  {expected:8.3f}  {found:5.3f}  {ratio:14.2f}")
    return lines


def report(name: str, tensor: tf.CountTensor, components: int, split: int) -> None:
    train, test = tf.split(tensor, 0.1, cells="all", random_state=split)
    model = tf.VAEBPTF(n_components=components, zeros="observed").fit(train)
    scored = f"log score {model.score(test):.4f}"
    print(f"{name}: {test.nnz:,} counts hidden, {scored}, gate {' x '.join(model.gate_ or ())}")
    if model.gate_ is not None:
        print("\n".join(table(model, test)))
    odd = tf.surprise(model, test, absent=0)
    share, number = (odd["p"] < LEAST_P).mean(), (odd["by_chance"] < LEAST_P).sum()
    counts = f"{share:.2%} of counts, by_chance of {number} of {test.nnz:,}"
    print(f"p < {LEAST_P}: {counts}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tensors", default="demo,grocery,nips")
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--split", type=int, default=0)
    options = parser.parse_args()
    for name in options.tensors.split(","):
        if name == "demo":
            tensor = tf.load_demo()
        elif options.data is None:
            continue
        else:
            file = options.data / f"{name}.parquet"
            tensor = tf.read_counts(file, axes=AXES[name], value="count")
        report(name, tensor, options.components, options.split)


if __name__ == "__main__":
    main()
