"""Seconds per iteration and peak memory of large fits, each in a process of its own.

    python benchmarks/bench_large.py --model bptf --cells 1e6,1e7,1e8 --iterations 3
    python benchmarks/bench_large.py --model complete-logs --cells 1e8 --iterations 100 \\
        --set batch_entities=20000

`complete-logs` is VAE-BPTF where zeros are observed, its count head included: its score is per
count, zeros with it, and has no constant beside it. Its seconds are those of batches and passes.

With --scores the held-out score after each iteration is printed as well: score against seconds.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings

import numpy as np

import tallyfold as tf
from large_tensor import large_tensor
from tallyfold.errors import InterruptedWarning
from tallyfold.evaluation.fit_and_score import peak_memory

MODELS = {
    "main-effects": lambda n_components, **p: tf.MainEffects(**p),
    "bptf": lambda **p: tf.BPTF(tol=0.0, **p),
    "vae-bptf": lambda **p: tf.VAEBPTF(zeros="missing", amount="negative-binomial", tol=0.0, **p),
    "complete-logs": lambda **p: tf.VAEBPTF(zeros="observed", **p),
    "vae-bptf-paper": lambda **p: tf.VAEBPTF.paper(tol=0.0, **p),
}


def measure(
    model: str, cells: int, iterations: int, seconds: float, given: dict[str, object]
) -> dict[str, object]:
    """Make a tensor and fit it, here; stop after so many seconds."""
    start = time.perf_counter()
    tensor = large_tensor(cells)
    made = time.perf_counter() - start
    at: list[float] = []
    own: list[float] = []
    scores: list[float | None] = []

    def note(step: object) -> None:
        at.append(time.perf_counter() - begin)
        own.append(time.process_time())
        scores.append(step.iteration.validation)  # type: ignore[attr-defined]
        print(f"{at[-1]:.0f} s: {step.iteration}", file=sys.stderr, flush=True)  # type: ignore[attr-defined]
        if at[-1] > seconds:
            raise KeyboardInterrupt

    begin = time.perf_counter()
    warnings.simplefilter("ignore", InterruptedWarning)
    with peak_memory() as peak:
        fitted = MODELS[model](n_components=10, max_iter=iterations, **given).fit(
            tensor, callbacks=[note]
        )
    return {
        "model": model,
        "cells": tensor.nnz,
        "shape": tensor.shape,
        "made": made,
        "total": time.perf_counter() - begin,
        "seconds": at,
        "processor": own,
        "scores": scores,
        "gib": (peak.mib or 0.0) / 1024,
        "score": fitted.fitted_.validation_score,
        "constant": None if model == "complete-logs" else _constant(tensor),
    }


def _constant(tensor: tf.CountTensor) -> float:
    """Return the score of one distribution for all counts."""
    return tf.Constant(likelihood="negative-binomial").fit(tensor).score(tensor)


def main() -> None:
    """Measure each size in a child; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=MODELS, default="bptf")
    parser.add_argument("--cells", default="1e6,1e7")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--scores", action="store_true")
    parser.add_argument("--child", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        given = {name: json.loads(value) for name, value in (s.split("=") for s in asked.set)}
        row = measure(asked.model, int(float(asked.cells)), asked.iterations, asked.seconds, given)
        print(json.dumps(row))
        return
    print(
        "| model | cells | users x items x days | s per iteration | of processor time | s in all | "
        "peak GiB | held-out log score | the best constant's |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    rows = []
    for cells in asked.cells.split(","):
        command = [sys.executable, __file__, "--child", "--model", asked.model, "--cells", cells]
        command += ["--iterations", str(asked.iterations), "--seconds", str(asked.seconds)]
        command += [word for each in asked.set for word in ("--set", each)]
        out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows.append(row := json.loads(out))
        each = np.diff(row["seconds"])
        typical = float(np.median(each)) if len(each) else row["seconds"][0]
        own = float(np.median(np.diff(row["processor"]))) if len(each) else float("nan")
        shape = " x ".join(f"{size:,}" for size in row["shape"])
        constant = "" if row["constant"] is None else f"{row['constant']:.4f}"
        print(
            f"| {row['model']} | {row['cells']:,} | {shape} | {typical:.2f} | {own:.2f} | "
            f"{row['total']:.0f} | "
            f"{row['gib']:.1f} | {row['score']:.4f} | {constant} |",
            flush=True,
        )
    for row in rows if asked.scores else []:
        print(f"\n{row['cells']:,} cells: seconds and held-out log score")
        for seconds, score in zip(row["seconds"], row["scores"], strict=True):
            print(f"{seconds:.1f} {score}")


if __name__ == "__main__":
    main()
