"""Valid files, damaged in many ways, put into every reader.

Run as a program, so that a crash of native code is seen as one: the kind of files, an empty folder,
a seed, and how often to damage each file. It prints how many reads gave a tensor and how many an
error of ours; any other error is a traceback and an exit code.
"""

import gzip
import json
import sqlite3
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pandas as pd
from tests.faults.damage import damaged
from tests.faults.messages import assert_clear

import tallyfold as tf
from tallyfold.data.query import read_query
from tallyfold.errors import TallyfoldError
from tallyfold.paper.datasets import build_dataset

Read = Callable[[], tf.CountTensor]
Files = Iterator[tuple[Sequence[Path], Sequence[Read]]]

SLOWEST = 30.0
TEXT = (".csv", ".tsv", ".jsonl", ".ndjson", ".tns")
ENDINGS = [".parquet", ".npz", *TEXT, ".csv.gz", ".csv.zst", ".jsonl.gz", ".jsonl.zst", ".tns.gz"]
EVENTS = pd.DataFrame(
    {
        "who": ["ann", "bob", "ann", "ann", 'çé, "x"'],
        "what": list("abcab"),
        "year": [2003, 2004, 2003, 2010, 999],
        "day": pd.to_datetime(
            ["2020-01-01", "2020-02-01", "2021-05-05", "1999-12-31", "2000-01-01"]
        ),
    }
)


def tables(folder: Path) -> Files:
    """Give a file of each kind that is read, the axes beside it, and ways to read it."""
    tensor = tf.CountTensor.from_frame(EVENTS, axes=list(EVENTS.columns))
    for ending in ENDINGS:
        file = folder / f"x{ending}"
        tf.write_counts(tensor, file)
        ways: list[Read] = [lambda file=file: tf.read_counts(file)]
        if ending.startswith(".tns"):
            ways.append(lambda file=file: tf.read_counts(file, axes=list("abcd")))
        elif ending != ".npz":
            ways.append(lambda file=file: tf.read_counts(file, ["who", "year"], "count"))
            ways.append(
                lambda file=file: tf.read_counts(file, ["who", "day"], None, bins={"day": "month"})
            )
        beside = folder / f"x{ending}.axes"
        yield [file, *([beside] if beside.exists() else [])], ways


def raw_files(folder: Path) -> Files:
    """Give the raw files of each data set of the paper."""
    review = {"reviewerID": "A1", "asin": "B1", "reviewText": "Funny, really.", "overall": 5.0}
    lines = "".join(json.dumps(review | {"asin": f"B{n}"}) + "\n" for n in range(4))
    reviews = folder / "reviews_Amazon_Instant_Video_5.json.gz"
    reviews.write_bytes(gzip.compress(lines.encode()))
    yield [reviews], [lambda: build_dataset("video-review", reviews)]
    ratings = folder / "ratings_Amazon_Instant_Video.csv"
    ratings.write_text("".join(f"A{n},B1,{n % 5 + 1}.0,138965760{n}\n" for n in range(6)))
    yield (
        [ratings],
        [
            lambda: build_dataset("video-rating", ratings),
            lambda: build_dataset("video-rating", ratings, bad_lines="skip"),
        ],
    )
    papers = [folder / f"{name}.csv" for name in ("papers", "authors", "paper_authors")]
    papers[0].write_text(
        "id,year,title,event_type,pdf_name,abstract,paper_text\n"
        '1,2003,One,,1.pdf,"Sparse ""counts"",\nsparse tensors",x\n'
        "2,2004,Two,,2.pdf,Dense tensors,\n"
    )
    papers[1].write_text("id,name\n10,Çağlar\n11,Wei Wang\n")
    papers[2].write_text("id,paper_id,author_id\n1,1,10\n2,2,11\n")
    yield papers, [lambda: build_dataset("nips", folder)]
    corpus = folder / "s2-corpus-00.gz"
    paper = {
        "id": "p1", "title": "A title", "paperAbstract": "Sparse tensors of sparse words",
        "authors": [{"name": "Ann Lee", "ids": ["7"]}], "venue": "ICML", "year": 2004,
        "sources": ["DBLP"], "inCitations": [],
    }  # fmt: skip
    corpus.write_bytes(gzip.compress("".join(json.dumps(paper) + "\n" for _ in "ab").encode()))
    yield [corpus], [lambda: build_dataset("dblp", corpus)]


def databases(folder: Path) -> Files:
    """Give a file of SQLite's and one of DuckDB's."""
    sqlite, duck = folder / "x.db", folder / "x.duckdb"
    with closing(sqlite3.connect(sqlite)) as connection, connection:
        EVENTS.astype(str).to_sql("events", connection, index=False)
    with closing(duckdb.connect(duck)) as connection:
        connection.register("given", EVENTS)
        connection.execute("CREATE TABLE events AS SELECT * FROM given")
    query = "SELECT who, what, day FROM events"
    for file in (sqlite, duck):
        yield [file], [lambda file=file: read_query(file, query, ["who", "what"])]


def read_damaged(files: Files, seed: int, times: int) -> Counter[str]:
    """Damage each file in turn, the others being whole, and read them in every way."""
    seen: Counter[str] = Counter()
    for several, ways in files:
        for file in several:
            data = file.read_bytes()
            for spoilt in damaged(data, seed, times):
                file.write_bytes(spoilt)
                for read in ways:
                    seen[_outcome(read)] += 1
            file.write_bytes(data)
        for read in ways:
            assert _outcome(read) == "read", several
    return seen


def _outcome(read: Read) -> str:
    start = time.monotonic()
    try:
        tensor = read()
        assert tensor.nnz == 0 or tensor.counts.min() >= 1
        return "read"
    except TallyfoldError as error:
        assert_clear(error)
        return "refused"
    finally:
        assert time.monotonic() - start < SLOWEST


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # rows that are left out are said
    kinds = {"tables": tables, "raw files": raw_files, "databases": databases}
    found = read_damaged(kinds[sys.argv[1]](Path(sys.argv[2])), int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(f"{found['read']} {found['refused']}\n")
