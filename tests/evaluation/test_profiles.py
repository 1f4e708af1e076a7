from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import pdist, squareform

import tallyfold as tf
from tallyfold.errors import LabelError, ParameterError
from tallyfold.evaluation.profiles import profile, top
from tallyfold.evaluation.scaling import scaled, scaling


@pytest.fixture(scope="module")
def tensor():
    simulated = tf.simulate((9, 14, 5), n_components=3, density=0.4, random_state=2).tensor
    names = ("author", "word", "year")
    axes = [axis.renamed(name) for axis, name in zip(simulated.axes, names, strict=True)]
    return tf.CountTensor(axes, simulated.indices, simulated.counts)


@pytest.fixture(scope="module")
def gamma(tensor):
    return tf.BPTF(n_components=3, max_iter=50).fit(tensor)


@pytest.fixture(scope="module")
def point(tensor):
    return tf.PTFKL(n_components=3, max_iter=20).fit(tensor)


@pytest.fixture(scope="module")
def sampled(tensor):
    return tf.GibbsBPTF(n_components=3, burn_in=5, n_draws=6, thin=1).fit(tensor)


def label(model, axis, position):
    return model.axes_[model.posterior_.axis_number(axis)].label(position)


def test_a_profile_has_the_posterior_of_each_factor(gamma):
    found = profile(gamma, "word", label(gamma, "word", 4), level=0.8)
    order = found["component"].to_numpy()
    shape, rate = gamma.posterior_.shape("word")[4], gamma.posterior_.rate("word")[4]
    posterior = stats.gamma(shape[order], scale=1 / rate[order])
    assert found["mean"].to_numpy() == pytest.approx(posterior.mean())
    assert found["low"].to_numpy() == pytest.approx(posterior.ppf(0.1))
    assert found["high"].to_numpy() == pytest.approx(posterior.ppf(0.9))
    assert found["share"].is_monotonic_decreasing
    assert found.attrs["posterior"]


def test_shares_are_those_of_the_rate_over_all_cells(gamma):
    found = profile(gamma, "author", label(gamma, "author", 2)).set_index("component")["share"]
    author, word, year = (gamma.posterior_.mean(name) for name in ("author", "word", "year"))
    rate_K = np.einsum("k,wk,yk->k", author[2], word, year)
    assert found.sort_index().to_numpy() == pytest.approx(rate_K / rate_K.sum())


def test_a_profile_without_posterior_says_so(point, sampled):
    found = profile(point, "word", label(point, "word", 0))
    assert not found.attrs["posterior"]
    assert (found["low"] == found["high"]).all()
    drawn = profile(sampled, "word", label(sampled, "word", 0))
    assert drawn.attrs["posterior"]
    assert (drawn["low"] < drawn["high"]).all()


def test_top_entities_of_points_by_brute_force(point):
    found = top(point, "word", {"author": label(point, "author", 3)}, top=14, by="factors")
    author, word, year = (point.posterior_.mean(name) for name in ("author", "word", "year"))
    rate = np.einsum("k,wk,yk->wy", author[3], word, year).mean(axis=1)
    order = np.argsort(-rate)
    assert found["label"].tolist() == [label(point, "word", row) for row in order]
    assert found["mean"].to_numpy() == pytest.approx(rate[order])
    assert found["sd"].tolist() == [0.0] * 14
    assert not found.attrs["posterior"]


def test_top_entities_with_all_other_axes_given_are_predictions(point):
    given = {"author": label(point, "author", 3), "year": label(point, "year", 1)}
    found = top(point, "word", given, top=3)
    cells = np.array([[3, word, 1] for word in range(14)], np.int32)
    assert found["mean"].to_numpy() == pytest.approx(np.sort(point.predict(cells))[::-1][:3])


def test_top_entities_over_the_draws_of_a_sampler(sampled):
    found = top(
        sampled, "word", {"author": label(sampled, "author", 1)}, top=2, draws=6, by="factors"
    )
    author, word, _ = sampled.posterior_.samples
    year_K = sampled.posterior_.mean("year").mean(axis=0)
    rate_SD = np.einsum("sk,sdk,k->sd", author[:, 1], word[:, :-1], year_K)
    order = np.argsort(-rate_SD.mean(axis=0))[:2]
    assert found["label"].tolist() == [label(sampled, "word", row) for row in order]
    assert found["mean"].to_numpy() == pytest.approx(rate_SD.mean(axis=0)[order])
    assert found["sd"].to_numpy() == pytest.approx(rate_SD.std(axis=0, ddof=1)[order])


def test_the_spread_of_a_prediction_is_that_of_the_rate(gamma):
    given = {"author": label(gamma, "author", 0), "year": label(gamma, "year", 0)}
    found = top(gamma, "word", given, top=14, draws=4000).set_index("label")
    cells = np.array([[0, word, 0] for word in range(14)], np.int32)
    mean, _ = gamma.posterior_.rate_moments(cells)
    tables = [gamma.posterior_.gammas.axes[axis].widened for axis in range(3)]
    second = [table.mean_DK**2 * (1 + 1 / table.shape_DK) for table in tables]
    square = [table.mean_DK**2 for table in tables]
    variance = np.sum(np.prod([s[c] for s, c in zip(second, cells.T, strict=True)], 0), 1)
    variance -= np.sum(np.prod([s[c] for s, c in zip(square, cells.T, strict=True)], 0), 1)
    found = found.loc[[label(gamma, "word", row) for row in range(14)]]
    step = 1e-4
    moments = [
        lambda c, by=by: tuple(gamma._moments(c) * np.array([[by], [by**2]]))
        for by in (1, 1 + step)
    ]
    low, high = (gamma.fitted_.predictive(cells, each).mean() for each in moments)
    assert found["mean"].to_numpy() == pytest.approx(gamma.predict(cells))
    spread = (high - low) / step * np.sqrt(variance) / mean
    assert found["sd"].to_numpy() == pytest.approx(spread, rel=0.1)


def test_the_seed_decides(gamma):
    given = {"author": label(gamma, "author", 0)}
    first = top(gamma, "word", given)
    assert top(gamma, "word", given).equals(first)
    other = top(gamma, "word", given, random_state=1)
    assert other["sd"].tolist() != first["sd"].tolist()


def brute_force_scaling(factor, dimensions):
    """Double-centre the squared distances and decompose, as R's cmdscale does."""
    squares = squareform(pdist(factor)) ** 2
    centre = np.eye(len(factor)) - 1 / len(factor)
    value, vector = np.linalg.eigh(-centre @ squares @ centre / 2)
    order = np.argsort(-value)
    point = vector[:, order[:dimensions]] * np.sqrt(value[order[:dimensions]])
    return point, value[order[:dimensions]].sum() / value.sum()


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_scaling_by_brute_force(gamma, dimensions):
    found = scaling(gamma, "word", dimensions=dimensions)
    expected, share = brute_force_scaling(gamma.posterior_.mean("word"), dimensions)
    point = found.drop(columns="label").to_numpy()
    assert list(found) == ["label", "x", "y", "z"][: dimensions + 1]
    assert np.abs(point) == pytest.approx(np.abs(expected), abs=1e-8)
    assert pdist(point) == pytest.approx(pdist(expected), abs=1e-8)
    assert found.attrs["explained"] == pytest.approx(share)
    farthest = np.abs(point).argmax(axis=0)
    assert (point[farthest, np.arange(dimensions)] > 0).all()


def test_scaling_of_chosen_entities(gamma):
    labels = [label(gamma, "word", row) for row in (7, 2, 9, 5)]
    found = scaling(gamma, "word", labels)
    assert found["label"].tolist() == labels
    expected, _ = brute_force_scaling(gamma.posterior_.mean("word")[[7, 2, 9, 5]], 2)
    assert np.abs(found[["x", "y"]].to_numpy()) == pytest.approx(np.abs(expected), abs=1e-8)


def test_scaling_of_entities_that_are_all_the_same():
    point, explained = scaled(np.ones((4, 3)), 2)
    assert (point == 0).all()
    assert explained == 1.0


def test_bad_inputs_are_explained(gamma):
    author = label(gamma, "author", 0)
    with pytest.raises(LabelError, match="axis 'author' has no label 'nobody'"):
        profile(gamma, "author", "nobody")
    with pytest.raises(LabelError, match="there is no axis 'place'"):
        profile(gamma, "place", "here")
    with pytest.raises(ParameterError, match="`level` must be a number in"):
        profile(gamma, "author", author, level=90)
    with pytest.raises(ParameterError, match="`given` must name axes other than .* 'author'"):
        top(gamma, "author", {"author": author})
    with pytest.raises(ParameterError, match="`draws` must be an integer of at least 2; got 1"):
        top(gamma, "word", {"author": author}, draws=1)
    with pytest.raises(ParameterError, match="14 entities with 3 components .* at most 3 .* got 4"):
        scaling(gamma, "word", dimensions=4)
    with pytest.raises(ParameterError, match="a map needs at least two labels of 'word'; got 0"):
        scaling(gamma, "word", [])
    with pytest.raises(ParameterError, match="2 entities .* at most 1 dim"):
        scaling(gamma, "word", [label(gamma, "word", 0), label(gamma, "word", 1)])


def test_a_model_without_factors_has_no_profile(gamma):
    model = tf.MLPTF()
    model._fitted = replace(gamma.fitted_, factors=None)  # as its own fit leaves it
    for ask in (
        lambda: profile(model, "word", label(gamma, "word", 0)),
        lambda: top(model, "word", {}),
        lambda: scaling(model, "word"),
    ):
        with pytest.raises(ParameterError, match="MLPTF has no factors"):
            ask()


def test_a_ranking_does_not_depend_on_the_seed_of_its_spread():
    tensor = tf.simulate((20, 30, 6), 3, density=0.2, random_state=4).tensor
    model = tf.BPTF(n_components=3, max_iter=10).fit(tensor)
    given = {"axis_0": tensor.axis("axis_0").label(3)}
    first, second = (
        top(model, "axis_1", given, top=30, random_state=s, by="factors") for s in (0, 1)
    )
    assert first["label"].tolist() == second["label"].tolist()
    assert first["mean"].tolist() == second["mean"].tolist()
    assert first["sd"].tolist() != second["sd"].tolist()
    assert first.attrs["by"] == "factors"
