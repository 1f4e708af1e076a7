"""The verbs explain and edit, and names in the list of components."""

import json

import numpy as np
import pytest

import tallyfold as tf


@pytest.mark.parametrize("verb", ["explain", "edit"])
def test_help_has_examples(run, verb):
    result = run(verb, "--help")
    assert f"tallyfold {verb} model" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


def test_names_are_in_the_list(run, folder, model):
    result = run("components", folder, "--axis", "word")
    assert f"Component 0, {model.component_names_[0]}, " in " ".join(result.out.split())
    by_name = run("components", folder, "--component", model.component_names_[1], "--json")
    assert {row["component"] for row in json.loads(by_name.out)} == {1}
    assert {row["name"] for row in json.loads(by_name.out)} == {model.component_names_[1]}
    wrong = run("components", folder, "--component", "7")
    assert (wrong.code, "from 0 to 1" in wrong.err) == (2, True)


def test_an_edit_is_a_new_model(run, folder, model, tensor, events, tmp_path):
    out = tmp_path / "new"
    given = ("--merge", "0,1", "--rename", "1=all of it", "--test", events, "--value", "count")
    result = run("edit", folder, *given, "--out", out)
    wanted = model.edit(merge=[[0, 1]], rename={1: "all of it"}, cells=tensor)
    scores = wanted.fitted_.edits[-1]
    assert result.code == 0
    assert f"{scores.before:.4f} before, {scores.after:.4f} after" in result.out
    assert "all of it" in result.out
    found = tf.load(out)
    assert found.component_names_ == ["all of it"]
    assert np.array_equal(found.predict(tensor), wanted.predict(tensor))
    assert run("edit", folder, "--drop", "1", "--out", out).code == 2  # it is not replaced
    assert run("edit", folder, "--drop", "1", "--out", out, "--overwrite").code == 0
    assert tf.load(out).n_components == 1
    run("edit", folder, "--rename", "0=x", "--out", tmp_path / "named")
    run("edit", tmp_path / "named", "--rename", "x=", "--out", tmp_path / "plain")
    assert tf.load(tmp_path / "plain").component_names_ == model.component_names_


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "nothing to do"),
        (("--rename", "networking"), "--rename wants K=NAME"),
        (("--rename", "0=1"), "no number"),
        (("--merge", "0"), "two components or more"),
        (("--drop", "0,1"), "needs a component"),
        (("--drop", "x"), "no component called 'x'"),
    ],
)
def test_edits_that_cannot_be_are_refused(run, folder, tmp_path, given, words):
    result = run("edit", folder, *given, "--out", tmp_path / "m")
    assert (result.code, words in " ".join(result.err.split())) == (2, True)
    assert not (tmp_path / "m" / "model.json").exists()


def test_the_tree_has_all_components(run, folder, model):
    result = run("explain", folder)
    for number, name in enumerate(model.component_names_):
        assert f"─ {number} {name}" in result.out
    found = json.loads(run("explain", folder, "--json").out)
    assert found["names"] == dict(zip("01", model.component_names_, strict=True))
    assert [sorted(j["left"] + j["right"]) for j in found["joins"]] == [[0, 1]]


def test_one_component_is_explained(run, folder, model, tensor, events):
    given = ("--component", "1", "--counts", events, "--value", "count", "--course", "year")
    result = run("explain", folder, *given, "--top", "4")
    assert result.code == 0
    assert f"Component 1, {model.component_names_[1]}: " in result.out
    for words in ("What shows it best", "Its course along year", "Components like it"):
        assert words in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80
    found = json.loads(run("explain", folder, *given, "--top", "4", "--json").out)
    wanted = model.examples(1, tensor, top=4)
    assert [row["author"] for row in found["examples"]] == wanted["author"].tolist()
    assert [row["label"] for row in found["course"]] == list(range(2003, 2011))
    pairs = json.loads(
        run("explain", folder, *given, "--combinations", "author,year", "--json").out
    )
    assert list(pairs["examples"][0]) == ["author", "year", "count", "share"]


def test_what_explain_needs(run, folder):
    assert "name it" in run("explain", folder, "--course", "year").err
    assert (
        "--combinations needs --counts"
        in run("explain", folder, "--component", "1", "--combinations", "word").err
    )
    assert run("explain", folder, "--component", "1", "--course", "word").code == 2


def test_stability_of_a_saved_model(run, folder, model, tensor, events, tmp_path):
    out, surer, plot = (tmp_path / name for name in ("m", "c", "s.png"))
    given = ("--value", "count", "--runs", "2", "--out", out, "--consensus", surer, "--plot", plot)
    result = run("stability", folder, events, *given)
    assert result.code == 0
    assert "Components in 2 other fits" in result.out
    told = [line for line in result.out.splitlines() if not line.startswith("wrote")]
    assert max(map(len, told)) <= 80
    wanted = tf.stability(tensor, model, 2)
    known = tf.load(out).fitted_.component_stability
    assert known == wanted.model.fitted_.component_stability
    assert np.array_equal(tf.load(surer).predict(tensor), wanted.consensus(tensor).predict(tensor))
    assert plot.stat().st_size > 0
    listed = json.loads(run("components", out, "--axis", "word", "--json").out)
    assert {row["stability"] for row in listed} == set(known)
    title = " ".join(run("components", out, "--axis", "word").out.split())
    assert f"stability {known[0]:.2f}" in title
    rows = json.loads(run("stability", folder, events, *given[:4], "--json").out)
    assert [row["component"] for row in rows["components"]] == [0, 1]
    assert [row["seed"] for row in rows["fits"]] == [1, 2]


def test_stability_refuses_before_it_fits(run, folder, events, tmp_path):
    help_ = run("stability", "--help")
    assert "tallyfold stability model" in help_.out
    assert max(len(line) for line in help_.out.splitlines()) <= 80
    assert "finished model" in run("stability", folder, events, "--out", folder).err
    assert "must end in" in run("stability", folder, events, "--plot", tmp_path / "x.gif").err
    assert run("stability", folder, events, "--value", "count", "--runs", "1").code == 2


def test_components_that_say_nothing_are_said_to(run, folder, tmp_path):
    assert "nothing beyond" not in run("components", folder).out
    rng = np.random.default_rng(0)
    rates = [rng.gamma(2.0, 1.0, size) for size in (12, 10, 6)]
    counts = rng.poisson(3 * np.einsum("a,b,c->abc", *(rate / rate.mean() for rate in rates)))
    axes = [tf.Axis.numbered(name, size) for name, size in zip("abc", counts.shape, strict=True)]
    tensor = tf.CountTensor(axes, np.argwhere(counts), counts[counts > 0])
    tf.BPTF(n_components=2, max_iter=1, zeros="observed").fit(tensor).save(tmp_path / "same")
    out = " ".join(run("components", tmp_path / "same").out.split())
    assert out.count("The 2 components carry next to nothing beyond main effects") == 1
    card = " ".join(run("describe", tmp_path / "same").out.split())
    assert card.count("next to nothing beyond main effects") == 1
