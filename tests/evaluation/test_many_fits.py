"""Searches and comparisons say once how many of their fits came to their limit."""

import warnings

import pytest

import tallyfold as tf
from tallyfold.errors import ConvergenceWarning, SlowPathWarning
from tallyfold.evaluation.many_fits import many_fits, one_of_many

TENSOR = tf.simulate((14, 12, 5), 2, density=0.4).tensor
SHORT = {"n_components": 2, "max_iter": 3, "backend": "numpy", "validation": None}


def said_by(call):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    return [each for each in said if each.category is ConvergenceWarning]


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (lambda: tf.select_rank(TENSOR, [1, 2], tf.BPTF(**SHORT), folds=2), 4),
        (lambda: tf.tune(tf.BPTF(**SHORT), TENSOR, {"prior_shape": [0.5, 1.0]}, 2, 1), 2),
        (
            lambda: tf.compare(
                {"a": tf.BPTF(**SHORT), "b": tf.BPTF(**SHORT)}, *tf.split(TENSOR, 0.2), ["rmse"]
            ),
            2,
        ),
    ],
)
def test_it_is_said_once_where_the_search_was_called(call, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a search is kept
    (said,) = said_by(call)
    assert str(said.message).startswith(f"{number} of {number} fits ended at their limit")
    assert said.filename == __file__


def test_a_fit_by_itself_says_it_as_before():
    (said,) = said_by(lambda: tf.BPTF(**SHORT).fit(TENSOR))
    assert str(said.message).startswith("the fit ended at its limit")


def test_what_else_a_fit_warns_of_is_given():
    @many_fits
    def search():
        for number in range(2):
            with one_of_many():
                warnings.warn(f"slow {number}", SlowPathWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search()
    assert [str(each.message) for each in said] == ["slow 0", "slow 1"]
