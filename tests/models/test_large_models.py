"""Models whose long axis stays in files: what is asked for is read, and damage is seen."""

import json
import os
import subprocess
import sys
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

import tallyfold as tf
from tallyfold.errors import LabelError, StorageError
from tallyfold.inference.fit import folder, large_files
from tallyfold.kernels.arrays import in_file, row_blocks, rows_of

FEW = "ignore:the fit ended at its limit"
pytestmark = pytest.mark.filterwarnings(FEW)


@pytest.fixture(scope="module")
def whole():
    return tf.simulate((60, 12, 5), 2, density=0.3, axes=["user", "item", "day"]).tensor


@pytest.fixture(scope="module")
def model(whole):
    return tf.BPTF(n_components=2, max_iter=3).fit(whole)


@pytest.fixture
def saved(model, tmp_path, monkeypatch):
    """A model whose users are in files, and no other axis."""
    monkeypatch.setattr(large_files, "LARGE", 40 * 2 * 8)
    model.save(tmp_path / "m")
    return tmp_path / "m"


def large(folder):
    return sorted(each.name for each in folder.glob("large-*"))


def test_predictions_have_the_same_bits_and_the_long_axis_is_in_files(model, saved, whole):
    assert len(large(saved)) == 3  # shapes, rates, labels
    found = tf.load(saved)
    tables = found.posterior_.gammas.axes
    assert [in_file(table.shape_DK) for table in tables] == [True, False, False]
    assert found.axes_ == model.axes_
    np.testing.assert_array_equal(found.predict(whole), model.predict(whole))
    np.testing.assert_array_equal(found.interval(whole), model.interval(whole))
    cells = pd.DataFrame({"user": ["user-59", "nobody"], "item": "item-03", "day": "day-1"})
    np.testing.assert_array_equal(
        found.predict(cells, unknown="prior"), model.predict(cells, unknown="prior")
    )
    with pytest.raises(LabelError, match="'nobody'"):
        found.predict(cells)
    pd.testing.assert_frame_equal(
        found.posterior_.components("user"), model.posterior_.components("user")
    )
    assert found.score(whole) == model.score(whole)


def test_a_model_is_saved_where_it_is_read_from(saved, whole, tmp_path):
    found = tf.load(saved)
    expected, before = found.predict(whole), large(saved)
    found.save(saved)
    assert large(saved) == before
    np.testing.assert_array_equal(tf.load(saved).predict(whole), expected)
    found.save(tmp_path / "copy")
    assert large(tmp_path / "copy") == before


def test_files_of_a_model_that_was_replaced_are_gone(saved, model, monkeypatch):
    found = tf.load(saved)
    monkeypatch.setattr(large_files, "LARGE", 1 << 24)
    model.save(saved)
    assert large(saved) == []
    assert json.loads((saved / "model.json").read_text())["version"] == 4
    assert found.posterior_.mean("user").shape == (60, 2)  # what was mapped stays


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("how", ["gone", "cut off", "changed", "a folder"])
def test_damaged_files_are_refused(number, how, saved):
    file = saved / large(saved)[number]
    data = file.read_bytes()
    file.unlink()
    if how == "a folder":
        file.mkdir()
    elif how != "gone":
        file.write_bytes(data[:-8] if how == "cut off" else data[:-8] + bytes(7) + b"x")
    with pytest.raises(StorageError, match=f"is damaged: '{file.name}', .* bytes of it"):
        tf.load(saved)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda files: files["factors/shape_0"].update(file="../large-0.npy"), "not its own"),
        (lambda files: files["factors/shape_0"].pop("bytes"), "its files of rows"),
        (lambda files: files.update({"factors/shape_0": 3}), "its files of rows"),
        (lambda files: files.pop("factors/shape_0"), "KeyError"),
        (lambda files: files.update({"factors/shape_0": files["labels_0.arrow"]}), "damaged"),
        (lambda files: files.update({"labels_0.arrow": files["factors/shape_0"]}), "damaged"),
    ],
)
def test_documents_that_cannot_be_are_refused(change, words, saved):
    """They are sealed again, as nobody but an attacker would."""
    document = json.loads((saved / "model.json").read_text())
    arrays = load_file(saved / document.pop("arrays")["file"])
    document.pop("checksum")
    change(document["large"])
    with patch.object(folder, "remove_large"):
        folder.write_folder(saved, document, arrays)
    with pytest.raises(StorageError, match=words):
        tf.load(saved)


def test_rows_of_files_are_those_of_memory(tmp_path):
    array = np.arange(6000.0).reshape(1000, 6)
    np.save(tmp_path / "a.npy", array)
    mapped = large_files.mapped(tmp_path / "a.npy")
    which = np.random.default_rng(1).integers(0, 1000, 700)
    np.testing.assert_array_equal(rows_of(mapped, which), array[which])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tallyfold.kernels.arrays.BLOCK_BYTES", 1000)
        blocks = [block for (block,) in row_blocks(mapped)]
    assert len(blocks) == 50
    np.testing.assert_array_equal(np.concatenate(blocks), array)


PROGRAM = """
import re, sys
import numpy as np, pandas as pd, pyarrow as pa
from dataclasses import replace
import tallyfold as tf
from tallyfold.posterior.gamma_factors import GammaFactors
from tallyfold.posterior.gamma_posterior import GammaTable

folder, users = sys.argv[1], 1_000_000

def make():
    small = tf.simulate((50, 40, 10), 4, density=0.3, axes=["user", "item", "day"]).tensor
    model = tf.BPTF(n_components=4, max_iter=3).fit(small)
    model.save(folder + "/small")
    rng = np.random.default_rng(0)
    labels = pa.array([f"user-{n:09d}" for n in range(users)], pa.large_string())
    axes = (tf.Axis.of_distinct("user", labels), *model.axes_[1:])
    shape, rate = (0.1 + rng.random((users + 1, 4)) for _ in range(2))
    gammas = model.posterior_.gammas.replace(0, GammaTable(shape, rate))
    factors = GammaFactors([a.name for a in axes], [a.labels for a in axes], gammas)
    model._fitted = replace(model.fitted_, axes=axes, factors=factors)
    model.save(folder + "/large")
    some = [f"user-{n:09d}" for n in rng.choice(users, 1000, replace=False)]
    cells = pd.DataFrame({"user": some, "item": "item-03", "day": "day-1"})
    cells.to_parquet(folder + "/cells.parquet")
    np.save(folder + "/expected.npy", model.predict(cells))

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

def ask():
    cells = pd.read_parquet(folder + "/cells.parquet")
    like = cells.assign(user=[f"user-{n % 50:02d}" for n in range(1000)])
    tf.load(folder + "/small").predict(like)
    before = peak()
    found = tf.load(folder + "/large").predict(cells)
    assert np.array_equal(found, np.load(folder + "/expected.npy"))
    print(peak() - before)

make() if sys.argv[2] == "make" else ask()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="tells memory on Linux only")
def test_a_thousand_of_a_million_users_take_megabytes(tmp_path):
    def ran(what):
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(tmp_path), what]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ran("make")
    size = sum(each.stat().st_size for each in (tmp_path / "large").iterdir()) / 2**20
    assert size > 80
    assert float(ran("ask")) < 40
