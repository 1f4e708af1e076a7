"""Peak memory of writing a store out of core, and of processes that read and fit a range of it.

The events are written once, in a process of its own; the store in another one under a limit; then
1, 2, 4 processes read it by torchrun, each its own range, and with --fit fit BPTF to it, counting
the bytes that they sum up; then the first one reads the file and deals it out. A folder that is
given is kept, and what is in it is not written again.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MIB = 2**20


def peak() -> int:
    """The most memory that this process has had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_events(folder: Path, cells: int) -> None:
    """Write a large tensor as a table of labels and counts."""
    import tallyfold as tf
    from large_tensor import large_tensor

    tf.write_counts(large_tensor(cells), folder / "events.parquet")


def write_store(folder: Path, limit: str) -> None:
    """Write the store; print what it took, and what DuckDB and Arrow take without any data."""
    import tallyfold as tf

    (folder / "few.csv").write_text("user,item,day,count\n1,2,3,4\n2,3,4,5\n")
    names = ["user", "item", "day"]
    tf.write_store(folder / "few.csv", folder / "few", names, "count")
    before, start = peak(), time.perf_counter()
    given = {"value": "count", "shards": 16, "memory_limit": limit}
    store = tf.write_store(folder / "events.parquet", folder / "store", names, **given)
    row = {"before": before, "peak": peak(), "seconds": time.perf_counter() - start}
    row |= {"nnz": store.nnz, "shape": store.shape}
    row["bytes"] = sum(f.stat().st_size for f in (folder / "store").iterdir())
    row["rows"] = [shard.rows for shard in store.shards]
    print(json.dumps(row))


def read_store(folder: Path, whole: str) -> None:
    """Read this process's range, or let the first process read all; the first one prints peaks."""
    import numpy as np

    import tallyfold as tf

    with tf.many_processes() as group:
        tf.scatter(lambda: tf.simulate((9, 8), 2, density=0.3).tensor)  # imports are not measured
        before, start = peak(), time.perf_counter()
        if whole == "yes":
            part = tf.scatter(lambda: tf.read_counts(folder / "events.parquet"))
        else:
            part = tf.scatter(tf.open_store(folder / "store"))
        row = [before, peak(), part.indices.nbytes + part.counts.nbytes, part.nnz]
        rows = group.all_gather(np.array([row]))
        if group.first:
            print(json.dumps({"rows": rows.tolist(), "seconds": time.perf_counter() - start}))


def fit_store(folder: Path, components: int) -> None:
    """Fit to this process's range; print peaks, and the bytes given to sums in an iteration."""
    import numpy as np

    import tallyfold as tf
    from tallyfold.inference.distributed.process_group import current_group

    sizes = []
    with tf.many_processes() as group:
        tf.scatter(lambda: tf.simulate((9, 8), 2, density=0.3).tensor)
        before, start = peak(), time.perf_counter()
        part = tf.scatter(tf.open_store(folder / "store"))
        read, real = peak(), group.all_reduce

        def all_reduce(array):
            sizes[-1] += np.asarray(array).nbytes
            return real(array)

        group.all_reduce = all_reduce
        sizes.append(0)
        model = tf.BPTF(n_components=components, max_iter=4, tol=0.0, validation=None)
        model.fit(
            part,
            checkpoint=folder / f"run-{group.size}",
            every=2,
            callbacks=[lambda progress: sizes.append(0)],
        )
        seconds = time.perf_counter() - start
        del group.all_reduce
        assert current_group() is group
        labels = int(np.ptp(part.indices[:, 0])) + 1 if part.nnz else 0
        row = [before, read, peak(), part.nnz, labels, sizes[2]]
        rows = group.all_gather(np.array([row]))
        if group.first:
            bound = float(model.history_["objective"].iloc[-1])
            print(json.dumps({"rows": rows.tolist(), "seconds": seconds, "bound": bound}))


def child(processes: int, *arguments: str) -> dict:
    command = [sys.executable, __file__, *arguments]
    if processes > 1:
        run = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [sys.executable, *run, __file__, *arguments]
    threads = {"OMP_NUM_THREADS": "1", "TALLYFOLD_THREADS": "1"}
    done = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | threads
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}


def measure(folder: Path, given: argparse.Namespace) -> None:
    place = ["--folder", str(folder)]
    if not (folder / "events.parquet").exists():
        child(1, "--step", "events", "--cells", str(int(given.cells)), *place)
    if not (folder / "store").exists():
        written(child(1, "--step", "store", "--limit", given.limit, *place), given.limit)
    if given.fit:
        for processes in map(int, given.processes.split(",")):
            found = child(processes, "--step", "fit", "--fit", str(given.fit), *place)
            print(
                f"{processes} processes fit {given.fit} components: {found['seconds']:.1f} s, "
                f"bound {found['bound']:.15g}"
            )
            for before, read, most, nnz, labels, sums in found["rows"]:
                print(
                    f"  {nnz:,} cells of {labels:,} labels; peak {most / MIB:,.0f} MiB, "
                    f"{(most - before) / MIB:,.0f} more than before, "
                    f"{(most - read) / MIB:,.0f} more than after reading; "
                    f"{sums / 1e6:,.2f} MB summed in an iteration",
                    flush=True,
                )
        return
    read_ranges(place, given)


def written(row: dict, limit: str) -> None:
    shape = " x ".join(f"{size:,}" for size in row["shape"])
    print(
        f"written: {row['nnz']:,} cells of {shape} in {len(row['rows'])} shards of "
        f"{min(row['rows']):,} to {max(row['rows']):,}, {row['bytes'] / MIB:,.0f} MiB, "
        f"{row['seconds']:.0f} s; limit {limit}, peak {row['peak'] / MIB:,.0f} MiB, of which "
        f"{row['before'] / MIB:,.0f} before",
        flush=True,
    )


def read_ranges(place: list[str], given: argparse.Namespace) -> None:
    for whole in ("no",) if given.only_ranges else ("no", "yes"):
        for processes in map(int, given.processes.split(",")):
            found = child(processes, "--step", "read", "--whole", whole, *place)
            how = "the first reads the file and deals it out" if whole == "yes" else "own ranges"
            print(f"{processes} processes, {how}: {found['seconds']:.1f} s")
            for before, most, cells, nnz in found["rows"]:
                print(
                    f"  {nnz:,} cells, {cells / MIB:,.0f} MiB; peak {most / MIB:,.0f} MiB, "
                    f"{(most - before) / MIB:,.0f} more than before reading"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="ignored; the events are simulated")
    parser.add_argument("--cells", type=float, default=4e6)
    parser.add_argument("--limit", default="300MB", help="memory_limit of write_store")
    parser.add_argument("--processes", default="1,2,4")
    parser.add_argument("--only-ranges", action="store_true", help="nothing is dealt out")
    parser.add_argument("--fit", type=int, help="fit BPTF with so many components, 4 sweeps")
    parser.add_argument("--folder", help="where to keep events and store")
    parser.add_argument("--whole", help=argparse.SUPPRESS)
    parser.add_argument(
        "--step", choices=["events", "store", "read", "fit"], help=argparse.SUPPRESS
    )
    given = parser.parse_args()
    if given.step == "events":
        write_events(Path(given.folder), int(given.cells))
    elif given.step == "store":
        write_store(Path(given.folder), given.limit)
    elif given.step == "read":
        read_store(Path(given.folder), given.whole)
    elif given.step == "fit":
        fit_store(Path(given.folder), given.fit)
    elif given.folder:
        Path(given.folder).mkdir(exist_ok=True)
        measure(Path(given.folder), given)
    else:
        with tempfile.TemporaryDirectory(prefix="tallyfold-store-") as temporary:
            measure(Path(temporary), given)


if __name__ == "__main__":
    main()
