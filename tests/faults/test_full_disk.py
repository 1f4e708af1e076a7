"""No room on the disk, or no right to write: one clear error, and what was there before stays."""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import StorageError
from tallyfold.evaluation.experiment import Experiment
from tallyfold.evaluation.search import study

resource = pytest.importorskip("resource", reason="limits are POSIX's")

QUICK = ("--model", "bptf", "--set", "backend=numpy", "--set", "max_iter=2", "--folds", "2")
SPACE = {"n_components": [1, 2], "prior_shape": [0.3, 1.0]}


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size: the system refuses, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def counts(tensor, tmp_path):
    (tmp_path / "in").mkdir()
    tf.write_counts(tensor, tmp_path / "in" / "x.parquet")
    return tmp_path / "in" / "x.parquet"


@pytest.fixture
def saved(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


TABLES = ["csv", "csv.gz", "parquet", "jsonl", "jsonl.zst"]
FILES = {
    **{f"predict to {end}": (f"x.{end}", ["predict", "MODEL", "IN", "--out"]) for end in TABLES},
    **{
        f"convert to {end}": (f"x.{end}", ["convert", "IN"])
        for end in [*TABLES, "npz", "tns", "tns.gz"]
    },
    "report": ("x.html", ["report", "MODEL", "--out"]),
    "tune --out": (
        "x.json",
        [
            "tune",
            "IN",
            *QUICK,
            "--storage",
            "sqlite://",
            "--choices",
            "n_components=1,2",
            "--trials",
            "1",
            "--out",
        ],
    ),
    "rank --out": ("x.csv", ["rank", "IN", *QUICK, "--ranks", "1,2", "--out"]),
    "rank --plot": ("x.png", ["rank", "IN", *QUICK, "--ranks", "1,2", "--plot"]),
    "rank --keep": ("x.json", ["rank", "IN", *QUICK, "--ranks", "1,2", "--keep"]),
}
"""Verbs that write a file: its name, and the command before it."""


def command(verb, saved, counts):
    stands_for = {"MODEL": saved, "IN": counts}
    return [stands_for.get(word, word) for word in FILES[verb][1]]


@pytest.mark.parametrize("verb", FILES)
def test_a_verb_without_room_says_so_and_leaves_the_old_file(verb, run, saved, counts, tmp_path):
    place = tmp_path / "out"
    place.mkdir()
    file = place / FILES[verb][0]
    if verb != "rank --keep":  # it reads what is there
        file.write_text("old")
    with room_for(20):
        result = run(*command(verb, saved, counts), file)
    assert result.code == 2, result.err
    assert f"tallyfold: '{file}' could not be written: File too large. " in result.err
    assert "Make room" in result.err
    assert "Traceback" not in result.err
    assert [path.name for path in place.iterdir()] == ([file.name] if file.exists() else [])
    assert not file.exists() or file.read_text() == "old"


@pytest.mark.parametrize("verb", FILES)
def test_a_verb_without_the_right_to_write_says_so(verb, run, saved, counts, nowhere):
    result = run(*command(verb, saved, counts), nowhere / FILES[verb][0])
    assert result.code == 2, result.err
    assert "could not be written: " in result.err
    assert "Traceback" not in result.err


LONG = {
    "fit": ["fit", "IN", "--out"],
    "reproduce": ["reproduce", "mae", "--quick", "--data", "FOLDER", "--out"],
    "rank --out": ["rank", "IN", "--out"],
    "tune --out": ["tune", "IN", "--out"],
    "tune --storage": ["tune", "IN", "--storage"],
}
"""Verbs that work for long before they write, as they are by default."""


@pytest.mark.parametrize("below", ["x", "file/x"])
@pytest.mark.parametrize("verb", LONG)
def test_a_long_run_that_could_not_be_written_is_not_begun(
    verb, below, run, counts, nowhere, tmp_path, monkeypatch
):
    def begin(*_: object, **__: object) -> None:
        raise AssertionError("a fit was begun")

    monkeypatch.setattr(tf.models.base.CountModel, "fit", begin)
    monkeypatch.setattr(tf.VAEBPTF, "fit", begin)
    (tmp_path / "file").write_text("")
    place = (tmp_path if "/" in below else nowhere) / below
    stands_for = {"IN": counts, "FOLDER": counts.parent}
    result = run(*[stands_for.get(word, word) for word in LONG[verb]], place)
    assert result.code == 2, result.err
    assert str(place) in result.err
    assert "Traceback" not in result.err


def test_a_model_saved_without_room_leaves_the_old_one(model, tensor, saved):
    other = tf.BPTF(n_components=20, max_iter=2, backend="numpy").fit(tensor)
    for room in (0, 100, 2000, 20_000):
        with room_for(room), pytest.raises(StorageError, match="File too large.*Make room"):
            other.save(saved)
        assert np.array_equal(tf.load(saved).predict(tensor), model.predict(tensor))
        assert len(list(saved.iterdir())) == 2
    other.save(saved)
    assert tf.load(saved).n_components == 20


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_disk_that_is_full_at_any_call(call, model, tensor, saved, monkeypatch):
    """Some file systems tell only when a file is closed or synced."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Full:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return full if name == "write" else getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

    if call == "write":
        real = os.fdopen
        monkeypatch.setattr(os, "fdopen", lambda *given: Full(real(*given)))
    else:
        monkeypatch.setattr(os, call, full)
    other = tf.BPTF(n_components=2, max_iter=2, backend="numpy").fit(tensor)
    with pytest.raises(StorageError, match="No space left on device.*is still there"):
        other.save(saved)
    with pytest.raises(StorageError, match="No space left on device"):
        tf.BPTF(n_components=2, max_iter=2).fit(tensor, checkpoint=saved.parent / "run", every=1)
    monkeypatch.undo()
    assert np.array_equal(tf.load(saved).predict(tensor), model.predict(tensor))
    assert len(list(saved.iterdir())) == 2


def test_a_fit_whose_checkpoint_finds_no_room_goes_on_where_it_was(tensor, tmp_path):
    given = {"n_components": 3, "max_iter": 6, "tol": 0, "validation": None, "backend": "numpy"}
    whole = tf.BPTF(**given).fit(tensor)
    done = []

    def fill(progress):
        done.append(progress)
        if len(done) == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (50, before[1]))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(StorageError, match="File too large.*is still there"):
            tf.BPTF(**given).fit(tensor, checkpoint=tmp_path, every=1, callbacks=[fill])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    again = tf.BPTF(**given).fit(
        tensor, checkpoint=tmp_path, every=1, resume=True, callbacks=[done.append]
    )
    assert len(done) == 3 + 4  # two iterations were kept
    left, right = whole.fitted_.arrays(), again.fitted_.arrays()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


def test_an_experiment_without_room_keeps_its_finished_fits(tensor, tmp_path):
    models = {f"m{k}": tf.MainEffects(max_iter=k) for k in (1, 2, 3)}
    told = []

    def announce(fit):
        told.append((fit.number, fit.done))
        if fit.number == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with pytest.raises(StorageError, match="finished fits are still there. Make room"):
            Experiment({"a": tensor}, models, ["rmse"]).run(tmp_path, announce=announce)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    told.clear()
    rows = Experiment({"a": tensor}, models, ["rmse"]).run(
        tmp_path, announce=lambda fit: told.append(fit.done)
    )
    assert told == [True, True, False]
    assert rows["error"].isna().all()


@pytest.mark.parametrize("room", [0, 20_000, "after the first trials"])
def test_a_search_whose_storage_finds_no_room_goes_on_later(room, tensor, tmp_path, monkeypatch):
    monkeypatch.setattr(study, "HEARTBEAT", 1)
    monkeypatch.setattr(study, "GRACE", 2)
    file = tmp_path / "s.db"
    given = (tf.BPTF(max_iter=2, backend="numpy"), tensor, SPACE, 2)
    if isinstance(room, str):
        tf.tune(*given, trials=2, storage=file, pruner=None)
        room = file.stat().st_size // 2
    with room_for(room), pytest.raises(StorageError, match="storage.*disk"):
        tf.tune(*given, trials=4, storage=file, pruner=None)
    found = tf.tune(*given, trials=4, storage=file, pruner=None)
    assert found.trials["state"].tolist() == ["complete"] * 4


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
def test_standard_output_without_room(saved):
    command = [sys.executable, "-m", "tallyfold", "components", str(saved), "--axis", "axis_0"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "tallyfold: No space left on device.\n")
