"""The verbs that ask a fitted model: score, top, components, profile, fold-in."""

import json

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.evaluation.profiles import profile, top

VERBS = ("score", "surprise", "top", "components", "profile", "fold-in", "update", "compare")


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_examples(run, verb):
    result = run(verb, "--help")
    assert result.code == 0
    assert f"tallyfold {verb} " in result.out
    assert "Example" in result.out
    assert max(len(line) for line in result.out.splitlines()) <= 80


# -- score ----------------------------------------------------------------------------------------


def test_score_is_the_models_own(run, folder, model, events, tensor):
    result = run("score", folder, events, "--value", "count")
    assert (result.code, result.err) == (0, "")
    assert f"Scores on {tensor.nnz:,} cells" in result.out
    assert f"{model.score(tensor):.4f}" in result.out


def test_score_beside_floors(run, folder, model, tensor, tmp_path):
    train, test = tf.split(tensor, 0.2)
    tf.write_counts(train, tmp_path / "train.npz")
    tf.write_counts(test, tmp_path / "test.parquet")
    given = ("--train", tmp_path / "train.npz", "--json")
    result = run("score", folder, tmp_path / "test.parquet", *given)
    scores = json.loads(result.out)["scores"]
    assert scores["bptf"]["log-pmf-positive"] == pytest.approx(model.score(test))
    constant = tf.Constant().fit(train)
    wanted = constant.score(test)
    assert scores["constant"]["log-pmf-positive"] == pytest.approx(wanted)
    result = run("score", folder, tmp_path / "test.parquet", "--metrics", "all", *given[:2])
    assert max(len(line) for line in result.out.splitlines()) <= 80
    auc = next(line.split() for line in result.out.splitlines() if line.startswith("auc "))
    assert float(auc[2]) > 0


def test_labels_of_another_type_are_the_same_labels(run, folder, model, frame, tensor, tmp_path):
    frame.astype({"year": str}).to_parquet(tmp_path / "text.parquet")
    frame.to_csv(tmp_path / "plain.csv", index=False)
    tf.BPTF(n_components=2, max_iter=10).fit(
        tf.CountTensor.from_frame(frame.astype({"year": str}), tensor.names, "count")
    ).save(tmp_path / "of text")
    wanted = pytest.approx(model.score(tensor))
    for which in (folder, tmp_path / "of text"):
        for file in ("text.parquet", "plain.csv"):
            result = run("score", which, tmp_path / file, "--value", "count", "--json")
            assert json.loads(result.out)["scores"]["bptf"]["log-pmf-positive"] == wanted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--value COLUMN or --count-rows"),
        (("--value", "count", "--metrics", "accuracy"), "accuracy"),
        (("--value", "count", "--metrics", "auc"), "train"),
        (("--value", "many"), "many"),
    ],
)
def test_score_refuses_what_it_cannot_do(run, folder, events, arguments, words):
    result = run("score", folder, events, *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


@pytest.mark.parametrize("verb", ["score", "surprise"])
def test_cells_of_unknown_labels_are_refused_or_left_out(run, folder, frame, tmp_path, verb):
    more = pd.concat([frame, frame.iloc[:7].assign(author="nobody")])
    more.to_parquet(tmp_path / "more.parquet")
    given = (verb, folder, tmp_path / "more.parquet", "--value", "count", "--json")
    result = run(*given)
    assert (result.code, result.out) == (2, "")
    assert "7 of " in result.err
    assert "author 'nobody'" in result.err
    result = run(*given, "--unknown", "skip")
    assert "left out" in result.err
    assert json.loads(result.out)["cells"] == len(frame)
    assert run(*given, "--unknown", "prior").code == (2 if verb == "score" else 0)
    assert run(*given, "--unknown", "ask").code == 2


def test_a_tensor_of_other_axes_is_refused(run, folder, tmp_path):
    tf.write_counts(tf.simulate((5, 4, 3), 1, density=0.5).tensor, tmp_path / "x.npz")
    result = run("score", folder, tmp_path / "x.npz")
    assert result.code == 2
    assert "author, word, year" in result.err


def test_scores_that_a_model_has_not_are_dashes(run, tensor, events, tmp_path):
    tf.NTFLS(n_components=1, max_iter=3).fit(tensor).save(tmp_path / "m")
    given = ("--value", "count", "--metrics", "mae-mean,mae-median")
    lines = run("score", tmp_path / "m", events, *given).out.splitlines()
    assert lines[-1].split() == ["mae-median", "smaller", "–"]
    assert "–" not in lines[-2]
    axes = ("--axes", "author,word,year", "--value", "count")
    given = (*axes, "--models", "ntf-ls", "--max-iter", "3", "--holdout", "0.25")
    given = (*given, "--zeros", "missing")
    lines = run("compare", events, *given).out.splitlines()
    assert "25 % held out" in lines[0]
    assert lines[-1].split().count("–") == 2


# -- top, components, profile ---------------------------------------------------------------------


@pytest.mark.parametrize("who", ["Ada Lovelace", "Zoë=Ünïcode", "-dash", "[red]x[/]"])
def test_odd_labels_are_found(run, folder, model, who):
    given = ("top", folder, "--for", f"author={who}", "--for", "year=2005", "--axis", "word")
    result = run(*given, "--top", "4")
    assert (result.code, result.err) == (0, "")
    assert who in result.out
    wanted = top(model, "word", {"author": who, "year": 2005}, top=4)
    found = json.loads(run(*given, "--top", "4", "--json").out)
    assert found["for"] == {"author": who, "year": 2005}
    assert [row["label"] for row in found["top"]] == wanted["label"].tolist()
    np.testing.assert_allclose([row["sd"] for row in found["top"]], wanted["sd"])
    result = run("profile", folder, "--of", f"author={who}")
    assert result.code == 0
    assert who in result.out


def test_profile_is_the_librarys(run, folder, model):
    found = json.loads(run("profile", folder, "--of", "year=2004", "--json").out)
    wanted = profile(model, "year", 2004)
    assert found["label"] == 2004
    assert [row["component"] for row in found["components"]] == wanted["component"].tolist()
    np.testing.assert_allclose([row["low"] for row in found["components"]], wanted["low"])


def test_components_of_every_axis_or_one(run, folder, model):
    result = run("components", folder, "--top", "3")
    assert result.code == 0
    for axis in ("author", "word", "year"):
        assert f"% of the rate: {axis}" in result.out
    rows = json.loads(run("components", folder, "--axis", "word", "--component", "1", "--json").out)
    wanted = model.components("word").query("component == 1")
    assert [row["label"] for row in rows] == wanted["label"].tolist()
    assert {row["axis"] for row in rows} == {"word"}
    order = "--axis", "word", "--by", "relevance", "--relevance", "0.2", "--json"
    listed = [row["label"] for row in json.loads(run("components", folder, *order).out)]
    assert listed == model.components("word", relevance=0.2)["label"].tolist()
    assert run("components", folder, "--by", "size").code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("top", "--axis", "word", "--for", "author=Ada Lovelac"), "Did you mean 'Ada Lovelace'?"),
        (("top", "--axis", "word", "--for", "nobody"), "AXIS=LABEL"),
        (("top", "--axis", "word", "--for", "year=MMX"), "such as 2003"),
        (("top", "--axis", "word", "--for", "word=w01"), "(Here: --for AXIS=LABEL.)"),
        (("top", "--axis", "place"), "no axis 'place'"),
        (("top", "--axis", "word", "--for", "year=2003", "--for", "year=2004"), "given twice"),
        (("profile", "--of", "author=nobody"), "nobody"),
        (("profile", "--of", "year=2004", "--level", "2"), "`level`"),
        (("components", "--axis", "place"), "no axis 'place'"),
        (("components", "--component", "9"), "from 0 to 1"),
    ],
)
def test_what_is_not_there_is_code_2(run, folder, arguments, words):
    result = run(arguments[0], folder, *arguments[1:])
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert "Traceback" not in result.err


def test_a_name_with_an_equals_sign_is_found_by_the_models_axes(run, tmp_path):
    drawn = tf.simulate((12, 10), 1, density=0.6, axes=("a=b", "a")).tensor
    tf.BPTF(n_components=1, max_iter=3).fit(drawn).save(tmp_path / "m")
    result = run("top", tmp_path / "m", "--axis", "a", "--for", "a=b=a=b-03", "--json")
    assert json.loads(result.out)["for"] == {"a=b": "a=b-03"}


def test_a_model_without_a_posterior_says_so(run, tensor, tmp_path):
    tf.PTFKL(n_components=2, max_iter=3).fit(tensor).save(tmp_path / "m")
    assert "no posterior" in run("profile", tmp_path / "m", "--of", "year=2004").out
    assert "no posterior" in run("top", tmp_path / "m", "--axis", "word").out


def test_components_of_points_say_so(run, tensor, folder, tmp_path):
    tf.NTFLS(n_components=1, max_iter=3).fit(tensor).save(tmp_path / "m")
    note = "This model has no posterior"
    assert note in run("components", tmp_path / "m", "--axis", "word").out
    assert note not in run("components", folder, "--axis", "word").out


# -- fold-in --------------------------------------------------------------------------------------


def test_fold_in_adds_labels(run, frame, tmp_path):
    is_new = frame["author"].isin(["author 1", "author 2"])
    axes = ["author", "word", "year"]
    old = tf.CountTensor.from_frame(frame[~is_new], axes, "count")
    model = tf.VAEBPTF(zeros="missing", n_components=2, max_iter=8).fit(old)
    model.save(tmp_path / "m")
    frame[is_new].to_csv(tmp_path / "new.csv", index=False)
    given = ("--axis", "author", "--value", "count", "--out", tmp_path / "m2")
    result = run("fold-in", tmp_path / "m", tmp_path / "new.csv", *given)
    assert (result.code, result.err) == (0, "")
    assert "author has 2 new labels, 30 in all" in result.out
    new = tf.CountTensor.from_frame(frame[is_new], axes, "count")
    wanted = model.fold_in(new, "author").predict(new)
    np.testing.assert_allclose(tf.load(tmp_path / "m2").predict(new), wanted)
    again = ("fold-in", tmp_path / "m2", tmp_path / "new.csv", *given)
    result = run(*again)
    assert result.code == 2
    assert "--overwrite" in result.err
    result = run(*again, "--overwrite")
    assert result.code == 2
    assert "2 of 2 labels of author are known already, such as 'author 1'" in result.err
    assert "partial" not in result.err


def test_fold_in_of_another_model_is_refused(run, folder, events, tmp_path):
    given = ("--axis", "author", "--value", "count", "--out", tmp_path / "m2")
    result = run("fold-in", folder, events, *given)
    assert result.code == 2
    assert "holds bptf" in result.err
    assert not (tmp_path / "m2").exists()


# -- update ---------------------------------------------------------------------------------------


def test_update_takes_known_and_new_labels(run, frame, tmp_path):
    axes = ["author", "word", "year"]
    is_new = frame["author"].isin(["author 1", "author 2"]) | (frame["year"] == frame["year"].max())
    is_new |= np.arange(len(frame)) % 10 == 0
    model = tf.Margins().fit(tf.CountTensor.from_frame(frame[~is_new], axes, "count"))
    model.save(tmp_path / "m")
    frame[is_new].to_csv(tmp_path / "new.csv", index=False)
    given = (tmp_path / "m", tmp_path / "new.csv", "--value", "count", "--out", tmp_path / "m2")
    result = run("update", *given)
    assert (result.code, result.err) == (0, "")
    assert "author has 3 new labels, 30 in all; year has 1 new label" in result.out
    new = tf.CountTensor.from_frame(frame[is_new], axes, "count")
    found = tf.load(tmp_path / "m2").predict(new)
    np.testing.assert_allclose(found, model.update(new).predict(new))
    result = run("update", *given)
    assert result.code == 2
    assert "--overwrite" in result.err
    assert "3 new labels" in run("update", *given, "--overwrite").out
    again = (tmp_path / "m2", *given[1:-1], tmp_path / "m3")
    assert "these counts were given to this model before" in run("update", *again).err
    assert "no label is new" in run("update", *again, "--again").out


def test_update_of_another_model_is_refused(run, folder, events, tmp_path):
    result = run("update", folder, events, "--value", "count", "--out", tmp_path / "m2")
    assert result.code == 2
    assert "holds bptf" in result.err
    assert not (tmp_path / "m2").exists()


# -- compare --------------------------------------------------------------------------------------

AXES = ("--axes", "author,word,year", "--value", "count")
QUICK = (*AXES, "--models", "bptf,ptf-kl", "--max-iter", "4", "-k", "2")


def test_compare_has_means_and_standard_errors(run, events, tensor):
    result = run("compare", events, *QUICK, "--zeros", "missing", "--seeds", "2", "--json")
    found = json.loads(result.out)
    assert list(found) == [
        "constant", "main effects", "margins", "bptf", "ptf-kl",
    ]  # fmt: skip
    scores = []
    for seed in range(2):
        train, test = tf.split(tensor, 0.2, random_state=seed)
        scores.append(tf.BPTF(n_components=2, max_iter=4, random_state=seed).fit(train).score(test))
    of_bptf = found["bptf"]["scores"]["log-pmf-positive"]
    assert of_bptf["mean"] == pytest.approx(np.mean(scores))
    assert of_bptf["standard_error"] == pytest.approx(np.std(scores, ddof=1) / np.sqrt(2))
    assert found["bptf"]["seeds"] == 2


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_compare_shows_a_table_and_goes_on_from_its_rows(run, events, tmp_path, zeros):
    given = ("compare", events, *QUICK, "--seeds", "2", "--out", tmp_path / "rows")
    given = (*given, "--zeros", zeros)
    first = run(*given)
    assert first.code == 0
    assert " ±0." in first.out
    assert max(len(line) for line in first.out.splitlines()) <= 80
    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 10
    assert "bptf, seed 1" in first.err
    again = run(*given)
    assert again.out == first.out
    assert again.err == ""  # nothing was fitted
    result = run(*given, "--set", "prior_shape=3")
    assert result.code == 2
    assert "parameters" in result.err


def test_compare_lists_models_that_fail(run, events):
    given = ("--models", "bptf", "--zeros", "observed", "--set", "likelihood=negative-binomial")
    result = run("compare", events, *AXES, *given)
    assert result.code == 0
    assert "failed: bptf: with zeros='observed'" in result.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--models", "lda"), "lda"),
        (("--holdout", "0"), "--holdout must be a share"),
        (("--set", "max_itr=3"), "Did you mean 'max_iter'?"),
    ],
)
def test_compare_refuses_what_is_not_there(run, events, arguments, words):
    result = run("compare", events, *AXES, "--models", "bptf", *arguments)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_ctrl_c_in_a_comparison_keeps_rows(run, events, tmp_path, monkeypatch):
    fit = tf.PTFKL.fit

    def interrupted(self, *arguments, **given):
        raise KeyboardInterrupt

    given = ("compare", events, *QUICK, "--out", tmp_path / "rows")
    monkeypatch.setattr(tf.PTFKL, "fit", interrupted)
    result = run(*given)
    assert result.code == 130
    assert "run it again to go on" in result.err
    assert len(list((tmp_path / "rows").glob("*.parquet"))) == 4
    monkeypatch.setattr(tf.PTFKL, "fit", fit)
    assert run(*given).code == 0


def test_top_says_what_it_ranks_by(run, tensor, tmp_path):
    tf.BPTF(n_components=2, max_iter=3).fit(tensor).save(tmp_path / "amounts")
    told = run("top", tmp_path / "amounts", "--axis", "word").out
    assert "word: largest predicted counts beside anything" in told
    assert "Empty cells are unknown to this model: how many, given that there are any." in told
    tf.BPTF(n_components=2, max_iter=3, zeros="observed").fit(tensor).save(tmp_path / "m")
    told = run("top", tmp_path / "m", "--axis", "word", "--by", "probability").out
    assert "word: largest probabilities beside anything" in told
    assert "unknown" not in told
    refused = run("top", tmp_path / "m", "--axis", "word", "--by", "rate")
    assert "`by` must be 'count' or 'probability' or 'factors'" in refused.err


def test_top_says_where_nothing_tells_labels_apart(run, tensor, tmp_path):
    tf.Constant(zeros="observed").fit(tensor).save(tmp_path / "m")
    told = " ".join(run("top", tmp_path / "m", "--axis", "word").out.split())
    assert "All of these are the same: the model knows nothing that tells labels of word" in told
    tf.MainEffects(zeros="observed", max_iter=3).fit(tensor).save(tmp_path / "e")
    assert "the same" not in run("top", tmp_path / "e", "--axis", "word").out


def test_axes_are_the_models(run, folder):
    told = run("surprise", folder, "x.csv", "--axes", "author,word").err
    assert "No such option: --axes. The axes are those of the model: leave it out" in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rank", "x.npz", "--components", "5"), "--components. Here it is --ranks A,B,..."),
        (("profile", "m", "--axis", "author"), "--axis. Here it is --of AXIS=LABEL"),
        (("profile", "m", "--fro", "author=x"), "No such option: --fro"),
    ],
)
def test_options_of_other_verbs_are_translated(run, words, told):
    result = run(*words)
    assert (result.code, told in " ".join(result.err.split())) == (2, True)
    assert ("Possible options" in result.err) == ("Here it is" not in told)
