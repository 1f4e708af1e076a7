"""All ways in which a table of rows becomes a tensor."""

import sqlite3

import polars as pl
import pyarrow as pa
import pytest

import tallyfold as tf


def from_pandas(table, path, **how):
    return tf.CountTensor.from_frame(table, **how)


def from_polars(table, path, **how):
    return tf.CountTensor.from_frame(pl.from_pandas(table), **how)


def from_arrow(table, path, **how):
    return tf.CountTensor.from_frame(pa.Table.from_pandas(table), **how)


def from_csv(table, path, **how):
    table.to_csv(path / "x.csv", index=False)
    return tf.read_counts(path / "x.csv", **how)


def from_parquet(table, path, **how):
    table.to_parquet(path / "x.parquet")
    return tf.read_counts(path / "x.parquet", **how)


def from_jsonl(table, path, **how):
    table.to_json(path / "x.jsonl", orient="records", lines=True)
    return tf.read_counts(path / "x.jsonl", **how)


def from_query(table, path, **how):
    with sqlite3.connect(":memory:") as connection:
        table.to_sql("t", connection, index=False)
        found = tf.read_query(connection, "SELECT * FROM t", **how)
    connection.close()
    return found


WAYS = [from_pandas, from_polars, from_arrow, from_csv, from_parquet, from_jsonl, from_query]


def in_all(test):
    return pytest.mark.parametrize("way", WAYS)(test)
