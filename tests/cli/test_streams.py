"""Closed streams, readers that are gone, and too little memory."""

import os
import subprocess
import sys

import pytest

import tallyfold as tf

pytestmark = pytest.mark.skipif(os.name != "posix", reason="works by a shell")
TALLYFOLD = f"{sys.executable} -m tallyfold"


def shell(line, folder, **more):
    """Run a line of the shell, in which TALLYFOLD and MODEL stand for themselves."""
    line = line.replace("TALLYFOLD", TALLYFOLD).replace("MODEL", f"'{folder}'")
    return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=100, **more)


def test_a_closed_standard_input_is_said(folder):
    done = shell("TALLYFOLD describe - --axes a,b <&-", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("tallyfold: standard input ('-') is closed: pipe a table")
    assert done.stderr.count("\n") == 1


def test_a_closed_standard_output_is_no_success(folder):
    done = shell("TALLYFOLD components MODEL --axis word >&-", folder)
    assert done.returncode == 2
    assert "standard output is closed" in done.stderr


VERBS = {
    "components": "components MODEL --axis word",
    "predict": "predict MODEL cells.csv",
    "version": "--version",
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_reader_that_is_gone_ends_every_verb_alike(verb, folder, frame, tmp_path):
    frame.to_csv(tmp_path / "cells.csv", index=False)
    line = f"TALLYFOLD {VERBS[verb]} | true; echo ${{PIPESTATUS[0]}}"
    done = shell(line, folder, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_a_reader_of_all_gets_all(folder, frame, tmp_path):
    frame.to_csv(tmp_path / "cells.csv", index=False)
    line = f"TALLYFOLD {VERBS['predict']} | cat; echo ${{PIPESTATUS[0]}}"
    done = shell(line, folder, cwd=tmp_path)
    assert done.stdout.endswith("\n0\n")
    assert len(done.stdout.splitlines()) > 20


def test_too_little_memory_is_said(run, events, tmp_path, monkeypatch):
    def fit(*_, **__):
        raise MemoryError("Unable to allocate 7.45 GiB for an array")

    monkeypatch.setattr(tf.BPTF, "fit", fit)
    given = (
        "--axes",
        "author,word,year",
        "--value",
        "count",
        "--model",
        "bptf",
        "--out",
        tmp_path / "m",
    )
    result = run("fit", events, *given)
    assert result.code == 2
    assert "not enough memory: Unable to allocate 7.45 GiB" in result.err
    assert "fewer components" in result.err
    assert "Traceback" not in result.err
