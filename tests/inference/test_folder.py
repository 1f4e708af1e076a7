import json
import os

import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import StorageError
from tallyfold.inference.fit import folder as folder_module
from tallyfold.inference.fit.folder import read_folder, write_folder

DOCUMENT = {"format": "thing", "version": 1, "tallyfold": "9.9"}


def test_round_trip_and_overwriting(tmp_path):
    write_folder(tmp_path / "a", DOCUMENT | {"x": "é"}, {"v": np.arange(3.0)})
    write_folder(tmp_path / "a", DOCUMENT | {"x": 2}, {"v": np.arange(4.0)})
    document, arrays = read_folder(tmp_path / "a", "thing", 1)
    assert document["x"] == 2
    assert arrays["v"].tolist() == [0, 1, 2, 3]
    assert len(list((tmp_path / "a").iterdir())) == 2


def test_a_death_at_any_moment_leaves_the_old_pair_or_the_new_one(tmp_path, monkeypatch):
    """Fail before each rename in turn, as if the process had died there."""
    write_folder(tmp_path, DOCUMENT | {"x": 1}, {"v": np.zeros(3)})
    real, calls = os.replace, []

    for die_at in (0, 1):
        calls.clear()

        def replace(source, target, die_at=die_at):
            if len(calls) == die_at:
                raise OSError("killed")
            calls.append(target)
            real(source, target)

        monkeypatch.setattr(folder_module.os, "replace", replace)
        with pytest.raises(StorageError, match="is still there"):
            write_folder(tmp_path, DOCUMENT | {"x": 2}, {"v": np.ones(3)})
        document, arrays = read_folder(tmp_path, "thing", 1)
        assert document["x"] == 1
        assert arrays["v"].tolist() == [0, 0, 0]
    monkeypatch.undo()
    write_folder(tmp_path, DOCUMENT | {"x": 3}, {"v": np.ones(2)})
    assert read_folder(tmp_path, "thing", 1)[1]["v"].tolist() == [1, 1]
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda p: (p / "model.json").unlink(), "has no model.json"),
        (lambda p: (p / "model.json").write_text("{"), "is damaged"),
        (lambda p: (p / "model.json").write_text("[]"), "something else"),
        (lambda p: (p / "model.json").write_bytes(b"\xff\xfe\x00"), "is damaged"),
        (lambda p: (p / "arrays.safetensors").unlink(), "arrays is missing"),
        (lambda p: (p / "arrays.safetensors").write_bytes(b"abc"), "not the file that was saved"),
        (lambda p: change(p, format="other"), "something else"),
        (lambda p: change(p, version=2), "version 2 .* tallyfold 9.9; .* Upgrade"),
        (lambda p: change(p, version="x"), "no version"),
        (lambda p: change(p, arrays={"file": "../x", "sha256": ""}), "is damaged"),
        (lambda p: change(p, arrays=None), "is damaged"),
    ],
)
def test_damaged_foreign_and_newer_folders(spoil, message, tmp_path):
    write_folder(tmp_path, DOCUMENT, {"v": np.zeros(3)})
    spoil(tmp_path)
    with pytest.raises(StorageError, match=message):
        read_folder(tmp_path, "thing", 1)


def change(place, **values):
    document = json.loads((place / "model.json").read_text())
    (place / "model.json").write_text(json.dumps(document | values))


def test_no_folder_and_no_permission(tmp_path):
    with pytest.raises(StorageError, match="there is no folder"):
        read_folder(tmp_path / "none", "thing", 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="could not be written"):
        write_folder(tmp_path / "file" / "below", DOCUMENT, {})


def test_a_model_folder_with_every_byte_in_turn_wrong_never_gives_a_wrong_model(tmp_path):
    tensor = tf.simulate((5, 4), 1, density=0.5).tensor
    model = tf.BPTF(n_components=1, max_iter=2).fit(tensor)
    model.save(tmp_path)
    rng = np.random.default_rng(0)
    expected = model.predict(tensor)
    for file in tmp_path.iterdir():
        data = file.read_bytes()
        for place in rng.integers(0, len(data), 60):
            spoilt = bytearray(data)
            spoilt[place] ^= int(rng.integers(1, 256))
            file.write_bytes(bytes(spoilt))
            try:
                loaded = tf.load(tmp_path)
            except StorageError:
                continue
            assert np.array_equal(loaded.predict(tensor), expected)  # white space, at most
        file.write_bytes(data)
    assert np.array_equal(tf.load(tmp_path).predict(tensor), expected)


def test_a_folder_of_another_kind_is_never_written_over(tmp_path):
    tensor = tf.simulate((5, 4), 1, density=0.5).tensor
    model = tf.BPTF(n_components=1, max_iter=2).fit(tensor, checkpoint=tmp_path / "run")
    model.save(tmp_path / "model")
    with pytest.raises(StorageError, match="something else than a tallyfold-checkpoint"):
        tf.BPTF(n_components=1, max_iter=2).fit(tensor, checkpoint=tmp_path / "model")
    with pytest.raises(StorageError, match="something else than a tallyfold-model"):
        model.save(tmp_path / "run")
    assert np.array_equal(tf.load(tmp_path / "model").predict(tensor), model.predict(tensor))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "model.json").write_text('{"mine": 1}')
    with pytest.raises(StorageError, match="would be lost"):
        model.save(tmp_path / "other")


def test_files_of_others_beside_a_model_stay(tmp_path):
    for name in ("arrays.safetensors", "arrays-of-mine.safetensors"):
        (tmp_path / name).write_text("mine")
    for value in (1, 2, 3):
        write_folder(tmp_path, DOCUMENT | {"x": value}, {"v": np.full(3, value)})
    assert read_folder(tmp_path, "thing", 1)[0]["x"] == 3
    assert (tmp_path / "arrays.safetensors").read_text() == "mine"
    assert (tmp_path / "arrays-of-mine.safetensors").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 4


def test_a_reader_while_another_saves_gets_one_pair_or_the_other(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    def write(value):
        write_folder(tmp_path, DOCUMENT | {"x": value}, {"v": np.full(5, value)})

    write(0)
    with ThreadPoolExecutor(2) as pool:
        writing = pool.submit(lambda: [write(value) for value in range(200)])
        while not writing.done():
            document, arrays = read_folder(tmp_path, "thing", 1)
            assert set(arrays["v"].tolist()) == {document["x"]}
        writing.result()


def test_the_parameters_of_the_fit_are_saved_not_later_ones(tmp_path):
    tensor = tf.simulate((5, 4), 1, density=0.5).tensor
    model = tf.BPTF(n_components=2, max_iter=2).fit(tensor)
    model.set_params(n_components=7, prior_shape=-1)
    model.save(tmp_path)
    assert tf.load(tmp_path).n_components == 2
