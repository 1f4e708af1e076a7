"""Labels, names and cells that are commands to a terminal are shown, never obeyed."""

import json
import os
import sys
import threading
import traceback
import warnings

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.cli import PANELS, main
from tallyfold.errors import DroppedWarning, TallyfoldError, printable

pytestmark = pytest.mark.skipif(os.name != "posix", reason="works by a pty")

TITLE, CLIPBOARD = "\x1b]0;owned\x07", "\x1b]52;c;b3duZWQ=\x07"
HOSTILE = [
    TITLE, CLIPBOARD, "\x9b31mred", "\x1b[2J", "\u202egnp.exe", "\u2066x\u2069", "a\rb", "\x7f",
    "\x90q\x9c", "\u2028line",
]  # fmt: skip
NEVER = ["a\rb", "\x1b]", "\x07", "\x9b", "\x1b[2J", "\u202e", "\u2066", "\x7f", "\x90", "\u2028"]
AXES = [f"who{TITLE}", f"what{CLIPBOARD}", "day"]


def assert_harmless(text):
    assert [sign for sign in NEVER if sign in text] == []


@pytest.fixture
def terminal(monkeypatch, tmp_path):
    """Run the command line on a pseudo-terminal; give its exit code and all that it wrote."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        master, slave = os.openpty()
        got = []
        reader = threading.Thread(target=lambda: _read_all(master, got))
        reader.start()
        with monkeypatch.context() as patch:
            streams = [open(slave, "w", encoding="utf-8", closefd=False) for _ in range(2)]  # noqa: SIM115
            patch.setattr(sys, "stdout", streams[0])
            patch.setattr(sys, "stderr", streams[1])
            with pytest.raises(SystemExit) as stopped:
                main([str(each) for each in arguments])
            for stream in (sys.stdout, *streams):
                stream.close()
        os.close(slave)
        reader.join(10)
        return stopped.value.code or 0, b"".join(got).decode()

    return run


def _read_all(master, got):
    try:
        while part := os.read(master, 1 << 16):
            got.append(part)
    except OSError:  # the other end is closed
        pass
    os.close(master)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    days = pd.date_range("2024-01-01", periods=4).strftime("%Y-%m-%d")
    table = pd.DataFrame(
        {
            AXES[0]: rng.choice([*HOSTILE, "ann", "bob"], 400),
            AXES[1]: rng.choice([f"x{label}" for label in HOSTILE], 400),
            "day": rng.choice(days, 400),
        }
    )
    return table.drop_duplicates(ignore_index=True).assign(n=1)


@pytest.fixture(scope="module")
def place(frame, tmp_path_factory):
    """A folder with counts as a table and as a tensor, and models, all with hostile labels."""
    folder = tmp_path_factory.mktemp(f"x{TITLE}".replace("/", ""))
    frame.to_parquet(folder / f"c{TITLE}.parquet")
    tensor = tf.CountTensor.from_frame(frame, axes=AXES, value="n")
    tf.write_counts(tensor, folder / "x.npz")
    timed = tf.CountTensor.from_frame(frame, axes=AXES, value="n", bins={"day": "day"})
    tf.write_counts(timed, folder / "t.npz")
    tf.SmoothedPast().fit(timed).save(folder / "past")
    tf.BPTF(n_components=2, max_iter=5, validation=None).fit(tensor).save(folder / "bptf")
    tf.Margins().fit(tensor).save(folder / "margins")
    other = frame.assign(**{AXES[0]: [f"new{label}" for label in frame[AXES[0]]]})
    other.to_parquet(folder / "new.parquet")
    return folder


QUICK = ["--model", "bptf", "-k", "2", "--max-iter", "3", "--set", "validation=none"]
NAMED = ["--axes", ",".join(AXES), "--value", "n"]
VERBS = {
    "describe": [["TABLE", *NAMED]],
    "convert": [["TABLE", "y.npz", *NAMED], ["TABLE", f"y{TITLE}.csv", *NAMED, "--top", "day=2"]],
    "split": [["x.npz", f"a{TITLE}.npz", "b.npz", "--cells", "nonzero"]],
    "fit": [["TABLE", *NAMED, *QUICK, "--holdout", "0.2", "--out", f"m{TITLE}"]],
    "compare": [["x.npz", "--models", "bptf,constant", "-k", "1", "--seeds", "1"]],
    "tune": [["x.npz", *QUICK[:2], "--trials", "1", "--folds", "2", "--storage", "sqlite://"]],
    "rank": [["x.npz", *QUICK[:2], "--ranks", "1", "--folds", "2"]],
    "score": [["bptf", "x.npz"]],
    "predict": [["bptf", "TABLE"]],
    "components": [["bptf", "--axis", AXES[0]], ["bptf", "--axis", AXES[1], "--json"]],
    "top": [["bptf", "--axis", AXES[1], "--for", f"{AXES[0]}={TITLE}"]],
    "profile": [["bptf", "--of", f"{AXES[0]}={CLIPBOARD}"]],
    "surprise": [["bptf", "x.npz"], ["bptf", "x.npz", "--json"]],
    "fold-in": [
        ["margins", "new.parquet", "--value", "n", "--axis", AXES[0], "--out", f"l{TITLE}"]
    ],
    "update": [["margins", "x.npz", "--again", "--out", "u"]],
    "report": [["bptf", "--out", f"r{TITLE}.html"]],
    "explain": [["bptf"], ["bptf", "--component", "1", "--counts", "x.npz", "--course", "day"]],
    "edit": [
        ["bptf", "--rename", "0=net", "--out", "e"],
        ["bptf", "--merge", "0,1", "--out", "f"],
    ],
    "stability": [["bptf", "x.npz", "--runs", "2", "--out", f"s{TITLE}"]],
    "topics": [["bptf", "x.npz", "--axis", AXES[1]], ["bptf", "x.npz", "--json"]],
    "forecast": [["past"], ["past", "--horizon", "2", "--out", f"n{TITLE}.csv"]],
    "backtest": [["t.npz", "--models", "last-value", "--origins", "1"]],
}
OWN_DATA = {"demo", "reproduce"}
"""Verbs that read no table of others."""


def test_every_verb_is_tried():
    verbs = {verb.__name__.replace("_", "-") for panel in PANELS.values() for verb in panel}
    assert verbs == set(VERBS) | OWN_DATA


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_on_hostile_labels(verb, terminal, place, monkeypatch):
    monkeypatch.chdir(place)
    for given in VERBS[verb]:
        words = [f"c{TITLE}.parquet" if word == "TABLE" else word for word in given]
        code, text = terminal(verb, *words)
        assert code == 0, text
        assert_harmless(text)
        if "--json" in words:
            assert json.loads(text)


def bad_tables():
    """Give tables that are refused, with the options to read them, by what is wrong."""
    head = "who,what,n\n"
    yield "count", f"{head}a,b,5{TITLE}\n", ["--axes", "who,what", "--value", "n"]
    yield "date", f"{head}a,{TITLE},1\n", ["--axes", "who,what", "--bin", "what=month"]
    yield "header twice", f"{TITLE},{TITLE}\na,b\n", ["--axes", "who,what"]
    yield "no such axis", f"{TITLE},b\na,b\n", ["--axes", f"who,what{CLIPBOARD}"]
    yield "delimiter", f"a;{TITLE}\n1;2\n", ["--axes", "a,b"]
    yield "ragged", f"{head}a,b\n{TITLE}\n", ["--axes", "who,what"]
    yield "quote", f'{head}a,"{TITLE}\n', ["--axes", "who,what"]
    yield "missing", f"who{TITLE},what\n,b\n", ["--axes", f"who{TITLE},what"]
    yield "option", f"{head}a,b,1\n", [f"--axis{TITLE}"]
    yield "option value", f"{head}a,b,1\n", ["--axes", "who,what", "--top", f"who={TITLE}"]
    yield "argument", f"{head}a,b,1\n", ["--axes", "who,what", "--bin", TITLE]


BAD = {name: (text, options) for name, text, options in bad_tables()}


@pytest.mark.parametrize("what", BAD)
def test_an_error_that_quotes_data(what, terminal, tmp_path):
    text, options = BAD[what]
    (tmp_path / f"t{CLIPBOARD}.csv").write_text(text)
    code, told = terminal("describe", f"t{CLIPBOARD}.csv", *options)
    assert code == 2, told
    assert "Traceback" not in told
    assert_harmless(told)


def test_other_errors_of_verbs(terminal, place, monkeypatch):
    monkeypatch.chdir(place)
    for words in (
        ["describe", f"none{TITLE}.csv", "--axes", "a,b"],
        ["fit", "x.npz", "--model", TITLE, "--out", "m"],
        ["fit", "x.npz", "--set", f"x{TITLE}=1", "--out", "m"],
        ["components", f"none{TITLE}", "--axis", "a"],
        ["components", "bptf", "--axis", TITLE],
        ["top", "bptf", "--axis", AXES[1], "--for", f"{AXES[0]}=no{TITLE}"],
        ["predict", "bptf", "new.parquet"],
        ["surprise", "bptf", "new.parquet", "--value", "n"],
        [TITLE],
    ):
        code, told = terminal(*words)
        assert code == 2, told
        assert_harmless(told)


def test_messages_and_causes_in_python(tmp_path):
    (tmp_path / "x.csv").write_text(BAD["ragged"][0])
    with pytest.raises(TallyfoldError) as refused:
        tf.read_counts(tmp_path / "x.csv", axes=["who", "what"])
    assert_harmless("".join(traceback.format_exception(refused.value)))
    with pytest.warns(DroppedWarning) as said:
        warnings.warn(f"dropped {TITLE}", DroppedWarning, stacklevel=1)
    assert_harmless(str(said[0].message))


def test_what_can_be_seen_is_left_alone():
    for text in ("Zoë 日本語 🙂 a\\b", "x y", ""):
        assert printable(text) == text
    assert printable("a\nb", keep="\n") == "a\nb"
    assert printable("\ud800\x00") == "\\ud800\\x00"
