"""The command line, run in this process as a person would type it."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from tests.cli.conftest import Run

import tallyfold as tf
from tallyfold.cli import app
from tallyfold.data.demo import load_demo

VERBS = tuple(
    (command.name or command.callback.__name__).replace("_", "-")
    for command in app.registered_commands
)


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "user": ["ann", "ann", "bob", "çem", "[red]x[/]"],
            "item": ["tea", "milk", "tea", "tea", "two\nlines"],
            "day": ["2024-01-03", "2024-02-01", "2024-02-02", "2024-02-03", "2024-02-28"],
            "n": [3, 1, 1, 12, 1],
        }
    )


@pytest.fixture
def parquet(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "some events.parquet"
    frame.to_parquet(path)
    return path


@pytest.fixture
def csv(frame: pd.DataFrame, tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    frame.to_csv(path, index=False)
    return path


def test_help_names_every_verb(run: Run) -> None:
    result = run("--help")
    assert result.code == 0
    assert all(verb in result.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_an_example(run: Run, verb: str) -> None:
    result = run(verb, "--help")
    assert result.code == 0
    assert "Example" in result.out
    assert f"tallyfold {verb}" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"tallyfold {tf.__version__}\n", "")


def test_python_m_is_the_command() -> None:
    command = [sys.executable, "-m", "tallyfold", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"tallyfold {tf.__version__}\n"


def test_describe_parquet(run: Run, parquet: Path) -> None:
    result = run("describe", parquet, "--axes", "user,item", "--value", "n")
    assert (result.code, result.err) == (0, "")
    assert "user x item: 4 x 3" in result.out
    assert "total 18," in result.out
    assert "most frequent 1" in result.out
    assert "çem" in result.out
    assert "[red]x[/]" in result.out
    assert "two\\nlines" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_describe_csv_counts_rows(run: Run, csv: Path) -> None:
    result = run("describe", csv, "--axes", "user, item")
    assert result.code == 0
    assert "total 5," in result.out


def test_describe_json(run: Run, parquet: Path, frame: pd.DataFrame) -> None:
    result = run(
        "describe", parquet, "--axes", "user,item,day", "--value", "n", "--bin", "day=month",
        "--min-nonzeros", "item=2", "--json", "--busiest", "1",
    )  # fmt: skip
    assert result.code == 0
    facts = json.loads(result.out)
    assert facts["shape"] == [3, 1, 2]
    assert (facts["cells"], facts["total"], facts["most_frequent"]) == (3, 16, 1)
    assert sum(row["cells"] for row in facts["histogram"]) == 3
    user, item, day = facts["axes"]
    assert (user["name"], user["one_cell"], user["no_cell"]) == ("user", 3, 0)
    assert item["busiest"] == [{"label": "tea", "total": 16, "cells": 3}]
    assert day["busiest"][0]["label"] == "2024-02"
    assert len(facts["dropped"]) == 1
    assert facts["bytes"] > 0


def test_describe_groups_large_counts(run: Run, tmp_path: Path) -> None:
    counts = [*range(1, 12), 99, 2500]
    frame = pd.DataFrame({"a": range(13), "b": [0] * 13, "n": counts})
    frame.to_parquet(tmp_path / "x.parquet")
    result = run("describe", tmp_path / "x.parquet", "--axes", "a,b", "--value", "n", "--json")
    rows = {(row["from"], row["to"]): row["cells"] for row in json.loads(result.out)["histogram"]}
    assert rows[(5, 5)] == 1
    assert rows[(6, 10)] == 5
    assert rows[(11, 100)] == 2
    assert rows[(101, 1000)] == 0
    assert rows[(1001, 10000)] == 1


def test_describe_several_files_and_a_glob(run: Run, csv: Path, frame: pd.DataFrame) -> None:
    other = csv.with_name("events2.csv")
    frame.to_csv(other, index=False)
    for files in ([csv, other], [csv.parent / "events*.csv"]):
        result = run("describe", *files, "--axes", "user,item", "--value", "n", "--json")
        assert json.loads(result.out)["total"] == 36


def test_describe_reports_zeros_that_were_dropped(
    run: Run, frame: pd.DataFrame, tmp_path: Path
) -> None:
    frame.assign(n=[0, 1, 1, 1, 1]).to_parquet(tmp_path / "x.parquet")
    result = run("describe", tmp_path / "x.parquet", "--axes", "user,item", "--value", "n")
    assert (result.code, result.err) == (0, "")
    assert "left out: " in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--axes", "user,place"], "place"),
        (["--axes", "user"], "two axes"),
        (["--axes", "user,item", "--value", "amount"], "amount"),
        (["--axes", "user,item", "--top", "user"], "--top wants AXIS=VALUE; got 'user'."),
        (["--axes", "user,item", "--top", "user=x"], "whole number; got 'user=x'"),
        (["--axes", "user,item", "--top", "user=0"], "positive"),
        (["--axes", "user,day", "--bin", "day=eon"], "eon"),
        (["--axes", "user,day", "--bin", "day=day", "--bin", "day=week"], "given twice"),
        (["--axes", "user,item", "--value", "n", "--count-rows"], "exclude each other"),
    ],
)
def test_bad_input_is_code_2(run: Run, csv: Path, arguments: list[str], message: str) -> None:
    result = run("describe", csv, *arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err


def test_a_message_names_the_option(run: Run, frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "counts.csv"
    frame.rename(columns={"n": "count"}).to_csv(path, index=False)
    result = run("describe", path, "--axes", "user,item")
    assert result.code == 2
    assert "--value COLUMN or --count-rows" in result.err
    assert "total 5," in run("describe", path, "--axes", "user,item", "--count-rows").out
    assert "--axes A,B,..." in run("describe", path).err


def test_missing_file_is_code_2(run: Run) -> None:
    result = run("describe", "no such file.parquet", "--axes", "user,item")
    assert (result.code, result.out) == (2, "")
    assert "no such file.parquet" in result.err
    assert "Traceback" not in result.err


def test_negative_count_is_code_2(run: Run, frame: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    frame.assign(n=[3, -1, 1, 12, 1]).to_csv(path, index=False)
    result = run("describe", path, "--axes", "user,item", "--value", "n")
    assert (result.code, result.out) == (2, "")
    assert "-1" in result.err
    assert "Traceback" not in result.err


def test_unknown_option_is_code_2(run: Run, csv: Path) -> None:
    assert run("describe", csv, "--axis", "user").code == 2


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_convert_round_trip(run: Run, parquet: Path, frame: pd.DataFrame, ending: str) -> None:
    target = parquet.with_name(f"counts.{ending}")
    result = run("convert", parquet, target, "--axes", "user,item", "--value", "n")
    assert (result.code, result.err) == (0, "")
    assert "wrote 5 cells (4 x 3)" in result.out
    wanted = tf.CountTensor.from_frame(frame, axes=["user", "item"], value="n")
    assert tf.read_counts(target) == wanted
    back = parquet.with_name("back.npz")
    assert run("convert", target, back).code == 0
    assert tf.read_counts(back) == wanted


def test_convert_to_an_unknown_ending_is_code_2(run: Run, csv: Path) -> None:
    result = run("convert", csv, csv.with_name("x.docx"), "--axes", "user,item")
    assert result.code == 2
    assert "docx" in result.err


def test_demo(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    busiest = load_demo().filter(top={"module": 40, "word": 150})
    monkeypatch.setattr("tallyfold.data.demo.load_demo", lambda: busiest)
    result = run("demo", "--report", tmp_path / "words.html")
    assert (result.code, result.err) == (0, "")
    assert "module x word x place" in result.out
    for line in (
        "constant",
        "margins",
        "main effects",
        "BPTF",
        "the components of VAE-BPTF",
        "whether   how many   AUC within",
        "Expected in the hidden cells, and not there",
    ):
        assert line in result.out
    lines = [line for line in result.out.splitlines() if str(tmp_path) not in line]
    assert max(len(line) for line in lines) <= 80
    assert f"{tmp_path / 'words.html'}" in result.out
    assert "VAEBPTF" in (tmp_path / "words.html").read_text(encoding="utf-8")


def test_demo_refuses_a_report_it_could_not_write_before_it_fits(run: Run, tmp_path: Path) -> None:
    result = run("demo", "--report", tmp_path / "words.csv")
    assert result.code == 2
    assert ".html" in result.err
    assert "Fitting" not in result.out
