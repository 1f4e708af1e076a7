"""Counts from databases: SQLite and DuckDB files, PostgreSQL, and connections of the caller."""

import contextlib
import datetime as dt
import sqlite3
import traceback
import uuid

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tallyfold import CountTensor, read_counts
from tallyfold.data.query import read_query
from tallyfold.errors import (
    CountError,
    DataError,
    DroppedWarning,
    FormatError,
    LabelError,
    MissingPackageError,
    ParameterError,
    ShapeError,
)

adbc_sqlite = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="needs tallyfold[sql]")

WORDS = ["ann", "bob", 'çé, "x"', "日本", "", " a ", "o'neil", "🙂", "A", "a%s"]
KINDS = ["sqlite", "sqlite connection", "sqlite adbc", "duckdb", "duckdb connection", "postgres"]
TYPED = ["duckdb", "duckdb connection", "postgres"]
"""Databases with types for dates, times and booleans; SQLite has none."""


def events(seed: int, n_rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = np.datetime64("1969-12-01", "us") + rng.integers(0, 90 * 86400 * 10**6, n_rows)
    return pa.table(
        {
            "word": pa.array(rng.choice(WORDS, n_rows).tolist()),
            "code": pa.array(rng.choice(np.array([-(2**62), -1, 0, 7, 2**63 - 1]), n_rows)),
            "moment": pa.array(times),
            "day": pa.array(times.astype("datetime64[D]")),
            "yes": pa.array(rng.random(n_rows) < 0.5),
            "n": pa.array(rng.integers(1, 9, n_rows)),
        }
    )


def fill(kind: str, table: pa.Table, tmp_path, postgres_uri):
    """Put a table into a database as ``events``; return what `read_query` is to be given."""
    if kind.startswith("duckdb"):
        path = tmp_path / "events.duckdb"
        connection = duckdb.connect(path)
        connection.register("given", table)
        connection.execute("CREATE TABLE events AS SELECT * FROM given")
        if kind == "duckdb connection":
            return connection
        connection.close()
        return f"duckdb:///{path}"
    path = tmp_path / "events.db"
    if kind == "postgres":
        import adbc_driver_postgresql.dbapi as driver
    else:
        driver = adbc_sqlite
    with driver.connect(postgres_uri or str(path)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS events")
            cursor.adbc_ingest("events", table, mode="create")
        connection.commit()
    if kind == "sqlite connection":
        return sqlite3.connect(path)
    return postgres_uri or (adbc_sqlite.connect(str(path)) if kind == "sqlite adbc" else path)


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def database(kind, request, tmp_path):
    """Return a function that fills the database; close what it opened."""
    uri = request.getfixturevalue("postgres_uri") if kind == "postgres" else None
    opened = []

    def filled(table: pa.Table):
        opened.append(fill(kind, table, tmp_path, uri))
        return opened[-1]

    yield filled
    for one in opened:
        if hasattr(one, "close"):
            one.close()


def same(query: CountTensor, file: CountTensor) -> bool:
    types = [[axis.labels.type for axis in tensor.axes] for tensor in (query, file)]
    return query == file and types[0] == types[1]


# -- the same as from files -----------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_are_those_of_the_same_rows_in_parquet(kind, database, seed, tmp_path):
    table = events(seed) if kind in TYPED else events(seed).select(["word", "code", "n"])
    given = database(table)
    pq.write_table(table, tmp_path / "events.parquet")
    choices = [
        {"axes": ["word", "code"], "value": "n"},
        {"axes": ["code", "word"], "value": None, "min_nonzeros": {"word": 4}, "top": {"code": 4}},
    ]
    if kind in TYPED:
        choices.append({"axes": ["moment", "day", "yes", "word"], "value": "n"})
    for choice in choices:
        tensor = read_query(given, "SELECT * FROM events", **choice)
        assert same(tensor, read_counts(tmp_path / "events.parquet", **choice))


@pytest.mark.parametrize("unit", ["quarter", "week", "hour"])
def test_times_are_cut_as_in_files(kind, database, unit, tmp_path):
    table = events(3).select(["word", "moment"])
    pq.write_table(table, tmp_path / "events.parquet")
    choice = {"axes": ["word", "moment"], "bins": {"moment": unit}}
    tensor = read_query(database(table), "SELECT * FROM events", **choice)
    assert same(tensor, read_counts(tmp_path / "events.parquet", **choice))


def test_every_way_of_writing_the_query(kind, database):
    given = database(events(0).select(["word", "code"]))
    query = "SELECT word AS a, code AS b FROM events"
    plain = read_query(given, query, ["a", "b"])
    assert plain.total == 300
    for written in (
        f"{query};",
        f"  {query} -- that is all",
        f"WITH x AS ({query}) SELECT * FROM x",
    ):
        assert read_query(given, written, ["a", "b"]) == plain
    counted = f"SELECT a, b, count(*) AS n FROM ({query}) AS x GROUP BY a, b ;\n"
    assert read_query(given, counted, ["a", "b"], "n", repeated="error") == plain


def test_sums_of_counts_may_be_of_the_widest_type(kind, database):
    given = database(events(1).select(["word", "code", "n"]))
    query = "SELECT word AS a, code AS b, sum(n) AS n FROM events GROUP BY word, code"
    tensor = read_query(given, query, ["a", "b"], "n")  # numeric, HUGEINT or integers
    assert tensor.total == sum(events(1)["n"].to_pylist())


def test_a_connection_is_left_as_it_was(kind, database):
    given = database(events(0).select(["word", "code"]))
    query = "SELECT word AS a, code AS b FROM events"
    for _ in range(2):
        assert read_query(given, query, ["a", "b"]).total == 300
        with pytest.raises(LabelError):
            read_query(given, query, ["a", "nothing"])
    if hasattr(given, "cursor"):
        with contextlib.closing(given.cursor()) as cursor:
            cursor.execute("SELECT count(*) FROM events")
            assert cursor.fetchall() == [(300,)]


# -- what goes wrong ------------------------------------------------------------------------------

ONE = "SELECT 'x' AS a, 1 AS b, {} AS n"


@pytest.mark.parametrize(
    ("query", "value", "error", "match"),
    [
        ("SELEC 1", None, ParameterError, "`sql` could not be run.*(?i:syntax|selec)"),
        ("SELECT * FROM nowhere", None, ParameterError, "nowhere"),
        ("", None, ParameterError, "must be a query"),
        ("SELECT 'x' AS a", None, LabelError, "no column 'b'; it has 'a'"),
        ("SELECT 'x' AS a, 1 AS b, 2 AS b", None, LabelError, "'b' more than once.*AS"),
        (ONE.format(1) + " LIMIT 0", "n", DataError, "no rows"),
        ("SELECT 'x' AS a, 1 AS b, 5 AS count", ..., ParameterError, "value='count'"),
        (ONE.format("-3"), "n", CountError, "1 below zero, row 0: -3"),
        (ONE.format("1.5"), "n", CountError, "1 with a fraction, row 0: 1.5"),
        (ONE.format("'3'"), "n", CountError, "must be numbers"),
        (ONE.format("9007199254740993"), "n", CountError, "past 2\\*\\*53"),
        ("SELECT NULL AS a, 1 AS b", None, LabelError, "'a' must not be missing; got 1"),
        ("SELECT 'x' AS a, 1 AS b, CAST(NULL AS integer) AS n", "n", CountError, "missing"),
    ],
)
@pytest.mark.parametrize("kind", ["sqlite", "sqlite connection", "duckdb", "postgres"])
def test_every_fault_is_said_alike(kind, database, query, value, error, match):
    given = database(events(0, 3).select(["word", "code"]))
    with pytest.raises(error, match=match):
        read_query(given, query, ["a", "b"], value)


def test_cells_that_must_not_repeat(kind, database):
    given = database(events(0, 3).select(["word", "code"]))
    query = f"{ONE.format(1)} UNION ALL {ONE.format(2)}"
    with pytest.raises(LabelError, match=r"\(x, 1\) 2 times.*repeated='sum'"):
        read_query(given, query, ["a", "b"], "n", repeated="error")


def test_zeros_are_dropped_with_a_warning(kind, database):
    given = database(events(0, 3).select(["word", "code"]))
    query = f"{ONE.format(0)} UNION ALL SELECT 'y', 2, 5"
    with pytest.warns(DroppedWarning, match="count of 0"):
        tensor = read_query(given, query, ["a", "b"], "n")
    assert (tensor.total, tensor.shape, len(tensor.dropped)) == (5, (2, 2), 1)


def test_bytes_are_no_labels(kind, database):
    given = database(events(0, 3).select(["word", "code"]))
    written = r"'\x00'::bytea" if kind == "postgres" else "CAST('x' AS blob)"
    with pytest.raises(LabelError, match=r"'b' must be text.*(binary|bytea).*CAST\(b AS text\)"):
        read_query(given, f"SELECT 'x' AS a, {written} AS b", ["a", "b"])


def test_arguments_are_checked_before_anything_is_opened():
    for choice, error in [
        ({"axes": ["a"]}, ShapeError),
        ({"axes": ["a", "b"], "bins": {"c": "day"}}, ParameterError),
        ({"axes": ["a", "b"], "repeated": "maybe"}, ParameterError),
    ]:
        with pytest.raises(error):
            read_query("no.db", "SELECT 1", **choice)


def test_a_limit_that_is_none(tmp_path):
    with pytest.raises(ParameterError, match="`memory_limit` must be"):
        read_query(duckdb.connect(), ONE.format(1), ["a", "b"], memory_limit="much")


# -- addresses ------------------------------------------------------------------------------------


def test_files_are_told_apart_by_what_is_in_them(tmp_path):
    duckdb.connect(tmp_path / "duck.db").close()
    (tmp_path / "empty.sqlite").touch()
    for name in ("duck.db", "empty.sqlite"):
        assert read_query(tmp_path / name, ONE.format(3), ["a", "b"], "n").total == 3
        assert read_query(str(tmp_path / name), ONE.format(3), ["a", "b"], "n").total == 3
    (tmp_path / "text.db").write_text("hello, world")
    with pytest.raises(FormatError, match="neither a SQLite nor a DuckDB.*read_counts"):
        read_query(tmp_path / "text.db", ONE.format(3), ["a", "b"])


def test_a_missing_file_is_not_made(tmp_path):
    for uri in (tmp_path / "no.db", f"sqlite:///{tmp_path}/no.db", f"duckdb:///{tmp_path}/no.db"):
        with pytest.raises(FileNotFoundError, match=r"no\.db"):
            read_query(uri, ONE.format(1), ["a", "b"])
    assert not list(tmp_path.iterdir())


def test_nothing_is_changed_in_a_file(tmp_path):
    for name, connect in (("x.db", sqlite3.connect), ("x.duckdb", duckdb.connect)):
        connection = connect(tmp_path / name)
        connection.execute("CREATE TABLE t (a INTEGER)")
        connection.close()
        with pytest.raises(ParameterError):
            read_query(tmp_path / name, "INSERT INTO t VALUES (1)", ["a", "b"])
        connection = connect(tmp_path / name)
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(0,)]
        connection.close()


def test_a_duckdb_file_that_is_open_already(tmp_path):
    with duckdb.connect(tmp_path / "x.duckdb") as connection:
        with pytest.raises(FormatError, match="give the open connection instead"):
            read_query(tmp_path / "x.duckdb", ONE.format(1), ["a", "b"])
        assert read_query(connection, ONE.format(1), ["a", "b"], "n").total == 1


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ann:s3cret@127.0.0.1:1/name",
        "postgresql://ann:s3cret with spaces@127.0.0.1:1/name",
        "postgresql://ann:s3cret/with/slashes@127.0.0.1:1/name",
        "postgresql://127.0.0.1:1/name?password=s3cret&connect_timeout=never",
        "postgresql://ann:s3cret%40x@127.0.0.1:1/name",
        "mysql://ann:s3cret@host/name",
        "host=127.0.0.1 password=s3cret",
        "ann:s3cret@host/name",
    ],
)
def test_a_password_stays_secret(uri):
    with pytest.raises((ParameterError, FileNotFoundError)) as caught:
        read_query(uri, ONE.format(1), ["a", "b"])
    said = "".join(traceback.format_exception(caught.value, chain=True))
    assert "s3cret" not in said
    assert "slashes" not in said
    assert "s3cret" not in repr(caught.value)


def test_a_driver_that_is_not_installed(tmp_path, monkeypatch):
    (tmp_path / "x.db").touch()
    monkeypatch.setitem(__import__("sys").modules, "adbc_driver_sqlite.dbapi", None)
    with pytest.raises(MissingPackageError, match=r"pip install tallyfold\[sql\]"):
        read_query(tmp_path / "x.db", ONE.format(1), ["a", "b"])


@pytest.mark.parametrize("other", [3, None, object(), ["x.db"]])
def test_something_that_is_no_database(other):
    with pytest.raises(ParameterError, match="`connection_or_uri` must be.*got"):
        read_query(other, ONE.format(1), ["a", "b"])


def test_own_connections_are_closed_even_by_ctrl_c(tmp_path, monkeypatch):
    (tmp_path / "x.db").touch()
    opened, real = [], adbc_sqlite.connect

    def connect(uri):
        opened.append(real(uri))
        return opened[-1]

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(adbc_sqlite, "connect", connect)
    monkeypatch.setattr("tallyfold.data.query.reading.group_batches", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_query(tmp_path / "x.db", ONE.format(1), ["a", "b"], "n")
    assert len(opened) == 1
    with pytest.raises(adbc_sqlite.ProgrammingError, match="closed|ConnectionInit"):
        opened[0].cursor()


# -- SQLite, whose columns have no types ----------------------------------------------------------


def test_a_number_among_texts_is_not_taken_for_text(tmp_path):
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE t (a, b)")
    connection.executemany("INSERT INTO t VALUES (?, ?)", [("1", 1), ("x", 2), (1, 3)])
    connection.commit()
    with pytest.raises(LabelError, match=r"'a' must hold values of one type.*row 2.*CAST"):
        read_query(tmp_path / "x.db", "SELECT * FROM t", ["a", "b"])
    with pytest.raises(DataError, match="'a' must hold values of one type.*integers.*text.*CAST"):
        read_query(connection, "SELECT * FROM t", ["a", "b"])
    for given in (connection, tmp_path / "x.db"):
        tensor = read_query(given, "SELECT CAST(a AS text) AS a, b FROM t", ["a", "b"])
        assert tensor.axis("a").labels.to_pylist() == ["1", "x"]
    connection.close()


def test_sqlite_columns_whose_names_differ_in_case(tmp_path):
    (tmp_path / "x.db").touch()
    query = 'SELECT 1 AS a, 2 AS A, 3 AS "b:1"'
    tensor = read_query(tmp_path / "x.db", query, ["A", "b:1"])
    assert [axis.labels.to_pylist() for axis in tensor.axes] == [[2], [3]]


def test_a_transaction_of_sqlite_goes_on():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a TEXT, b INTEGER)")
    connection.commit()
    connection.execute("INSERT INTO t VALUES ('x', 1)")
    connection.row_factory = sqlite3.Row
    assert read_query(connection, "SELECT * FROM t", ["a", "b"]).total == 1
    with pytest.raises(ParameterError):
        read_query(connection, "SELECT * FROM nowhere", ["a", "b"])
    assert connection.in_transaction
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM t").fetchone()[0] == 0
    connection.close()


# -- PostgreSQL -----------------------------------------------------------------------------------


def test_types_of_postgresql(postgres_uri):
    one = uuid.UUID("24457f65-9624-4382-a573-431fe52e3957")
    query = (
        f"SELECT '{one}'::uuid AS u, true AS yes, now()::timestamptz(0) AS z, 2.00::numeric AS n"
    )
    tensor = read_query(postgres_uri, query, ["u", "yes", "z"], "n")
    assert tensor.total == 2
    assert tensor.axis("u").label(0) == str(one)
    assert tensor.axis("yes").label(0) is True
    assert tensor.axis("z").labels.type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("written", "error", "match"),
    [
        ("1.00000000000000000000001::numeric", CountError, "fraction, row 0: 1.000000000000000000"),
        ("'NaN'::numeric", CountError, "NaN or infinite"),
        ("1e30::numeric", CountError, "past"),
        ("5::money", CountError, "type money.*CAST"),
    ],
)
def test_counts_of_postgresql_that_are_none(postgres_uri, written, error, match):
    with pytest.raises(error, match=match):
        read_query(postgres_uri, ONE.format(written), ["a", "b"], "n")


def test_decimals_are_no_labels(postgres_uri):
    with pytest.raises(LabelError, match=r"type numeric.*CAST\(b AS text\)"):
        read_query(postgres_uri, "SELECT 'x' AS a, 2.5 AS b", ["a", "b"])


def test_a_query_that_fails_halfway(postgres_uri):
    query = "SELECT i AS a, 1 / (i - 900000) AS b FROM generate_series(1, 1000000) AS i"
    with pytest.raises(DataError, match="began to give rows.*division by zero"):
        read_query(postgres_uri, query, ["a", "b"])


def test_a_database_that_is_not_there(postgres_uri):
    with pytest.raises(ParameterError, match='could not be opened.*"nowhere" does not exist'):
        read_query(postgres_uri.replace("/postgres", "/nowhere"), ONE.format(1), ["a", "b"])


def test_nothing_is_changed_in_postgresql(postgres_uri):
    query = "CREATE TABLE made_here AS SELECT 1 AS a"
    with pytest.raises(ParameterError):
        read_query(postgres_uri, query, ["a", "b"])
    with pytest.raises(ParameterError, match="made_here"):
        read_query(postgres_uri, "SELECT * FROM made_here", ["a", "b"])


def test_psycopg_is_read_in_parts_and_its_transaction_kept(postgres_uri):
    psycopg = pytest.importorskip("psycopg")
    query = (
        "SELECT 'u' || i % 7 AS a, i::numeric % 5 AS n, now() AS b FROM generate_series(1, 99) i"
    )
    with psycopg.connect(postgres_uri) as connection:
        assert read_query(connection, query, ["a", "b"], "n").shape == (7, 1)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        connection.execute("CREATE TEMP TABLE t AS SELECT 1 AS a")
        with pytest.raises(ParameterError, match="nowhere"):
            read_query(connection, "SELECT * FROM nowhere", ["a", "b"])
        assert connection.execute("SELECT count(*) FROM t").fetchall() == [(1,)]


def test_times_with_a_zone_are_cut_in_utc(postgres_uri):
    query = "SELECT 'x' AS a, timestamptz '2020-01-01 00:30:00+02' AS b"
    tensor = read_query(postgres_uri, query, ["a", "b"], bins={"b": "day"})
    assert tensor.axis("b").labels.to_pylist() == ["2019-12-31"]
    texts = "SELECT 'x' AS a, '2020-01-01T00:30:00+02:00' AS b"
    assert read_query(duckdb.connect(), texts, ["a", "b"], bins={"b": "day"}) == tensor


def test_days_are_dates(postgres_uri):
    tensor = read_query(postgres_uri, "SELECT 1 AS a, date '2020-02-29' AS b", ["a", "b"])
    assert tensor.axis("b").label(0) == dt.date(2020, 2, 29)


def test_bad_rows_of_all_batches_are_said_at_once():
    a = "CASE WHEN i % 10 = 3 THEN NULL ELSE i % 3 END AS a"
    n = "CASE WHEN i > 999998 THEN -1 ELSE 1 END AS n"
    query = f"SELECT {a}, i % 5 AS b, {n} FROM range(1000000) AS t(i)"
    with duckdb.connect() as connection:
        with pytest.raises(DataError, match="the table has 2 problems") as refused:
            read_query(connection, query, ["a", "b"], "n")
        told = str(refused.value)
        assert (
            "labels of axis 'a' must not be missing; got 100,000 missing, at row 3, 13, 23" in told
        )
        assert "got 1 below zero, row 999999: -1." in told
        count = connection.execute("SELECT 1").fetchall()  # it stays open, and usable
    assert count == [(1,)]
