"""``tallyfold tune`` and ``tallyfold rank``, run in this process as a person would type them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.evaluation.search.cross_validation import CrossValidation

QUICK = ("--model", "bptf", "--folds", "2", "--set", "max_iter=3", "--set", "validation=null")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Be in a folder of one's own: searches leave a file where they are made."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def counts(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("data") / "counts.parquet"
    truth = tf.simulate((15, 10, 6), 2, density=0.3, axes=("user", "page", "day"))
    tf.write_counts(truth.tensor, file)
    return file


def interrupted_at(monkeypatch, number: int) -> None:
    """Press Ctrl-C in the fit of this number, from 0 on; the others cost nothing."""
    calls = iter(range(1000))

    def scored(self, parameters, fold):
        if next(calls) == number:
            raise KeyboardInterrupt
        return -1.0 * parameters["n_components"] - fold

    monkeypatch.setattr(CrossValidation, "score", scored)


@pytest.mark.parametrize("verb", ["tune", "rank"])
def test_help_has_examples(run, verb):
    result = run(verb, "--help")
    assert result.code == 0
    assert f"tallyfold {verb} events.parquet" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_tune_finds_and_writes_the_best(run, counts, tmp_path):
    out = tmp_path / "best.json"
    choices = ("--choices", "n_components=1,2", "--choices", "likelihood=poisson")
    result = run(
        "tune",
        counts,
        "--axes",
        "user,page,day",
        "--value",
        "count",
        *QUICK,
        *choices,
        "--zeros",
        "missing",
        "--out",
        out,
    )
    assert result.code == 0
    assert "Held-out log-pmf-positive over 2 folds" in result.out
    assert "trial 2 of 2: complete" in result.err  # a log where there is no terminal
    document = json.loads(out.read_text())
    assert document["parameters"]["max_iter"] == 3
    assert document["parameters"]["zeros"] == "missing"
    assert f"best: n_components={document['parameters']['n_components']}" in result.out
    tf.MODELS[document["model"]](**document["parameters"]).fit(tf.read_counts(counts))


def test_tune_as_json_goes_on_in_its_storage(run, counts, tmp_path):
    space = tmp_path / "space.json"
    space.write_text(json.dumps({"prior_shape": ["log", 0.1, 10.0]}))
    arguments = (
        "tune", counts, *QUICK, "--space", space, "--trials", 2, "--metric", "mae-mean",
        "--holdout", 0.3, "--storage", tmp_path / "s.db", "--json",
    )  # fmt: skip
    first = json.loads(run(*arguments).out)
    assert first["trials"]["complete"] == 2
    assert first["score"] == min(row["mean"] for row in first["rows"])
    again = run(*arguments)
    assert json.loads(again.out) == first
    assert again.err == ""  # nothing was run
    other = run(*arguments, "--study", "mine")
    assert json.loads(other.out)["score"] == first["score"]
    refused = run(*arguments, "--study", "mine", "--seed", 1)
    assert refused.code == 2
    assert "study 'mine' in" in refused.err
    assert "is of another call: its tensor was" in refused.err


def test_tune_says_how_to_go_on_after_an_interrupt(run, counts, tmp_path, monkeypatch):
    arguments = ("tune", counts, *QUICK, "--choices", "n_components=1,2,3")
    kept = ("--out", tmp_path / "best.json")
    interrupted_at(monkeypatch, 3)
    result = run(*arguments, *kept)
    assert result.code == 130
    assert "interrupted; run the same command to go on" in result.err
    assert "best: n_components=" in result.out
    assert (tmp_path / "best.json").exists()
    ended = run(*arguments, *kept)
    assert ended.code == 0
    assert [int(n) for n in re.findall(r"trial (\d) of 3: complete", ended.err)] == [2, 3]
    assert "trials are kept in 'tallyfold-search.db'" in ended.out
    assert (tmp_path / "tallyfold-search.db").exists()
    interrupted_at(monkeypatch, 0)
    empty = run(*arguments, "--storage", tmp_path / "s.db", "--study", "new", "--json")
    assert empty.code == 130
    assert json.loads(empty.out) == {"rows": []}


def test_tune_in_which_all_trials_fail(run, counts):
    result = run(
        "tune", counts, *QUICK, "--set", "zeros=observed", "--choices",
        "likelihood=negative-binomial",
    )  # fmt: skip
    assert result.code == 1
    assert "failed: with zeros='observed' the likelihood must be" in result.out
    assert "there is no best" in result.out


def test_rank_chooses_writes_and_draws(run, counts, tmp_path):
    table, figure, kept = (tmp_path / name for name in ("r.csv", "r.png", "r.json"))
    arguments = ("rank", counts, *QUICK, "--ranks", "1,2", "--keep", kept)
    result = run(*arguments, "--out", table, "--plot", figure)
    assert result.code == 0
    assert "chosen: " in result.out
    assert "2 components, fold 2 of 2: -" in result.err
    assert pd.read_csv(table)["components"].tolist() == [1, 2]
    assert figure.read_bytes()[:4] == b"\x89PNG"
    again = json.loads(run(*arguments, "--json").out)
    assert f"chosen: {again['chosen']} component" in result.out
    assert [row["components"] for row in again["table"]] == [1, 2]


def test_rank_by_stability(run, counts):
    arguments = ("rank", counts, *QUICK, "--ranks", "1,2", "--stability")
    found = json.loads(run(*arguments, "--json").out)
    assert all(0 < row["stability"] <= 1 for row in found["table"])
    shown = run(*arguments)
    assert "stability" in shown.out
    assert f"chosen: {found['chosen']} component" in shown.out
    assert "exclude each other" in run(*arguments, "--best").err


def test_rank_says_how_to_go_on_after_an_interrupt(run, counts, tmp_path, monkeypatch):
    arguments = ("rank", counts, *QUICK, "--ranks", "1,2")
    interrupted_at(monkeypatch, 3)
    result = run(*arguments, "--keep", tmp_path / "r.json")
    assert result.code == 130
    assert "run the same command to go on" in result.err
    assert "chosen: 1 component (best: 1)" in result.out
    assert run(*arguments, "--keep", tmp_path / "r.json").code == 0
    interrupted_at(monkeypatch, 0)
    assert "nothing was kept. Use --keep FILE" in run(*arguments).err
    interrupted_at(monkeypatch, 1)
    early = run(*arguments, "--keep", tmp_path / "new.json")
    assert early.code == 130
    assert "run the same command" in early.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tune", "--model", "bpft"), "--model must be one of vae-bptf, .*; got 'bpft'"),
        (("tune", "--set", "max_iter"), "--set wants"),
        (
            ("tune", "--model", "bptf", "--set", "maxiter=3"),
            "is no parameter of bptf. Did you mean 'max_iter'",
        ),
        (("tune", "--model", "bptf", "--choices", "n_components=0"), "must be a positive integer"),
        (("tune", "--space", "no-such"), "--space must be a JSON file or one of"),
        (("tune", "--out", "no/such/folder.json"), "--out must be a file in a folder"),
        (("tune", "--metric", "luck"), "`metric` must be one of"),
        (("tune", "--axes", "user,nothing", "--value", "count"), "nothing"),
        (("rank", "--ranks", "1,two"), "--ranks wants whole numbers such as 1,2,5,10; got '1,two'"),
        (("rank", "--model", "constant"), "constant has no components"),
        (("rank", "--plot", "curve.doc"), "--plot must end in .png"),
        (("rank", "--holdout", "1.5"), "--holdout must be a share between 0 and 1; got 1.5"),
        (("tune", "--test-size", "-1"), "--holdout must be a share between 0 and 1; got -1"),
    ],
)
def test_bad_input_is_exit_code_2(run, counts, arguments, message):
    verb, *rest = arguments
    result = run(verb, counts, *rest)
    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    assert re.search(message, result.err), result.err


def test_help_needs_no_heavy_package():
    script = (
        "import sys; import tallyfold.cli.search;"
        "print([n for n in ('optuna', 'numpy', 'pandas', 'matplotlib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"
