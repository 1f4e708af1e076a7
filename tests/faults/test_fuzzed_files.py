"""Random bytes, odd text and damaged files: a tensor or one of our errors, never anything else."""

import os
import sqlite3
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.damaged_reads import ENDINGS
from tests.faults.messages import assert_clear

import tallyfold as tf
from tallyfold.data.query import read_query
from tallyfold.errors import DroppedWarning, TallyfoldError

ROOT = Path(__file__).parents[2]
BOUNDED = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
cells = st.one_of(
    st.sampled_from(
        ["", "a", "1", "-1", "1.5", "1e400", "nan", "inf", "-0", "9" * 30, "2020-02-30", "0x1", '"']
    ),
    st.text(max_size=5),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)


def read(file, *given, **more) -> None:
    """Read a file: what it holds, or why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DroppedWarning)
        try:
            tensor = tf.read_counts(file, *given, **more)
        except TallyfoldError as error:
            assert_clear(error)
            return
    assert tensor.nnz == 0 or tensor.counts.min() >= 1
    assert all(len(axis) for axis in tensor.axes)


@pytest.mark.parametrize(("kind", "times"), [("tables", 3), ("raw files", 40), ("databases", 15)])
def test_damaged_files_are_read_or_refused(kind, times, tmp_path):
    program = Path(__file__).with_name("damaged_reads.py")
    command = [sys.executable, "-X", "faulthandler", str(program), kind, str(tmp_path), "0"]
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(
        [*command, str(times)], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole, refused = map(int, done.stdout.split())
    assert whole > 0
    assert refused > times


@BOUNDED
@given(ending=st.sampled_from(ENDINGS), data=st.binary(max_size=200))
def test_random_bytes_in_every_kind_of_file(ending, data, tmp_path):
    file = tmp_path / f"x{ending}"
    file.write_bytes(data)
    read(file)
    if ending != ".npz":
        read(file, axes=["a", "b"])


@BOUNDED
@given(
    rows=st.lists(st.lists(cells, min_size=2, max_size=4), max_size=6),
    sign=st.sampled_from([",", ";", "\t", " "]),
    end=st.sampled_from(["\n", "\r\n", "\r", ""]),
    bins=st.none() | st.just({"b": "month"}),
)
def test_odd_text_as_a_table(rows, sign, end, bins, tmp_path):
    text = end.join(sign.join(row) for row in [["a", "b", "n"], *rows])
    for ending in (".csv", ".tsv", ".tns"):
        file = tmp_path / f"x{ending}"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        if ending == ".tns":
            file.write_bytes(text.partition(end or "\n")[2].encode("utf-8", "surrogatepass"))
            read(file)
            continue
        read(file, ["a", "b"], None, bins=bins)
        read(file, ["a", "b"], "n", delimiter=sign)


@BOUNDED
@given(rows=st.lists(json_values | st.fixed_dictionaries({"a": json_values, "b": json_values})))
def test_odd_json_as_a_table(rows, tmp_path):
    import json

    file = tmp_path / "x.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    read(file, ["a", "b"])
    read(file, ["a", "b"], "n")


QUERIES = [
    "SELECT", "SELECT 1", "SELECT 1 AS a, 2 AS b; SELECT 3", "DROP TABLE events", "--", ";", "\0",
    "SELECT a, b FROM events WHERE", "SELECT a, a, b FROM events", "PRAGMA user_version = 7",
    "SELECT a, b FROM nothing", "SELECT NULL AS a, NULL AS b", "SELECT x'00ff' AS a, 1 AS b",
    "SELECT 1e999 AS a, 1 AS b", "SELECT 9223372036854775807 + 1 AS a, 1 AS b",
    "SELECT a, b, -1 AS n FROM events", "SELECT a, b, 'x' AS n FROM events",
    "SELECT a, b, 1.5 AS n FROM events", "SELECT a, b, 1e300 AS n FROM events",
    "ATTACH ':memory:' AS other", "VALUES (1, 2)", "SELECT 'é' AS a, char(55296) AS b",
    "SELECT CASE WHEN rowid = 1 THEN 1 ELSE 'x' END AS a, b FROM events",
    "WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r LIMIT 9) SELECT a, a b FROM r",
    "SELECT load_extension('x') AS a, 1 AS b", "SELECT randomblob(9) AS a, zeroblob(3) AS b",
]  # fmt: skip


@pytest.mark.parametrize("opened", [False, True])
def test_odd_queries(opened, tmp_path):
    file = tmp_path / "x.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE events (a, b)")
        connection.executemany("INSERT INTO events VALUES (?, ?)", [("x", 1), ("y", "z")])
        connection.commit()
        before = file.read_bytes()
        answered = 0
        for query in QUERIES:
            for value in (..., "n", None):
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", DroppedWarning)
                        read_query(connection if opened else file, query, ["a", "b"], value)
                    answered += 1
                except TallyfoldError as error:
                    assert_clear(error)
    assert answered > 0
    if not opened:
        assert file.read_bytes() == before


@BOUNDED
@given(query=st.text(max_size=30) | st.text("SELECT abFROMevents*(),;'\"-0123456789 ", max_size=40))
def test_random_queries(query, tmp_path):
    file = tmp_path / "x.db"
    if not file.exists():
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute("CREATE TABLE events (a, b)")
    with pytest.raises(TallyfoldError):  # the table is empty
        read_query(file, query, ["a", "b"])
