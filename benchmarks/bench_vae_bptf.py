"""Seconds until the default form of VAE-BPTF is as good as it gets, and until a first answer."""

import argparse
import time
from pathlib import Path

import tallyfold as tf

CLOSE = 0.002


def watched(model: tf.VAEBPTF, train: tf.CountTensor) -> list[tuple[float, float]]:
    """Fit; return the seconds and the best validation score so far after each iteration."""
    begin, marks = time.perf_counter(), []

    def note(progress) -> None:
        score = progress.iteration.validation
        if score is not None:
            best = max(score, marks[-1][1]) if marks else score
            marks.append((time.perf_counter() - begin, best))

    model.fit(train, callbacks=[note])
    return [*marks, (time.perf_counter() - begin, marks[-1][1])]


def report(name: str, train: tf.CountTensor) -> None:
    marks = watched(tf.VAEBPTF(zeros="missing", amount="negative-binomial"), train)
    final = marks[-1][1]
    close = next(seconds for seconds, score in marks if score >= final - CLOSE)
    print(
        f"{name:<22} {train.nnz:>9,} cells: within {CLOSE} of its final validation score after "
        f"{close:5.1f} s, calibrated and done after {marks[-1][0]:5.1f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    folder = parser.parse_args().data
    if folder and (folder / "nips.parquet").exists():
        axes = ["author", "word", "year"]
        tensor = tf.read_counts(folder / "nips.parquet", axes=axes, value="count")
        name = "nips"
    else:
        tensor, name = tf.load_demo(), "demo"
    train, _ = tf.split(tensor, 0.2, random_state=0)
    small = tf.subsample(train, min(1.0, 50_000 / train.nnz), random_state=0)
    report(f"{name}, 50,000 cells", small)
    report(name, train)


if __name__ == "__main__":
    main()
