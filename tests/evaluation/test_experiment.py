"""The harness: rows for everything, also for failures; nothing is run twice."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.data.split import Split
from tallyfold.errors import InferenceError, ParameterError, StorageError
from tallyfold.evaluation.experiment import Experiment, Fit, held_out_fifth
from tallyfold.evaluation.metrics import METRICS
from tallyfold.models.main_effects import MainEffects

pytestmark = pytest.mark.usefixtures("brief_heads")


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((30, 20, 10), 2, density=0.2, random_state=0).tensor


def two_models():
    return {"constant": tf.Constant(), "main effects": tf.MainEffects(max_iter=5)}


class Failing(MainEffects):
    """A model whose fit fails, with an error of ours or another."""

    problem: Exception = InferenceError("it would not fit.")

    def fit(self, tensor, **options):
        raise self.problem


class Interrupted(MainEffects):
    def fit(self, tensor, **options):
        raise KeyboardInterrupt


def test_a_row_for_each_combination(tensor):
    experiment = Experiment(
        {"a": tensor, "b": lambda: tensor},
        two_models(),
        ["mae-mean", "log-pmf-positive"],
        seeds=[0, 1],
        splits={
            "80-20": lambda t, seed: tf.split(t, 0.2, random_state=seed),
            "50-50": lambda t, seed: tf.split(t, 0.5, random_state=seed),
        },
    )
    rows = experiment.run()
    keys = ["dataset", "split", "zeros", "model", "seed", "metric"]
    assert len(rows) == 2 * 2 * 2 * 2 * 2
    assert not rows.duplicated(keys).any()
    assert rows["value"].notna().all()
    assert (rows["zeros"] == "missing").all()
    assert set(rows["train_cells"] + rows["test_cells"]) == {tensor.nnz}
    assert (rows["peak_mib"] > 1).all()
    assert (rows["seconds"] > 0).all()


def test_scores_are_those_of_a_fit_by_hand(tensor):
    experiment = Experiment(
        {"a": tensor}, {"m": tf.MainEffects(max_iter=5)}, ["log-pmf-positive"], seeds=[3]
    )
    train, test = tf.split(tensor, 0.2, random_state=3)
    model = tf.MainEffects(max_iter=5, random_state=3).fit(train)
    assert experiment.run()["value"][0] == METRICS["log-pmf-positive"].compute(model, test)


def test_models_given_are_not_fitted(tensor):
    models = two_models()
    Experiment({"a": tensor}, models, ["rmse"]).run()
    assert not hasattr(models["constant"], "_fitted")


def test_scores_of_ones_own(tensor):
    own = {"rmse": METRICS["rmse"], "cells": lambda said: float(said.test.nnz)}
    rows = Experiment({"a": tensor}, {"constant": tf.Constant()}, own).run()
    assert rows.set_index("metric")["value"]["cells"] == rows["test_cells"][0]


@pytest.mark.parametrize("value", [None, float("nan"), float("-inf")])
def test_a_score_that_is_no_number_is_missing(tensor, value, tmp_path):
    rows = Experiment({"a": tensor}, {"m": tf.Constant()}, {"own": lambda said: value})
    for _ in range(2):  # as it comes, and as it was kept
        found = rows.run(tmp_path)
        assert found["value"].isna().all()
        assert found["error"].isna().all()


def test_a_score_that_returns_text_is_the_fits_error(tensor, tmp_path):
    rows = Experiment({"a": tensor}, {"m": tf.Constant()}, {"own": lambda said: "good"})
    assert rows.run(tmp_path)["error"].tolist() == [
        "the score 'own' must return a number or None; got 'good'."
    ]


def test_a_place_that_cannot_keep_rows_is_refused_before_the_first_fit(tensor, tmp_path):
    class Unwanted(MainEffects):
        def fit(self, tensor, **options):
            raise AssertionError("it was fitted.")

    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StorageError, match=r"cannot be a folder to keep rows in: .*place\."):
            Experiment({"a": tensor}, {"m": Unwanted()}, ["rmse"]).run(place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_line_is_printed_for_each_fit_that_is_run(tensor, tmp_path, capsys):
    experiment = Experiment({"a": tensor}, two_models(), ["rmse"])
    experiment.run(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["[1/2] a, seed 0: constant", "[2/2] a, seed 0: main effects"]
    experiment.run(tmp_path)
    Experiment({"a": tensor}, two_models(), ["rmse"]).run(announce=None)
    assert capsys.readouterr().err == ""


def test_a_score_that_a_model_lacks_is_missing_not_wrong(tensor):
    models = {"points": tf.NTFLS(n_components=2, max_iter=3)}
    rows = Experiment({"a": tensor}, models, ["rmse", "coverage-80"]).run().set_index("metric")
    assert np.isfinite(rows["value"]["rmse"])
    assert np.isnan(rows["value"]["coverage-80"])
    assert rows["error"].isna().all()


@pytest.mark.parametrize(
    ("problem", "text"),
    [(InferenceError("no."), "no."), (ZeroDivisionError("oh"), "ZeroDivisionError: oh")],
)
def test_a_model_that_fails_is_rows_with_its_error(tensor, problem, text):
    failing = Failing()
    Failing.problem = problem
    rows = Experiment({"a": tensor}, {"bad": failing, **two_models()}, ["rmse", "mae-mean"]).run()
    bad = rows[rows["model"] == "bad"]
    assert len(bad) == 2
    assert (bad["error"] == text).all()
    assert bad["value"].isna().all()
    assert rows.loc[rows["model"] != "bad", "value"].notna().all()


def test_finished_fits_are_not_run_again(tensor, tmp_path):
    seen: list[Fit] = []
    experiment = Experiment({"a": tensor}, two_models(), ["rmse"], seeds=[0, 1])
    first = experiment.run(tmp_path / "rows")
    again = Experiment({"a": tensor}, two_models(), ["rmse"], seeds=[0, 1, 2])
    second = again.run(tmp_path / "rows", announce=seen.append)
    assert [fit.done for fit in seen] == [True] * 4 + [False] * 2
    assert seen[-1].number == seen[-1].total == 6
    merged = first.merge(second, on=list(first.columns))
    assert len(merged) == len(first)  # seconds and memory included: they are the same rows


def test_a_folder_reads_as_one_table(tensor, tmp_path):
    rows = Experiment({"a": tensor}, two_models(), ["rmse"]).run(tmp_path / "rows")
    read = pd.read_parquet(tmp_path / "rows")
    assert sorted(read["value"]) == sorted(rows["value"])
    assert {"dataset", "zeros", "model", "seed", "metric", "value", "error"} <= set(read.columns)


def test_fits_that_failed_are_tried_again_only_when_asked(tensor, tmp_path):
    Failing.problem = InferenceError("not yet.")
    Experiment({"a": tensor}, {"m": Failing()}, ["rmse"]).run(tmp_path)
    kept = Experiment({"a": tensor}, {"m": tf.MainEffects()}, ["rmse"])
    assert kept.run(tmp_path)["error"].tolist() == ["not yet."]
    assert kept.run(tmp_path, retry=True)["error"].isna().all()


@pytest.mark.parametrize("change", ["parameter", "metrics", "data", "data not loaded", "split"])
def test_rows_of_another_experiment_are_refused(tensor, tmp_path, change):
    Experiment({"a": tensor}, {"m": tf.MainEffects(max_iter=5)}, ["rmse"]).run(tmp_path)
    other = tf.simulate((30, 20, 10), 2, density=0.2, random_state=9).tensor
    data = {"data": other, "data not loaded": lambda: other}.get(change, tensor)
    changed = Experiment(
        {"a": data},
        {"m": tf.MainEffects(max_iter=6 if change == "parameter" else 5)},
        ["rmse", "mae-mean"] if change == "metrics" else ["rmse"],
        splits={"80-20": lambda t, seed: tf.split(t, 0.3, random_state=seed)}
        if change == "split"
        else None,
    )
    with pytest.raises(StorageError, match="another"):
        changed.run(tmp_path)


def test_rows_of_another_version_are_refused(tensor, tmp_path, monkeypatch):
    experiment = Experiment({"a": tensor}, {"m": tf.Constant()}, ["rmse"])
    monkeypatch.setattr("tallyfold.evaluation.experiment.__version__", "0.0.1")
    assert experiment.run(tmp_path)["version"].tolist() == ["0.0.1"]
    monkeypatch.undo()
    with pytest.raises(StorageError, match=rf"by tallyfold 0\.0\.1; this is {tf.__version__}"):
        experiment.run(tmp_path)
    (file,) = tmp_path.glob("*.parquet")  # and as rows were before they told
    pd.read_parquet(file).drop(columns="version").to_parquet(file)
    with pytest.raises(StorageError, match="by tallyfold of an earlier version; this is"):
        experiment.run(tmp_path)


def test_a_damaged_file_of_rows_says_which(tensor, tmp_path):
    experiment = Experiment({"a": tensor}, {"m": tf.Constant()}, ["rmse"])
    experiment.run(tmp_path)
    (file,) = tmp_path.glob("*.parquet")
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(StorageError, match="damaged") as error:
        experiment.run(tmp_path)
    assert file.name in str(error.value)


def test_ctrl_c_ends_the_experiment_and_leaves_no_half_fit(tensor, tmp_path):
    models = {"constant": tf.Constant(), "slow": Interrupted()}
    with pytest.raises(KeyboardInterrupt):
        Experiment({"a": tensor}, models, ["rmse"]).run(tmp_path)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_ctrl_c_inside_a_real_fit_is_no_row(tensor, tmp_path):
    def interrupt(said):
        raise AssertionError("a fit cut short was scored")

    def stop(progress):
        if progress.iteration.number == 3:
            raise KeyboardInterrupt  # as Ctrl-C does; the fit then keeps what it has, and warns

    class CutShort(tf.BPTF):
        def fit(self, tensor, **options):
            return super().fit(tensor, callbacks=[stop])

    with pytest.raises(KeyboardInterrupt):
        Experiment({"a": tensor}, {"m": CutShort()}, {"never": interrupt}).run(tmp_path)
    assert not list(tmp_path.glob("*.parquet"))


def test_killed_and_resumed_equals_uninterrupted(tmp_path):
    script = textwrap.dedent(
        """
        import sys, tallyfold as tf
        from tallyfold.evaluation.experiment import Experiment
        tensor = tf.simulate((30, 20, 10), 2, density=0.2, random_state=0).tensor
        models = {f"m{i}": tf.MainEffects(max_iter=5, prior_shape=1.0 + i) for i in range(30)}
        rows = Experiment({"a": tensor}, models, ["rmse"]).run(
            sys.argv[1], announce=lambda fit: print(fit.number, fit.done, flush=True)
        )
        rows.drop(columns=["seconds", "peak_mib"]).to_csv(sys.argv[1] + ".csv")
        """
    )
    command = [sys.executable, "-c", script]
    killed = subprocess.Popen([*command, str(tmp_path / "k")], stdout=subprocess.PIPE, text=True)
    for line in killed.stdout:
        if line.startswith("12 "):
            break
    killed.kill()
    killed.wait()
    killed.stdout.close()
    again = subprocess.run(
        [*command, str(tmp_path / "k")], capture_output=True, text=True, check=True
    )
    assert again.stdout.count("True") >= 11  # done before, not run again
    subprocess.run([*command, str(tmp_path / "w")], capture_output=True, check=True)
    assert (tmp_path / "k.csv").read_text() == (tmp_path / "w.csv").read_text()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metrics": ["mae"]}, "among mae-mean"),
        ({"metrics": []}, "metrics"),
        ({"models": {}}, "models"),
        ({"tensors": {}}, "tensors"),
        ({"seeds": [0, 0]}, "each once"),
        ({"seeds": [-1]}, "`seeds` must be .*; got -1"),
        ({"seeds": 3}, "`seeds` must be a list of seeds; got 3"),
        ({"seeds": None}, "`seeds` must be a list of seeds; got None"),
        ({"splits": held_out_fifth}, "`splits` must be a dict by name"),
        ({"splits": {"x": 3}}, "functions of a tensor and a seed; got 3 for 'x'"),
        ({"models": {"x": object()}}, "models of tallyfold"),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_first_fit(tensor, changes, text):
    given = {"tensors": {"a": tensor}, "models": two_models(), "metrics": ["rmse"], "seeds": [0]}
    with pytest.raises(ParameterError, match=text):
        Experiment(**(given | changes))


def test_peak_memory_is_that_of_the_block():
    from tallyfold.evaluation.fit_and_score import peak_memory

    with peak_memory() as small:
        pass
    with peak_memory() as large:
        block = np.ones(40_000_000)
        del block
    with peak_memory() as after:
        pass
    assert large.mib - small.mib > 250
    if sys.platform == "linux" and os.access("/proc/self/clear_refs", os.W_OK):
        assert large.mib - after.mib > 250


def test_a_split_gets_its_seed(tensor):
    seen = []

    def record(whole, seed):
        seen.append(seed)
        return Split(*tf.split(whole, 0.2, random_state=seed))

    Experiment(
        {"a": tensor}, {"m": tf.Constant()}, ["rmse"], seeds=[4, 7], splits={"s": record}
    ).run()
    assert seen == [4, 7]
