"""The scores of constants, against scipy and by what must hold."""

import numpy as np
import pytest
from scipy import stats

import tallyfold as tf
from tallyfold.data.axis import Axis
from tallyfold.errors import DataError
from tallyfold.evaluation.constants import ConstantScore, constant_scores


def by_name(train: tf.CountTensor, test: tf.CountTensor) -> dict[str, ConstantScore]:
    return {score.name: score for score in constant_scores(train, test)}


@pytest.fixture(scope="module")
def parts() -> tuple[tf.CountTensor, tf.CountTensor]:
    return tf.split(tf.simulate((30, 20, 10), n_components=3, random_state=1).tensor)


def test_values_and_their_errors(parts: tuple[tf.CountTensor, tf.CountTensor]) -> None:
    train, test = parts
    scores = by_name(train, test)
    mode = stats.mode(train.counts).mode
    for name, value in (
        ("training mean", train.counts.mean()),
        ("training median", np.median(train.counts)),
        ("training mode", mode),
    ):
        assert scores[name].parameters == {"value": value}
        assert scores[name].mae == pytest.approx(np.abs(test.counts - value).mean())
        assert scores[name].log_pmf is None


def test_poisson_against_scipy(parts: tuple[tf.CountTensor, tf.CountTensor]) -> None:
    train, test = parts
    scores = by_name(train, test)
    plain = scores["Poisson"]
    rate = plain.parameters["rate"]
    assert rate == pytest.approx(train.counts.mean())
    assert plain.log_pmf == pytest.approx(stats.poisson.logpmf(test.counts, rate).mean())
    given = scores["Poisson given y ≥ 1"]
    rate = given.parameters["rate"]
    assert rate / -np.expm1(-rate) == pytest.approx(train.counts.mean())
    full = stats.poisson.logpmf(test.counts, rate) - np.log(-np.expm1(-rate))
    assert given.log_pmf == pytest.approx(full.mean())


def test_the_wider_family_fits_its_own_data_no_worse(
    parts: tuple[tf.CountTensor, tf.CountTensor],
) -> None:
    scores = by_name(parts[0], parts[0])
    narrow, wide = scores["Poisson given y ≥ 1"], scores["negative binomial given y ≥ 1"]
    assert narrow.log_pmf is not None
    assert wide.log_pmf is not None
    assert scores["Poisson"].log_pmf is not None
    assert wide.log_pmf >= narrow.log_pmf - 1e-6
    assert narrow.log_pmf >= scores["Poisson"].log_pmf


def test_all_ones_are_finite() -> None:
    ones = tf.CountTensor.from_array(np.eye(4, dtype=int))
    for score in constant_scores(ones, ones):
        assert score.mae in (None, 0.0)
        assert score.log_pmf is None or -1.1 < score.log_pmf <= 1e-9


def test_an_empty_part_is_refused() -> None:
    ones = tf.CountTensor.from_array(np.eye(4, dtype=int))
    empty = tf.CountTensor([Axis("a", [1]), Axis("b", [1])], [], [])
    with pytest.raises(DataError, match="0 to test on"):
        constant_scores(ones, empty)
