"""Counts from databases: PostgreSQL, SQLite, DuckDB, or an open connection."""

from tallyfold.data.query.reading import read_query

__all__ = ["read_query"]
