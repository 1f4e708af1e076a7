"""What can be wrong with a store, and with writing one: named, with what to do."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.faults.test_full_disk import room_for

import tallyfold as tf
from tallyfold.data.locks import locked_folder
from tallyfold.data.store import manifest
from tallyfold.errors import BusyError, FormatError, StorageError

ROOT = Path(__file__).parents[2]
AXES = ["a", "b", "c"]


@pytest.fixture
def folder(tensor, tmp_path):
    tf.write_store(tensor, tmp_path / "s", shards=3)
    return tmp_path / "s"


@pytest.fixture
def events(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, 100 * k, 60_000) for k, n in enumerate(AXES, 1)})
    frame.to_parquet(tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def in_the_middle(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def edited(file, **facts):
    document = json.loads(file.read_bytes())
    file.write_text(json.dumps(document | facts))


DAMAGE = {
    "a shard is missing": (
        lambda s: (s / "part-00001.parquet").unlink(),
        "lacks its file 'part-00001.parquet', of [0-9,]+ bytes. Take it from a backup",
    ),
    "a shard is cut short": (
        lambda s: os.truncate(s / "part-00001.parquet", 100),
        "part-00001.parquet' is not the file that was written: it has 100 bytes, and had",
    ),
    "a shard is altered": (
        lambda s: in_the_middle(s / "part-00001.parquet"),
        "part-00001.parquet' was changed after the store was written: its checksum is",
    ),
    "labels are missing": (
        lambda s: (s / "labels-02.arrow").unlink(),
        "lacks its file 'labels-02.arrow'",
    ),
    "labels are altered": (
        lambda s: in_the_middle(s / "labels-02.arrow"),
        "labels-02.arrow' was changed after the store was written",
    ),
    "the manifest is of a later version": (
        lambda s: edited(s / "manifest.json", version=2),
        "is of version 2; this tallyfold .* reads version 1. Write the store again",
    ),
    "the manifest is of something else": (
        lambda s: edited(s / "manifest.json", format="x"),
        "is not a store: its manifest.json is of format 'x'; a store's is 'tallyfold-store'",
    ),
    "the manifest is no JSON": (
        lambda s: (s / "manifest.json").write_text("{"),
        "manifest.json' is damaged: .*. Take it from a backup, or remove the folder and write",
    ),
    "the manifest is a list": (
        lambda s: (s / "manifest.json").write_text("[]"),
        "manifest.json' is damaged",
    ),
    "the manifest is edited": (
        lambda s: edited(s / "manifest.json", nnz=3),
        "manifest.json' is damaged: it was changed after it was written",
    ),
    "there is no manifest": (
        lambda s: (s / "manifest.json").unlink(),
        "is not a store: it has no manifest.json. Make one with tallyfold.write_store",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_store_is_refused(name, folder, run):
    damage, words = DAMAGE[name]
    damage(folder)
    with pytest.raises(FormatError, match=words):
        tf.open_store(folder).tensor()
    result = run("describe", folder)
    if name != "there is no manifest":  # then it is a folder of tables like any other
        assert result.code == 2
    assert "Traceback" not in result.err


def test_a_manifest_that_names_files_elsewhere_is_refused(folder, tmp_path):
    file = folder / "manifest.json"
    document = json.loads(file.read_bytes())
    document["shards"][0]["data"]["file"] = "../x.parquet"
    document["checksum"] = manifest._checksum(document)
    file.write_text(json.dumps(document))
    with pytest.raises(FormatError, match="names a file that is not its own"):
        tf.open_store(folder)


def test_no_store_at_all(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        tf.open_store(tmp_path / "nothing")
    with pytest.raises(FormatError, match="is not a store"):
        tf.open_store(tmp_path)


@pytest.mark.parametrize("how", ["replaced", "removed", "labels replaced"])
def test_a_store_that_changes_under_a_run_is_refused(how, folder, tensor):
    store = tf.open_store(folder)
    assert store.part(0, 3).nnz
    shutil.rmtree(folder)
    if how != "removed":
        other = tf.simulate((60, 50, 10), 2, density=0.1, random_state=7).tensor
        tf.write_store(other, folder, shards=3)
    with pytest.raises(FormatError, match="written anew, moved or removed since it was opened"):
        store.part(1, 3)
    if how == "replaced":
        assert tf.open_store(folder).tensor() == other


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_shard_that_may_not_be_read(folder):
    (folder / "part-00000.parquet").chmod(0)
    with pytest.raises(FormatError, match="permission denied. Ask for the right"):
        tf.open_store(folder).tensor()


# -- writing --------------------------------------------------------------------------------------


def write(events, folder, **more):
    return tf.write_store(events, folder, AXES, shards=4, **more)


@pytest.mark.parametrize("room", [0, 10_000, 300_000, 600_000])
def test_a_full_disk_leaves_what_goes_on_later(room, events, tmp_path, run):
    whole = tf.read_counts(events, AXES)
    with room_for(room), pytest.raises(StorageError, match="Make room.*goes on where it was"):
        write(events, tmp_path / "s")
    assert not (tmp_path / "s" / "manifest.json").exists()
    assert write(events, tmp_path / "s").tensor() == whole


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_is_full_at_any_call(call, events, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(StorageError, match="No space left on device. Make room"):
        write(events, tmp_path / "s")
    monkeypatch.undo()
    assert write(events, tmp_path / "s").tensor() == tf.read_counts(events, AXES)


def test_no_right_to_write(events, nowhere, run):
    with pytest.raises(StorageError, match="could not be written"):
        write(events, nowhere / "s")
    result = run("convert", events, f"{nowhere}/s/", "--axes", "a,b,c")
    assert result.code == 2
    assert "could not be written" in result.err


def test_two_writers(events, tmp_path):
    folder = tmp_path / "s"
    code = (
        "import sys, time; from tallyfold.data.locks import locked_folder\n"
        "with locked_folder(sys.argv[1]): print('held', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match="is busy: process"):
            write(events, folder)
        other.kill()
    with locked_folder(folder):
        pass
    assert write(events, folder).nnz


def test_ctrl_c_while_duckdb_works_is_a_ctrl_c():
    """DuckDB has an error of its own for it, when it looks for signals: not at every moment."""
    from tallyfold.data.formats.sql import connected

    with pytest.raises(KeyboardInterrupt), connected():
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="another"), connected():
        raise RuntimeError("another")


@pytest.mark.skipif(os.name != "posix", reason="works by SIGKILL")
def test_a_writer_that_is_killed_again_and_again_comes_to_the_same_store(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({n: rng.integers(0, 300 * k, 300_000) for k, n in enumerate(AXES, 1)})
    frame.to_parquet(tmp_path / "x.parquet")
    command = [sys.executable, "-m", "tallyfold", "convert", str(tmp_path / "x.parquet")]
    command += [f"{tmp_path}/s/", "--axes", "a,b,c", "--shards", "40"]
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    folder, killed = tmp_path / "s", 0
    for number in range(40):
        with subprocess.Popen(command, cwd=ROOT, **silent) as process:
            until = time.monotonic() + 60
            least = len(list(folder.glob("part-*"))) + number % 8
            while process.poll() is None and time.monotonic() < until:
                if (folder / ".building" / "cells.duckdb").exists() and (
                    len(list(folder.glob("part-*"))) >= least
                ):
                    process.send_signal(signal.SIGKILL)
                    break
                time.sleep(0.002)
            killed += process.wait() == -signal.SIGKILL
        if (folder / "manifest.json").exists() or killed >= 3:
            break
    assert killed >= 2
    store = tf.write_store(tmp_path / "x.parquet", folder, AXES, shards=40)
    assert store.tensor() == tf.read_counts(tmp_path / "x.parquet", AXES)
    assert not (folder / ".building").exists()
