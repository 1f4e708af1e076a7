"""Time and peak memory of reading a partitioned event log under a limit, many labels on an axis.

The log is written once, in a process of its own, and read in another, whose peak is reported; with
--store it is written as a store instead.
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

ITEMS = 100_000
DAYS = 30
MIB = 2**20


def write_log(folder: Path, n_events: int, n_users: int) -> None:
    """Write events as Parquet, a folder per day; texts, busy users and items more than others."""
    import duckdb

    draw = "(hash(i + {}) % 4294967296) / 4294967296.0"
    user = f"CAST(floor({n_users} * pow({draw.format(1)}, 2)) AS BIGINT)"
    item = f"CAST(floor({ITEMS} * pow({draw.format(10**12)}, 3)) AS BIGINT)"
    day = f"CAST(floor({DAYS} * {draw.format(2 * 10**12)}) AS INTEGER)"
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET memory_limit = '1GB'")
    connection.execute(
        f"COPY (SELECT printf('user-%010d', {user}) AS user, printf('item-%06d', {item}) AS item, "
        f"printf('2024-01-%02d', 1 + {day}) AS day FROM range({n_events}) AS rows(i)) "
        f"TO '{folder}' (FORMAT parquet, PARTITION_BY (day), OVERWRITE_OR_IGNORE)"
    )


def read_log(folder: Path, limit: str | None) -> None:
    """Read the log in this process; print what came out and what it took, as JSON."""
    from tallyfold import read_counts
    from tallyfold.data.formats.sql import connected

    with connected():  # imports are not what is measured
        before = peak()
    start = time.perf_counter()
    tensor = read_counts(folder, axes=["user", "item", "day"], value=None, memory_limit=limit)
    seconds = time.perf_counter() - start
    row = {"seconds": seconds, "peak": peak(), "before": before, "result": tensor.nbytes}
    row |= {"shape": tensor.shape, "nnz": tensor.nnz, "total": tensor.total}
    start = time.perf_counter()
    user = tensor.axis("user")
    found = user.positions(user.labels)
    row |= {"lookup": time.perf_counter() - start, "lookup_peak": peak()}
    row["right"] = bool((found[1:] > found[:-1]).all()) and len(found) == len(user)
    print(json.dumps(row))


def write_store(folder: Path, limit: str | None) -> None:
    """Write the log as a store in this process; print what came out and what it took, as JSON."""
    from tallyfold import write_store
    from tallyfold.data.formats.sql import connected

    with connected():  # imports are not what is measured
        before = peak()
    start, own = time.perf_counter(), time.process_time()
    given = {"axes": ["user", "item", "day"], "memory_limit": limit}
    with tempfile.TemporaryDirectory(dir=folder.parent) as place:
        store = write_store(folder, Path(place, "store"), **given)
        row = {"seconds": time.perf_counter() - start, "processor": time.process_time() - own}
        row |= {"peak": peak(), "before": before, "total": store.total}
        row |= {"shape": store.shape, "nnz": store.nnz}
        row["bytes"] = sum(file.stat().st_size for file in Path(place, "store").iterdir())
    print(json.dumps(row))


def peak() -> int:
    """The most memory that this process has had resident, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def report(row: dict, n_events: int) -> None:
    shape = " x ".join(f"{size:,}" for size in row["shape"])
    print(
        f"{row['total']:,} events of {shape} labels, {row['nnz']:,} cells: {row['seconds']:.1f} s "
        f"({n_events / row['seconds'] / 1e6:.2f} million events a second)"
    )
    print(
        f"peak memory {row['peak'] / MIB:,.0f} MiB, of which {row['before'] / MIB:,.0f} before and "
        f"{row['result'] / MIB:,.0f} the tensor"
    )
    print(
        f"positions of all {row['shape'][0]:,} labels of the first axis: {row['lookup']:.1f} s, "
        f"peak {row['lookup_peak'] / MIB:,.0f} MiB"
    )
    assert row["right"]
    assert row["total"] == n_events


def report_store(row: dict, n_events: int) -> None:
    shape = " x ".join(f"{size:,}" for size in row["shape"])
    print(
        f"{row['total']:,} events of {shape} labels, {row['nnz']:,} cells, as a store of "
        f"{row['bytes'] / MIB:,.0f} MiB: {row['seconds']:.0f} s, {row['processor']:.0f} s of "
        f"processor time; peak memory {row['peak'] / MIB:,.0f} MiB, of which "
        f"{row['before'] / MIB:,.0f} before"
    )
    assert row["total"] == n_events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="ignored; the events are simulated")
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument(
        "--users", type=int, help="labels on the first axis; a quarter of the events"
    )
    parser.add_argument("--limit", default="512MB", help="memory_limit of read_counts, or 'none'")
    parser.add_argument("--folder", help="keep the log here, and read it again if it is there")
    parser.add_argument("--store", action="store_true", help="write a store, read no tensor")
    parser.add_argument("--step", choices=["write", "read", "store"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    limit = None if given.limit == "none" else given.limit
    if given.step == "write":
        write_log(Path(given.folder), given.events, given.users or given.events // 4)
    elif given.step == "read":
        read_log(Path(given.folder), limit)
    elif given.step == "store":
        write_store(Path(given.folder), limit)
    else:
        measure(given)


def measure(given: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory(prefix="tallyfold-spill-") as temporary:
        folder = Path(given.folder or temporary) / f"events-{given.events}"
        sizes = ["--events", str(given.events), "--folder", str(folder)]
        sizes += ["--users", str(given.users)] if given.users else []
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            child("--step", "write", *sizes)
        size = sum(os.path.getsize(file) for file in folder.rglob("*.parquet"))
        print(f"{given.events:,} events in {size / MIB:,.0f} MiB of Parquet, limit {given.limit}")
        step, show = ("store", report_store) if given.store else ("read", report)
        show(json.loads(child("--step", step, "--limit", given.limit, *sizes)), given.events)


if __name__ == "__main__":
    main()
