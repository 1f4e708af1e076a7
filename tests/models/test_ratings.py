"""Stars: nothing is outside of their scale, whatever is asked."""

import numpy as np
import pytest
from tests.inference.margin_counts import simulate_stars

import tallyfold as tf
from tallyfold.errors import CountError, ParameterError

STARS = np.arange(1, 6)
MODELS = {
    "margins": tf.Margins,
    "constant": tf.Constant,
    "vae-bptf": lambda **given: tf.VAEBPTF(n_components=2, max_iter=5, **given),
    "bptf": lambda **given: tf.BPTF(n_components=2, max_iter=5, amount="head", **given),
}


@pytest.fixture(scope="module")
def parts():
    return tf.split(simulate_stars(n_cells=2_000), random_state=0)


@pytest.fixture(scope="module")
def fitted(parts):
    return {name: make().fit(parts.train) for name, make in MODELS.items()}


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_outside_of_the_scale(name, fitted, parts):
    model, test = fitted[name], parts.test
    assert model.fitted_.head.bins.upper == 5
    predictive = model.predictive(test)
    pmf = np.exp([predictive.log_pmf(star) for star in STARS])
    assert pmf.sum(axis=0) == pytest.approx(np.ones(test.nnz), abs=1e-12)
    assert predictive.cdf(5) == pytest.approx(np.ones(test.nnz), abs=1e-12)
    for answer in (
        model.interval(test, 0.999),
        model.predict(test),
        model.predict(test, "median"),
        model.sample(test, 20),
    ):
        assert answer.min() >= 1
        assert answer.max() <= 5
    if name != "constant":
        assert predictive.mean() == pytest.approx(STARS @ pmf, rel=1e-9)


@pytest.mark.parametrize("name", ["margins", "vae-bptf"])
def test_labels_say_something_of_stars(name, fitted, parts):
    floor = fitted["constant"].score(parts.test)
    assert fitted[name].score(parts.test) > floor + 0.2


@pytest.mark.parametrize("tail", ["upper", "lower", "both"])
def test_surprise_is_on_the_scale(tail, fitted, parts):
    found = tf.surprise(fitted["margins"], parts.test, tail=tail, level=0.999)
    assert np.all((found["p"] > 0) & (found["p"] <= 1))
    assert found["high"].max() <= 5
    assert found["low"].min() >= 1
    if tail == "upper":
        assert found.loc[found["count"] == 1, "p"].to_numpy() == pytest.approx(1.0)
    if tail == "lower":
        assert found.loc[found["count"] == 5, "p"].to_numpy() == pytest.approx(1.0)


@pytest.mark.parametrize("name", MODELS)
def test_a_scale_that_is_stated_is_respected(name, parts):
    model = MODELS[name](scale=(1, 7)).fit(parts.train)
    assert model.fitted_.head.bins.upper == 7
    predictive = model.predictive(parts.test)
    pmf = np.exp([predictive.log_pmf(star) for star in range(1, 8)])
    assert pmf.sum(axis=0) == pytest.approx(np.ones(parts.test.nnz), abs=1e-12)
    assert np.all(pmf[5:] > 0)
    with pytest.raises(CountError, match="scale 1 to 7"):
        predictive.log_pmf(8)
    open_ = MODELS[name](scale=None).fit(parts.train)
    assert open_.fitted_.head is None or open_.fitted_.head.bins.upper is None


@pytest.mark.parametrize("name", MODELS)
def test_counts_outside_of_a_given_scale_are_refused_and_the_remedy_works(name, parts):
    with pytest.raises(CountError, match=r"scale 1 to 4 .*got 5 .*wider `scale`"):
        MODELS[name](scale=(1, 4)).fit(parts.train)
    for remedy in ((1, 5), None):
        model = MODELS[name](scale=remedy).fit(parts.train)
        assert np.isfinite(model.score(parts.test))


@pytest.mark.parametrize("scale", [(5, 1), (0, 5), (1,), (1, 2.5), "stars", (1, 5000)])
def test_scales_that_are_none_are_refused(scale, parts):
    with pytest.raises(ParameterError, match=r"`scale` must be .*\(1, 5\)"):
        tf.Margins(scale=scale).fit(parts.train)


def test_a_scale_comes_back_from_a_folder(parts, tmp_path):
    model = tf.Margins(scale=(1, 7)).fit(parts.train)
    model.save(tmp_path)
    loaded = tf.load(tmp_path)
    assert tuple(loaded.scale) == (1, 7)
    assert loaded.fitted_.head.bins.upper == 7
    assert np.array_equal(loaded.log_pmf(parts.test), model.log_pmf(parts.test))


def test_new_cells_outside_of_the_scale_are_refused(fitted, parts):
    cells = parts.test.with_cells(np.arange(parts.test.nnz) < 3)
    bad = tf.CountTensor(cells.axes, cells.indices, [5, 9, 5])
    for name in ("margins", "vae-bptf"):
        with pytest.raises(CountError, match=r"scale 1 to 5 .*got 9 \(1 such\)"):
            fitted[name].partial(bad)


def test_a_narrow_scale_says_how_many_cells_are_outside(parts):
    fives = int(np.sum(parts.train.counts == 5))
    assert fives > 1
    with pytest.raises(CountError, match=rf"scale 1 to 4 for this model; got 5 \({fives:,} such\)"):
        tf.Margins(scale=(1, 4)).fit(parts.train)
