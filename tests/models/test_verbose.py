"""How a fit shows itself: bars, lines, logs; and that none of it changes the fit."""

import contextlib
import logging
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.inference.fit import progress

pytestmark = pytest.mark.usefixtures("brief_heads")

TENSOR = tf.simulate((12, 10, 6), n_components=2, density=0.3).tensor
QUICK = {"n_components": 2, "max_iter": 4, "tol": 0.0, "validation": None}


class Shell:
    """A stand-in for the module IPython, with the shell of a notebook or of a terminal."""

    def __init__(self, notebook):
        self._shell = type("S", (), {"kernel": None} if notebook else {})()

    def get_ipython(self):
        return self._shell


class Terminal:
    def __init__(self):
        self.written = ""

    def isatty(self):
        return True

    def write(self, text):
        self.written += text

    def flush(self):
        pass


def test_scripts_are_quiet_unless_asked(capfd):
    tf.BPTF(**QUICK).fit(TENSOR)
    tf.BPTF(**QUICK).fit(TENSOR, verbose=False)
    tf.BPTF(**QUICK).fit(TENSOR, verbose=0)
    assert capfd.readouterr() == ("", "")


def test_a_script_that_asks_gets_lines(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    tf.BPTF(**QUICK).fit(TENSOR, verbose=True)
    said = capsys.readouterr()
    assert said.out == ""
    first, *_, last = said.err.splitlines()
    assert first.startswith("BPTF: iteration 1 of 4, objective -")
    assert first.endswith(" s left")
    assert last.startswith("BPTF: 4 iterations, ")
    assert last.endswith("it reached max_iter, the most iterations allowed")
    assert len(said.err.splitlines()) == 5


def test_a_terminal_that_asks_gets_a_bar_and_a_last_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    tf.BPTF(**QUICK).fit(TENSOR, verbose=1)
    assert "4/4" in terminal.written
    assert "BPTF: 4 iterations, " in terminal.written.splitlines()[-1]


@pytest.mark.parametrize(
    ("verbose", "ipython", "typed", "terminal", "wanted"),
    [
        ("auto", None, False, False, None),
        ("auto", None, False, True, None),
        ("auto", None, True, True, progress.TerminalBar),
        ("auto", None, True, False, None),
        ("auto", False, False, True, progress.TerminalBar),
        ("auto", True, False, False, progress.NotebookBar),
        (True, None, False, True, progress.TerminalBar),
        (True, None, False, False, progress.Lines),
        (True, True, False, True, progress.NotebookBar),
        (False, True, True, True, None),
    ],
)
def test_where_a_fit_is_shown(monkeypatch, verbose, ipython, typed, terminal, wanted):
    monkeypatch.setitem(sys.modules, "IPython", None if ipython is None else Shell(ipython))
    if typed:
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    if terminal:
        monkeypatch.setattr(sys, "stderr", Terminal())
    assert progress.screen_for(verbose) is wanted


def test_a_short_fit_that_nobody_asked_to_see_is_not_shown(monkeypatch, capsys):
    monkeypatch.setattr(progress, "screen_for", lambda verbose: progress.Lines)
    tf.BPTF(**QUICK).fit(TENSOR)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(progress, "QUIET_SECONDS", -1.0)
    tf.BPTF(**QUICK).fit(TENSOR)
    assert "BPTF: 4 iterations" in capsys.readouterr().err


def test_a_fit_that_fails_leaves_no_bar(monkeypatch, capsys):
    def fail(_):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        tf.BPTF(**QUICK).fit(TENSOR, verbose=True, callbacks=[fail])
    assert capsys.readouterr().err == ""
    with contextlib.suppress(RuntimeError), progress.shown(True, "x", lambda: "done") as (own,):
        own(tf_progress())
        raise RuntimeError
    assert capsys.readouterr().err == "x: stopped by an error\n"


def tf_progress():
    from tallyfold.inference.fit.loop import Iteration, Progress

    return Progress(Iteration(1, -1.0, 0.1), 4)


def test_showing_is_no_parameter_and_changes_nothing(capsys, tmp_path):
    shown = tf.BPTF(**QUICK).fit(TENSOR, verbose=True, checkpoint=tmp_path / "run", every=2)
    quiet = tf.BPTF(**QUICK).fit(TENSOR)
    np.testing.assert_array_equal(shown.predict(TENSOR), quiet.predict(TENSOR))
    assert "verbose" not in shown.get_params()
    assert clone(shown).get_params() == quiet.get_params()
    resumed = tf.BPTF(**QUICK).fit(TENSOR, checkpoint=tmp_path / "run", resume=True, verbose=False)
    np.testing.assert_array_equal(resumed.predict(TENSOR), quiet.predict(TENSOR))
    shown.save(tmp_path / "model")
    assert "verbose" not in (tmp_path / "model" / "model.json").read_text()


@pytest.mark.parametrize("verbose", ["yes", -1, None, 0.5])
def test_other_ways_to_show_are_refused(verbose):
    with pytest.raises(ParameterError, match="`verbose` must be 'auto' or True or False or a"):
        tf.BPTF(**QUICK).fit(TENSOR, verbose=verbose)


def test_phases_and_choices_are_logged(caplog):
    model = tf.VAEBPTF(n_components=2, zeros="observed", max_iter=3)
    with caplog.at_level(logging.INFO, logger="tallyfold"):
        model.fit(TENSOR)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
    assert said[0].startswith(f"VAEBPTF: fit to {TENSOR.nnz:,} cells of axis_0 12 x ")
    assert said[0].endswith("zeros observed, seed 0")
    begun = [line for line in said if line.endswith(" begins")]
    ended = [line for line in said if " ended after " in line and line.startswith("phase")]
    phases = list(dict.fromkeys(each.phase for each in model.fitted_.history))
    assert [line.split("'")[1] for line in begun] == [line.split("'")[1] for line in ended]
    assert set(phases) <= {line.split("'")[1] for line in begun}
    assert any(line.startswith("VAEBPTF: gate: ") for line in said)
    assert any(line.startswith("VAEBPTF: how many: ") for line in said)
    assert said[-1].startswith("VAEBPTF: fit ended after ")


def test_iterations_are_logged_for_those_who_look_closely(caplog):
    with caplog.at_level(logging.DEBUG, logger="tallyfold"):
        tf.BPTF(**QUICK).fit(TENSOR)
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    assert [line.split(":")[0] for line in said] == [f"iteration {n}" for n in range(1, 5)]


def test_a_search_of_scikit_learn_hands_it_on(capsys):
    model = tf.BPTF(max_iter=2, validation=None)
    search = GridSearchCV(model, {"n_components": [1, 2]}, cv=tf.cross_validator(2), refit=False)
    search.fit(TENSOR, verbose=True)
    assert capsys.readouterr().err.count("BPTF: 2 iterations, ") == 4
