"""What somebody else has made cannot run code, nor read or delete what is not its own."""

import hashlib
import json
import os
import pickle
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.faults.messages import assert_clear

import tallyfold as tf
from tallyfold.errors import StorageError, TallyfoldError
from tallyfold.inference.fit.folder import _checksum

SOURCE = Path(tf.__file__).parent
FORBIDDEN = {"pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen"}
_seen: list[str] | None = None
_hooked = False


def _hook(event: str, _: object) -> None:
    if _seen is not None and event in FORBIDDEN:
        _seen.append(event)


@contextmanager
def watch() -> Iterator[list[str]]:
    """Have the interpreter tell of pickles that are read and of programs that are started."""
    global _seen, _hooked
    if not _hooked:
        sys.addaudithook(_hook)  # for good: hooks cannot be taken away
        _hooked = True
    seen: list[str] = []
    _seen = seen
    try:
        yield seen
    finally:
        _seen = None


@pytest.fixture
def no_code_runs():
    with watch() as seen:
        yield
    assert not seen


class Bomb:
    """What a pickle can do: run anything when it is read."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return os.system, (f"touch {self.file}",)


@pytest.fixture
def bomb(tmp_path):
    (tmp_path / "harm").mkdir()
    file = tmp_path / "harm" / "done"
    yield pickle.dumps(Bomb(file))
    assert not file.exists()


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "m")
    return tmp_path / "m"


def sealed(folder, data=None, **changes) -> None:
    """Change a folder's document, and the bytes of its arrays, as one who knows the format."""
    document = json.loads((folder / "model.json").read_text()) | changes
    if data is not None:
        (folder / "arrays.safetensors").write_bytes(data)
        document["arrays"] = {
            "file": "arrays.safetensors",
            "sha256": hashlib.sha256(data).hexdigest(),
        }
    document["checksum"] = _checksum(document)
    (folder / "model.json").write_text(json.dumps(document))


def test_the_watch_sees_a_pickle():
    """Make sure that the tests below can fail."""
    with watch() as seen:
        pickle.loads(pickle.dumps(np.float64(1)))
        subprocess.run([sys.executable, "-c", ""], check=True)
    assert set(seen) == {"pickle.find_class", "subprocess.Popen"}


def test_a_model_is_loaded_without_unpickling(folder):
    tf.load(folder)  # imports what it needs
    with watch() as seen:
        tf.load(folder)
    assert not seen


def test_pickles_in_the_place_of_files(folder, bomb, no_code_runs):
    for file in ("model.json", "arrays.safetensors"):
        before = (folder / file).read_bytes()
        (folder / file).write_bytes(bomb)
        with pytest.raises(StorageError):
            tf.load(folder)
        (folder / file).write_bytes(before)
    sealed(folder, bomb)
    with pytest.raises(StorageError, match="damaged"):
        tf.load(folder)


def test_arrays_of_objects_in_an_npz(bomb, tmp_path, no_code_runs):
    class Bombs:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'harm' / 'done'}",)

    arrays = {"tallyfold": np.array(1), "axes": np.zeros(1, np.uint8)}
    arrays |= {name: np.array([Bombs()], dtype=object) for name in ("indices", "counts")}
    for spoilt in ("axes", "indices", "tallyfold"):
        given = arrays | {spoilt: np.array([Bombs()], dtype=object)}
        np.savez(tmp_path / "x.npz", **given)
        with pytest.raises(TallyfoldError):
            tf.read_counts(tmp_path / "x.npz")
    (tmp_path / "x.npz").write_bytes(bomb)
    with pytest.raises(TallyfoldError):
        tf.read_counts(tmp_path / "x.npz")


def test_an_extension_type_of_arrow_is_not_unpickled(folder, bomb, tmp_path, no_code_runs):
    kind = {"ARROW:extension:name": "arrow.py_extension_type", "ARROW:extension:metadata": bomb}
    labels = pa.array([["a", "b"]], pa.large_list(pa.large_string()))
    schema = pa.schema([pa.field(name, labels.type, metadata=kind) for name in "xyz"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.record_batch([labels] * 3, schema=schema))
    from safetensors.numpy import save

    axes = np.frombuffer(bytes(sink.getvalue()), np.uint8)
    sealed(folder, save({"axes": axes}))
    with pytest.raises(StorageError):
        tf.load(folder)
    plain = pa.schema([pa.field(name, pa.string(), metadata=kind) for name in "xy"])
    pq.write_table(pa.table([["a"], ["b"]], schema=plain), tmp_path / "x.parquet")
    try:
        tf.read_counts(tmp_path / "x.parquet", axes=["x", "y"])
    except TallyfoldError as error:
        assert_clear(error, "x.parquet")


ODD_NAMES = [
    "os.system", "os", "builtins", "__class__", "CountModel", "tallyfold.models.bptf.BPTF", "BPTF",
    "", None, 0, ["bptf"], {"bptf": 1},
]  # fmt: skip


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_other_classes(name, folder, no_code_runs):
    sealed(folder, model=name)
    with pytest.raises(StorageError, match="unknown kind"):
        tf.load(folder)
    sealed(folder, model="bptf")
    document = json.loads((folder / "model.json").read_text())
    for key in ("factors", "likelihood"):
        if (key, name) in (("likelihood", None), ("likelihood", ""), ("likelihood", 0)):
            continue  # there is none
        sealed(folder, fitted=document["fitted"] | {key: name})
        with pytest.raises(StorageError):
            tf.load(folder)
    for parameters in ({"__class__": name}, {"_fitted": name}, {"self": name}, [name], name):
        sealed(folder, parameters=parameters, fitted=document["fitted"])
        with pytest.raises(StorageError):
            tf.load(folder)


OUTSIDE = [
    "../harm/x", "/etc/hostname", "a/b", "..", ".", "", "model.json", "thesis.tex", "arrays",
    "arrays.safetensors\0", "arrays-../x.safetensors", "arrays.safetensors/", "x" * 5000, None, 3,
]  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE)
def test_files_that_are_not_its_own(name, folder, model):
    (folder / "thesis.tex").write_text("mine")
    sealed(folder, arrays={"file": name, "sha256": hashlib.sha256(b"mine").hexdigest()})
    with pytest.raises(StorageError, match="names a file that is not its own"):
        tf.load(folder)
    model.save(folder)  # replaces what is there, and deletes nothing but what was its own
    assert tf.load(folder).n_components == model.n_components
    assert (folder / "thesis.tex").read_text() == "mine"


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are POSIX's")
@pytest.mark.parametrize("file", ["model.json", "arrays.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device", "loop", "folder"])
def test_what_has_no_end_is_not_read(file, kind, folder):
    place = folder / file
    place.unlink()
    if kind == "pipe":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to("/dev/zero" if kind == "device" else place)
    with pytest.raises(StorageError):
        tf.load(folder)


def test_a_link_to_a_whole_file_is_followed(folder, model, tensor, tmp_path):
    """Stores of large files keep them elsewhere and put links in their place."""
    for file in ("model.json", "arrays.safetensors"):
        (folder / file).rename(tmp_path / file)
        (folder / file).symlink_to(tmp_path / file)
    assert np.array_equal(tf.load(folder).predict(tensor), model.predict(tensor))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b'{"x": {"dtype": "F64", "shape": [1152921504606846976], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "F64", "shape": [4294967296, 4294967296, 0], "data_offsets": [0, 0]}}',
        b'{"x": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 8]}}',
        b'{"x": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}',
        b'{"axes": {"dtype": "U8", "shape": [8], "data_offsets": [0, 8]}}',
    ],
)
def test_sizes_that_a_header_only_claims(header, folder):
    for length in (len(header), 2**40, 2**63):
        sealed(folder, struct.pack("<Q", length) + header + bytes(8))
        with pytest.raises(StorageError):
            tf.load(folder)


@pytest.mark.parametrize("digits", ["1", "0.1"])
def test_a_number_of_20_megabytes_is_refused_at_once(digits, folder):
    text = (folder / "model.json").read_text()
    (folder / "model.json").write_text(
        re.sub(r'"version": \d+', f'"version": {digits}{"1" * 20_000_000}', text, count=1)
    )
    with pytest.raises(StorageError) as caught:
        tf.load(folder)
    assert len(str(caught.value)) < 1000


def test_the_command_line_says_it_in_one_line(folder, run, bomb):
    sealed(folder, bomb)
    result = run("components", folder, "--axis", "axis_0")
    assert result.code == 2
    assert result.err.startswith("tallyfold: ")
    assert result.err.count("\n") == 1


def test_no_source_file_can_unpickle_or_evaluate():
    found = [
        f"{file.relative_to(SOURCE)}: {line.strip()}"
        for file in SOURCE.rglob("*.py")
        for line in file.read_text(encoding="utf-8").splitlines()
        if re.search(
            r"^\s*(import|from) (pickle|marshal|shelve|dill|joblib|cloudpickle)\b"
            r"|allow_pickle=True|torch\.load\(|(?<![\w.])(eval|exec)\(",
            line,
        )
    ]
    assert not found
