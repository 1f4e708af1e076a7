"""What empty cells are: decided by the counts if nobody says, the same for all, told in a line."""

import json

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf

AXES = ("--axes", "author,word,year", "--value", "count")
QUICK = ("--components", "2", "--max-iter", "4")
SAID = {
    "observed": "tallyfold: the table is taken as complete, so cells without an entry are zeros; "
    "if not so, --zeros missing.\n",
    "missing": "tallyfold: the values look like ratings, so cells without an entry are missing, "
    "not zeros; if not so, --zeros observed.\n",
}


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"author": rng.integers(0, 60, 1500), "word": rng.integers(0, 40, 1500)})
    frame = frame.drop_duplicates().assign(year=2000)
    frame["count"] = rng.choice([1, 2, 3, 4, 5], len(frame), p=[0.05, 0.1, 0.2, 0.4, 0.25])
    file = tmp_path_factory.mktemp("data") / "stars.parquet"
    frame.to_parquet(file)
    return file


@pytest.fixture
def files(events, ratings):
    return {"observed": events, "missing": ratings}


@pytest.mark.parametrize("model", ["vae-bptf", "bptf"])
@pytest.mark.parametrize("zeros", SAID)
def test_fit_says_it_once_and_keeps_it(run, files, tmp_path, model, zeros):
    given = ("fit", files[zeros], *AXES, *QUICK, "--model", model)
    result = run(*given, "--holdout", "0.2", "--out", tmp_path / "m")
    assert (result.code, result.err) == (0, SAID[zeros])
    assert f"held-out cells, zeros {zeros}" in result.out
    model = tf.load(tmp_path / "m")
    gate = "" if model.gate_ is None else f", gate {' x '.join(model.gate_)}"
    assert f"year {1 if zeros == 'missing' else 8}, zeros {zeros}{gate}\n" in result.out
    assert model.zeros == zeros
    result = run(*given, "--json", "--out", tmp_path / "json")
    assert result.err == ""
    assert json.loads(result.out)["parameters"]["zeros"] == zeros


@pytest.mark.parametrize("given", [("--zeros", "missing"), ("--set", "zeros=missing")])
def test_who_chooses_is_not_told(run, events, tmp_path, given):
    result = run("fit", events, *AXES, *QUICK, *given, "--out", tmp_path / "m")
    assert (result.code, result.err) == (0, "")
    assert tf.load(tmp_path / "m").zeros == "missing"


def test_auto_may_be_said(run, events, tmp_path):
    result = run("fit", events, *AXES, *QUICK, "--zeros", "auto", "--out", tmp_path / "m")
    assert (result.code, result.err) == (0, SAID["observed"])
    result = run("fit", events, *AXES, "--zeros", "some", "--out", tmp_path / "m2")
    assert result.code == 2
    assert "zeros must be 'auto' or 'missing' or 'observed'; got 'some' from --zeros" in result.err


def test_a_file_of_parameters_may_say_it(run, events, tmp_path):
    (tmp_path / "model.toml").write_text('[model]\nzeros = "missing"\n')
    given = ("--config", tmp_path / "model.toml", "--out", tmp_path / "m")
    assert run("fit", events, *AXES, *QUICK, *given).err == ""
    assert tf.load(tmp_path / "m").zeros == "missing"


def test_a_scale_is_for_ratings(run, ratings, tmp_path):
    few = pd.read_parquet(ratings)[:60]  # of which nobody could tell
    few.to_parquet(tmp_path / "few.parquet")
    given = ("fit", tmp_path / "few.parquet", *AXES, *QUICK)
    assert run(*given, "--out", tmp_path / "m").err == SAID["observed"]
    result = run(*given, "--scale", "1-5", "--out", tmp_path / "m2")
    assert result.err == SAID["missing"]


@pytest.mark.parametrize("zeros", SAID)
def test_compare_gives_all_models_the_same(run, files, tmp_path, zeros):
    given = ("compare", files[zeros], *AXES, *QUICK, "--models")
    result = run(*given, "vae-bptf,bptf,margins", "--out", tmp_path / "rows")
    assert result.code == 0
    assert result.err.startswith(SAID[zeros])
    assert result.err.count("tallyfold:") == 1
    assert f"zeros {zeros}" in result.out
    rows = pd.concat([pd.read_parquet(file) for file in (tmp_path / "rows").glob("*.parquet")])
    assert set(rows["zeros"]) == {zeros}
    assert len(set(rows["model"])) == 5
    other = "missing" if zeros == "observed" else "observed"
    result = run(*given, "bptf", "--zeros", other)
    assert "tallyfold:" not in result.err
    assert f"zeros {other}" in result.out
    assert "tallyfold:" not in run(*given, "bptf", "--json").err


def test_compare_of_floors_alone(run, events):
    result = run("compare", events, *AXES, "--models", "constant")
    assert "zeros observed" in result.out
    result = run("compare", events, *AXES, "--models", "constant", "--zeros", "none")
    assert result.code == 2


@pytest.mark.parametrize(
    "verb", [("rank", "--ranks", "1,2"), ("tune", "--choices", "n_components=1")]
)
def test_searches_decide_and_say_it(run, events, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    name, *more = verb
    given = (name, events, *AXES, "--model", "bptf", "--set", "max_iter=3", "--folds", "2", *more)
    result = run(*given)
    assert result.code == 0
    assert result.err.startswith(SAID["observed"])
    assert "Held-out log-score" in result.out
    result = run(*given, "--zeros", "missing")
    assert "tallyfold:" not in result.err
    assert "Held-out log-pmf-positive" in result.out


@pytest.mark.parametrize(("zeros", "cells"), [("observed", "all"), ("missing", "nonzero")])
def test_split_hides_empty_cells_where_they_are_zeros(run, files, tmp_path, zeros, cells):
    parts = [tmp_path / "train.npz", tmp_path / "test.npz"]
    result = run("split", files[zeros], *parts, *AXES)
    assert result.code == 0
    assert result.err.count("\n") == 1
    other = "nonzero" if cells == "all" else "all"
    assert f"if not so, --cells {other}." in result.err
    whole = tf.read_counts(files[zeros], axes=["author", "word", "year"], value="count")
    wanted = tf.split(whole, 0.2, cells=cells, random_state=0)
    for file, part in zip(parts, wanted, strict=True):
        found = tf.read_counts(file)
        assert np.array_equal(found.indices, part.indices)
        assert (found.part is None) == (cells == "nonzero")
    assert run("split", files[zeros], *parts, *AXES, "--cells", cells).err == ""


@pytest.mark.parametrize("zeros", SAID)
def test_describe_tells_what_auto_would_take(run, files, zeros):
    result = run("describe", files[zeros], *AXES)
    other = "missing" if zeros == "observed" else "observed"
    assert f"--zeros {other}" in result.out
    assert json.loads(run("describe", files[zeros], *AXES, "--json").out)["zeros"] == zeros


def test_what_needs_missing_zeros_names_the_option(run, events, tmp_path):
    given = ("--set", "likelihood=auto", "--out", tmp_path / "m")
    result = run("fit", events, *AXES, *QUICK, *given)
    assert result.code == 2
    assert "likelihood='auto' has no effect with observed zeros" in result.err
    assert "(Here: --zeros missing.)" in result.err
    assert run("fit", events, *AXES, *QUICK, *given, "--zeros", "missing").code == 0
