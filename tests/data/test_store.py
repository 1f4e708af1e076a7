"""A store holds what its files hold, bit for bit, in shards that any reader of Parquet reads."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import tallyfold as tf
from tallyfold.data.store import building
from tallyfold.errors import DroppedWarning, ParameterError, RoundedWarning, StorageError

AXES = ["user", "page", "time"]


def events(seed=0, rows=4000, users=150):
    """Events of busy and rare users, texts, and times of two months."""
    rng = np.random.default_rng(seed)
    user = (users * rng.random(rows) ** 2).astype(int)
    return pd.DataFrame(
        {
            "user": [f"user {n}" for n in user],
            "page": rng.integers(5, 25, rows),
            "time": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 60, rows), "D"),
            "stars": rng.integers(0, 6, rows),
        }
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    events(0).to_parquet(folder / "a.parquet")
    events(1).to_parquet(folder / "b.parquet")
    events(2).to_csv(folder / "c.csv", index=False)
    return folder


READINGS = {
    "plain": {},
    "bins, filters": {
        "bins": {"time": ["week", "weekday"]},
        "min_nonzeros": {"user": 8, "page": 100},
        "top": {"page": 15, "user": 60},
    },
    "order": {"bins": {"time": "month"}, "ordered": ["page"]},
    "mean": {"value": "stars", "repeated": "mean", "bins": {"time": "month"}},
    "largest": {"value": "stars", "repeated": "max", "bins": {"time": "month"}},
    "last": {"value": "stars", "repeated": "last", "bins": {"time": "month"}},
}


@pytest.mark.filterwarnings("ignore::tallyfold.errors.DroppedWarning")
@pytest.mark.filterwarnings("ignore::tallyfold.errors.RoundedWarning")
@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("source", ["*.parquet", "c.csv"])
def test_a_store_holds_what_its_files_hold(name, source, files, tmp_path):
    given = {"axes": AXES, "value": None} | READINGS[name]
    whole = tf.read_counts(files / source, **given)
    store = tf.write_store(files / source, tmp_path / "store", shards=5, **given)
    assert store.tensor() == whole
    assert store.dropped == whole.dropped
    assert [axis.order for axis in store.axes] == [axis.order for axis in whole.axes]
    assert (store.shape, store.nnz, store.total) == (whole.shape, whole.nnz, whole.total)
    assert tf.read_counts(tmp_path / "store") == whole
    assert store.manifest.longest == int(np.argmax(whole.shape))


def test_missing_labels_are_dropped_or_named_as_in_files(tmp_path):
    frame = pd.DataFrame({"a": ["x", None, "y", "x"], "b": ["1", "2", None, "1"]})
    frame.to_csv(tmp_path / "x.csv", index=False)
    for missing in ("drop", "label"):
        given = {"axes": ["a", "b"], "missing": missing}
        whole = tf.read_counts(tmp_path / "x.csv", **given)
        store = tf.write_store(tmp_path / "x.csv", tmp_path / missing, **given)
        assert store.tensor() == whole
        assert store.dropped == whole.dropped
    with pytest.raises(tf.errors.LabelError, match="must not be missing"):
        tf.write_store(tmp_path / "x.csv", tmp_path / "none", ["a", "b"])
    assert not (tmp_path / "none").exists()


def test_what_files_warn_of_a_store_warns_of(tmp_path):
    pd.DataFrame({"a": ["x", "y"], "b": ["p", "q"], "n": [0, 3]}).to_csv(tmp_path / "z.csv")
    with pytest.warns(DroppedWarning, match="1 cells are listed with a count of 0"):
        tf.write_store(tmp_path / "z.csv", tmp_path / "zeros", ["a", "b"], "n")
    pd.DataFrame({"a": ["x", "x", "y"], "b": ["p", "p", "q"], "n": [1, 2, 3]}).to_csv(
        tmp_path / "m.csv"
    )
    with pytest.warns(RoundedWarning, match="the means of 1 of 1 cells"):
        tf.write_store(tmp_path / "m.csv", tmp_path / "mean", ["a", "b"], "n", repeated="mean")
    with pytest.raises(tf.errors.LabelError, match="given once"):
        tf.write_store(tmp_path / "m.csv", tmp_path / "once", ["a", "b"], "n", repeated="error")


@pytest.mark.parametrize("longest", [0, 1, 2])
@pytest.mark.parametrize("shards", [1, 3, 7])
def test_parts_are_runs_of_the_longest_axis(longest, shards, tmp_path, monkeypatch):
    monkeypatch.setattr("tallyfold.data.store.shards.ROW_GROUP", 2048)  # the least of DuckDB
    shape = [12, 9, 8]
    shape[longest] = 400
    whole = tf.simulate(tuple(shape), 2, density=0.3, random_state=1).tensor
    store = tf.write_store(whole, tmp_path / "s", shards=shards)
    assert store.tensor() == whole
    rows = [shard.rows for shard in store.shards]
    assert len(rows) == shards
    assert max(rows) - min(rows) < 0.02 * whole.nnz  # a label has some 300 cells at most
    for size in (1, 2, 5):
        parts = [store.part(rank, size) for rank in range(size)]
        labels = [set(part.indices[:, longest].tolist()) for part in parts]
        assert sum(map(len, labels)) == len(set.union(*labels))
        assert max(part.nnz for part in parts) < 1.05 * whole.nnz / size
        assert all(part.axes == whole.axes for part in parts)
        found = np.vstack([np.c_[part.indices, part.counts] for part in parts])
        found = found[np.lexsort(found[:, 2::-1].T)]
        assert np.array_equal(found, np.c_[whole.indices, whole.counts])
        for part in parts:  # in the order of tensors
            assert np.array_equal(np.lexsort(part.indices.T[::-1]), np.arange(part.nnz))


def test_a_label_with_most_cells_stays_whole(tmp_path):
    busy = [[0, n] for n in range(50)] + [[n, 0] for n in range(1, 90)]
    whole = tf.CountTensor(
        [tf.Axis.numbered("a", 90), tf.Axis.numbered("b", 50)], busy, np.ones(139, int)
    )
    store = tf.write_store(whole, tmp_path / "s", shards=10)
    assert len(store.shards) < 10
    assert store.tensor() == whole
    assert sum(store.part(rank, 60).nnz for rank in range(60)) == 139
    with pytest.raises(ParameterError, match="0 <= rank < size"):
        store.part(3, 3)


def test_shards_are_plain_parquet(files, tmp_path):
    import duckdb

    whole = tf.read_counts(files / "a.parquet", AXES, None)
    tf.write_store(files / "a.parquet", tmp_path / "s", AXES, None, shards=3)
    frame = pd.read_parquet(tmp_path / "s" / "part-00001.parquet")
    assert frame.dtypes.astype(str).to_dict() == dict.fromkeys(AXES, "int32") | {"count": "int64"}
    assert frame.sort_values(["user", "page", "time"]).index.is_monotonic_increasing
    query = f"SELECT count(*), sum(count) FROM '{tmp_path}/s/part-*.parquet'"
    assert duckdb.sql(query).fetchall() == [(whole.nnz, whole.total)]
    labels = pa.ipc.open_file(tmp_path / "s" / "labels-00.arrow").read_all().column("label")
    assert labels.to_pylist() == whole.axis("user").labels.to_pylist()


def test_labels_stay_on_disk(tmp_path):
    before = pa.total_allocated_bytes()
    axes = [tf.Axis.numbered("a", 500_000), tf.Axis.numbered("b", 2)]
    tf.write_store(tf.CountTensor(axes, [[3, 0], [499_999, 1]], [1, 2]), tmp_path / "s")
    del axes
    before = pa.total_allocated_bytes()
    store = tf.open_store(tmp_path / "s")
    assert store.axis("a").label(499_999) == 499_999
    assert store.axis("a").positions([7]).tolist() == [7]
    assert pa.total_allocated_bytes() - before < 100_000


def test_parts_of_all_cells_are_kept(tmp_path):
    train, _ = tf.split(tf.load_demo(), 0.2, cells="all")
    store = tf.write_store(train, tmp_path / "s", shards=2)
    assert store.tensor() == train
    assert store.part(0, 2).part == train.part


def test_other_sources(files, tmp_path):
    demo = tf.load_demo()
    tf.write_counts(demo, tmp_path / "x.npz")
    tf.write_counts(demo, tmp_path / "x.parquet")
    for number, source in enumerate([tmp_path / "x.npz", tmp_path / "x.parquet", tmp_path / "s0"]):
        assert tf.write_store(source, tmp_path / f"s{number}").tensor() == demo


def test_axes_called_count_or_alike(tmp_path):
    axes = [tf.Axis.numbered("count", 3), tf.Axis.numbered("b", 2)]
    whole = tf.CountTensor(axes, [[0, 0], [2, 1]], [1, 2])
    store = tf.write_store(whole, tmp_path / "s")
    assert store.manifest.count_column == "count_"
    assert store.tensor() == whole
    axes[1] = tf.Axis.numbered("Count", 2)
    with pytest.raises(ParameterError, match="differ not only in case"):
        tf.write_store(tf.CountTensor(axes, [[0, 0]], [1]), tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_filters_and_orders_of_a_store(tmp_path):
    demo = tf.load_demo()
    store = tf.write_store(demo, tmp_path / "s")
    assert tf.read_counts(store, top={"word": 50}) == demo.filter(top={"word": 50})
    assert tf.read_counts([tmp_path / "s"], axes=list(demo.names)) == demo
    with pytest.raises(ParameterError, match="`axes` of a store are its own"):
        tf.read_counts(store, axes=["word", "module"])
    with pytest.raises(ParameterError, match="`bins` is for tables"):
        tf.read_counts(store, bins={"place": "month"})
    with pytest.raises(ParameterError, match="a tensor is read already"):
        tf.write_store(demo, tmp_path / "t", top={"word": 3})
    with pytest.raises(ParameterError, match="`shards` must be"):
        tf.write_store(demo, tmp_path / "t", shards=0)


def test_under_a_limit_cells_are_grouped_in_passes(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, 300_000, 300_000) for n in ("a", "b")})
    frame.to_parquet(tmp_path / "x.parquet")
    store = tf.write_store(
        tmp_path / "x.parquet", tmp_path / "s", ["a", "b"], shards=3, memory_limit="60MB"
    )
    assert store.tensor() == tf.read_counts(tmp_path / "x.parquet", ["a", "b"])


# -- going on -------------------------------------------------------------------------------------


def write(files, folder, **more):
    return tf.write_store(files / "a.parquet", folder, AXES, None, shards=4, **more)


def stop_after(number):
    def tell(step):
        if step.done == number:
            raise KeyboardInterrupt

    return tell


@pytest.mark.parametrize("steps", range(1, 7))
def test_a_call_that_was_interrupted_goes_on(steps, files, tmp_path, monkeypatch):
    whole = tf.read_counts(files / "a.parquet", AXES, None)
    folder = tmp_path / "s"
    with pytest.raises(KeyboardInterrupt):
        write(files, folder, progress=stop_after(steps))
    with pytest.raises(tf.errors.FormatError, match="is not finished.*goes on"):
        tf.read_counts(folder)
    worked = []
    for name in ("write_shard", "runs_of"):
        real = getattr(building, name)
        monkeypatch.setattr(
            building, name, lambda *given, real=real, name=name: worked.append(name) or real(*given)
        )
    assert write(files, folder).tensor() == whole
    assert worked.count("write_shard") == min(4, 6 - steps)
    assert worked.count("runs_of") == (steps < 2)
    names = sorted(path.name for path in folder.iterdir())
    labels = [f"labels-{n:02}.arrow" for n in range(3)]
    assert names == [*labels, "manifest.json", *(f"part-{n:05}.parquet" for n in range(4))]


def test_remains_of_another_job_are_refused(files, tmp_path):
    folder = tmp_path / "s"
    with pytest.raises(KeyboardInterrupt):
        write(files, folder, progress=stop_after(3))
    with pytest.raises(StorageError, match="remains of another job.*3 shards|remains.*4 shards"):
        tf.write_store(files / "a.parquet", folder, AXES, None, shards=3)
    with pytest.raises(StorageError, match="remains of another job.*top="):
        write(files, folder, top={"user": 3})
    with pytest.raises(StorageError, match="remains of another job.*other counts"):
        tf.write_store(files / "b.parquet", folder, AXES, None, shards=4)


def test_a_finished_store_is_opened_or_kept(files, tmp_path):
    folder = tmp_path / "s"
    store = write(files, folder)
    told = []
    assert write(files, folder, progress=told.append).checksum == store.checksum
    assert told == []
    with pytest.raises(StorageError, match="finished store of another job.*remove that store"):
        tf.write_store(tf.load_demo(), folder)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("x")
    with pytest.raises(StorageError, match="something else than a store, such as 'letter.txt'"):
        write(files, tmp_path / "full")
    with pytest.raises(StorageError, match="is a file; a store is a folder"):
        write(files, files / "c.csv")
