"""A search: what it finds, what it refuses, and that it goes on where it stopped."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import optuna
import pytest

import tallyfold as tf
from tallyfold.errors import (
    InferenceError,
    InterruptedWarning,
    MissingPackageError,
    ParameterError,
    StorageError,
)
from tallyfold.evaluation.metrics import METRICS
from tallyfold.evaluation.search import study as search_study
from tallyfold.evaluation.search.cross_validation import CrossValidation, metric_for
from tallyfold.evaluation.search.result import Search
from tallyfold.evaluation.search.spaces import SPACES, space_for
from tallyfold.evaluation.search.tune import tune
from tallyfold.models.registry import MODELS

pytestmark = pytest.mark.usefixtures("brief_heads")

GRID = {"n_components": [1, 2, 3, 5], "prior_shape": [0.1, 1.0, 10.0]}
SMALL = {"n_components": [1, 3, 5], "prior_shape": [0.1, 1.0]}
WIDE = {"n_components": ("int", 1, 9), "prior_shape": ("log", 0.01, 100.0)}


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Be in a folder of one's own: searches leave a file where they are made."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((20, 15, 8), n_components=2, density=0.3, random_state=1).tensor


def made_up(parameters, fold):
    """Score a setting without a fit: best at 3 components and a prior shape of 1."""
    away = abs(parameters["n_components"] - 3) + abs(np.log10(parameters["prior_shape"]))
    return -1.0 - away - 0.01 * fold


@pytest.fixture
def fits(monkeypatch):
    """Put scores that cost nothing in the place of fits, and note which were asked for."""
    asked = []

    def scored(self, parameters, fold):
        asked.append((tuple(parameters.values()), fold))
        return made_up(parameters, fold)

    monkeypatch.setattr(CrossValidation, "score", scored)
    return asked


def settled(found: Search):
    """What two searches must have in common to have gone the same way."""
    table = found.trials.drop(columns="seconds").astype(object)
    return table.where(table.notna(), None).to_dict("records")


# -- what it finds --------------------------------------------------------------------------------


def test_scores_are_those_of_a_cross_validation_by_hand(tensor):
    model = tf.BPTF(max_iter=5, validation=None, random_state=7)
    found = tune(model, tensor, {"n_components": [1, 2]}, folds=2, metric="mae-mean")
    for row in found.trials.to_dict("records"):
        expected = []
        for fold, (train, test) in enumerate(tf.k_folds(tensor, 2, random_state=0)):
            fitted = tf.BPTF(
                n_components=row["n_components"],
                max_iter=5,
                validation=None,
                random_state=7 + fold,
            ).fit(train)
            expected.append(np.mean(np.abs(fitted.predict(test) - test.counts)))
        assert [row["fold_1"], row["fold_2"]] == pytest.approx(expected, rel=1e-12)
        assert row["mean"] == pytest.approx(np.mean(expected))
        assert row["se"] == pytest.approx(np.std(expected, ddof=1) / np.sqrt(2))
    means = found.trials.set_index("n_components")["mean"]
    assert found.best == {"n_components": means.idxmin()}  # an error: smaller is better
    assert found.best_score == means.min()
    assert found.model().get_params() == model.get_params() | found.best
    assert model.n_components == 10  # the model given is not touched


def test_a_small_grid_is_run_whole_each_point_once(tensor, fits):
    found = tune("bptf", tensor, GRID, folds=2, pruner=None)
    points = set(itertools.product(*GRID.values()))
    assert len(found.trials) == len(points) == 12
    assert {point for point, _ in fits} == points
    assert len(fits) == 2 * 12
    assert found.best == {"n_components": 3, "prior_shape": 1.0}
    assert found.best_score == pytest.approx(-1.005)
    assert found.trials["number"].tolist() == list(range(12))


def test_a_large_grid_is_sampled_without_repeats_and_by_what_was_learnt(tensor, fits):
    space = GRID | {"n_components": list(range(1, 10))}
    found = tune("bptf", tensor, space, folds=2, trials=26, pruner=None)
    points = found.trials[["n_components", "prior_shape"]].apply(tuple, axis=1)
    assert points.nunique() == len(found.trials) == 26  # of 27
    wide = tune("bptf", tensor, WIDE, folds=2, trials=30, pruner=None)
    assert wide.trials["mean"][15:].mean() > wide.trials["mean"][:10].mean() + 0.3


def test_parameters_chosen_together_and_single_choices(tensor, fits):
    space = {"n_components,prior_shape": [(1, 0.1), (3, 1.0)], "likelihood": ["poisson"]}
    found = tune("bptf", tensor, space, folds=2)
    assert found.best == {"n_components": 3, "prior_shape": 1.0, "likelihood": "poisson"}


def test_bad_trials_are_pruned_by_fold(tensor, fits):
    found = tune("bptf", tensor, GRID, folds=4)
    states = found.trials["state"].value_counts()
    assert states["pruned"] >= 2
    assert states["complete"] >= 5
    pruned = found.trials[found.trials["state"] == "pruned"]
    assert pruned["fold_2"].notna().all()  # never after the first fold alone
    assert pruned["fold_4"].isna().all()
    assert pruned["number"].min() >= 5
    assert found.best == {"n_components": 3, "prior_shape": 1.0}
    assert len(fits) == int(found.trials.filter(like="fold_").notna().sum().sum())
    own = tune("bptf", tensor, GRID, folds=4, pruner=optuna.pruners.ThresholdPruner(upper=1.5))
    assert (own.trials["state"] == "pruned").sum() == 11


def test_what_cannot_be_fitted_is_a_failed_trial(tensor):
    model = tf.MainEffects(zeros="observed", max_iter=3)
    found = tune(model, tensor, {"likelihood": ["poisson", "negative-binomial"]}, folds=2)
    assert found.metric == "log-score"
    rows = found.trials.set_index("likelihood")
    assert rows["state"].to_dict() == {"poisson": "complete", "negative-binomial": "failed"}
    assert "must be a plain Poisson" in rows["error"]["negative-binomial"]
    none = tune(model, tensor, {"likelihood": ["negative-binomial"]}, folds=2)
    with pytest.raises(InferenceError, match="no trial .* is complete.*must be a plain Poisson"):
        _ = none.best


def test_a_model_of_means_has_no_log_pmf(tensor):
    found = tune(tf.NTFLS(max_iter=2), tensor, {"l2": [0.1]}, folds=2, metric="log-pmf")
    assert "no distribution of counts, so no 'log-pmf'" in found.trials["error"][0]
    assert metric_for(tf.NTFLS(), None, tensor) == metric_for(tf.MLPTF(), None, tensor) == "rmse"
    assert metric_for(tf.MLPTF(loss="poisson"), None, tensor) == "log-pmf-positive"


def test_saved_parameters_make_the_model_again(tensor, fits, tmp_path):
    found = tune(
        tf.BPTF(max_iter=33), tensor, GRID | {"prior_shape": np.array([1.0])}, 2, storage=None
    )
    found.save(tmp_path / "best.json")
    document = json.loads((tmp_path / "best.json").read_text())
    wanted = {"max_iter": 33, "n_components": 3, "prior_shape": 1.0, "zeros": "missing"}
    assert document["parameters"] == wanted
    again = MODELS[document["model"]](**document["parameters"])
    assert again.get_params() == found.model().get_params()
    assert os.listdir(tmp_path) == ["best.json"]
    with pytest.raises(StorageError, match="could not be written"):
        found.save(tmp_path / "nowhere" / "best.json")


def test_nothing_is_written_to_the_terminal(tensor, fits, tmp_path, capfd):
    before = optuna.logging.get_verbosity()
    tune("bptf", tensor, SMALL, folds=2, trials=2, storage=tmp_path / "s.db")
    assert capfd.readouterr() == ("", "")
    assert optuna.logging.get_verbosity() == before


# -- spaces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SPACES)
def test_ready_spaces_keep_the_rules(name):
    model = MODELS[name]()
    space = space_for(model, name)
    sizes = {"bptf": 15, "online-gibbs": 45, "ptf-kl": 5, "ntf-ls": 75, "mlp-tf": 675}
    assert space.size == sizes.get(name, space.size)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for trial in (study.ask() for _ in range(3)):
        for dimension in space.dimensions:
            dimension.suggest(trial)
        parameters = space.parameters(trial.params)
        assert list(parameters) == space.names
        type(model)(**parameters)


def test_every_model_has_a_space_and_the_papers_form_its_own():
    assert set(MODELS) <= set(SPACES)
    paper = space_for(tf.VAEBPTF.paper(), None)
    given = {dimension.key: dimension.given for dimension in paper.dimensions}
    assert given["theta,eta"][-1] == [10.0, 50.0]
    assert "theta" not in space_for(tf.VAEBPTF(), None).names


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, "must be a dict"),
        ("bptff", "must be one of .*got 'bptff'"),
        (
            {"n_component": [1]},
            "'n_component', which is no parameter of bptf; there are .*n_components",
        ),
        ({"n_components": []}, "a list of choices"),
        ({"n_components": 5}, "a list of choices"),
        ({"n_components": [5, 0]}, "`n_components` must be a positive integer; `space` has 0"),
        ({"n_components": [5, 5]}, "has a choice of 'n_components' twice"),
        ({"n_components": ("int", 0, 5)}, "must be a positive integer; `space` has 0"),
        ({"prior_shape": ("log", 0, 5)}, "above zero if 'log'"),
        ({"n_components": ("int", 1.5, 5)}, "whole if 'int'"),
        ({"n_components": ("int", 5, 1)}, "from a smaller to a larger"),
        ({"n_components,prior_shape": [1, 2]}, "lists of 2 values, chosen together; got 1"),
        ({"n_components,tol": [[1, 0.1]], "tol": [0.1]}, "has 'tol' twice"),
        ({"random_state": [1, 2]}, "a lucky seed is no setting"),
        ({"n_components": [object()]}, "must hold numbers, words"),
    ],
)
def test_spaces_are_refused_before_the_first_fit(tensor, fits, space, message):
    with pytest.raises(ParameterError, match=message):
        tune("bptf", tensor, space)
    assert not fits


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "bpft"}, "`model` must be a model.*got 'bpft'"),
        ({"folds": 1}, "`folds` must be an integer of at least 2"),
        ({"trials": 0}, "`trials` must be a positive integer"),
        ({"metric": "luck"}, "`metric` must be one of .*got 'luck'"),
        ({"metric": ["rmse"]}, "`metric` must be one of .*got \\['rmse'\\]"),
        ({"pruner": "mean"}, "`pruner` must be 'median', None or"),
        ({"storage": 5}, "`storage` must be a file, the URL of a database or None; got 5"),
        ({"tensor": [1]}, "expected a CountTensor; got list as `tensor`"),
    ],
)
def test_arguments_are_refused(tensor, arguments, message):
    with pytest.raises(ParameterError, match=message):
        tune(**({"model": "bptf", "tensor": tensor} | arguments))


def test_without_optuna(tensor, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingPackageError, match=r"pip install tallyfold\[tune\]"):
        tune("bptf", tensor)


# -- going on -------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [SMALL, WIDE], ids=["grid", "wide"])
def test_a_search_in_two_parts_is_the_search_in_one(tensor, fits, tmp_path, space):
    whole = tune("bptf", tensor, space, folds=2, trials=12)
    calls = len(fits)
    storage = optuna.storages.InMemoryStorage()
    tune("bptf", tensor, space, folds=2, trials=6, storage=storage)
    again = tune("bptf", tensor, space, folds=2, trials=12, storage=storage)
    assert len(fits) == 2 * calls  # nothing was run twice
    assert settled(again) == settled(whole)


def test_a_search_is_found_again_in_its_file(tensor, fits, tmp_path):
    storage = tmp_path / "odd name?%#.db"
    first = tune("bptf", tensor, SMALL, folds=2, storage=storage)
    assert storage.exists()
    calls = len(fits)
    again = tune("bptf", tensor, SMALL, folds=2, storage=str(storage))
    assert len(fits) == calls
    assert settled(again) == settled(first) == settled(tune("bptf", tensor, SMALL, folds=2))


def test_trials_are_kept_unless_said_otherwise(tensor, fits, tmp_path):
    alone = tune("bptf", tensor, SMALL, folds=2, storage=None)
    assert list(tmp_path.iterdir()) == []
    first, other = (tune("bptf", tensor, SMALL, folds=folds) for folds in (2, 3))
    assert [file.name for file in tmp_path.iterdir()] == ["tallyfold-search.db"]
    calls = len(fits)
    again, other_again = (tune("bptf", tensor, SMALL, folds=folds) for folds in (2, 3))
    assert len(fits) == calls
    assert settled(again) == settled(first) == settled(alone)
    assert settled(other_again) == settled(other) != settled(first)


def test_an_interrupt_keeps_what_is_finished(tensor, monkeypatch):
    calls = itertools.count()

    def scored(self, parameters, fold):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return made_up(parameters, fold)

    monkeypatch.setattr(CrossValidation, "score", scored)
    storage = optuna.storages.InMemoryStorage()
    with pytest.warns(InterruptedWarning, match="after 2 of 6 trials. Make the same call"):
        found = tune("bptf", tensor, SMALL, folds=2, storage=storage)
    assert found.interrupted
    assert found.trials["state"].tolist() == ["complete", "complete"]
    assert found.best_score == found.trials["mean"].max()
    rest = tune("bptf", tensor, SMALL, folds=2, storage=storage)
    assert not rest.interrupted
    assert settled(rest) == settled(tune("bptf", tensor, SMALL, folds=2))


def test_an_interrupt_before_anything_is_an_interrupt(tensor, monkeypatch):
    def scored(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(CrossValidation, "score", scored)
    with pytest.raises(KeyboardInterrupt):
        tune("bptf", tensor, GRID, folds=2, storage=None)


def test_a_fit_cut_short_is_not_scored(tensor):
    class Stopped(tf.BPTF):
        def fit(self, tensor, **rest):
            def stop(progress):
                raise KeyboardInterrupt

            return super().fit(tensor, callbacks=[stop])

    validation = CrossValidation(Stopped(max_iter=3), [tf.split(tensor)], "log-pmf", 0)
    with pytest.raises(KeyboardInterrupt):
        validation.score({}, 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": tf.BPTF(max_iter=9)}, r"its parameters.max_iter was 200; here it is 9"),
        ({"space": {"n_components": [1]}}, r"its space.n_components was \[1, 3, 5\]"),
        ({"folds": 3}, "its folds was 2; here it is 3"),
        ({"metric": "rmse"}, 'its metric was "log-pmf-positive"'),
        ({"random_state": 1}, "its random_state was 0"),
        ({"pruner": None}, 'its pruner was "median"; here it is null'),
        ({"tensor": tf.simulate((9, 9), 2, density=0.5).tensor}, "its tensor was"),
        ({"model": "main-effects", "space": None}, 'its model was "bptf"'),
    ],
)
def test_a_study_of_another_search_is_refused(tensor, fits, change, message):
    first = {"model": "bptf", "tensor": tensor, "space": SMALL, "folds": 2}
    places = {"storage": optuna.storages.InMemoryStorage(), "study": "mine"}
    tune(**first, **places)
    calls = len(fits)
    with pytest.raises(StorageError, match=f"study 'mine' in .* is of another call: {message}"):
        tune(**(first | change), **places)
    assert len(fits) == calls


def test_two_models_in_one_storage(tensor, fits):
    storage = optuna.storages.InMemoryStorage()
    for name in ("bptf", "bptf-gibbs"):
        assert len(tune(name, tensor, SMALL, 2, storage=storage).trials) == 6


def test_files_that_are_no_storage(tensor, tmp_path):
    for text in ("x", "no database at all, " * 99):
        (tmp_path / "notes.txt").write_text(text)
        with pytest.raises(StorageError, match="notes.txt' is no file of SQLite's"):
            tune("bptf", tensor, storage=tmp_path / "notes.txt")
        assert (tmp_path / "notes.txt").read_text() == text
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + b"and nothing more" * 99)
    with pytest.raises(StorageError, match="broken.db' gave: "):
        tune("bptf", tensor, storage=tmp_path / "broken.db")
    with pytest.raises(StorageError, match="there is no folder"):
        tune("bptf", tensor, storage=tmp_path / "nowhere" / "s.db")
    with pytest.raises(StorageError, match=r"user:\*\*\*@host/base' gave: .*nonsense") as refused:
        tune("bptf", tensor, storage="nonsense://user:secret@host/base")
    assert "secret" not in str(refused.value)


# -- several processes ----------------------------------------------------------------------------


@pytest.mark.parametrize("fold", [0, 1])
def test_a_trial_that_others_took_over_is_left_to_them(tensor, monkeypatch, fold):
    """A machine that slept gives no heartbeat; when it wakes, its trial has failed."""
    storage, asked = optuna.storages.InMemoryStorage(), []

    def scored(self, parameters, at):
        asked.append(at)
        if len(asked) == fold + 1:
            study = optuna.load_study(study_name="mine", storage=storage)
            study.enqueue_trial(study.trials[0].params)
            study.tell(0, state=optuna.trial.TrialState.FAIL)
        return made_up(parameters, at)

    monkeypatch.setattr(CrossValidation, "score", scored)
    found = tune("bptf", tensor, SMALL, 2, storage=storage, study="mine")
    assert found.trials["state"].tolist() == ["complete"] * 6
    assert len(asked) == 2 * 6 + fold + 1


def test_an_error_of_a_callback_is_raised_and_its_trial_is_run_again(tensor, fits):
    def fail(progress):
        raise ValueError("from the callback")

    storage = optuna.storages.InMemoryStorage()
    with pytest.raises(ValueError, match="from the callback"):
        tune("bptf", tensor, SMALL, 2, storage=storage, callback=fail)
    found = tune("bptf", tensor, SMALL, 2, storage=storage)
    assert found.trials["state"].tolist() == ["complete"] * 6
    assert len(fits) == 2 * 6 + 1


SCRIPT = """
import sys, time
from pathlib import Path
import tallyfold as tf
from tallyfold.evaluation.search import study
from tallyfold.evaluation.search.cross_validation import CrossValidation
from tallyfold.evaluation.search.tune import tune

folder, seconds = Path(sys.argv[1]), float(sys.argv[2])

def scored(self, parameters, fold):
    with open(folder / "fits.txt", "a") as log:
        log.write(f"{parameters['n_components']} {parameters['prior_shape']} {fold}\\n")
    time.sleep(seconds)
    return -1.0 * parameters["n_components"] - 0.01 * fold

CrossValidation.score = scored
study.HEARTBEAT, study.GRACE = 1, 2
tensor = tf.simulate((20, 15, 8), n_components=2, density=0.3, random_state=1).tensor
(folder / f"ready-{sys.argv[3]}").touch()
while not (folder / "go").exists():
    time.sleep(0.01)
space = {"n_components": [1, 3, 5], "prior_shape": [0.1, 1.0]}
found = tune("bptf", tensor, space, 2, storage=folder / "s.db", pruner=None)
print(len(found.trials))
"""


def start(folder: Path, seconds: float, number: int) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(folder / "script.py"), str(folder), str(seconds), str(number)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
    )


def wait_for(condition, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def fits_in(folder: Path) -> list[str]:
    log = folder / "fits.txt"
    return log.read_text().splitlines() if log.exists() else []


def test_two_processes_share_a_grid(tensor, fits, tmp_path):
    both = [start(tmp_path, 0.02, number) for number in (1, 2)]
    wait_for(lambda: all((tmp_path / f"ready-{number}").exists() for number in (1, 2)))
    (tmp_path / "go").touch()
    for process in both:
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
    done = fits_in(tmp_path)
    assert len(set(done)) == 6 * 2
    assert len(done) <= 6 * 2 + 2  # a point that both chose in the same moment may be run by both
    found = tune("bptf", tensor, SMALL, 2, storage=tmp_path / "s.db", pruner=None)
    assert not fits
    assert found.trials["state"].tolist() == ["complete"] * 6


def test_a_search_that_was_killed_goes_on(tensor, fits, tmp_path, monkeypatch):
    monkeypatch.setattr(search_study, "HEARTBEAT", 1)
    monkeypatch.setattr(search_study, "GRACE", 2)
    process = start(tmp_path, 0.02, 1)
    (tmp_path / "go").touch()
    wait_for(lambda: len(fits_in(tmp_path)) >= 3)
    process.kill()
    process.communicate()
    before = fits_in(tmp_path)
    assert len(before) < 12
    found = tune("bptf", tensor, SMALL, 2, storage=tmp_path / "s.db", pruner=None)
    assert found.trials["state"].tolist() == ["complete"] * 6
    assert found.trials["number"].tolist() == list(range(6))
    again = len(before) + len(fits) - 12  # the trial that was running is run from its first fold
    assert 0 <= again <= 2


def test_a_trial_killed_between_two_choices_does_not_stop_a_large_grid(tensor, fits):
    """Nearly all of a space is tried, so that TPE repeats itself and points must be drawn."""
    space = {"n_components": ("int", 1, 9), "prior_shape": [0.1, 1.0, 10.0]}
    given = {"folds": 2, "pruner": None, "storage": optuna.storages.InMemoryStorage()}
    first = tune("bptf", tensor, space, trials=5, study="mine", **given)
    study = optuna.load_study(study_name="mine", storage=given["storage"])
    study.enqueue_trial({"n_components": int(first.trials["n_components"][0])})
    killed = study.ask()
    killed.suggest_int("n_components", 1, 9)
    study.tell(killed, state=optuna.trial.TrialState.FAIL)  # as others do without a heartbeat
    found = tune("bptf", tensor, space, trials=26, study="mine", **given)
    assert found.trials["state"].tolist() == ["complete"] * 26  # of 27
    points = found.trials[["n_components", "prior_shape"]].apply(tuple, axis=1)
    assert points.nunique() == 26


def test_progress_is_told(tensor, fits):
    told = []
    tune("bptf", tensor, {"n_components": [1, 3], "prior_shape": [1.0]}, 2, callback=told.append)
    assert [(step.trial, step.fold, step.state) for step in told] == [
        (1, 1, "running"),
        (1, 2, "running"),
        (1, 2, "complete"),
        (2, 1, "running"),
        (2, 2, "running"),
        (2, 2, "complete"),
    ]
    assert told[0].best is None
    assert told[-1].best == pytest.approx(-1.005)
    assert METRICS["log-pmf-positive"].loss(told[-1].best) == pytest.approx(1.005)
