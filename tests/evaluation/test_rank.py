"""The number of components: what is chosen, and that the choice goes on where it stopped."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import InferenceError, InterruptedWarning, ParameterError, StorageError
from tallyfold.evaluation.search import cross_validation
from tallyfold.evaluation.search.cross_validation import CrossValidation
from tallyfold.evaluation.search.rank import RankChoice, select_rank

pytestmark = pytest.mark.usefixtures("brief_heads")

CURVE = {1: -2.0, 2: -1.5, 3: -1.0, 5: -0.999, 8: -1.1}


@pytest.fixture(scope="module")
def tensor():
    return tf.simulate((20, 15, 8), n_components=2, density=0.3, random_state=1).tensor


@pytest.fixture
def fits(monkeypatch):
    """Put scores that cost nothing in the place of fits, and note which were asked for."""
    asked = []

    def scored(self, parameters, fold):
        asked.append((parameters["n_components"], fold))
        noise = np.random.default_rng([parameters["n_components"], fold]).normal()
        return CURVE[parameters["n_components"]] + 0.3 * fold + 0.002 * noise

    monkeypatch.setattr(CrossValidation, "score", scored)
    return asked


def choice_of(scores: dict[int, list[float]], metric="log-pmf-positive", one=True) -> RankChoice:
    rows = [
        {"components": number, "fold": fold, "score": score, "seconds": 1.0, "error": None}
        for number, per_fold in scores.items()
        for fold, score in enumerate(per_fold)
    ]
    return RankChoice(metric, one, pd.DataFrame(rows))


# -- what is chosen -------------------------------------------------------------------------------


@pytest.mark.parametrize(("true", "seed"), [(1, 0), (2, 1), (2, 2), (3, 3)])
def test_the_true_number_is_found(true, seed):
    tensor = tf.simulate((25, 20, 10), true, density=0.25, random_state=seed).tensor
    model = tf.BPTF(max_iter=30, validation=None, prior_shape=0.3)
    choice = select_rank(tensor, (1, 2, 3, 4), model, folds=3, random_state=seed)
    assert choice.chosen == true, choice.table
    assert not choice.at_edge


def test_the_choice_is_by_the_difference_fold_by_fold():
    # The folds are of very different difficulty, which makes the error of each mean large; that 1
    # is worse than 2 by one in every fold is certain all the same.
    hard = np.array([0.0, 10.0, 20.0])
    gain_2, gain_3 = np.array([0.01, 0.0, 0.0]), np.array([0.0, 0.02, 0.0])
    choice = choice_of({1: hard - 1.0, 2: hard + gain_2, 3: hard + gain_3})
    table = choice.table.set_index("components")
    assert table["se"][1] > 5
    assert table["difference_se"][1] < 0.05
    assert (choice.best, choice.chosen) == (3, 2)
    assert table["difference"][3] == table["difference_se"][3] == 0
    d = gain_3 - gain_2  # Nadeau and Bengio: 1/3 + 1/2
    assert table["difference_se"][2] == pytest.approx(np.std(d, ddof=1) * np.sqrt(5 / 6))
    assert table["difference"][2] == pytest.approx(d.mean())


def test_smaller_errors_are_better():
    choice = choice_of({1: [2.0, 2.1], 2: [1.0, 1.1], 3: [1.5, 1.0]}, metric="rmse")
    assert choice.best == choice.chosen == 2
    assert (choice.table["difference"] >= 0).all()
    assert choice_of({1: [0.81, 0.80], 2: [0.9, 0.9]}, metric="coverage-80").best == 1


def test_without_the_rule_the_best_is_chosen(tensor, fits):
    arguments = {"ranks": CURVE, "model": "bptf"}
    assert select_rank(tensor, **arguments, one_standard_error=False).chosen == 5
    choice = select_rank(tensor, **arguments)
    assert (choice.best, choice.chosen, choice.at_edge) == (5, 3, False)
    assert select_rank(tensor, (1, 2, 3), "bptf").at_edge
    columns = "components mean se difference difference_se folds failed seconds"
    assert choice.table.columns.tolist() == columns.split()
    assert choice.table["folds"].tolist() == [5] * 5


def test_a_number_that_failed_in_a_fold_is_not_chosen(tensor, monkeypatch):
    def scored(self, parameters, fold):
        if parameters["n_components"] == 2 and fold == 1:
            raise InferenceError("left the rails")
        return 1.0 * parameters["n_components"]

    monkeypatch.setattr(CrossValidation, "score", scored)
    choice = select_rank(tensor, (1, 2), "bptf", folds=3)
    assert choice.chosen == 1
    row = choice.table.set_index("components").loc[2]
    assert (row["folds"], row["failed"]) == (2, 1)
    assert np.isnan(row["difference"])
    alone = select_rank(tensor, (2,), "bptf", folds=3)
    with pytest.raises(InferenceError, match="scored in every fold. The first error: left"):
        _ = alone.chosen
    assert alone.table["failed"].tolist() == [1]


# -- going on -------------------------------------------------------------------------------------


def test_scores_are_kept_as_they_come(tensor, monkeypatch, tmp_path):
    file = tmp_path / "ranks.json"
    calls = itertools.count()

    def scored(self, parameters, fold):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return CURVE[parameters["n_components"]] + 0.1 * fold

    monkeypatch.setattr(CrossValidation, "score", scored)
    with pytest.warns(InterruptedWarning, match="after 4 of 6 fits. Make the same call"):
        part = select_rank(tensor, (1, 2, 3), "bptf", folds=2, path=file)
    assert part.interrupted
    assert (part.best, part.table["components"].tolist()) == (2, [1, 2])
    assert len(json.loads(file.read_text())["rows"]) == 4
    told = []
    whole = select_rank(tensor, (1, 2, 3, 5), "bptf", folds=2, path=file, callback=told.append)
    assert next(calls) == 4 + 1 + 4  # four before, the interrupted one, four more
    assert [(step.number, step.total) for step in told] == [(n, 8) for n in range(1, 9)]
    plain = select_rank(tensor, (1, 2, 3, 5), "bptf", folds=2)
    timeless = [each.scores.drop(columns="seconds") for each in (whole, plain)]
    pd.testing.assert_frame_equal(*timeless)
    fewer = select_rank(tensor, (1, 2), "bptf", folds=2, path=file)
    assert fewer.table["components"].tolist() == [1, 2]


def test_an_interrupt_in_the_first_folds_is_an_interrupt(tensor, monkeypatch):
    def scored(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(CrossValidation, "score", scored)
    with pytest.raises(KeyboardInterrupt):
        select_rank(tensor, (1, 2), "bptf")


def test_an_interrupt_within_a_number_leaves_the_numbers_that_are_whole(tensor, monkeypatch):
    calls = itertools.count()

    def scored(self, parameters, fold):
        if next(calls) == 5:
            raise KeyboardInterrupt
        return 1.0 * parameters["n_components"]

    monkeypatch.setattr(CrossValidation, "score", scored)
    with pytest.warns(InterruptedWarning, match="after 5 of 6 fits.$"):
        assert select_rank(tensor, (1, 2), "bptf", folds=3).chosen == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": tf.BPTF(max_iter=9)}, "its parameters.max_iter was 200; here it is 9"),
        ({"model": "ptf-kl"}, 'its model was "bptf"'),
        ({"folds": 3}, "its folds was 2"),
        ({"metric": "rmse"}, "its metric was"),
        ({"tensor": tf.simulate((9, 9), 2, density=0.5).tensor}, "its tensor was"),
    ],
)
def test_scores_of_another_call_are_refused(tensor, fits, tmp_path, change, message):
    first = {"tensor": tensor, "ranks": (1,), "model": "bptf", "folds": 2}
    select_rank(**first, path=tmp_path / "r.json")
    with pytest.raises(StorageError, match=f"is of another call: {message}"):
        select_rank(**(first | change), path=tmp_path / "r.json")
    assert len(fits) == 2


def test_scores_of_another_version_are_refused(tensor, fits, tmp_path, monkeypatch):
    select_rank(tensor, (1,), "bptf", folds=2, path=tmp_path / "r.json")
    monkeypatch.setattr(cross_validation, "__version__", "99.0")
    with pytest.raises(StorageError, match='its tallyfold was .*; here it is "99.0"'):
        select_rank(tensor, (1,), "bptf", folds=2, path=tmp_path / "r.json")


@pytest.mark.parametrize("text", ["", "[1]", "{}", '{"format": "x", "of": {}, "rows": []}'])
def test_files_that_hold_no_scores_are_left_alone(tensor, fits, tmp_path, text):
    (tmp_path / "other.json").write_text(text)
    with pytest.raises(StorageError, match="Choose another file"):
        select_rank(tensor, (1,), "bptf", path=tmp_path / "other.json")
    assert (tmp_path / "other.json").read_text() == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ranks": ()}, "one number of components or more"),
        ({"ranks": (1, 0)}, "`ranks` must be a list of positive integers; got 0"),
        ({"ranks": "12"}, "`ranks` must be a list of positive integers; got '1'"),
        ({"ranks": 2.5}, "`ranks` must be a list of positive integers; got 2.5"),
        ({"model": "main-effects"}, "main-effects has no components"),
        ({"folds": 1}, "`folds` must be an integer of at least 2"),
        ({"metric": "luck"}, "`metric` must be one of"),
        ({"tensor": None}, "expected a CountTensor; got NoneType as `tensor`"),
    ],
)
def test_arguments_are_refused(tensor, arguments, message):
    with pytest.raises(ParameterError, match=message):
        select_rank(**({"tensor": tensor, "model": "bptf"} | arguments))


# -- stability ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def by_stability():
    tensor = tf.simulate((30, 20, 10), n_components=2, density=0.3).tensor
    return tensor, select_rank(tensor, (1, 2, 5), tf.BPTF(max_iter=30), folds=3, stability=True)


def test_components_of_folds_are_compared(by_stability):
    tensor, choice = by_stability
    table = choice.table.set_index("components")["stability"]
    assert table.between(0, 1).all()
    assert table[1] > table[5]
    plain = select_rank(tensor, (1, 2, 5), tf.BPTF(max_iter=30), folds=3)
    assert plain.scores["score"].tolist() == choice.scores["score"].tolist()
    assert "stability" not in plain.table


def test_the_most_stable_of_those_as_good_is_chosen(by_stability):
    _, choice = by_stability
    rows = choice.scores.assign(score=-1.0)  # all are as good
    known = rows.groupby("components")["stability"].mean()
    assert replace(choice, scores=rows).chosen == known.idxmax()
    flipped = rows.assign(stability=rows["components"] / 10)
    assert replace(choice, scores=flipped).chosen == 5
    assert replace(choice, scores=flipped, stable=False).chosen == 1
    worse = flipped.assign(score=[-9.0 if k == 5 else -1.0 for k in rows["components"]])
    assert replace(choice, scores=worse).chosen == 2


def test_kept_scores_without_stability_are_made_again(by_stability, tmp_path):
    tensor, choice = by_stability
    given = {"folds": 3, "path": tmp_path / "ranks.json"}
    model = tf.BPTF(max_iter=30)
    select_rank(tensor, (1,), model, **given)
    found = select_rank(tensor, (1, 2), model, stability=True, **given)
    wanted = choice.scores[choice.scores["components"] < 3]
    assert found.scores["stability"].tolist() == wanted["stability"].tolist()
    seconds = found.scores["seconds"].tolist()
    again = select_rank(tensor, (1, 2), model, stability=True, **given)
    assert again.scores["seconds"].tolist() == seconds  # nothing was fitted
    with pytest.raises(ParameterError, match="`stability` has no effect"):
        select_rank(tensor, (1, 2), model, one_standard_error=False, stability=True)
