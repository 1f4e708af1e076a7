"""Time one BPTF sweep, zeros observed: fused kernels against plain NumPy, growth, compilation.

    python benchmarks/bench_kernels.py [--data counts.parquet] [--components 10]

The parquet file has one string column per axis and `count`. Without one, a tensor of 6,417 x 4,377
x 14 with about 750,000 skewed non-zeros is simulated.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import kernels_plain
from tallyfold import kernels
from tallyfold.probability import gamma

COLD = """
import time, numpy as np
from tallyfold import kernels
rng = np.random.default_rng(0)
indices = np.asfortranarray(rng.integers(0, 20, (500, 3)), dtype=np.int32)
counts = rng.geometric(0.5, 500)
factors = [rng.gamma(1.0, size=(20, 5)) for _ in range(3)]
layout = kernels.axis_layout(indices, counts, 0, 20)
start = time.perf_counter()
kernels.bptf_axis_sums(factors, factors, layout, backend="numba")
kernels.cell_bound(factors, factors, indices, counts, backend="numba")
kernels.cell_rates(factors, indices, backend="numba")
print(time.perf_counter() - start)
"""


def tidy_file(path: Path) -> Path:
    return path / "nips.parquet" if path.is_dir() else path


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    import pandas as pd

    frame = pd.read_parquet(path)
    axes = [pd.factorize(frame[name], sort=True)[0] for name in frame.columns if name != "count"]
    return canonical(np.column_stack(axes), frame["count"].to_numpy())


def simulate() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    columns = [(size * rng.random(761_000) ** 2).astype(int) for size in (6417, 4377, 14)]
    indices = np.unique(np.column_stack(columns), axis=0)
    return canonical(indices, rng.geometric(0.75, len(indices)))


def canonical(indices: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.lexsort(indices.T[::-1])
    return np.asfortranarray(indices[order], dtype=np.int32), counts[order].astype(np.int64)


def start(sizes: list[int], n_components: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    mean = [rng.gamma(10.0, 0.1, (size, n_components)) for size in sizes]
    return [factor * 0.9 for factor in mean], mean


def fused_sweep(
    geo: list[np.ndarray],
    mean: list[np.ndarray],
    layouts: list[kernels.AxisLayout],
    likelihood: str = "poisson",
) -> None:
    for axis, layout in enumerate(layouts):
        phi, exposure = kernels.bptf_axis_sums(
            geo, mean, layout, likelihood=likelihood, dispersion=1.0, backend="numba"
        )
        shape, rate = 1.0 + geo[axis] * phi, 1.0 + exposure
        mean[axis] = gamma.mean(shape, rate)
        geo[axis] = gamma.geometric_mean(shape, rate)


def median_seconds(
    work: Callable[[], None], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    work()
    times = []
    for _ in range(repeats):
        begin = clock()
        work()
        times.append(clock() - begin)
    return statistics.median(times)


def cold_seconds(script: str) -> tuple[float, float]:
    """Return the seconds that a script prints with an empty cache, and with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-c", script]
        runs = [subprocess.check_output(command, env=environment, text=True) for _ in "12"]
    return float(runs[0]), float(runs[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data",
        type=Path,
        help="tidy parquet (axis columns and `count`), or a folder with nips.parquet",
    )
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    indices, counts = read(tidy_file(options.data)) if options.data else simulate()
    sizes = (indices.max(axis=0) + 1).tolist()
    print(f"axes {sizes}, {len(counts)} non-zeros, K={options.components}, ", end="")
    print(f"{kernels.thread_count()} threads")

    def layouts_of(some: np.ndarray) -> list[kernels.AxisLayout]:
        return [kernels.axis_layout(indices[some], counts[some], m, d) for m, d in enumerate(sizes)]

    layouts = layouts_of(np.arange(len(counts)))
    geo, mean = start(sizes, options.components)
    plain = median_seconds(lambda: kernels_plain.sweep(geo, mean, indices, counts), 3)
    print(f"plain NumPy sweep             {plain:8.4f} s")
    for likelihood in kernels.LIKELIHOODS:
        geo, mean = start(sizes, options.components)
        fused = median_seconds(lambda: fused_sweep(geo, mean, layouts, likelihood), options.repeats)  # noqa: B023
        print(f"fused {likelihood:28s}{fused:8.4f} s  {plain / fused:6.1f} times faster")
    busy = time.process_time
    with kernels.use_threads(1):
        fused = median_seconds(lambda: fused_sweep(geo, mean, layouts), options.repeats, busy)
    plain = median_seconds(lambda: kernels_plain.sweep(geo, mean, indices, counts), 3, busy)
    print(
        f"fused poisson, one thread     {fused:8.4f} s  {plain / fused:6.1f} times faster, ", end=""
    )
    print(f"by processor time ({plain:.4f} s)")
    previous = 0.0
    shuffled = np.random.default_rng(1).permutation(len(counts))
    for share in (0.25, 0.5, 1.0):
        some = layouts_of(np.sort(shuffled[: int(share * len(counts))]))
        seconds = median_seconds(lambda: fused_sweep(geo, mean, some), options.repeats)  # noqa: B023
        growth = f"  grew {seconds / previous:.2f} times" if previous else ""
        print(f"fused poisson, {share:4.0%} of cells  {seconds:8.4f} s{growth}")
        previous = seconds
    seconds = median_seconds(lambda: layouts_of(np.arange(len(counts))) and None, 3)
    print(f"layouts of all axes           {seconds:8.4f} s")
    cold, warm = cold_seconds(COLD)
    print(f"first call, empty cache       {cold:8.2f} s; with the cache {warm:.2f} s")


if __name__ == "__main__":
    main()
