"""Savers and readers of one place at once; run as a program.

What to save (a model, or counts in a text file), an empty folder, how many savers, how many rounds.
Every reader must see one of the things saved, whole, at any time; after each round so must we.
"""

import os
import sys
from pathlib import Path

import numpy as np
from tests.faults.mortal import _do_and_exit

import tallyfold as tf

TENSOR = tf.simulate((6, 5), 1, density=0.5).tensor
SAVES = 15


def models(folder: Path, savers: int):
    """Give a way to save the n-th model, and one to see that what is there is one of them."""
    made = [
        tf.BPTF(n_components=k + 1, max_iter=2, backend="numpy", validation=None).fit(TENSOR)
        for k in range(savers)
    ]
    known = [model.predict(TENSOR) for model in made]
    made[0].save(folder / "m")

    def check() -> None:
        found = tf.load(folder / "m").predict(TENSOR)
        assert any(np.array_equal(found, one) for one in known)

    return lambda number: made[number].save(folder / "m"), check


def counts(folder: Path, savers: int):
    """Give a way to write the n-th tensor as text, and one to see that one of them is there."""
    made = [tf.simulate((6, 5 + k), 1, density=0.5, random_state=k).tensor for k in range(savers)]
    file = folder / "x.tns"
    tf.write_counts(made[0], file)

    def check() -> None:
        assert tf.read_counts(file) in made

    return lambda number: tf.write_counts(made[number], file), check


def rounds(save, check, place: Path, savers: int, number: int, readers: int) -> None:
    """Let savers and readers loose on each other, again and again."""
    for _ in range(number):
        works = [lambda n=n: [save(n) for _ in range(SAVES)] for n in range(savers)]
        works += [lambda: [check() for _ in range(SAVES)]] * readers
        processes = []
        for work in works:
            process = os.fork()
            if process == 0:
                _do_and_exit(work)
            processes.append(process)
        assert all(os.waitpid(process, 0)[1] == 0 for process in processes)
        check()
    assert len(list(place.rglob("*"))) in (2, 3)  # a pair, perhaps in a folder


if __name__ == "__main__":
    work, place, savers, number = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
    save, check = {"model": models, "counts": counts}[work](place, savers)
    rounds(save, check, place, savers, number, 2 if work == "model" else 0)
