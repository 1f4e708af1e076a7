"""The command line in this process, a file of events with odd labels, and a model fitted to it."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.cli import main

WHO = ["Ada Lovelace", "Zoë=Ünïcode", "-dash", "[red]x[/]", *(f"author {n}" for n in range(26))]
YEARS = list(range(2003, 2011))


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(capsys, monkeypatch) -> Run:
    """Call it with arguments; it gives back the exit code and what was written."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*arguments: object, stdin: str | None = None) -> Result:
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        written = capsys.readouterr()
        return Result(stopped.value.code or 0, written.out, written.err)

    return call


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Counts by author (odd texts), word and year (numbers)."""
    drawn = tf.simulate((30, 25, 8), 2, density=0.25, random_state=1).tensor
    author, word, year = drawn.indices.T
    return pd.DataFrame(
        {
            "author": np.array(WHO)[author],
            "word": [f"w{number:02}" for number in word],
            "year": np.array(YEARS)[year],
            "count": drawn.counts,
        }
    )


@pytest.fixture(scope="session")
def events(frame, tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("data") / "some events.parquet"
    frame.to_parquet(file)
    return file


@pytest.fixture(scope="session")
def tensor(frame):
    return tf.CountTensor.from_frame(frame, axes=["author", "word", "year"], value="count")


@pytest.fixture(scope="session")
def folder(tensor, tmp_path_factory) -> Path:
    """The folder of a fitted model."""
    place = tmp_path_factory.mktemp("models") / "a model"
    tf.BPTF(n_components=2, max_iter=10).fit(tensor).save(place)
    return place


@pytest.fixture(scope="session")
def model(folder):
    return tf.load(folder)


@pytest.fixture(scope="module", autouse=True)
def _quickly(brief_heads):
    """Verbs are tried, not how well models predict."""
