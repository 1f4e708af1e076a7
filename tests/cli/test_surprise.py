"""``tallyfold surprise``: the table, the file, and what is refused."""

import io
import json

import pandas as pd

import tallyfold as tf
from tallyfold.evaluation.surprise import surprise


def test_surprise_ranks_cells(run, folder, model, frame, tensor, tmp_path):
    odd = frame.assign(count=frame["count"].where(frame.index != 5, 900))
    odd.to_parquet(tmp_path / "odd.parquet")
    given = ("surprise", folder, tmp_path / "odd.parquet", "--value", "count")
    result = run(*given, "--top", "3")
    assert (result.code, result.err) == (0, "")
    assert "900" in result.out
    found = json.loads(run(*given, "--top", "3", "--json").out)["top"]
    assert len(found) == 3
    first = frame.iloc[5]
    assert [found[0][name] for name in ("author", "word", "year", "count")] == [
        first["author"], first["word"], first["year"], 900,
    ]  # fmt: skip
    counts = tf.CountTensor.from_frame(odd, tensor.names, "count")
    wanted = surprise(model, counts, tail="lower")
    result = run(*given, "--tail", "lower", "--out", tmp_path / "all.parquet")
    assert f"wrote {tensor.nnz:,} rows" in result.out
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "all.parquet"), wanted)
    piped = pd.read_csv(io.StringIO(run(*given, "--out", "-").out))
    assert piped["author"].iloc[0] == first["author"]
    assert len(piped) == tensor.nnz


def test_surprise_shows_what_chance_would_and_whole_numbers(run, folder, events):
    given = ("surprise", folder, events, "--value", "count", "--top", "2")
    lines = run(*given).out.splitlines()
    assert lines[1].split() == [
        "author", "word", "year", "count", "mean", "low", "high", "log10_p", "by_chance",
    ]  # fmt: skip
    assert len(lines) == 5


def test_surprise_leaves_out_the_interval_where_room_is_short(
    run, folder, events, model, tensor, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "60")
    given = ("surprise", folder, events, "--value", "count", "--top", "1")
    lines = run(*given).out.splitlines()
    assert lines[1].split() == ["author", "word", "year", "count", "mean", "log10_p", "by_chance"]
    assert lines[3].endswith(f"{surprise(model, tensor, top=1)['by_chance'][0]:.2g}")


def test_surprise_writes_as_many_cells_as_asked_for(run, folder, events, tmp_path):
    given = ("surprise", folder, events, "--value", "count", "--out", tmp_path / "some.csv")
    assert "wrote 3 rows" in run(*given, "--top", "3").out
    assert len(pd.read_csv(tmp_path / "some.csv")) == 3
    assert "wrote 1 row to" in run(*given, "--top", "1").out


def test_surprise_refuses_a_tail_that_is_none(run, folder, events):
    result = run("surprise", folder, events, "--value", "count", "--tail", "left")
    assert result.code == 2
    assert "'upper' or 'lower' or 'both'" in result.err


def test_surprise_lists_what_did_not_happen(run, tensor, frame, tmp_path):
    model = tf.BPTF(n_components=2, zeros="observed", max_iter=20).fit(tensor)
    model.save(tmp_path / "m")
    frame.to_parquet(tmp_path / "new.parquet")
    given = ("surprise", tmp_path / "m", tmp_path / "new.parquet", "--value", "count")
    found = json.loads(run(*given, "--absent", "4", "--tail", "lower", "--json").out)["top"]
    wanted = surprise(model, tensor, absent=4, tail="lower", top=20)
    assert [row["count"] for row in found] == wanted["count"].tolist()
    assert [row["author"] for row in found] == wanted["author"].tolist()
    lines = run(*given, "--absent", "4").out.splitlines()
    assert "probability" in lines[1]
    assert run(*given, "--absent", "4", "--tail", "upper").code == 2
    found = json.loads(run(*given, "--given", "nonzero", "--json", "--top", "3").out)["top"]
    assert [row["p"] for row in found] == surprise(model, tensor, given="nonzero")["p"].tolist()[:3]


def test_surprise_takes_unknown_labels_as_average_ones(run, folder, model, frame, tmp_path):
    more = pd.concat([frame, frame.iloc[:7].assign(author="nobody")])
    more.to_parquet(tmp_path / "more.parquet")
    given = ("surprise", folder, tmp_path / "more.parquet", "--value", "count")
    result = run(*given)
    assert "--unknown prior takes an average label" in result.err
    assert run(*given, "--unknown", "prior", "--out", tmp_path / "all.csv").code == 0
    found = pd.read_csv(tmp_path / "all.csv")
    own = found[found["author"] == "nobody"]
    assert len(own) == 7
    wanted = model.predict(own[["author", "word", "year"]], unknown="prior")
    assert own["mean"].tolist() == [float(each) for each in wanted]
