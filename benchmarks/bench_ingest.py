"""Time and memory of turning 10 million events in memory into a tensor, against polars.

Both sides are measured in one run, each in fresh processes of its own, medians over repeats.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

SIZES = {"user": 100_000, "item": 50_000, "day": 365}


def events(n_rows: int):
    """Skewed events as text labels, in polars."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    columns = {}
    for name, size in SIZES.items():
        labels = pl.Series([f"{name}-{number:06d}" for number in range(size)])
        columns[name] = labels.gather((size * rng.random(n_rows) ** 3).astype(np.int64))
    return pl.DataFrame(columns)


def by_polars(frame):
    """The same aggregation written directly: categorical codes, then group_by."""
    import polars as pl

    coded = frame.with_columns(pl.all().cast(pl.Categorical))
    return coded.group_by(list(SIZES)).len().with_columns(pl.col(list(SIZES)).to_physical())


def by_tallyfold(frame):
    from tallyfold import CountTensor

    return CountTensor.from_frame(frame, axes=list(SIZES), value=None)


def input_bytes(frame, kind: str) -> int:
    if kind == "pyarrow":
        return frame.nbytes
    if kind == "pandas":
        return int(frame.memory_usage(deep=True).sum())
    return frame.estimated_size()


def measure(engine: str, kind: str, n_rows: int) -> None:
    """Build once in this process; print seconds and memory as JSON."""
    frame = events(n_rows)
    if kind != "polars":
        frame = frame.to_arrow() if kind == "pyarrow" else frame.to_pandas()
    size = input_bytes(frame, kind)
    build = by_polars if engine == "polars" else by_tallyfold
    build(frame[:1000])  # imports and thread pools
    with open("/proc/self/clear_refs", "w") as reset:  # the peak so far is forgotten
        reset.write("5")
    before = resident()
    start = time.perf_counter()
    result = build(frame)
    seconds = time.perf_counter() - start
    row = {"seconds": seconds, "input": size, "rise": peak() - before}
    row["result"] = result.nbytes if engine == "tallyfold" else result.estimated_size()
    print(json.dumps(row))


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def peak() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def run(engine: str, kind: str, n_rows: int) -> dict:
    command = [sys.executable, __file__, "--engine", engine, "--kind", kind, "--rows", str(n_rows)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="ignored; the events are simulated")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", choices=["polars", "tallyfold"])
    parser.add_argument("--kind", choices=["polars", "pyarrow", "pandas"], default="polars")
    given = parser.parse_args()
    if given.engine:
        measure(given.engine, given.kind, given.rows)
        return
    print(f"{given.rows:,} events of {' x '.join(map(str, SIZES.values()))} labels")
    pairs = [
        ("polars", "polars"),
        *(("tallyfold", kind) for kind in ("polars", "pyarrow", "pandas")),
    ]
    runs = {pair: [run(*pair, given.rows) for _ in range(given.repeats)] for pair in pairs}
    base = statistics.median(row["seconds"] for row in runs["polars", "polars"])
    for (engine, kind), rows in runs.items():
        seconds = statistics.median(row["seconds"] for row in rows)
        rise = max(row["rise"] for row in rows)
        result, size = rows[0]["result"], rows[0]["input"]
        print(
            f"{engine:>9} from {kind:<7}: {seconds:5.2f} s ({seconds / base:4.2f} of polars); "
            f"input {size / 2**20:4.0f} MiB, result {result / 2**20:4.0f} MiB, memory rose by "
            f"{rise / 2**20:5.0f} MiB = {rise / result:.1f} x the result "
            f"({(rise + size) / (result + size):.1f} x result and input together)"
        )


if __name__ == "__main__":
    main()
