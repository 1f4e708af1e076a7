"""Components renamed, merged and dropped: a new model, whose predictions follow."""

import json

import numpy as np
import pytest
from tests.models.quick import quick

import tallyfold as tf
from tallyfold.errors import NoFactorsError, ParameterError, StorageError
from tallyfold.inference.fit.folder import read_folder, write_folder
from tallyfold.models.storage import KIND, VERSION

pytestmark = pytest.mark.usefixtures("brief_heads")

EDITABLE = (
    "bptf",
    "bptf-gibbs",
    "online-gibbs",
    "ptf-kl",
    "ntf-ls",
    "vae-bptf",
    "vae-bptf-paper",
    "vae-bptf, negative binomial",
    "vae-bptf, as it comes",
)


@pytest.fixture(scope="module")
def parts():
    tensor = tf.simulate((20, 15, 8), 3, density=0.3, random_state=1).tensor
    return tf.split(tensor, 0.2, cells="all", random_state=0)


@pytest.fixture(scope="module")
def models(parts):
    found = {}

    def fitted(name):
        if name not in found:
            found[name] = quick(name, n_components=4).fit(parts.train)
        return found[name]

    return fitted


@pytest.fixture(scope="module")
def model(models):
    return models("bptf")


@pytest.mark.parametrize("name", EDITABLE)
def test_components_are_numbered_by_size(models, name):
    factors = models(name).posterior_
    shares, off = factors.shares(), factors.switched_off()
    assert np.all(np.diff(shares[~off]) <= 1e-9)
    assert np.all(np.diff(off.astype(int)) >= 0)  # those switched off are last


@pytest.mark.parametrize("name", EDITABLE)
def test_every_edit_predicts_and_is_loaded_bit_for_bit(models, parts, name, tmp_path):
    model = models(name)
    before = model.predict(parts.test)
    new = model.edit(merge=[[0, 2]], drop=[3], rename={2: "both", 1: "one"})
    assert (new.n_components, new.posterior_.n_components) == (2, 2)
    assert sorted(new.component_names_) == ["both", "one"]
    assert np.array_equal(model.predict(parts.test), before)  # the old one stays
    assert model.n_components == 4
    after = new.predict(parts.test)
    assert np.all(np.isfinite(after))
    assert not np.allclose(after, before)
    new.save(tmp_path)
    again = tf.load(tmp_path)
    assert np.array_equal(again.predict(parts.test), after)
    assert again.component_names_ == new.component_names_
    assert again.edits_.equals(new.edits_)
    assert again.n_components == 2
    assert new.fitted_.validation_score is None  # that of another model


@pytest.mark.parametrize("name", ["bptf", "ptf-kl", "bptf-gibbs"])
def test_dropping_takes_a_components_rate_away(models, parts, name):
    model = models(name)
    kept = model.drop([3]).posterior_
    cells = parts.test.indices
    rates = np.ones((len(cells), 4))
    for axis, mean in enumerate(model.posterior_.mean(n) for n in model.posterior_.names):
        rates *= mean[cells[:, axis]]
    if name != "bptf-gibbs":  # the mean over draws is no product of means
        np.testing.assert_allclose(kept.rate_moments(cells)[0], rates[:, :3].sum(axis=1))
    for axis in kept.names:
        assert np.array_equal(kept.mean(axis), model.posterior_.mean(axis)[:, :3])


def test_a_gate_is_in_the_margins(parts):
    gated = tf.BPTF(n_components=3, zeros="observed", gate=("axis_0", "axis_1"), max_iter=8)
    model = gated.fit(parts.train)
    new = model.merge([0, 1, 2])
    every = np.stack(np.indices((20, 15, 8)), axis=-1).reshape(-1, 3)
    for axis in range(3):
        sums = [
            np.bincount(every[:, axis], each.posterior_.rate_moments(every)[0])
            for each in (model, new)
        ]
        np.testing.assert_allclose(*sums, rtol=1e-6)


def test_renaming_changes_nothing_else(model, parts, tmp_path):
    new = model.rename({0: "first", 1: "second"})
    assert np.array_equal(new.predict(parts.test), model.predict(parts.test))
    assert new.component_names_[:2] == ["first", "second"]
    assert new.component_names_[2:] == model.component_names_[2:]
    assert new.components("axis_0")["name"].iloc[0] == "first"
    assert new.rename({"first": None}).component_names_[0] == model.component_names_[0]
    assert new.edits_["what"].tolist() == [
        f"renamed {model.component_names_[0]!r} to 'first'; "
        f"renamed {model.component_names_[1]!r} to 'second'"
    ]


def test_names_follow_their_components(model):
    named = model.rename({0: "a", 1: "b", 2: "c", 3: "d"})
    fewer = named.drop(["a"])
    assert fewer.component_names_ == ["b", "c", "d"]
    assert np.array_equal(fewer.posterior_.mean("axis_0"), model.posterior_.mean("axis_0")[:, 1:])
    assert "b" in named.merge(["b", "d"]).component_names_  # the first name that was given
    assert "e" in named.merge([1, 3], "e").component_names_
    assert len(set(model.rename({0: model.component_names_[1]}).component_names_)) == 4


def test_scores_before_and_after(model, parts):
    new = model.merge([0, 1], cells=parts.test).drop([2])
    first, second = new.edits_.to_dict("records")
    assert first["before"] == model.score(parts.test)
    assert first["after"] == model.merge([0, 1]).score(parts.test)
    assert np.isnan(second["before"])
    assert first["what"].startswith(f"merged {model.component_names_[0]!r} and ")
    assert second["what"].startswith("dropped ")


def test_new_cells_go_into_an_edited_model(models, parts):
    model = models("vae-bptf, as it comes").merge([0, 1], "both")
    larger = model.update(parts.test)
    assert larger.component_names_.count("both") == 1
    assert np.all(np.isfinite(larger.predict(parts.test)))
    assert model.gate_ == models("vae-bptf, as it comes").gate_


def test_weights_of_components_are_summed(models):
    model = models("online-gibbs")
    new = model.merge([0, 1, 2, 3])
    np.testing.assert_allclose(new.component_weights_, [model.component_weights_.sum()])


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ({"merge": [[1]]}, "two components or more"),
        ({"merge": [[1, 2], [2, 3]]}, r"component 2 .* more than once"),
        ({"merge": [[1, 2]], "drop": [1]}, r"component 1 .* more than once"),
        ({"drop": [0, 1, 2, 3]}, "a model needs a component"),
        ({"drop": [4]}, "from 0 to 3"),
        ({"rename": {0: "7"}}, "no number"),
        ({"drop": 3}, "a list of numbers or names"),
    ],
)
def test_what_cannot_be_done_is_refused(model, edit, words):
    with pytest.raises(ParameterError, match=words):
        model.edit(**edit)


def test_members_are_refused_but_for_their_names(parts):
    model = quick("vae-bptf", n_components=2, n_members=2).fit(parts.train)
    with pytest.raises(ParameterError, match=r"a mixture of 2 fits .* n_members=1"):
        model.merge([0, 1])
    assert model.rename({0: "x"}).component_names_[0] == "x"


def test_models_without_components_say_so(parts):
    model = tf.Margins(zeros="missing").fit(parts.train)
    for ask in (lambda: model.rename({0: "x"}), lambda: model.component_names_):
        with pytest.raises(NoFactorsError, match="Margins has no factors"):
            ask()


@pytest.mark.parametrize(
    "damage",
    [
        {"component_names": ["a", "b"]},
        {"component_names": ["a", "a", None, None]},
        {"component_names": ["\x1b", None, None, None]},
        {"component_names": 3},
        {"edits": [["x", "y", None]]},
        {"edits": [[3]]},
        {"edits": [["a", 1.0, 1.0, 1.0]]},
    ],
)
def test_names_and_edits_that_cannot_be_are_refused(model, tmp_path, damage):
    model.save(tmp_path / "sound")
    document, arrays = read_folder(tmp_path / "sound", KIND, VERSION)
    document["fitted"] |= damage
    write_folder(tmp_path / "damaged", json.loads(json.dumps(document)), arrays)
    with pytest.raises(StorageError):
        tf.load(tmp_path / "damaged")
