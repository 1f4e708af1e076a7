"""Seconds per sweep of BPTF in one process and in several, on one machine, and that they agree.

python benchmarks/bench_processes.py --cells 3e6 --processes 1,2
"""

import argparse
import json
import os
import subprocess
import sys

import numpy as np

import tallyfold as tf
from large_tensor import large_tensor

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def measure(cells: int, iterations: int) -> None:
    """Fit here, together with the other processes; the first one prints what it took."""
    with tf.many_processes() as group:
        part = tf.scatter(lambda: large_tensor(cells))
        model = tf.BPTF(n_components=10, max_iter=iterations, tol=0.0, validation=None).fit(part)
    history = model.history_
    if group.first:
        seconds = float(np.median(np.diff(history["seconds"])))
        print(json.dumps({"seconds": seconds, "bound": float(history["objective"].iloc[-1])}))


def main() -> None:
    """Measure one process after the other; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=float, default=3e6)
    parser.add_argument("--processes", default="1,2")
    parser.add_argument("--iterations", type=int, default=6)
    parser.add_argument("--child", action="store_true")
    asked = parser.parse_args()
    if asked.child:
        measure(int(asked.cells), asked.iterations)
        return
    first: dict[str, float] | None = None
    print("| processes | threads of each | s per sweep | times as fast | bound |")
    print("|---|---|---|---|---|")
    for number in (int(word) for word in asked.processes.split(",")):
        for threads in ("1",) if number > 1 else ("1", "2"):
            environment = os.environ | {"TALLYFOLD_THREADS": threads, "OMP_NUM_THREADS": "1"}
            command = [*TORCHRUN, str(number), __file__, "--child", "--cells", str(asked.cells)]
            command += ["--iterations", str(asked.iterations)]
            out = subprocess.run(
                command, check=True, env=environment, stdout=subprocess.PIPE, text=True
            ).stdout
            row = json.loads(out.splitlines()[-1])
            first = first or row
            print(
                f"| {number} | {threads} | {row['seconds']:.2f} | "
                f"{first['seconds'] / row['seconds']:.2f} | {row['bound']:.9g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
