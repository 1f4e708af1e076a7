"""Time one iteration of encoders: fused against plain NumPy BPTF and eager torch, in one run.

    python benchmarks/bench_encoder.py [--data FOLDER] [--components 10] [--units 20]

FOLDER holds nips.parquet (author, word, year, count); the file itself will do as well. Without
one, a tensor of its size is simulated. An iteration is, for every axis, forward, backward and
forward again, as one step of training needs it; the yardstick is one sweep of plain NumPy BPTF.
"""

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import kernels_plain
from bench_kernels import canonical, cold_seconds, read, simulate, tidy_file
from tallyfold import kernels
from tallyfold.kernels.encoder import KINDS, AxisEncoder, Network, axis_encoder, layer_sizes
from tallyfold.kernels.encoder_torch import TorchEncoder

COLD = """
import time, numpy as np
from tallyfold.kernels import axis_layout
from tallyfold.kernels.encoder import Network, axis_encoder
cells = np.asfortranarray(np.random.default_rng(0).integers(0, 20, (500, 3)), dtype=np.int32)
layout = axis_layout(cells, np.ones(500, dtype=int), 0, 20)
weights = {}
for kind in ("shape", "rate"):
    for layer, (wide, narrow) in enumerate([(3, 4), (4, 1)]):
        weights[f"{kind}_weight_{layer}"] = np.ones((5, wide, narrow))
        weights[f"{kind}_bias_{layer}"] = np.ones((5, narrow))
arguments = weights, [np.ones((20, 5))] * 3, np.ones(500)
begin = time.perf_counter()
encoder = axis_encoder(layout, Network(1, 4, "softplus", "softplus"), backend="numba")
encoder.backward(*arguments, *encoder.forward(*arguments))
print(time.perf_counter() - begin)
"""


class Problem:
    """Cells with random factors, weights and gradients, and an encoder for every axis."""

    def __init__(self, indices: np.ndarray, counts: np.ndarray, sizes: list[int], k: int) -> None:
        rng = np.random.default_rng(0)
        self.indices, self.counts, self.n_components = indices, counts, k
        self.layouts = [kernels.axis_layout(indices, counts, m, d) for m, d in enumerate(sizes)]
        self.factors = [rng.gamma(1.0, 1.0, (size, k)) for size in sizes]
        self.grads = [[rng.normal(size=(size, k)) for _ in KINDS] for size in sizes]
        self.weight_N = rng.random(len(counts))

    def weights(self, network: Network) -> dict[str, np.ndarray]:
        rng, drawn = np.random.default_rng(1), {}
        for kind in KINDS:
            for layer, (wide, narrow) in enumerate(layer_sizes(network, len(self.factors))):
                shape = (self.n_components, wide, narrow)
                drawn[f"{kind}_weight_{layer}"] = rng.normal(0, 0.3, shape)
                drawn[f"{kind}_bias_{layer}"] = rng.normal(0, 0.3, (self.n_components, narrow))
        return drawn

    def iterate(self, encoders: Sequence[AxisEncoder], network: Network) -> None:
        weights = self.weights(network)
        for encoder, grads in zip(encoders, self.grads, strict=True):
            encoder.forward(weights, self.factors, self.weight_N)
            encoder.backward(weights, self.factors, self.weight_N, *grads)
            encoder.forward(weights, self.factors, self.weight_N)

    def fused(self, network: Network) -> list[AxisEncoder]:
        return [axis_encoder(layout, network, backend="numba") for layout in self.layouts]

    def eager(self, network: Network) -> list[AxisEncoder]:
        return [TorchEncoder(layout, network) for layout in self.layouts]


class Taken(NamedTuple):
    """Shortest times: by the clock, and of all threads' processors, which others disturb less."""

    clock: float
    processors: float


def seconds(works: dict[str, Callable[[], None]], repeats: int) -> dict[str, Taken]:
    """Return each work's shortest time; they take turns, so that all see the same machine."""
    times: dict[str, list[Taken]] = {name: [] for name in works}
    for turn in range(repeats + 1):
        for name, work in works.items():
            begin = time.perf_counter(), time.process_time()
            work()
            if turn:  # the first compiles
                now = time.perf_counter(), time.process_time()
                times[name].append(Taken(now[0] - begin[0], now[1] - begin[1]))
    return {name: Taken(*map(min, zip(*taken, strict=True))) for name, taken in times.items()}


def resident() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def compare(problem: Problem, network: Network, repeats: int) -> None:
    """Print fused times beside one sweep of plain BPTF, and the memory they took."""
    begin = time.perf_counter()
    encoders = problem.fused(network)
    print(f"distinct inputs, all axes     {time.perf_counter() - begin:8.3f} s  ", end="")
    print([len(encoder.distinct.counts_R) for encoder in encoders])  # type: ignore[attr-defined]

    def single() -> None:
        with kernels.use_threads(1):
            problem.iterate(encoders, network)

    geo, mean = ([factor + 0.1 for factor in problem.factors] for _ in "12")
    found = seconds(
        {
            "plain": lambda: kernels_plain.sweep(geo, mean, problem.indices, problem.counts),
            "fused": lambda: problem.iterate(encoders, network),
            "fused, one thread": single,
        },
        repeats,
    )
    plain = found["plain"]
    print(
        f"plain NumPy BPTF, one sweep   {plain.clock:8.3f} s, {plain.processors:.3f} of processors"
    )
    for name in ("fused", "fused, one thread"):
        taken = found[name]
        print(f"{name:30s}{taken.clock:8.3f} s, {taken.processors:.3f} of processors; ", end="")
        print(f"{taken.clock / plain.clock:.2f} of a plain sweep by the clock, ", end="")
        print(f"{taken.processors / plain.processors:.2f} of processors")
    print(f"most memory so far            {resident():8.2f} GiB")


def whole_iteration(problem: Problem, network: Network, repeats: int) -> None:
    """Time an iteration of the paper's form, one Adam step a visit, against a plain sweep."""
    from tallyfold.inference.cells.training import TrainingCells
    from tallyfold.inference.paper_encoders.step import PaperStep
    from tallyfold.probability.counts import COUNTS

    sizes = tuple(len(factor) for factor in problem.factors)
    step = PaperStep(
        cells=TrainingCells.of(sizes, problem.indices, problem.counts),
        likelihood=COUNTS["poisson", False],
        zeros_observed=False,
        n_components=problem.n_components,
        network=network,
        steps=1,
    )
    state, _ = step.advance(step.start(), 1)
    plain = [[factor.copy() for factor in problem.factors] for _ in range(2)]
    works = {
        "plain": lambda: kernels_plain.sweep(*plain, problem.indices, problem.counts),
        "paper": lambda: step.advance(state, 2),
    }
    taken = seconds(works, repeats)
    paper, sweep = taken["paper"], taken["plain"]
    print(f"paper's form, one iteration   {paper.clock:8.3f} s, ", end="")
    print(f"{paper.processors:.3f} of processors; ", end="")
    print(f"{paper.clock / sweep.clock:.2f} of a plain sweep by the clock, ", end="")
    print(f"{paper.processors / sweep.processors:.2f} of processors")


def other_networks(problem: Problem, network: Network, repeats: int) -> None:
    """Print what other activations and no hidden layer cost."""
    for other in (
        network._replace(hidden_activation="relu"),
        network._replace(hidden_activation="sigmoid"),
        network._replace(hidden_layers=0),
    ):
        encoders = problem.fused(other)
        found = seconds({"it": lambda: problem.iterate(encoders, other)}, repeats)  # noqa: B023
        name = f"fused, {other.hidden_layers} x {other.hidden_activation}"
        print(f"{name:30s}{found['it'].clock:8.3f} s")


def against_torch(problem: Problem, network: Network, share: float) -> None:
    """Print how many times faster than eager torch, on a share of the cells in turn."""
    fused = problem.fused(network)
    print(f"on {share:.0%} of the cells:")
    eager = problem.eager(network)
    works = {
        "fused": lambda: problem.iterate(fused, network),
        "eager torch": lambda: problem.iterate(eager, network),
    }
    found = seconds(works, 2)
    for name, taken in found.items():
        ratios = [mine / best for mine, best in zip(taken, found["fused"], strict=True)]
        print(
            f"  {name:28s}{taken.clock:8.3f} s  {ratios[0]:6.1f} times the fused by the clock, ",
            end="",
        )
        print(f"{ratios[1]:.1f} of processors")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with nips.parquet, or the file")
    parser.add_argument("--components", type=int, default=10)
    parser.add_argument("--units", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--torch-share", type=float, default=0.25, help="of the cells, for torch")
    options = parser.parse_args()
    indices, counts = read(tidy_file(options.data)) if options.data else simulate()
    sizes = (indices.max(axis=0) + 1).tolist()
    network = Network(1, options.units, "softplus", "softplus")
    print(f"axes {sizes}, {len(counts)} non-zeros, K={options.components}, ", end="")
    print(f"{options.units} units, {kernels.thread_count()} threads")
    print(f"memory of the cells           {resident():8.2f} GiB")
    shuffled = np.random.default_rng(1).permutation(len(counts))

    def part(share: float) -> Problem:
        some = shuffled[: int(share * len(counts))]
        cells = canonical(indices[some], counts[some])
        return Problem(*cells, sizes, options.components)

    whole = part(1.0)
    compare(whole, network, options.repeats)
    shares = {f"{share:.0%}": part(share) for share in (0.25, 0.5, 1.0)}
    fused = {name: problem.fused(network) for name, problem in shares.items()}
    works = {n: lambda n=n: shares[n].iterate(fused[n], network) for n in shares}
    for name, taken in seconds(works, options.repeats).items():
        cells, rows = (
            len(shares[name].counts),
            sum(len(encoder.distinct.counts_R) for encoder in fused[name]),
        )
        print(f"fused, {name:>4s} of cells         {taken.clock:8.3f} s  of processors: ", end="")
        print(f"{taken.processors / cells * 1e6:.3f} us a cell, ", end="")
        print(f"{taken.processors / rows * 1e6:.3f} us a distinct input")
    whole_iteration(whole, network, options.repeats)
    other_networks(whole, network, 2)
    against_torch(part(options.torch_share), network, options.torch_share)
    cold, warm = cold_seconds(COLD)
    print(f"first use, empty cache        {cold:8.2f} s; with the cache {warm:.2f} s")


if __name__ == "__main__":
    main()
