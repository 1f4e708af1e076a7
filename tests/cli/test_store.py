"""``tallyfold convert IN... STORE/``, and stores as what verbs read."""

import tallyfold as tf
from tallyfold.data.store import building


def converted(run, events, place, *more):
    words = ["convert", events, place, "--axes", "author,word,year", "--value", "count"]
    return run(*words, *more)


def test_a_table_becomes_a_store_that_verbs_read(run, events, tensor, folder, tmp_path):
    said = converted(run, events, f"{tmp_path}/s/", "--shards", "3", "--memory-limit", "1GB")
    assert said.code == 0, said.err
    assert said.out == (
        f"wrote {tensor.nnz:,} cells (author 30 x word 25 x year 8) to {tmp_path}/s/, "
        "3 shards by author\n"
    )
    assert tf.open_store(tmp_path / "s").tensor() == tensor
    for words in (
        ["describe", tmp_path / "s"],
        ["convert", tmp_path / "s", tmp_path / "x.npz"],
        ["split", tmp_path / "s", tmp_path / "a.npz", tmp_path / "b.npz"],
        ["score", folder, tmp_path / "s"],
        ["predict", folder, tmp_path / "s", "--out", tmp_path / "p.csv"],
        ["surprise", folder, tmp_path / "s"],
        ["convert", tmp_path / "s", f"{tmp_path}/t/"],
    ):
        result = run(*words)
        assert result.code == 0, (words, result.err)
    assert tf.read_counts(tmp_path / "x.npz") == tensor
    assert tf.read_counts(tmp_path / "t") == tensor


def test_the_same_command_says_that_it_is_finished_and_another_is_refused(run, events, tmp_path):
    converted(run, events, tmp_path / "s", "--shards", "3")
    again = converted(run, events, tmp_path / "s", "--shards", "3")
    assert again.code == 0
    assert "/s is finished: " in again.out
    assert "in 3 shards by author" in again.out
    other = converted(run, events, tmp_path / "s", "--shards", "4")
    assert other.code == 2
    assert "holds a finished store of another job" in other.err


def test_ctrl_c_says_how_to_go_on(run, events, tmp_path, monkeypatch):
    real = building.write_shard
    with monkeypatch.context() as patched:

        def stop(connection, shard, *more):
            if shard.number == 1:
                raise KeyboardInterrupt
            return real(connection, shard, *more)

        patched.setattr(building, "write_shard", stop)
        said = converted(run, events, f"{tmp_path}/s/")
    assert said.code == 130
    assert "interrupted; run the same command to go on." in said.err
    unfinished = run("describe", tmp_path / "s")
    assert unfinished.code == 2
    assert "is not finished" in unfinished.err
    assert converted(run, events, f"{tmp_path}/s/").code == 0


def test_a_store_inside_what_is_read_is_refused(run, events):
    said = converted(run, events.parent, f"{events.parent}/s/")
    assert said.code == 2
    assert "which is read. Write it elsewhere." in said.err


def test_standard_input_and_queries(run, tmp_path):
    text = "a,b\nx,p\ny,q\nx,p\n"
    said = run("convert", "-", f"{tmp_path}/s/", "--axes", "a,b", stdin=text)
    assert said.code == 0, said.err
    assert tf.open_store(tmp_path / "s").total == 3
    import duckdb

    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT i % 3 AS a, i % 2 AS b FROM range(9) AS r(i)")
    asked = ["--query", "SELECT a, b FROM t", "--database", tmp_path / "x.duckdb"]
    said = run("convert", f"{tmp_path}/t/", "--axes", "a,b", *asked)
    assert said.code == 0, said.err
    assert tf.open_store(tmp_path / "t").total == 9
