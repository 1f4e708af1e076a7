"""What goes in by the command line: repeated cells, missing labels, queries, standard input."""

import json
import sqlite3
import sys
from pathlib import Path

import pytest

import tallyfold as tf

STARS = "who,film,stars\nann,Heat,5\nann,Heat,3\n,Heat,4\nbob,Alien,\ncem,Alien,2\nbob,Heat,1\n"
READ = ("--axes", "who,film", "--value", "stars")


@pytest.fixture
def stars(tmp_path):
    (tmp_path / "stars.csv").write_text(STARS)
    return tmp_path / "stars.csv"


@pytest.mark.parametrize(("repeated", "total"), [("sum", 11), ("mean", 7), ("last", 6), ("max", 8)])
def test_repeated_and_missing_rows(run, stars, repeated, total):
    done = run("describe", stars, *READ, "--missing", "drop", "--repeated", repeated, "--json")
    assert json.loads(done.out)["total"] == total
    assert json.loads(done.out)["dropped"] == ["missing in who (1), stars (1): dropped 2 rows"]


@pytest.mark.filterwarnings("default::tallyfold.errors.RoundedWarning")
def test_a_mean_that_is_rounded_is_said(run, tmp_path):
    (tmp_path / "x.csv").write_text("who,film,stars\nann,Heat,5\nann,Heat,4\nbob,Heat,1\n")
    done = run("describe", tmp_path / "x.csv", *READ, "--repeated", "mean")
    assert done.err.count("the means of 1 of 1 cells with several rows are not whole") == 1


def test_missing_rows_are_refused_with_the_option_that_helps(run, stars):
    done = run("describe", stars, *READ)
    assert done.code == 2
    assert "the table has 2 problems" in done.err
    assert "(Here: --missing drop, --missing label.)" in done.err
    done = run("describe", stars, *READ, "--missing", "skip")
    assert done.code == 2
    assert "must be 'error', 'drop' or 'label'; got 'skip'. (Here: --missing.)" in done.err
    done = run("describe", stars, "--axes", "who,film", "--missing", "drop", "--repeated", "error")
    assert done.code == 2
    assert "(Here: --repeated sum, mean, last or max.)" in done.err


def test_what_is_left_out_is_said_by_verbs_that_compare(run, frame, folder, tmp_path):
    rows = frame.astype(object)
    rows.loc[0, rows.columns[0]] = None
    rows.to_csv(tmp_path / "x.csv", index=False)
    done = run("score", folder, tmp_path / "x.csv", "--value", "count", "--missing", "drop")
    assert (done.code, done.err) == (
        0, f"tallyfold: left out: missing in {rows.columns[0]} (1): dropped 1 row\n"
    )  # fmt: skip


@pytest.fixture
def shop(tmp_path, frame):
    """A database of the counts that the model was fitted on."""
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        frame.to_sql("counts", connection, index=False)
    connection.close()
    return tmp_path / "shop.db"


ASK = ("--query", "SELECT * FROM counts")
COUNTED = ("--axes", "author,word,year", "--value", "count")
SMALL = ("--set", "max_iter=2", "--set", "n_components=1")


def test_verbs_ask_databases(run, shop, tensor, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = (*ASK, "--database", shop)
    assert json.loads(run("describe", *asked, *COUNTED, "--json").out)["total"] == tensor.total
    assert run("convert", "x.npz", *asked, *COUNTED).code == 0
    assert tf.read_counts("x.npz").total == tensor.total
    assert run("split", "a.npz", "b.npz", *asked, *COUNTED).code == 0
    assert tf.read_counts("a.npz").nnz + tf.read_counts("b.npz").nnz == tensor.nnz
    fast = ("--model", "bptf", *SMALL)
    assert run("fit", *asked, *COUNTED, *fast, "--out", "m").code == 0
    assert tf.load("m").axes_[0] == tensor.axes[0]
    few = ("--models", "bptf", *SMALL, "--json")
    assert "bptf" in json.loads(run("compare", *asked, *COUNTED, *few).out)
    searched = ("--model", "bptf", "--set", "max_iter=2", "--folds", "2", "--json")
    ranked = run("rank", *asked, *COUNTED, *searched, "--ranks", "1")
    assert json.loads(ranked.out)["chosen"] == 1
    tried = ("--choices", "n_components=1", "--trials", "1")
    assert run("tune", *asked, *COUNTED, *searched, *tried).code == 0
    value = ("--value", "count")
    train = ("--train", "a.npz")
    assert json.loads(run("score", folder, *asked, *value, "--json").out)["cells"] == tensor.nnz
    assert run("score", folder, *asked, *value, *train).code == 2  # --value is for tables
    odd = json.loads(run("surprise", folder, *asked, *value, "--json").out)
    assert odd["cells"] == tensor.nnz
    told = run("explain", folder, "--component", "0", *asked, *value, "--json")
    assert json.loads(told.out)["examples"]
    assert run("explain", folder, *asked, *value).code == 2  # of one --component
    edited = run("edit", folder, "--rename", "0=x", *asked, *value, "--out", "edited")
    assert "score on held-out cells" in edited.out
    assert run("report", folder, *asked, *value, "--out", "page.html").code == 0
    assert '"held_out":{' in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--query", "SELECT 1"), "--query SQL and --database URI go together"),
        (("--database", "x.db"), "--query SQL and --database URI go together"),
        ((), "there is nothing to read: name a file"),
        (("DB", *ASK), "--query needs --axes"),
        (("DB", *ASK, *COUNTED, "file.csv"), "--query takes the place of files; got 'file.csv'"),
        (("DB", *ASK, *COUNTED, "--delimiter", ";"), "--delimiter is for files"),
        (("DB", "--query", "SELECT nobody FROM x", *COUNTED), "(Here: --query SQL.)"),
        (("--database", "mysql://x", *ASK, *COUNTED), "(Here: --database URI.)"),
    ],
)
def test_what_cannot_be_asked(run, shop, given, told):
    words = [word for one in given for word in (("--database", shop) if one == "DB" else (one,))]
    done = run("describe", *words)
    assert done.code == 2
    assert told in done.err


@pytest.mark.parametrize(
    ("name", "text", "given", "told"),
    [
        ("x.csv", "who,day\na,13/02/2024\n", (), "dateformat='%d/%m/%Y'"),
        ("x.csv", "who,day\na,1707177600\n", (), "unit='s' seconds since 1970"),
        ("x.json", '[{"who": "a"}]', (), "select * from 'FILE'"),
        ("x.csv", "who\tday\na\t2024-02-13\n", (), r"say delimiter='\t'"),
        ("x.csv", "who\tday\na\t2024-02-13\n", ("--delimiter", r"\t"), ""),
    ],
)
def test_tables_written_otherwise_are_told_the_way(run, tmp_path, name, text, given, told):
    (tmp_path / name).write_text(text)
    found = run("describe", tmp_path / name, "--axes", "who,day", "--bin", "day=month", *given)
    assert found.code == (2 if told else 0)
    assert told in found.err


def test_other_dates_and_json_come_by_a_query(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("who,day\na,13/02/2024\nb,01/03/2024\n")
    Path("x.json").write_text(
        '[{"who": "a", "day": "2024-02-13"}, {"who": "b", "day": "2024-03-01"}]'
    )
    for source in ("read_csv('x.csv', dateformat='%d/%m/%Y')", "'x.json'"):
        asked = ("--query", f"select * from {source}", "--database", ":memory:")
        months = ("--axes", "who,day", "--bin", "day=month")
        assert run("convert", "x.npz", *asked, *months).code == 0
        assert tf.read_counts("x.npz").labels("day") == ["2024-02", "2024-03"]


def test_standard_input_is_converted_and_split(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = "who,what\nann,call\nbob,mail\nann,call\nbob,call\nann,mail\n"
    axes = ("--axes", "who,what")
    assert run("convert", "-", "x.npz", *axes, stdin=table).code == 0
    assert tf.read_counts("x.npz").total == 5
    done = run("split", "-", "a.npz", "b.npz", *axes, "--cells", "nonzero", stdin=table)
    assert (done.code, done.out.count("wrote")) == (0, 2)


def test_places_to_write_must_be_named(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "IN OUT must be named; got x.npz" in run("convert", "x.npz").err
    asked = (*ASK, "--database", "shop.db")
    assert "OUT must be named; got a.csv b.npz" in run("convert", "a.csv", "b.npz", *asked).err
    assert "IN TRAIN TEST must be named; got a b" in run("split", "a", "b").err


def test_several_files_are_converted_together(run, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("who,what\nann,call\nbob,mail\n")
    files = [tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "x.npz"]
    assert run("convert", *files, "--axes", "who,what").code == 0
    assert tf.read_counts(tmp_path / "x.npz").counts.tolist() == [2, 2]


@pytest.mark.parametrize("verb", ["tune", "rank"])
def test_copies_are_held_out_together(run, events, verb, tmp_path, monkeypatch):
    from tallyfold.evaluation.search import cross_validation

    monkeypatch.chdir(tmp_path)
    cut = []
    real = cross_validation.k_folds
    monkeypatch.setattr(
        cross_validation, "k_folds", lambda *a, **how: cut.append(how) or real(*a, **how)
    )
    more = {"tune": ("--choices", "n_components=1", "--trials", "1"), "rank": ("--ranks", "1")}
    fast = ("--model", "bptf", "--set", "max_iter=2", "--folds", "2", "--holdout", "0.2")
    done = run(verb, events, *COUNTED, *fast, *more[verb], "--copies", "word")
    assert done.code == 0
    assert cut[0]["groups"].axis == "word"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("nowhere.csv", *READ), "there is no file 'nowhere.csv'"),
        (("stars.csv", *READ), "the table has 2 problems"),
        (("stars.csv", *READ, "--missing", "drop", "--model", "ptf-kl"), "one process only"),
        (("stars.csv", *READ, "--missing", "drop", "--set", "prior_shape=-1"), "prior_shape"),
        (("-", *READ), "standard input ('-') cannot be shared"),
        (("--database", "none.db", *ASK, *COUNTED), "there is no file 'none.db'"),
    ],
)
def test_bad_input_is_said_before_processes_start(run, stars, monkeypatch, given, told):
    monkeypatch.chdir(stars.parent)
    started = []
    monkeypatch.setattr(sys.modules["tallyfold.cli.fit"], "run_in", started.append)
    done = run("fit", *given, "--processes", "2", "--out", "m")
    assert (done.code, started) == (2, [])
    assert done.err.count("tallyfold:") == 1
    assert told in done.err
    good = ("fit", "stars.csv", *READ, "--missing", "drop")
    assert run(*good, "--processes", "2", "--out", "m").code == 0
    assert started == [2]


def test_a_fit_without_room_is_refused_before_it_begins(run, events, tmp_path, monkeypatch):
    monkeypatch.setenv("TALLYFOLD_MEMORY", "100KB")
    done = run("fit", events, *COUNTED, "--zeros", "missing", "--out", tmp_path / "m")
    assert done.code == 2
    assert "KB of memory beside the counts; there are 100.0 KB." in done.err
    assert "(Here: --top AXIS=N, --min-nonzeros AXIS=N, --components K.)" in done.err
    assert not (tmp_path / "m" / "model.json").exists()
    fewer = ("--top", "author=2", "--components", "1", "--set", "max_iter=2")
    more = ("--zeros", "missing", "--set", "amount=negative-binomial")
    assert run("fit", events, *COUNTED, *fewer, *more, "--out", tmp_path / "m").code == 0
