"""What `tallyfold describe` says a fit will cost, beside what it does cost.

    python benchmarks/bench_fit_cost.py --data FOLDER [--tensors nips grocery] [--shares .01 .1 1]

Fits of VAE-BPTF with its defaults on one thread; the constants of `models/fit_cost.py` are
right if the seconds lie between the two ends and the memory is near. Memory is the peak over what
was resident before the fit.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TALLYFOLD_THREADS", "1")

import tallyfold as tf
from tallyfold.evaluation.fit_and_score import peak_memory
from tallyfold.models.fit_cost import fit_cost
from tallyfold.paper.setting import tensors_in

MIB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="without it, the demo tensor")
    parser.add_argument("--tensors", nargs="*")
    parser.add_argument("--shares", nargs="*", type=float, default=[0.1, 1.0])
    parser.add_argument("--components", nargs="*", type=int, default=[10])
    given = parser.parse_args()
    found = tensors_in(given.data) if given.data else {"demo": tf.load_demo}
    tf.VAEBPTF(zeros="missing", amount="negative-binomial", max_iter=3).fit(
        tf.simulate((30, 20, 10), 2, density=0.2).tensor
    )  # compiles
    print("| tensor | cells | components | seconds said | seconds | MiB said | MiB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in given.tensors or list(found):
        whole = found[name]()
        for share in given.shares:
            tensor = tf.subsample(whole, share)
            for components in given.components:
                print(line_of(name, tensor, components), flush=True)


def line_of(name: str, tensor: tf.CountTensor, components: int) -> str:
    said = fit_cost(tensor, components)
    with peak_memory() as before:
        pass
    start = time.perf_counter()
    with peak_memory() as peak:
        tf.VAEBPTF(zeros="missing", amount="negative-binomial", n_components=components).fit(tensor)
    seconds = time.perf_counter() - start
    return (
        f"| {name} | {tensor.nnz:,} | {components} | {said.least_seconds:.0f} to "
        f"{said.most_seconds:.0f} | {seconds:.0f} | {said.bytes / MIB:.0f} | "
        f"{peak.mib - before.mib:.0f} |"
    )


if __name__ == "__main__":
    main()
