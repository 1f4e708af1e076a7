"""``tallyfold fit``: parameters, files, Ctrl-C, resuming, held-out scores."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.cli import progress
from tallyfold.cli.model_parameters import Given, typed
from tallyfold.errors import ParameterError
from tallyfold.inference.fit import progress as fit_progress
from tallyfold.models.vae_bptf import VAEBPTF

AXES = ("--axes", "author,word,year", "--value", "count")
BPTF = (*AXES, "--model", "bptf", "--components", "2", "--max-iter", "6")
QUICK = (*BPTF, "--zeros", "missing")


def test_help_has_examples(run):
    result = run("fit", "--help")
    assert result.code == 0
    assert "tallyfold fit events.parquet" in result.out
    assert "table [model]" in " ".join(result.out.split())
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_fit_saves_what_the_library_would_fit(run, events, tensor, tmp_path):
    out = tmp_path / "a model"
    result = run("fit", events, *QUICK, "--seed", "3", "--set", "prior_shape=0.5", "--out", out)
    assert (result.code, result.err) == (0, "")
    wanted = tf.BPTF(n_components=2, max_iter=6, random_state=3, prior_shape=0.5).fit(tensor)
    np.testing.assert_array_equal(tf.load(out).predict(tensor), wanted.predict(tensor))
    assert f"wrote {out}" in result.out
    assert f"tallyfold components '{out}' --axis author" in result.out
    assert sorted(file.name for file in out.iterdir()) == ["arrays.safetensors", "model.json"]


def test_json_is_all_that_is_written_to_standard_output(run, events, tmp_path):
    result = run("fit", events, *QUICK, "--holdout", "0.2", "--json", "--out", tmp_path / "m")
    document = json.loads(result.out)
    assert document["model"] == "bptf"
    assert document["iterations"] == 6
    assert document["reason"] == "max_iter"
    assert document["parameters"]["n_components"] == 2
    assert list(document["scores"]) == [
        "bptf",
        "constant",
        "main effects",
        "margins",
    ]


def test_holdout_saves_the_scored_model_and_refit_one_of_all_cells(run, events, tensor, tmp_path):
    train, test = tf.split(tensor, 0.25, random_state=0)
    model = tf.BPTF(n_components=2, max_iter=6)
    given = ("fit", events, *QUICK, "--holdout", "0.25", "--out", tmp_path / "m")
    result = run(*given)
    assert f"{test.nnz:,} held-out cells" in result.out
    assert f"bptf on {train.nnz:,} cells" in result.out
    saved = tf.load(tmp_path / "m")
    np.testing.assert_array_equal(saved.predict(test), model.fit(train).predict(test))
    score = model.score(test)
    assert f"{score:.4f}" in result.out
    result = run(*given, "--refit", "--overwrite")
    assert f"bptf on {tensor.nnz:,} cells" in result.out
    saved = tf.load(tmp_path / "m")
    np.testing.assert_array_equal(saved.predict(test), model.fit(tensor).predict(test))


def test_refit_needs_holdout(run, events, tmp_path):
    result = run("fit", events, *QUICK, "--refit", "--out", tmp_path / "m")
    assert result.code == 2
    assert "--holdout" in result.err


def interrupt_at(monkeypatch, number: int) -> None:
    """Press Ctrl-C when an iteration is shown."""
    duration = fit_progress.duration
    calls = iter(range(1, 1000))

    def pressed(seconds: float) -> str:
        if next(calls) == number:
            raise KeyboardInterrupt
        return duration(seconds)

    monkeypatch.setattr(fit_progress, "duration", pressed)


def test_ctrl_c_saves_what_is_there_and_resume_goes_on(run, events, tensor, tmp_path, monkeypatch):
    out = tmp_path / "m"
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        result = run("fit", events, *QUICK, "--out", out)
    assert result.code == 130
    assert "iteration" in result.err
    assert f"saved in {out}" in result.err
    assert "--resume" in result.err
    assert len(tf.load(out).history_) == 3
    result = run("fit", events, *QUICK, "--out", out, "--resume")
    assert (result.code, result.err) == (0, "")
    whole = tf.BPTF(n_components=2, max_iter=6).fit(tensor)
    np.testing.assert_array_equal(tf.load(out).predict(tensor), whole.predict(tensor))
    assert not (out / "checkpoint").exists()


def test_ctrl_c_in_the_second_of_two_fits_goes_on_there(run, events, tensor, tmp_path, monkeypatch):
    given = ("fit", events, *QUICK, "--holdout", "0.2", "--refit", "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 8)  # six iterations of the first, two of the second
        assert run(*given).code == 130
    result = run(*given, "--resume")
    assert result.code == 0
    whole = tf.BPTF(n_components=2, max_iter=6).fit(tensor)
    saved = tf.load(tmp_path / "m")
    np.testing.assert_array_equal(saved.predict(tensor), whole.predict(tensor))


@pytest.mark.parametrize(
    "place",
    [
        "cli.model_parameters.chosen_model",
        "cli.options.Reading.counts",
        "evaluation.metrics.scores_of",
    ],
)
def test_ctrl_c_between_iterations_says_what_is_left(run, events, tmp_path, monkeypatch, place):
    def press(*arguments: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"tallyfold.{place}", press)
    result = run("fit", events, *QUICK, "--holdout", "0.2", "--out", tmp_path / "m")
    assert (result.code, result.out) == (130, "")
    if place == "evaluation.metrics.scores_of":
        assert f"its model is saved in {tmp_path / 'm'}" in result.err
        assert tf.load(tmp_path / "m").name == "bptf"
    else:
        wanted = "tallyfold: Stopped before the first iteration was done: nothing was saved.\n"
        assert result.err == wanted
        assert not (tmp_path / "m").exists()


def test_what_is_said_of_a_fit_fits_the_model(run, events, tmp_path):
    result = run("fit", events, *AXES, "--model", "constant", "--out", tmp_path / "m")
    assert re.search(r"^\d+\.\d s$", result.out, re.MULTILINE)
    assert "iterations" not in result.out
    assert "tallyfold components" not in result.out
    assert "tallyfold predict" in result.out
    given = (*AXES, "--model", "main-effects", "--max-iter", "1")
    result = run("fit", events, *given, "--out", tmp_path / "m2")
    assert "1 iteration, " in result.out
    assert "tallyfold components" not in result.out


def test_ctrl_c_among_members_keeps_the_whole_ones(run, events, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, 7)
    out = tmp_path / "m"
    given = (*AXES, "-k", "2", "--max-iter", "5", "--set", "n_members=3")
    result = run("fit", events, *given, "--out", out)
    assert result.code == 130
    assert "1 of 3 members" in result.err
    assert tf.load(out).fitted_.others == ()


def test_a_fit_killed_from_outside_keeps_its_model(events, tmp_path):
    out = tmp_path / "m"
    arguments = [str(events), *AXES, "--model", "bptf", "--set", "tol=0", "--out", str(out)]
    arguments += ["--max-iter", "1000000", "--set", "validation=none"]
    command = [sys.executable, "-m", "tallyfold", "fit", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        end = time.monotonic() + 60
        while not [*out.glob("checkpoint/*/model.json")] and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        written, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert b"Traceback" not in errors
    assert b"saved in" in errors
    assert written == b""
    assert len(tf.load(out).history_) >= 10


def test_a_fit_replaces_another_only_if_told_to(run, events, tmp_path, monkeypatch):
    given = ("fit", events, *QUICK, "--out", tmp_path / "m")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        run(*given)
    result = run(*given)
    assert result.code == 2
    assert "unfinished fit. --resume goes on with it; --overwrite replaces it." in result.err
    assert len(tf.load(tmp_path / "m").history_) == 3
    assert run(*given, "--overwrite").code == 0
    assert len(tf.load(tmp_path / "m").history_) == 6
    result = run(*given)
    assert (result.code, result.out) == (2, "")
    assert "finished model. --overwrite" in result.err
    assert run(*given, "--overwrite").code == 0


def test_a_finished_fit_is_said_to_be_finished(run, events, frame, tmp_path):
    given = (*QUICK, "--out", tmp_path / "m", "--resume")
    assert "starts afresh" in run("fit", events, *given).err
    before = (tmp_path / "m" / "model.json").stat().st_mtime_ns
    result = run("fit", events, *given)
    assert (result.code, "this fit is finished" in result.out) == (0, True)
    assert json.loads(run("fit", events, *given, "--json").out)["finished"] is True
    result = run("fit", events, *given, "--seed", 9)
    assert result.code == 2
    assert "model with another random_state (0, not 9): there is no fit to go on" in result.err
    assert (tmp_path / "m" / "model.json").stat().st_mtime_ns == before
    frame[frame["author"] != "-dash"].to_parquet(tmp_path / "other.parquet")
    result = run("fit", tmp_path / "other.parquet", *given)
    assert result.code == 2
    assert "finished bptf model of other data" in result.err
    assert "-dash" in tf.load(tmp_path / "m").axes_[0].labels.to_pylist()
    result = run("fit", tmp_path / "other.parquet", *given, "--overwrite")
    assert result.code == 0


def test_what_a_fit_decides_itself_is_no_other_parameter(run, events, tmp_path):
    given = (*AXES, "--ordered", "year", "-k", 2, "--max-iter", 2)
    fit = ("fit", events, *given, "--out", tmp_path / "m", "--resume")
    assert run(*fit, "--holdout", 0.2).code == 0
    assert tf.load(tmp_path / "m").get_params()["time"] == "year"
    result = run(*fit, "--holdout", 0.2)
    assert (result.code, "this fit is finished" in result.out) == (0, True)
    result = run(*fit, "--set", "time=none")
    assert (result.code, "model with another time ('year', not 'none')" in result.err) == (2, True)


def test_resuming_with_other_parameters_is_refused(run, events, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        run("fit", events, *QUICK, "--out", tmp_path / "m")
    result = run("fit", events, *QUICK, "--seed", "9", "--resume", "--out", tmp_path / "m")
    assert result.code == 2
    assert "of another fit" in result.err


def test_a_folder_with_something_else_is_refused(run, events, tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    result = run("fit", events, *QUICK, "--out", tmp_path)
    assert result.code == 2
    assert "thesis.tex" in result.err
    result = run("fit", events, *QUICK, "--out", tmp_path / "thesis.tex")
    assert result.code == 2
    assert (tmp_path / "thesis.tex").read_text() == "x"


def test_clearing_leaves_files_of_others(run, events, tmp_path):
    place = tmp_path / "m" / "checkpoint" / "all-cells"
    place.mkdir(parents=True)
    (place / "note.txt").write_text("mine")
    assert run("fit", events, *QUICK, "--out", tmp_path / "m").code == 0
    assert [file.name for file in place.iterdir()] == ["note.txt"]


@pytest.mark.parametrize(
    "text",
    [
        'n_components = 3\nprior_shape = 0.5\nvalidation = "none"\nmax_iter = 4\n',
        '[model]\nname = "bptf"\nn_components = 3\nprior_shape = 0.5\nvalidation = "none"\n',
    ],
)
def test_config_gives_parameters_and_the_command_line_wins(run, events, tmp_path, text):
    config = tmp_path / "fit.toml"
    config.write_text(text)
    model = () if "name" in text else ("--model", "bptf")
    given = (*AXES, *model, "--config", config, "--max-iter", "2", "--set", "prior_shape=2")
    result = run("fit", events, *given, "--json", "--out", tmp_path / "m")
    document = json.loads(result.out)
    assert document["model"] == "bptf"
    wanted = {"n_components": 3, "prior_shape": 2, "validation": None, "max_iter": 2}
    assert {name: document["parameters"][name] for name in wanted} == wanted


def test_config_may_be_what_tune_writes(run, events, tmp_path):
    config = tmp_path / "best.json"
    document = {"model": "bptf", "parameters": {"n_components": 3, "max_iter": 2}, "score": -1.0}
    config.write_text(json.dumps(document))
    result = run("fit", events, *AXES, "--config", config, "--json", "--out", tmp_path / "m")
    assert json.loads(result.out)["parameters"]["n_components"] == 3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "n_component=3"), "Did you mean 'n_components'?"),
        (("--set", "prior_shape=wide"), "prior_shape must be a number in"),
        (("--set", "prior_shape"), "--set wants NAME=VALUE"),
        (("--set", "max_iter=5"), "given twice"),
        (("--zeros", "maybe"), "'missing' or 'observed'"),
        (("--config", "no such file.toml"), "no such file.toml"),
        (("--holdout", "1.5"), "--holdout must be a share"),
    ],
)
def test_bad_parameters_are_code_2(run, events, tmp_path, arguments, words):
    result = run("fit", events, *QUICK, *arguments, "--out", tmp_path / "m")
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert "Traceback" not in result.err


def test_a_model_that_is_none_and_a_config_that_is_none(run, events, tmp_path):
    result = run("fit", events, *AXES, "--model", "lda", "--out", tmp_path / "m")
    assert result.code == 2
    assert "vae-bptf" in result.err
    (tmp_path / "bad.toml").write_text("n_components = = 3")
    result = run("fit", events, *AXES, "--config", tmp_path / "bad.toml", "--out", tmp_path / "m")
    assert result.code == 2
    assert "bad.toml" in result.err


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n_components", "7", 7),
        ("prior_shape", "1e-2", 0.01),
        ("truncated", "true", True),
        ("truncated", "None", None),
        ("validation", "none", None),
        ("interactions", "none", "none"),
        ("interactions", '[["word", "year"]]', [["word", "year"]]),
        ("device", "cuda:1", "cuda:1"),
        ("likelihood", "negative-binomial", "negative-binomial"),
    ],
)
def test_values_are_read_as_the_parameter_wants_them(name, text, value):
    found = typed(name, Given(text, "--set"), VAEBPTF.rules[name])
    assert found == value
    assert type(found) is type(value)


def test_a_whole_number_is_no_truth():
    with pytest.raises(ParameterError, match="True or False"):
        typed("truncated", Given("1", "--set"), VAEBPTF.rules["truncated"])


def test_events_may_come_through_a_pipe(run, frame, tensor, tmp_path):
    result = run("fit", "-", *QUICK, "--out", tmp_path / "m", stdin=frame.to_csv(index=False))
    assert result.code == 0
    loaded = tf.load(tmp_path / "m")
    assert loaded.axes_[2].label(0) == 2003
    wanted = tf.BPTF(n_components=2, max_iter=6).fit(tensor)
    np.testing.assert_array_equal(loaded.predict(tensor), wanted.predict(tensor))


def test_long_fits_write_a_line_now_and_then_where_there_is_no_terminal(
    run, events, tmp_path, monkeypatch
):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0)
    result = run("fit", events, *QUICK, "--out", tmp_path / "m")
    lines = result.err.splitlines()
    assert len(lines) == 6
    assert lines[0].startswith("all cells: iteration 1 of 6, objective ")
    assert "held out -" in lines[0]
    assert "left" in lines[0]
    assert "\x1b" not in result.err + result.out


def test_zeros_observed_reaches_the_model(run, events, tmp_path):
    given = ("--zeros", "observed", "--holdout", "0.2", "--json")
    result = run("fit", events, *BPTF, *given, "--out", tmp_path / "m")
    document = json.loads(result.out)
    assert document["parameters"]["zeros"] == "observed"
    scores = document["scores"]["bptf"]
    assert scores["log-score"] == scores["occurrence"] + scores["amount"] < 0
    assert scores["recall-20"] > 0
    assert "log-pmf-positive" not in scores
    assert Path(document["out"]) == tmp_path / "m"


def copied(seed=0):
    """Return texts of which every second one is a copy of the one before it."""
    rng = np.random.default_rng(seed)
    texts = rng.random((40, 60)) < 0.2
    texts[1::2] = texts[::2]
    rows = pd.DataFrame(np.argwhere(texts), columns=["author", "word"])
    return rows.assign(count=rng.integers(1, 4, len(rows)))


def test_copies_are_held_out_together(run, tmp_path):
    """By the split, by the model's own fit, and by the baselines beside it."""
    copied().to_parquet(tmp_path / "texts.parquet")
    tensor = tf.read_counts(tmp_path / "texts.parquet", axes=["author", "word"], value="count")
    given = ("--axes", "author,word", "--value", "count", "--zeros", "observed")
    model = ("--model", "bptf", "--components", "2", "--max-iter", "4", "--holdout", "0.2")
    out = ("--copies", "word", "--json", "--out", tmp_path / "model")
    result = run("fit", tmp_path / "texts.parquet", *given, *model, *out)
    assert (result.code, result.err) == (0, "")
    groups = tf.near_copies(tensor, "word")
    train, test = tf.split(tensor, 0.2, cells="all", groups=groups)
    own = {"groups": tf.near_copies(train, "word")}
    wanted = tf.BPTF(n_components=2, max_iter=4, zeros="observed").fit(train, **own)
    np.testing.assert_array_equal(tf.load(tmp_path / "model").rate(test), wanted.rate(test))
    alone = tf.BPTF(n_components=2, max_iter=4, zeros="observed").fit(train)
    assert not np.array_equal(alone.rate(test), wanted.rate(test))
    scores = json.loads(result.out)["scores"]
    floor = tf.MainEffects(zeros="observed").fit(train, **own)
    assert scores["main effects"]["log-score"] == pytest.approx(floor.score(test))
    command = ("compare", tmp_path / "texts.parquet", *given, "--models", "bptf", *model[2:])
    found = json.loads(run(*command, "--copies", "word", "--json").out)
    assert found["bptf"]["scores"]["log-score"]["mean"] == pytest.approx(wanted.score(test))


@pytest.mark.parametrize("verb", ["fit", "compare"])
def test_copies_of_no_axis_are_refused(run, events, tmp_path, verb):
    out = ("--out", tmp_path / "model") if verb == "fit" else ()
    result = run(verb, events, *AXES, "--holdout", "0.2", "--copies", "shelf", *out)
    assert result.code == 2
    assert "no axis 'shelf'" in result.err
    assert not (tmp_path / "model" / "model.json").exists()


def test_copies_and_processes_do_not_go_together(run, events, tmp_path):
    given = ("--copies", "word", "--processes", "2", "--out", tmp_path / "model")
    result = run("fit", events, *QUICK, *given)
    assert result.code == 2
    assert "--copies needs one process" in result.err


def test_a_fit_refused_for_its_scale_leaves_nothing_behind(run, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"user": rng.integers(0, 30, 400), "film": rng.integers(0, 20, 400)})
    frame.assign(stars=rng.integers(1, 6, 400)).to_csv(tmp_path / "ratings.csv", index=False)
    given = ("fit", tmp_path / "ratings.csv", "--axes", "user,film", "--value", "stars")
    given = (*given, "--scale", "1-5", "--out", tmp_path / "model")
    refused = run(*given, "--repeated", "sum")
    assert refused.code == 2
    assert "on the scale 1 to 5" in refused.err
    assert run(*given, "--repeated", "last").code == 0
