"""Databases that can be asked: those that are opened here, and connections of the caller."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from tallyfold.data.formats.sql import connected
from tallyfold.data.query.adbc import Adbc
from tallyfold.data.query.address import WANTED, Address, parsed_address
from tallyfold.data.query.answer import (
    ROWS_AT_A_TIME,
    Answer,
    ArrowAnswer,
    Database,
    opening_errors,
    query_errors,
)
from tallyfold.data.query.rows import DbApi
from tallyfold.data.query.sqlite import AdbcSqlite
from tallyfold.errors import FormatError, MissingPackageError, ParameterError


@contextlib.contextmanager
def opened_database(target: Any, memory_limit: str | None) -> Iterator[Database]:
    """Open what an address names and close it afterwards, or take a connection that is open."""
    if not isinstance(target, str | os.PathLike):
        yield _database_of(target)
        return
    address = parsed_address(target)
    opened = {"PostgreSQL": _postgresql, "SQLite": _sqlite, "DuckDB": _duckdb}[address.kind]
    with opened(address, memory_limit) as database:
        yield database


def _database_of(connection: Any) -> Database:
    duckdb = sys.modules.get("duckdb")
    if duckdb is not None and isinstance(connection, duckdb.DuckDBPyConnection):
        return DuckDb(connection)
    if hasattr(connection, "adbc_get_info"):
        with query_errors():
            vendor = str(connection.adbc_get_info().get("vendor_name"))
        return AdbcSqlite(connection) if vendor == "SQLite" else Adbc(connection, vendor)
    if callable(getattr(connection, "cursor", None)):
        return DbApi(connection)
    raise ParameterError(
        f"{WANTED}; got {type(connection).__name__}. SQLAlchemy's engines have one: "
        "engine.raw_connection()."
    )


@contextlib.contextmanager
def _postgresql(address: Address, memory_limit: str | None) -> Iterator[Database]:
    driver = _driver("postgresql", "PostgreSQL")
    remedy = (
        "See that the server runs and can be reached, and that user, password and name are right."
    )
    with opening_errors(address.place, ParameterError, remedy):
        connection = driver.connect(address.place)
    try:
        yield Adbc(connection, "PostgreSQL", cancel=True)
    finally:
        connection.close()


@contextlib.contextmanager
def _sqlite(address: Address, memory_limit: str | None) -> Iterator[Database]:
    driver = _driver("sqlite", "SQLite")
    uri = Path(address.place).resolve().as_uri() + "?mode=ro"
    with opening_errors(address.place, FormatError, "See that it is a database and can be read."):
        connection = driver.connect(uri)
    try:
        yield AdbcSqlite(connection)
    finally:
        connection.close()


@contextlib.contextmanager
def _duckdb(address: Address, memory_limit: str | None) -> Iterator[Database]:
    remedy = "If it is open elsewhere, close it there, or give the open connection instead."
    with contextlib.ExitStack() as stack:
        with opening_errors(address.place, FormatError, remedy):
            connection = stack.enter_context(connected(memory_limit, address.place))
        yield DuckDb(connection)


def _driver(name: str, shown: str) -> Any:
    try:
        return import_module(f"adbc_driver_{name}.dbapi")
    except ImportError as error:
        raise MissingPackageError(
            f"reading from {shown} needs the package adbc-driver-{name}: pip install "
            "tallyfold[sql]."
        ) from error


class DuckDb:
    """DuckDB, whose relations come in Arrow batches without being held as a whole."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    @contextlib.contextmanager
    def asked(self, sql: str) -> Iterator[Answer]:
        """Run a query and close what is left of it."""
        with query_errors():
            relation = self._connection.sql(sql)
            if relation is None:
                raise ParameterError(f"`sql` must be a query that gives rows; got {sql!r}.")
            reader = relation.to_arrow_reader(ROWS_AT_A_TIME)
        try:
            yield ArrowAnswer(reader)
        finally:
            reader.close()
