"""Several processes that save to one place: none destroys what another has saved."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.data.locks import locked_file, locked_folder
from tallyfold.errors import BusyError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="works by fork")

ROOT = Path(__file__).parents[2]
FEW = "ignore:the fit ended at its limit"
"""The warning of fits with few iterations."""
PATH = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
QUICK = {"n_components": 1, "max_iter": 2, "backend": "numpy", "validation": None}


@pytest.mark.parametrize(
    ("work", "savers", "rounds"), [("model", 2, 5), ("model", 4, 5), ("counts", 2, 3)]
)
def test_savers_and_readers_lose_nothing_and_see_no_damage(work, savers, rounds, tmp_path):
    """`two_savers` says what must hold; it ends with an error if it does not."""
    program = Path(__file__).with_name("two_savers.py")
    given = [work, str(tmp_path), str(savers), str(rounds)]
    command = [sys.executable, "-W", "error", "-W", FEW, str(program), *given]
    environment = os.environ | {"PYTHONPATH": PATH, "TALLYFOLD_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr


def in_thread(work):
    """Do something as another process would: a lock of this thread is not its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


@pytest.fixture
def tensor():
    return tf.simulate((6, 5), 1, density=0.5).tensor


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(locked_folder.__wrapped__, "__defaults__", (0.05,))
    monkeypatch.setattr(locked_file.__wrapped__, "__defaults__", (0.05,))


def test_a_folder_that_another_one_writes_to_is_busy(tensor, tmp_path):
    model = tf.BPTF(**QUICK).fit(tensor)
    with locked_folder(tmp_path / "m"):
        with pytest.raises(BusyError, match=f"busy: process {os.getpid()} on .* is writing to it"):
            in_thread(lambda: model.save(tmp_path / "m"))
        model.save(tmp_path / "m")  # its own lock
        assert in_thread(lambda: tf.load(tmp_path / "m")).n_components == 1
    in_thread(lambda: model.save(tmp_path / "m"))
    assert len(list((tmp_path / "m").iterdir())) == 2


def test_a_checkpoint_is_held_for_the_whole_fit(tensor, tmp_path):
    def again(progress):
        with pytest.raises(BusyError, match="is busy"):
            in_thread(lambda: tf.BPTF(**QUICK).fit(tensor, checkpoint=tmp_path, resume=True))

    tf.BPTF(**QUICK).fit(tensor, checkpoint=tmp_path, every=1, callbacks=[again])
    assert len(list(tmp_path.iterdir())) == 2


def test_the_file_of_a_choice_of_rank_is_held(tensor, tmp_path):
    def choose(callback=None):
        model = tf.BPTF(**QUICK)
        file = tmp_path / "ranks.json"
        return tf.select_rank(tensor, (1, 2), model, 2, path=file, callback=callback)

    def again(progress):
        with pytest.raises(BusyError, match="is busy"):
            in_thread(choose)

    choose(again)
    assert [path.name for path in tmp_path.iterdir()] == ["ranks.json"]


def test_the_second_of_two_fit_verbs_is_told(run_main, tensor, tmp_path):
    tf.write_counts(tensor, tmp_path / "x.npz")
    command = ["fit", "x.npz", "--model", "bptf", "-k", "1", "--max-iter", "2", "--out", "m"]
    with locked_folder(tmp_path / "m"):
        code, err = in_thread(lambda: run_main(*command))
        assert code == 2
        assert "'m' is busy" in err
    assert not (tmp_path / "m").exists()
    assert run_main(*command)[0] == 0


@pytest.fixture
def run_main(tmp_path, monkeypatch, capsys):
    from tallyfold.cli import main

    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        return stopped.value.code or 0, capsys.readouterr().err

    return call


def test_the_lock_of_a_dead_process_is_taken_over(tensor, tmp_path):
    model = tf.BPTF(**QUICK).fit(tensor)
    code = "import os, sys; from tallyfold.data.locks import locked_folder\n"
    code += "with locked_folder(sys.argv[1]): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=False)
    assert (tmp_path / "m" / ".lock").exists()
    model.save(tmp_path / "m")
    assert np.array_equal(tf.load(tmp_path / "m").predict(tensor), model.predict(tensor))
    assert len(list((tmp_path / "m").iterdir())) == 2


def test_what_killed_savers_left_is_cleared_and_nothing_else(tensor, tmp_path):
    model = tf.BPTF(**QUICK).fit(tensor)
    model.save(tmp_path / "m")
    code = "import os, sys, tempfile; from tallyfold.data.temporaries import temporary_prefix\n"
    code += "tempfile.mkstemp(dir=sys.argv[1], prefix=temporary_prefix())\n"
    code += "tempfile.mkdtemp(dir=sys.argv[1], prefix=temporary_prefix())"
    kept = {"arrays.safetensors", "model.json", ".writing-mine", ".writing-00000000-1-x"}
    for name in kept:
        (tmp_path / "m" / name).touch()
    actions = [
        lambda: tf.load(tmp_path / "m"),
        lambda: model.save(tmp_path / "m"),
        lambda: tf.write_counts(tensor, tmp_path / "m" / "x.csv"),
    ]
    for action in actions:
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "m")], check=True)
        assert len(list((tmp_path / "m").glob(".writing-*"))) == 4
        action()
        assert {path.name for path in (tmp_path / "m").glob(".writing-*")} <= kept
