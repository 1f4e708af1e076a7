"""``tallyfold predict``: any table of cells in, the same table with predictions out."""

import datetime as dt
import io
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.data.formats import files as row_files
from tallyfold.errors import FormatError

NEW = ["mean", "median", "low", "high"]


@pytest.fixture
def cells(frame):
    """Some cells in no order, with a column of something else, and without counts."""
    shuffled = frame.sample(frac=0.3, random_state=0).drop(columns="count")
    return shuffled.assign(note=[f"row {n}" for n in range(len(shuffled))]).reset_index(drop=True)


def test_help_has_examples(run):
    result = run("predict", "--help")
    assert "tallyfold predict model cells.csv" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl", "tsv", "csv.gz"])
def test_rows_columns_and_numbers_are_kept(run, folder, model, cells, tmp_path, kind):
    given, out = tmp_path / f"some cells.{kind}", tmp_path / "out.parquet"
    if kind == "parquet":
        cells.to_parquet(given)
    elif kind == "jsonl":
        cells.to_json(given, orient="records", lines=True, force_ascii=False)
    else:
        cells.to_csv(given, index=False, sep="\t" if kind == "tsv" else ",")
    result = run("predict", folder, given, "--out", out, "--level", "0.8")
    assert (result.code, result.err) == (0, "")
    assert f"wrote {len(cells):,} rows" in result.out
    found = pd.read_parquet(out)
    assert found.columns.tolist() == [*cells.columns, *NEW]
    pd.testing.assert_frame_equal(
        found[cells.columns].astype(str), cells.astype(str), check_dtype=False
    )
    np.testing.assert_allclose(found["mean"], model.predict(cells), rtol=1e-14)
    np.testing.assert_array_equal(found["median"], model.predict(cells, "median"))
    np.testing.assert_array_equal(found[["low", "high"]], model.interval(cells, 0.8))


@pytest.mark.parametrize("kind", ["parquet", "csv", "tsv", "jsonl", "csv.zst", "ndjson.gz"])
def test_every_kind_of_output_holds_the_same(run, folder, model, cells, tmp_path, kind):
    cells.to_parquet(tmp_path / "cells.parquet")
    out = tmp_path / f"out.{kind}"
    assert run("predict", folder, tmp_path / "cells.parquet", "--out", out).code == 0
    if kind == "parquet":
        found = pd.read_parquet(out)
    elif "json" in kind:
        found = pd.read_json(out, orient="records", lines=True, precise_float=True)
    else:
        found = pd.read_csv(out, sep="\t" if kind == "tsv" else ",")
    assert found["author"].tolist() == cells["author"].tolist()
    np.testing.assert_allclose(found["mean"], model.predict(cells), rtol=1e-14)


def test_a_tensor_file_gives_its_cells(run, folder, model, tensor, tmp_path):
    for name in ("cells.npz", "cells.tns"):
        tf.write_counts(tensor, tmp_path / name)
        assert run("predict", folder, tmp_path / name, "--out", tmp_path / "o.parquet").code == 0
        found = pd.read_parquet(tmp_path / "o.parquet")
        assert found.columns.tolist() == ["author", "word", "year", "count", *NEW]
        np.testing.assert_allclose(found["mean"], model.predict(tensor), rtol=1e-14)


def test_a_pipe_in_and_out(run, folder, model, cells):
    result = run("predict", folder, "-", stdin=cells.to_csv(index=False))
    assert (result.code, result.err) == (0, "")
    found = pd.read_csv(io.StringIO(result.out))
    assert found.columns.tolist() == [*cells.columns, *NEW]
    np.testing.assert_allclose(found["mean"], model.predict(cells), rtol=1e-14)


def test_parts_are_as_good_as_the_whole(run, folder, model, cells, tmp_path, monkeypatch):
    seen = []

    def small(path, columns, **given):
        for table in read_rows(path, columns, rows_at_a_time=50, **given):
            seen.append(len(table))
            yield table

    read_rows = row_files.read_rows
    monkeypatch.setattr(row_files, "read_rows", small)
    cells.to_csv(tmp_path / "cells.csv", index=False)
    for out in ("out.csv", "out.parquet"):
        result = run("predict", folder, tmp_path / "cells.csv", "--out", tmp_path / out)
        assert f"wrote {len(cells):,} rows" in result.out
    assert max(seen) == 50
    assert len(seen) > 4
    found = pd.read_csv(tmp_path / "out.csv")
    np.testing.assert_allclose(found["mean"], model.predict(cells), rtol=1e-14)
    np.testing.assert_array_equal(pd.read_parquet(tmp_path / "out.parquet")["mean"], found["mean"])


@pytest.mark.parametrize("text", ["author,word,year\n", "author,word,year"])
def test_no_rows_in_are_no_rows_out(run, folder, tmp_path, text):
    (tmp_path / "cells.csv").write_text(text)
    for name in ("out.csv", "out.parquet"):
        result = run("predict", folder, tmp_path / "cells.csv", "--out", tmp_path / name)
        assert result.code == 0, result.err
    assert pd.read_csv(tmp_path / "out.csv").columns.tolist() == ["author", "word", "year", *NEW]
    assert pd.read_parquet(tmp_path / "out.parquet").shape == (0, 7)


@pytest.mark.parametrize(
    ("column", "label"),
    [("author", "nobody"), ("year", "1999"), ("year", "MMX"), ("year", "02003")],
)
def test_unknown_labels_are_an_error_or_an_average(run, folder, model, frame, column, label):
    row = frame.drop(columns="count").iloc[[0]].astype(object)
    row[column] = label
    text = pd.concat([frame.drop(columns="count").iloc[:2], row, row]).to_csv(index=False)
    result = run("predict", folder, "-", stdin=text)
    assert result.code == 2
    assert result.err.count(label) == 1
    assert "row 3" in result.err
    assert "prior" in result.err
    result = run("predict", folder, "-", "--unknown", "prior", stdin=text)
    assert result.code == 0
    found = pd.read_csv(io.StringIO(result.out))
    if column == "author":
        row["year"] = row["year"].astype(int)
        assert found["mean"].iloc[2] == model.predict(row, unknown="prior")[0]
    assert found["mean"].iloc[2] != found["mean"].iloc[0]


def test_nothing_is_written_if_a_late_row_is_bad(run, folder, cells, tmp_path):
    bad = pd.concat([cells, cells.iloc[[0]].assign(word="nowhere")])
    bad.to_csv(tmp_path / "cells.csv", index=False)
    (tmp_path / "out.csv").write_text("before")
    result = run("predict", folder, tmp_path / "cells.csv", "--out", tmp_path / "out.csv")
    assert result.code == 2
    assert (tmp_path / "out.csv").read_text() == "before"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["cells.csv", "out.csv"]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("author,word\nx,y\n", (), "no column 'year'"),
        ("author,word,year\n-dash,,2003\n", (), "row 1"),
        ("author,word,year,mean\n-dash,w01,2003,1\n", (), "column 'mean'"),
        ("author,word,year\n-dash,w01,2003\n", ("--level", "1.5"), "`level`"),
        ("author,word,year\n-dash,w01,2003\n", ("--unknown", "skip"), "`unknown`"),
        ("author,word,year\n-dash,w01,2003\n", ("--out", "x.npz"), ".npz"),
        ("author,word,year\n-dash,w01,2003\n", ("--out", "no/such/x.csv"), "no/such"),
    ],
)
def test_bad_input_is_code_2(run, folder, text, arguments, words):
    result = run("predict", folder, "-", *arguments, stdin=text)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert "Traceback" not in result.err


def test_a_prefix_makes_room_beside_columns_of_the_same_names(run, folder):
    text = "mean,author,word,year\n7,-dash,w01,2003\n"
    result = run("predict", folder, "-", "--prefix", "said_", stdin=text)
    assert result.out.splitlines()[0].replace('"', "").startswith("mean,author,word,year,said_mean")


def test_a_folder_that_is_no_model_is_code_2(run, tmp_path):
    result = run("predict", tmp_path / "gone", "-", stdin="a\n")
    assert result.code == 2
    assert "no folder" in result.err


def test_columns_that_differ_in_case_only_are_kept(run, folder):
    text = "author,Author,word,year\n-dash,x,w01,2003\n"
    result = run("predict", folder, "-", stdin=text)
    assert result.code == 0
    assert pd.read_csv(io.StringIO(result.out))["Author"].tolist() == ["x"]


def test_dates_are_found_and_binned(run, tmp_path):
    days = [dt.date(2024, 1 + n % 3, 1 + n) for n in range(12)]
    frame = pd.DataFrame({"who": ["ann", "bob"] * 6, "day": days, "n": range(1, 13)})
    exact = tf.CountTensor.from_frame(frame, axes=["who", "day"], value="n")
    tf.Constant().fit(exact).save(tmp_path / "exact")
    months = tf.CountTensor.from_frame(frame, ["who", "day"], "n", bins={"day": "month"})
    tf.Constant().fit(months).save(tmp_path / "months")
    text = "who,day\nann,2024-01-01\n"
    assert run("predict", tmp_path / "exact", "-", stdin=text).code == 0
    plain = run("predict", tmp_path / "months", "-", stdin=text)  # it remembers its bins
    result = run("predict", tmp_path / "months", "-", "--bin", "day=month", stdin=text)
    assert (result.code, result.out) == (0, plain.out)
    assert '"2024-01-01"' in result.out  # the column itself stays


def test_a_model_without_a_distribution_gives_means(run, tensor, tmp_path):
    model = tf.NTFLS(n_components=1, max_iter=3).fit(tensor)
    model.save(tmp_path / "m")
    text = tensor.to_frame().iloc[:3].to_csv(index=False)
    result = run("predict", tmp_path / "m", "-", stdin=text)
    assert result.err == "tallyfold: ntf-ls predicts means only: no median, low or high.\n"
    found = pd.read_csv(io.StringIO(result.out))
    assert found.columns.tolist() == ["author", "word", "year", "count", "mean"]
    np.testing.assert_allclose(found["mean"], model.predict(tensor)[:3], rtol=1e-14)


def test_messages_call_standard_input_by_its_name(run, folder):
    for text in ("", "author,word,year\n-dash,w01\n"):
        result = run("predict", folder, "-", stdin=text)
        assert result.code == 2
        assert "standard input" in result.err
        assert "standard-input" not in result.err
        assert "/" not in result.err


def test_head_ends_it_quietly(folder, frame, tmp_path):
    many = pd.concat([frame] * 8)
    many.to_csv(tmp_path / "cells.csv", index=False)
    arguments = ["predict", str(folder), str(tmp_path / "cells.csv")]
    command = [sys.executable, "-m", "tallyfold", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'"author"')
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=60)
    assert process.returncode == 141


def test_rows_that_csv_cannot_hold_are_refused(tmp_path):
    import pyarrow as pa

    with pytest.raises(FormatError, match="cannot be written as CSV"):
        row_files.write_rows(iter([pa.table({"a": [[1, 2]]})]), tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1"]


@pytest.mark.parametrize("verb", ["predict", "surprise"])
def test_labels_that_are_formulas_get_a_quote_on_request(verb, run, tmp_path):
    names = [*FORMULAS, "plain", "-3"]
    table = pd.DataFrame({"who": names, "=what": ["u", "v"] * 3 + ["u"], "n": 1})
    tensor = tf.CountTensor.from_frame(table, axes=["who", "=what"], value="n")
    tf.BPTF(n_components=1, max_iter=2, validation=None).fit(tensor).save(tmp_path / "m")
    table.to_csv(tmp_path / "cells.csv", index=False)
    more = ["--value", "n"] if verb == "surprise" else []
    given = (verb, tmp_path / "m", tmp_path / "cells.csv", *more, "--out")
    assert run(*given, tmp_path / "plain.csv").code == 0
    assert set(pd.read_csv(tmp_path / "plain.csv")["who"]) == set(names)
    assert run(*given, tmp_path / "safe.csv", "--safe-cells").code == 0
    safe = pd.read_csv(tmp_path / "safe.csv")
    assert set(safe["who"]) == {*[f"'{name}" for name in FORMULAS], "plain", "-3"}
    assert "'=what" in safe.columns
    result = run(*given, tmp_path / "x.parquet", "--safe-cells")
    assert (result.code, "is for rows written as CSV or TSV" in result.err) == (2, True)


def test_rows_of_a_query_come_back_with_all_their_columns(run, folder, model, cells, tmp_path):
    database = tmp_path / "cells.db"
    with sqlite3.connect(database) as connection:
        cells.to_sql("cells", connection, index=False)
    connection.close()
    out = tmp_path / "out.parquet"
    asked = ("--query", "SELECT note, * FROM (SELECT * FROM cells)", "--database", database)
    result = run("predict", folder, *asked, "--out", out)
    assert result.code == 2
    assert "must give each column a name of its own; it gives 'note'" in result.err
    asked = ("--query", "SELECT * FROM cells", "--database", database)
    assert run("predict", folder, *asked, "--out", out).code == 0
    found = pd.read_parquet(out)
    assert found.columns.tolist() == [*cells.columns, *NEW]
    np.testing.assert_allclose(found["mean"], model.predict(cells), rtol=1e-14)
    assert "--query takes the place of files" in run("predict", folder, "x.csv", *asked).err
    assert "there is nothing to read" in run("predict", folder).err
    none = ("--query", "SELECT * FROM cells WHERE 1 = 0", "--database", database)
    assert "the query gives no rows" in run("predict", folder, *none).err


def test_the_probability_of_a_count_stands_beside(run, tmp_path):
    tensor = tf.simulate((12, 10, 6), n_components=2, density=0.3).tensor
    model = tf.BPTF(zeros="observed", n_components=2, max_iter=5).fit(tensor)
    model.save(tmp_path / "m")
    rows = tensor.to_frame().drop(columns="count")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = run("predict", tmp_path / "m", tmp_path / "rows.csv")
    found = pd.read_csv(io.StringIO(result.out))
    assert found.columns.tolist() == [*tensor.names, "probability", *NEW]
    np.testing.assert_allclose(found["probability"], model.probability(rows), rtol=1e-12)
