"""Rows of any DB-API connection, and the way of batches into the grouping."""

import datetime as dt
import decimal
import itertools
import os
import signal
import subprocess
import sys
import time
import uuid

import duckdb
import pyarrow as pa
import pytest

from tallyfold.data.bad_rows import BadRows
from tallyfold.data.formats import grouping
from tallyfold.data.formats.sql import connected
from tallyfold.data.missing import MissingRows
from tallyfold.data.query import read_query, rows
from tallyfold.data.query.reading import checked_batches
from tallyfold.data.request import Request
from tallyfold.errors import CountError, DataError, FormatError, LabelError


class Cursor:
    """The least that Python's DB-API asks of a cursor."""

    def __init__(self, names, rows):
        self.description = [(name, None, None, None, None, None, None) for name in names]
        self._rows, self.fetched, self.closed = iter(rows), 0, False

    def execute(self, sql):
        assert sql == "SELECT"

    def fetchmany(self, size):
        rows = list(itertools.islice(self._rows, size))
        self.fetched += len(rows)
        return rows

    def close(self):
        self.closed = True


class Connection:
    def __init__(self, names, rows):
        self.only = Cursor(names, rows)

    def cursor(self):
        return self.only


@pytest.fixture
def three_at_a_time(monkeypatch):
    monkeypatch.setattr(rows, "ROWS_AT_A_TIME", 3)


def read(rows, names=("a", "b", "n"), value="n", **choices):
    connection = Connection(names, rows)
    try:
        return read_query(connection, "SELECT", ["a", "b"], value, **choices)
    finally:
        assert connection.only.closed


MOMENT = dt.datetime(2020, 1, 1, 0, 30)
ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["é", "b"], ["b", "é"]),
        ([2, -(2**63)], [-(2**63), 2]),
        ([True, False], [False, True]),
        ([2.5, -1.0], [-1.0, 2.5]),
        ([1, 2.5], [1.0, 2.5]),
        ([dt.date(2020, 1, 2), dt.date(2020, 1, 1)], [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
        ([MOMENT], [MOMENT]),
        ([MOMENT.replace(tzinfo=ZONE)], [dt.datetime(2019, 12, 31, 22, 30, tzinfo=dt.UTC)]),
        ([uuid.UUID(int=5)], ["00000000-0000-0000-0000-000000000005"]),
    ],
)
def test_labels_of_every_type(labels, expected, three_at_a_time):
    rows = [("x", label, 1) for label in labels] * 4
    tensor = read(rows)
    assert tensor.axis("b").labels.to_pylist() == expected
    assert tensor.total == len(rows)


@pytest.mark.parametrize("one", [3, 3.0, decimal.Decimal("3.00"), decimal.Decimal("3E+0")])
def test_counts_of_every_type(one, three_at_a_time):
    assert read([("x", "y", one)] * 7).total == 21


@pytest.mark.parametrize(
    ("rows", "error", "match"),
    [
        ([("x", 1, 1)] * 4 + [("x", "1", 1)], DataError, "'b'.*integers.*text.*from 3.*CAST"),
        ([("x", 1, 1), ("x", "1", 1)], DataError, "'b'.*integers.*text"),
        ([("x", 1, 1)] * 3 + [("x", 1.5, 1)], DataError, "'b'.*floating.*integers"),
        ([("x", 1, 1)] * 3 + [("x", True, 1)], DataError, "'b'.*booleans.*integers"),
        ([("x", MOMENT.date(), 1)] * 3 + [("x", MOMENT, 1)], DataError, "'b'.*dates.*times"),
        ([("x", MOMENT, 1), ("x", MOMENT.replace(tzinfo=ZONE), 1)], DataError, "with a zone"),
        ([("x", 2**63, 1)], DataError, "'b' holds integers that do not fit"),
        ([("x", b"1", 1)], LabelError, "'b' must be text.*binary"),
        ([("x", memoryview(b"1"), 1)], LabelError, "'b' must be text.*binary"),
        ([("x", [1], 1)], DataError, "'b' must hold text.*type list"),
        ([("x", decimal.Decimal(2), 1)], LabelError, "'b' must be text.*numeric"),
        ([("x", None, 1)], LabelError, "'b' must not be missing; got 1 missing, at row 0"),
        ([("x", 1, 1)] * 4 + [("x", None, 1)], LabelError, "1 missing, at row 4"),
        ([("x", 1, 1)] * 4 + [("x", 2, -1)], CountError, "below zero, row 4: -1"),
        ([("x", 1, 1)] * 4 + [("x", 2, None)], CountError, "1 missing, at row 4"),
        (
            [("x", 1, decimal.Decimal(1))] * 4 + [("x", 2, decimal.Decimal("1.5"))],
            CountError,
            "row 4",
        ),
        ([("x", 1, None)] * 4, CountError, "must not be missing"),
        ([], DataError, "no rows"),
    ],
)
def test_rows_that_cannot_be_used(rows, error, match, three_at_a_time):
    with pytest.raises(error, match=match):
        read(rows)


def test_a_text_that_is_no_time_is_named_by_its_row(three_at_a_time):
    rows = [("x", "2020-01-01", 1)] * 4 + [("x", "soon", 1)]
    with pytest.raises(LabelError, match="row 4: 'soon'"):
        read(rows, bins={"b": "day"})


def test_rows_may_be_dictionaries():
    assert read([{"a": "x", "b": 1, "n": 2}, {"a": "y", "b": 1, "n": 3}]).total == 5


def test_a_cursor_that_fails_halfway(three_at_a_time):
    def rows():
        yield from [("x", "y", 1)] * 7
        raise OSError("the line is dead")

    with pytest.raises(DataError, match="began to give rows.*the line is dead"):
        read(rows())


def test_rows_are_not_fetched_far_ahead_of_the_grouping(three_at_a_time, monkeypatch):
    connection = Connection(("a", "b", "n"), itertools.repeat(("x", "y", 1)))

    def failing(database, *_):
        stream = database.sql("SELECT * FROM stream").to_arrow_reader(1)
        stream.read_next_batch()
        time.sleep(0.5)
        raise duckdb.OutOfMemoryException("no room")

    monkeypatch.setattr(grouping, "group_rows", failing)
    with pytest.raises(FormatError, match="no room"):  # and it ends, though the rows do not
        read_query(connection, "SELECT", ["a", "b"], "n")
    assert connection.only.closed
    assert connection.only.fetched < 30_000  # some batches of 2,048, by DuckDB's threads


def test_batches_are_plain_and_numbered():
    connection = Connection(("b", "a"), [(1, "x"), (2, "y")])
    with rows.ask_rows(connection, "SELECT", ["a", "b"]) as answer:
        (batch,) = checked_batches(answer.batches, Request(["a", "b"]), MissingRows(), BadRows())
    assert batch.to_pydict() == {"k0": ["x", "y"], "k1": [1, 2]}
    assert batch.schema.field("k1").type == pa.int64()


MEMORY = """
import duckdb, resource
from tallyfold.data.query import read_query
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
def read(n):
    sql = f"SELECT repeat('x', 400) || i % 10 AS a, i % 7 AS b FROM range({n}) AS r(i)"
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")  # ours has none, this is the caller's
    return read_query(connection, sql, ["a", "b"], memory_limit="64MB").total
read(1000)
before = peak()
assert read(1_500_000) == 1_500_000
print(peak() - before)
"""


def test_memory_does_not_grow_with_the_rows():
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 300  # MiB, of 600 that went through


def test_slow_reading_draws_no_bar_among_the_output():
    with connected() as connection:
        bar = "SELECT current_setting('enable_progress_bar')"
        assert connection.execute(bar).fetchone() == (False,)


SLOW = """
import sys
from tallyfold.data.query import read_query
print("reading", flush=True)
query = "SELECT i AS a, pg_sleep(0.01)::text AS b FROM generate_series(1, 100000) AS i"
try:
    read_query(sys.argv[1] + "?application_name=slow", query, ["a", "b"])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_slow_query_and_its_connection(postgres_uri):
    command = [sys.executable, "-c", SLOW, postgres_uri]
    reading = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert reading.stdout.readline() == "reading\n"
    deadline = time.monotonic() + 60
    while sessions(postgres_uri) == 0 and time.monotonic() < deadline:
        time.sleep(0.1)
    os.kill(reading.pid, signal.SIGINT)
    assert reading.communicate(timeout=30)[0] == "interrupted\n"
    assert sessions(postgres_uri) == 0


def sessions(uri):
    """Count the sessions in which the slow query runs."""
    import adbc_driver_postgresql.dbapi as driver

    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slow' AND state = "
    with driver.connect(uri) as connection, connection.cursor() as cursor:
        return cursor.execute(f"{query}'active'").fetchone()[0]
