import numpy as np
import pandas as pd
import pytest

import tallyfold as tf
from tallyfold.errors import InterruptedWarning, ParameterError

SMALL = {
    "embedding_size": 5,
    "hidden_layers": 1,
    "hidden_units": 10,
    "batch_size": 128,
    "learning_rate": 0.01,
    "max_iter": 15,
}


@pytest.fixture(scope="module")
def parts():
    tensor = tf.simulate(
        (40, 30, 10), 2, density=0.3, axes=["user", "item", "day"], random_state=4
    ).tensor
    return tf.split(tensor)


@pytest.fixture(scope="module")
def poisson(parts):
    return tf.MLPTF(loss="poisson", **SMALL).fit(parts.train)


@pytest.fixture(scope="module")
def observed(parts):
    return tf.MLPTF(loss="poisson", zeros="observed", **SMALL).fit(parts.train)


def squared_error(model, tensor):
    return np.mean((model.predict(tensor) - tensor.counts) ** 2)


def test_squared_loss_beats_a_constant(parts):
    model = tf.MLPTF(**SMALL).fit(parts.train)
    constant = tf.Constant().fit(parts.train)
    assert squared_error(model, parts.test) < 0.8 * squared_error(constant, parts.test)
    assert model.fitted_.likelihood is None
    with pytest.raises(ParameterError, match="MLPTF .* predicts means only"):
        model.score(parts.test)


def test_poisson_loss_gives_a_score_that_beats_a_constant(parts, poisson):
    assert poisson.fitted_.likelihood.truncated
    assert poisson.score(parts.test) > tf.Constant().fit(parts.train).score(parts.test) + 0.05
    low, high = poisson.interval(parts.test, 0.9).T
    assert 0.85 <= np.mean((parts.test.counts >= low) & (parts.test.counts <= high)) <= 1
    plain = tf.MLPTF(loss="poisson", truncated=False, **SMALL | {"max_iter": 2}).fit(parts.train)
    assert not plain.fitted_.likelihood.truncated


def test_observed_zeros_make_small_rates(parts, poisson, observed):
    rng = np.random.default_rng(0)
    cells = np.stack([rng.integers(0, size, 2000) for size in parts.train.shape], axis=1)
    dense = np.zeros(parts.train.shape, bool)
    for tensor in parts:
        dense[tuple(tensor.indices.T)] = True
    empty = cells[~dense[tuple(cells.T)]]
    assert observed.rate(empty).mean() < 0.5 * poisson.rate(empty).mean()
    assert observed.rate(empty).mean() < 0.5 * observed.rate(parts.test).mean()
    assert np.isfinite(observed.score(parts.test))


def test_validation_keeps_the_best_epoch(parts, observed):
    history = observed.history_
    assert history["validation"].notna().all()
    assert history["validation"].max() == history["validation"][observed.n_iter_ - 1]
    without = tf.MLPTF(validation=None, **SMALL | {"max_iter": 3}).fit(parts.train)
    assert without.history_["validation"].isna().all()
    assert without.n_iter_ == 3


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_an_interrupted_fit_resumed_is_the_uninterrupted_fit(zeros, parts, tmp_path):
    settings = SMALL | {"zeros": zeros, "max_iter": 6}
    whole = tf.MLPTF(**settings).fit(parts.train)

    def stop(progress):
        if progress.iteration.number == 3:
            raise KeyboardInterrupt

    with pytest.warns(InterruptedWarning):
        tf.MLPTF(**settings).fit(parts.train, checkpoint=tmp_path, every=2, callbacks=[stop])
    resumed = tf.MLPTF(**settings).fit(parts.train, checkpoint=tmp_path, resume=True)
    assert np.array_equal(resumed.predict(parts.test), whole.predict(parts.test))
    assert resumed.history_["objective"].tolist() == whole.history_["objective"].tolist()


def test_saved_and_loaded_predictions_are_the_same_bits(parts, poisson, tmp_path):
    poisson.save(tmp_path / "m")
    loaded = tf.load(tmp_path / "m")
    for point in ("mean", "median"):
        assert np.array_equal(loaded.predict(parts.test, point), poisson.predict(parts.test, point))
    assert loaded.score(parts.test) == poisson.score(parts.test)


def test_unknown_labels_predict_as_an_average_entity(poisson):
    frame = pd.DataFrame({"user": ["nobody", "user-00"], "item": "item-00", "day": "day-0"})
    rate = poisson.rate(frame, unknown="prior")
    everyone = poisson.rate(np.array([[user, 0, 0] for user in range(40)]))
    assert everyone.min() < rate[0] < everyone.max()
    assert rate[1] == poisson.rate(np.array([[0, 0, 0]]))[0]


def test_a_cell_predicts_the_same_whatever_cells_are_beside_it(parts, poisson):
    together = poisson.rate(parts.test)
    alone = [poisson.rate(parts.test.indices[n : n + 1])[0] for n in range(50)]
    assert np.array_equal(together[:50], alone)


def test_there_are_no_factors(poisson):
    for use in (lambda: poisson.posterior_, lambda: poisson.components("item")):
        with pytest.raises(ParameterError, match="MLPTF has no factors"):
            use()


def test_parameters_that_cannot_go_together(parts):
    with pytest.raises(ParameterError, match="`negatives` must be 0 or None with zeros='missing'"):
        tf.MLPTF(negatives=3).fit(parts.train)
    with pytest.raises(ParameterError, match="`truncated` must be None with loss='squared'"):
        tf.MLPTF(truncated=True).fit(parts.train)
    with pytest.raises(ParameterError, match="must be a plain Poisson"):
        tf.MLPTF(loss="poisson", zeros="observed", truncated=True).fit(parts.train)
    quick = SMALL | {"max_iter": 1}
    assert tf.MLPTF(negatives=0, **quick).fit(parts.train).n_iter_ == 1
    assert tf.MLPTF(negatives=0, zeros="observed", **quick).fit(parts.train).n_iter_ == 1


@pytest.mark.parametrize(("layers", "units"), [(1, 10), (2, 20), (3, 50)])
def test_the_papers_shapes(layers, units, parts):
    model = tf.MLPTF(hidden_layers=layers, hidden_units=units, max_iter=1).fit(parts.train)
    extra = model.fitted_.extra
    assert extra["weight_0"].shape == (60, units)
    assert extra[f"weight_{layers}"].shape == (units, 1)
    assert extra["embedding_0"].shape == (41, 20)
