import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import InterruptedWarning, ParameterError


@pytest.fixture(scope="module")
def truth():
    return tf.simulate((30, 20, 15), 3, density=0.4, random_state=4)


@pytest.fixture(scope="module")
def parts(truth):
    return tf.split(truth.tensor, 0.2, random_state=0)


def chain(**parameters):
    return tf.GibbsBPTF(
        **({"n_components": 3, "burn_in": 60, "n_draws": 30, "thin": 1} | parameters)
    )


@pytest.fixture(scope="module")
def fitted(parts):
    return chain().fit(parts.train)


def uncalibrated(model, cells):
    return model.posterior_.rate_moments(cells.indices)[0]


def test_the_truth_is_recovered(truth, parts, fitted):
    true = truth.rate(parts.test.indices)
    found = uncalibrated(fitted, parts.test)
    assert np.corrcoef(true, found)[0, 1] > 0.9
    assert np.median(np.abs(np.log(found / true))) < 0.25


def test_it_beats_a_constant_and_main_effects(parts, fitted):
    score = fitted.score(parts.test)
    assert score > tf.MainEffects().fit(parts.train).score(parts.test)
    assert score > tf.Constant().fit(parts.train).score(parts.test)


def test_posterior_means_agree_with_variational_inference(parts, fitted):
    """Mean-field posteriors are too narrow, but their means are near on enough data."""
    variational = tf.BPTF(n_components=3).fit(parts.train)
    one, two = uncalibrated(variational, parts.test), uncalibrated(fitted, parts.test)
    assert np.corrcoef(np.log(one), np.log(two))[0, 1] > 0.98
    assert np.median(np.abs(np.log(one / two))) < 0.1
    assert fitted.score(parts.test) == pytest.approx(variational.score(parts.test), abs=0.03)


def test_the_posterior_covers_the_truth(truth, parts):
    """Of the true rates, about nine in ten are in the central nine tenths of the draws."""
    model = chain(n_draws=60, thin=2, validation=None).fit(parts.train)
    rates = model.posterior_.rates(parts.test.indices)
    low, high = np.quantile(rates, [0.05, 0.95], axis=0)
    true = truth.rate(parts.test.indices)
    assert 0.75 < np.mean((low <= true) & (true <= high)) < 0.98


def test_zeros_observed(truth):
    model = chain(zeros="observed").fit(truth.tensor)
    cells = np.stack(np.unravel_index(np.arange(9_000), (30, 20, 15)), axis=1)
    true, found = truth.rate(cells), model.rate(cells)
    assert np.corrcoef(true, found)[0, 1] > 0.95
    assert found.sum() == pytest.approx(true.sum(), rel=0.05)
    with pytest.raises(ParameterError, match="zeros='observed' the likelihood must be a plain"):
        chain(zeros="observed", truncated=True).fit(truth.tensor)


@pytest.mark.parametrize("truncated", [True, False])
def test_negative_binomial(parts, truncated):
    model = chain(
        likelihood="negative-binomial", dispersion=2.0, truncated=truncated, burn_in=10, n_draws=5
    ).fit(parts.train)
    assert np.isfinite(model.score(parts.test))
    assert model.fitted_.dispersion == 2.0


def test_draws_behind_the_posterior(parts, fitted):
    posterior = fitted.posterior_
    assert posterior.n_draws == 30
    assert fitted.n_iter_ == 110
    counted = fitted.history_["phase"].value_counts(sort=False)
    assert counted.to_dict() == {"start": 20, "burn-in": 60, "draws": 30}
    assert fitted.history_["validation"].isna().all()
    assert not fitted.converged_
    spread = posterior.sd(parts.train.names[0]) / posterior.mean(parts.train.names[0])
    assert 0 < np.median(spread) < 1


def test_entities_never_seen_are_average_in_every_draw():
    axes = [tf.Axis.numbered("a", 4), tf.Axis.numbered("b", 3)]
    tensor = tf.CountTensor(axes, [[0, 0], [1, 1], [2, 2], [0, 1]], [3, 1, 2, 5])
    model = chain(n_components=2, burn_in=5, n_draws=4).fit(tensor)
    draws = model.posterior_.samples[0]
    np.testing.assert_allclose(draws[:, 3], draws[:, :3].mean(axis=1))
    np.testing.assert_allclose(draws[:, 4], draws[:, :3].mean(axis=1))
    observed = chain(n_components=2, burn_in=5, n_draws=4, zeros="observed").fit(tensor)
    draws = observed.posterior_.samples[0]
    assert not np.allclose(draws[:, 3], draws[:, :3].mean(axis=1))


@pytest.mark.parametrize(("stop_at", "n_draws"), [(4, 1), (24, 1), (31, 2)])
def test_an_interrupted_chain_resumed_is_the_uninterrupted_one(parts, tmp_path, stop_at, n_draws):
    """In the sweeps it starts with, in its burn-in, and among its draws."""

    def stop(progress):
        if progress.iteration.number == stop_at:
            raise KeyboardInterrupt

    short = {"burn_in": 6, "n_draws": 5, "thin": 2, "validation": None}
    whole = chain(**short).fit(parts.train)
    with pytest.warns(InterruptedWarning, match=f"iteration {stop_at}"):
        part = chain(**short).fit(parts.train, checkpoint=tmp_path, every=3, callbacks=[stop])
    assert part.posterior_.n_draws == n_draws
    resumed = chain(**short).fit(parts.train, checkpoint=tmp_path, every=3, resume=True)
    for one, two in zip(whole.posterior_.samples, resumed.posterior_.samples, strict=True):
        np.testing.assert_array_equal(one, two)
    assert resumed.score(parts.test) == whole.score(parts.test)


@pytest.mark.parametrize("prior_shape", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_prior_shapes_from_tiny_to_large(parts, prior_shape, zeros):
    model = chain(prior_shape=prior_shape, zeros=zeros, burn_in=5, n_draws=3).fit(parts.train)
    assert np.all(np.isfinite(model.predict(parts.test)))
    assert np.isfinite(model.score(parts.test))


def test_back_ends_give_chains_that_agree(parts):
    one = chain(backend="numpy", validation=None).fit(parts.train)
    two = chain(backend="numba", validation=None).fit(parts.train)
    assert one.score(parts.test) == pytest.approx(two.score(parts.test), abs=0.02)


@pytest.mark.parametrize("stop_at", [3, 23])
def test_a_fit_stopped_in_its_burn_in_says_what_that_means(stop_at):
    """Or before it, in the sweeps that it starts with."""
    tensor = tf.simulate((12, 10, 6), 2, density=0.3).tensor

    def stop(progress):
        if progress.iteration.number == stop_at:
            raise KeyboardInterrupt

    with pytest.warns(tf.errors.InterruptedWarning, match="still burning in .burn_in=50"):
        tf.GibbsBPTF(n_components=2, burn_in=50).fit(tensor, callbacks=[stop])
