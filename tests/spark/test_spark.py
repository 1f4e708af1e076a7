"""Stores and fits by a real Spark on this machine, against those of the library itself."""

import datetime
import importlib.util
import json
import os
import shutil
import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import tallyfold as tf
import tallyfold.spark
from tallyfold.errors import CountError, LabelError, ParameterError, StorageError

LACKS = "pyspark" if importlib.util.find_spec("pyspark") is None else None
LACKS = LACKS or (None if shutil.which("java") else "a Java runtime")
pytestmark = [
    pytest.mark.skipif(LACKS is not None, reason=f"lacks {LACKS}: scripts/test-spark installs it"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]
AXES = ["user", "item", "day"]
CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "TALLYFOLD_THREADS": "1"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    """Labels of three types, repeated cells, and a count of zero."""
    rng = np.random.default_rng(0)
    day = datetime.date(2024, 1, 1)
    frame = pd.DataFrame(
        {
            "user": [f"ü{number}" for number in (60 * rng.random(3_000) ** 2).astype(int)],
            "item": rng.integers(-5, 25, 3_000),
            "day": [day + datetime.timedelta(int(n)) for n in rng.integers(0, 7, 3_000)],
            "count": rng.integers(0, 4, 3_000),
        }
    )
    file = tmp_path_factory.mktemp("events") / "events.parquet"
    frame.to_parquet(file)
    return file


@pytest.fixture(scope="module")
def stores(spark, events, tmp_path_factory):
    """Give the store that Spark writes, and the library's own."""
    folder = tmp_path_factory.mktemp("stores")
    frame = spark.read.parquet(str(events))
    with pytest.warns(tf.errors.DroppedWarning, match="count of 0"):
        theirs = tf.spark.write_store(
            frame, axes=AXES, path=folder / "spark", value="count", shards=4
        )
    with pytest.warns(tf.errors.DroppedWarning, match="count of 0"):
        ours = tf.write_store(events, folder / "own", AXES, "count", shards=4, repeated="sum")
    return theirs, ours


def test_a_store_of_spark_is_that_of_the_library(stores):
    """Label tables byte for byte; shards with the same rows in the same order."""
    theirs, ours = (store.manifest for store in stores)
    assert theirs.axes == ours.axes
    assert theirs.dropped == ours.dropped
    facts = [(m.sorted_by, m.count_column, m.nnz, m.total, m.part) for m in (theirs, ours)]
    assert facts[0] == facts[1]
    assert len(theirs.shards) == 4
    for one, other in zip(theirs.shards, ours.shards, strict=True):
        assert (one.rows, one.first, one.last) == (other.rows, other.first, other.last)
        tables = [
            pq.read_table(s.folder / shard.data.file)
            for s, shard in zip(stores, (one, other), strict=True)
        ]
        assert tables[0].equals(tables[1])
    assert stores[0].tensor() == stores[1].tensor()
    names = {file.name for file in stores[0].folder.iterdir()}
    assert names == {file.name for file in stores[1].folder.iterdir()}
    assert set(json.loads((stores[0].folder / "manifest.json").read_text())) == set(
        json.loads((stores[1].folder / "manifest.json").read_text())
    )


def test_the_same_call_opens_the_finished_store(spark, events, stores):
    frame = spark.read.parquet(str(events))
    manifest = stores[0].folder / "manifest.json"
    before = manifest.stat().st_mtime_ns
    again = tf.spark.write_store(frame, axes=AXES, path=stores[0].folder, value="count", shards=4)
    assert again.checksum == stores[0].checksum
    assert manifest.stat().st_mtime_ns == before
    with pytest.raises(StorageError, match="another job"):
        tf.spark.write_store(frame.limit(100), axes=AXES, path=stores[0].folder, shards=4)


def test_spark_runs_a_fit_in_two_processes(spark, stores):
    model = tf.BPTF(n_components=2, max_iter=5, tol=0.0, zeros="missing", random_state=3)
    found = tf.spark.fit(stores[0], model, num_processes=2)
    alone = tf.BPTF(**model.get_params()).fit(stores[1].tensor())
    for axis in AXES:
        np.testing.assert_allclose(
            found.posterior_.mean(axis), alone.posterior_.mean(axis), rtol=1e-10
        )


def test_bad_input_says_what_to_do(spark, tmp_path):
    frame = spark.createDataFrame([("a", 1, 2.5), (None, 2, 1.0)], "who string, what int, n double")
    given = {"path": tmp_path / "store", "axes": ["who", "what"]}
    with pytest.raises(LabelError, match="'who' lacks a value in 1 of 2 rows"):
        tf.spark.write_store(frame, **given)
    whole = frame.dropna(subset=["who"])
    with pytest.raises(CountError, match="1 of 1 rows have others"):
        tf.spark.write_store(whole, value="n", **given)
    with pytest.raises(ParameterError, match="each once"):
        tf.spark.write_store(whole, path=tmp_path / "store", axes=["who", "whom"])
    with pytest.raises(LabelError, match="'n' has values of type double"):
        tf.spark.write_store(whole, path=tmp_path / "store", axes=["who", "n"])
    with pytest.raises(LabelError, match="one has 2 rows"):
        tf.spark.write_store(whole.union(whole), repeated="error", **given)
    assert not (tmp_path / "store").exists()
