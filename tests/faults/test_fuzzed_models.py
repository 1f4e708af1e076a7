"""Model folders and checkpoints that somebody changed, checksums and all.

Damage is told by the checksums (see ``tests/inference/test_folder.py``). Here they are right, and
what they seal is not: a folder is refused with a StorageError, or the model is whole and predicts.
"""

import copy
import json
import warnings
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.faults.damage import damaged
from tests.faults.messages import assert_clear
from tests.inference.pair_effects import simulate_pairs
from tests.models.quick import in_time, quick

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError, StorageError
from tallyfold.inference.fit import checkpoint
from tallyfold.inference.fit.folder import _checksum, read_folder, write_folder
from tallyfold.inference.head import step as head_step
from tallyfold.inference.head.recipe import Recipe
from tallyfold.inference.past.network import NetworkStep
from tallyfold.models import storage
from tallyfold.posterior.past_network import PastNetwork

pytestmark = pytest.mark.usefixtures("brief_heads")

NAMES = [*tf.MODELS, "members", "combinations", "head of two stages", "remembered"]
ODD = [
    None, True, 0, -1, 1, 50, 2**70, 10**400, 1.5, -0.0, 1e300, 1e-320, "", "x", "gamma", "point",
    "sampled", [], [1], [[]], {}, {"a": 1},
]  # fmt: skip
ODD_NUMBERS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, 1e-310]


@pytest.fixture(scope="module")
def small() -> tf.CountTensor:
    return in_time(tf.simulate((8, 6, 5), 2, density=0.5, random_state=0).tensor)


@pytest.fixture(scope="module")
def folders(small, tmp_path_factory):
    """Each model, saved: its document and its arrays."""
    found = {}
    for name in NAMES:
        place = tmp_path_factory.mktemp("models") / "m"
        model = FURTHER[name](small) if name in FURTHER else quick(name).fit(small)
        model.save(place)
        found[name] = read_folder(place, storage.KIND, storage.VERSION)
    return found


def mixture(tensor):
    return tf.VAEBPTF(
        zeros="missing",
        n_components=2,
        max_iter=4,
        n_members=2,
        likelihood="negative-binomial",
        validation=0.3,
    ).fit(tensor)


def with_combinations(tensor):
    """Fit multipliers of two axes to counts that have such an effect, whatever the tensor."""
    pairs = simulate_pairs((20, 15, 10)).tensor
    model = tf.VAEBPTF(
        zeros="missing",
        amount="negative-binomial",
        n_components=2,
        max_iter=6,
        interactions=[["item", "day"]],
    ).fit(pairs)
    assert model.fitted_.derived
    return model


def with_two_stages(tensor):
    """Train a head of two stages, a short while, and keep both."""
    recipe = Recipe(n_hidden=3, batch=64, steps=20, looks=2, patience=None)
    with (
        patch.object(head_step, "recipe_for", lambda n_cells: recipe),
        patch.object(head_step, "surely_better", lambda *_: True),
    ):
        model = tf.Margins().fit(tensor)
    assert len(model.fitted_.head.stages) == 2
    return model


def with_a_memory(tensor):
    """Remember periods with a network, whether it helps or not."""

    def made(step, state):
        return PastNetwork(state.network.params, *step._inputs(state)[-2:])

    with patch.object(NetworkStep, "made", made):
        model = tf.SmoothedPast(network="auto").fit(tensor)
    assert model.fitted_.forecaster.network is not None
    return model


FURTHER = {
    "remembered": with_a_memory,
    "members": mixture,
    "combinations": with_combinations,
    "head of two stages": with_two_stages,
}


def places(value, at=()):
    """Give the way to everything inside a document."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inside:
        yield (*at, key)
        if isinstance(each, dict | list):
            yield from places(each, (*at, key))


def changed_document(document, rng):
    document = copy.deepcopy(document)
    ours = ("format", "version", "arrays", "checksum")
    ways = [at for at in places(document) if at[0] not in ours]
    *way, last = ways[rng.integers(len(ways))]
    inside = document
    for key in way:
        inside = inside[key]
    if rng.random() < 0.3:
        del inside[last]
    else:
        inside[last] = copy.deepcopy(ODD[rng.integers(len(ODD))])
    return document


def changed_arrays(arrays, rng):
    """Change one array: gone, of another shape or type, another's, or with an odd number in it."""
    name, other = (list(arrays)[rng.integers(len(arrays))] for _ in "ab")
    array = np.array(arrays[name])
    odd = array.astype(float)
    odd.reshape(-1)[rng.integers(max(odd.size, 1)) :][:1] = ODD_NUMBERS[rng.integers(7)]
    raw = bytearray(array.tobytes())
    if raw:
        raw[rng.integers(len(raw))] ^= 1 << rng.integers(8)
    changes = (
        None,
        odd,
        odd,
        np.full_like(odd, ODD_NUMBERS[rng.integers(7)]),
        np.append(array, array.reshape(-1)[:1]),
        array[:-1] if array.ndim else array[None],
        np.concatenate([array, array]) if array.ndim else array[None],
        array[:0] if array.ndim else np.zeros(0),
        array.astype(np.float32),
        array.astype(np.int8),
        np.ascontiguousarray(array.T),
        np.array(1.0),
        arrays[other],
        np.frombuffer(bytes(raw), array.dtype).reshape(array.shape),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        change = changes[rng.integers(len(changes))]
    rest = {key: value for key, value in arrays.items() if key != name}
    return rest if change is None else rest | {name: change}


def used(model, tensor) -> None:
    """Ask everything of a model that was loaded: no answer is NaN."""
    asks = (
        lambda: model.predict(tensor),
        lambda: model.predict(tensor, "median"),
        lambda: model.interval(tensor),
        lambda: model.log_pmf(tensor),
        lambda: model.components(tensor.names[0]).select_dtypes("number"),
        lambda: model.history_ is None,
    )
    for ask in asks:
        try:
            assert np.all(np.isfinite(ask()))
        except (ParameterError, LabelError):  # it has no factors, no likelihood or no such label
            continue


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_model_is_refused_or_predicts(name, folders, small, tmp_path):
    rng, seen = np.random.default_rng(1), Counter()
    document, arrays = folders[name]
    for _ in range(30):
        whole = rng.random() < 0.5
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of casts
            parts = (
                (changed_document(document, rng), arrays)
                if whole
                else (document, changed_arrays(arrays, rng))
            )
        write_folder(tmp_path / "m", *parts)
        try:
            model = tf.load(tmp_path / "m")
        except StorageError as error:
            assert_clear(error)
            seen["refused"] += 1
            continue
        used(model, simulate_pairs((20, 15, 10)).tensor if name == "combinations" else small)
        seen["loaded"] += 1
    assert min(seen["refused"], seen["loaded"]) > 2, seen


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    text=st.binary(max_size=60)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=9), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_document_at_all(text, tmp_path):
    (tmp_path / "model.json").write_bytes(text)
    with pytest.raises(StorageError):
        tf.load(tmp_path)


@pytest.mark.parametrize(
    "number", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000, "0." + "1" * 10**6]
)
def test_numbers_that_are_none_are_refused(number, folders, tmp_path):
    document, arrays = folders["bptf"]
    write_folder(tmp_path, document, arrays)
    sealed = json.loads((tmp_path / "model.json").read_text())
    sealed["fitted"]["n_iter"] = 0
    text = json.dumps(sealed).replace('"n_iter": 0', f'"n_iter": {number}')
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(StorageError, match="is damaged"):
        tf.load(tmp_path)


@pytest.mark.parametrize("deep", [100, 900, 990, 1000, 5000, 200_000])
@pytest.mark.parametrize("key", ["fitted", "parameters", "x"])
def test_nesting_without_end_is_refused(deep, key, tmp_path):
    document = {"format": storage.KIND, "version": 1, "model": "bptf", "parameters": {}, key: 0}
    document["checksum"] = _checksum(document)
    text = json.dumps(document).replace(f'"{key}": 0', f'"{key}": {"[" * deep}{"]" * deep}')
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(StorageError):
        tf.load(tmp_path)


def test_damaged_arrays_that_are_sealed_again(folders, small, tmp_path):
    """The header of a safetensors file says sizes and types: it may say anything."""
    import hashlib

    document, arrays = folders["bptf"]
    write_folder(tmp_path, document, arrays)
    file, seen = tmp_path / document["arrays"]["file"], Counter()
    for data in damaged(file.read_bytes(), 0, 150):
        file.write_bytes(data)
        sealed = document | {
            "arrays": {"file": file.name, "sha256": hashlib.sha256(data).hexdigest()}
        }
        sealed["checksum"] = _checksum(sealed)
        (tmp_path / "model.json").write_text(json.dumps(sealed))
        try:
            used(tf.load(tmp_path), small)
            seen["loaded"] += 1
        except StorageError:
            seen["refused"] += 1
    assert min(seen["refused"], seen["loaded"]) > 5, seen


# -- checkpoints ----------------------------------------------------------------------------------


GIVEN = {"n_components": 2, "max_iter": 4, "tol": 0, "validation": 0.2, "backend": "numpy"}


@pytest.fixture
def run(small, tmp_path):
    """A fit half done: its document and its arrays."""
    stop = tf.BPTF(**GIVEN)

    def press(progress):
        if progress.iteration.number == 2:
            raise KeyboardInterrupt

    with pytest.warns(tf.errors.InterruptedWarning):
        stop.fit(small, checkpoint=tmp_path / "c", callbacks=[press])
    return read_folder(tmp_path / "c", checkpoint.KIND, checkpoint.VERSION)


def resumed(small, tmp_path):
    return tf.BPTF(**GIVEN).fit(small, checkpoint=tmp_path / "c", resume=True)


def test_a_changed_course_in_a_checkpoint_is_refused_or_goes_on(run, small, tmp_path):
    document, arrays = run
    rng, seen = np.random.default_rng(0), Counter()
    for _ in range(40):
        keys = ("history", "best", "phase", "before")
        inside = changed_document({"course": {key: document[key] for key in keys}}, rng)
        course = inside.get("course")
        rest = {key: value for key, value in document.items() if key not in keys}
        write_folder(tmp_path / "c", rest | (course if isinstance(course, dict) else {}), arrays)
        try:
            used(resumed(small, tmp_path), small)
            seen["went on"] += 1
        except StorageError:
            seen["refused"] += 1
    assert min(seen["refused"], seen["went on"]) > 2, seen


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_checkpoint_with_a_number_that_is_none_is_refused(number, run, small, tmp_path):
    document, arrays = run
    for name, array in arrays.items():
        spoilt = np.array(array, dtype=float)
        spoilt.reshape(-1)[:1] = number
        write_folder(tmp_path / "c", document, arrays | {name: spoilt})
        with pytest.raises(StorageError, match="is damaged"):
            resumed(small, tmp_path)


def test_a_checkpoint_with_an_array_of_another_shape_is_refused(run, small, tmp_path):
    document, arrays = run
    for name, array in arrays.items():
        for change in (array[:-1] if array.ndim else array[None], None):
            rest = {key: value for key, value in arrays.items() if key != name}
            write_folder(
                tmp_path / "c", document, rest | ({} if change is None else {name: change})
            )
            with pytest.raises(StorageError):
                resumed(small, tmp_path)


# -- parameters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prior_shape", "tol", "n_components"])
def test_a_parameter_beyond_all_numbers_is_refused(name, small):
    with pytest.raises(ParameterError, match=name):
        tf.BPTF(**{"max_iter": 1, name: 10**400}).fit(small)
