import numpy as np
import pytest

import tallyfold as tf
from tallyfold.errors import InterruptedWarning, ParameterError


@pytest.fixture(scope="module")
def truth():
    return tf.simulate((40, 30, 20), 3, density=0.06, random_state=2)


@pytest.fixture(scope="module")
def parts(truth):
    return tf.split(truth.tensor, 0.2, random_state=0)


def chain(**parameters):
    return tf.OnlineGibbsBPTF(**({"burn_in": 150, "n_draws": 40, "thin": 1} | parameters))


ONLINE = {"method": "online", "batch_size": 0.25, "burn_in": 500, "n_draws": 40, "thin": 2}


def shares(model):
    weights = np.sort(model.component_weights_)[::-1]
    return weights / weights.sum()


@pytest.fixture(scope="module")
def batch(parts):
    return chain(burn_in=200).fit(parts.train)


@pytest.fixture(scope="module")
def online(parts):
    return chain(**ONLINE).fit(parts.train)


def test_components_that_are_not_needed_shrink(truth, batch):
    """Three true components, ten allowed."""
    assert shares(batch)[:3].sum() > 0.95
    observed = chain(zeros="observed").fit(truth.tensor)
    assert shares(observed)[:3].sum() > 0.99
    assert observed.component_weights_.sum() == pytest.approx(truth.tensor.counts.sum(), rel=0.1)


def test_components_that_are_not_needed_shrink_online(truth):
    """More slowly: averages hold on to what a component once had."""
    observed = chain(**ONLINE, zeros="observed").fit(truth.tensor)
    assert shares(observed)[:3].sum() > 0.8
    assert shares(observed)[5:].sum() < 0.02


def test_the_truth_is_recovered(truth, batch, online):
    for model in (batch, online):
        found = model.posterior_.rate_moments(truth.tensor.indices)[0]
        assert np.corrcoef(found, truth.rate(truth.tensor.indices))[0, 1] > 0.9


def test_the_online_form_scores_like_the_batch_form(parts, batch, online):
    assert online.score(parts.test) > batch.score(parts.test) - 0.03
    assert batch.score(parts.test) > tf.Constant().fit(parts.train).score(parts.test) + 0.1


def test_weights_are_the_totals_of_the_rates(truth):
    model = chain(zeros="observed", burn_in=5, n_draws=3).fit(truth.tensor)
    first, *others = model.posterior_.samples
    for other in others:
        np.testing.assert_allclose(other[:, :-1].sum(axis=1), 1)
    np.testing.assert_allclose(first[:, :-1].sum(axis=1).mean(axis=0), model.component_weights_)


@pytest.mark.parametrize("method", ["batch", "online"])
@pytest.mark.parametrize("zeros", ["missing", "observed"])
@pytest.mark.parametrize("value", [1e-3, 0.1, 10.0])
def test_constants_from_tiny_to_large(parts, method, zeros, value):
    model = chain(
        method=method,
        zeros=zeros,
        dirichlet=value,
        c=value,
        g=value,
        batch_size=200,
        burn_in=5,
        n_draws=3,
    ).fit(parts.train)
    assert np.all(np.isfinite(model.predict(parts.test)))
    assert np.isfinite(model.score(parts.test))
    assert np.all(np.isfinite(model.component_weights_))


@pytest.mark.parametrize("method", ["batch", "online"])
def test_an_interrupted_chain_resumed_is_the_uninterrupted_one(parts, tmp_path, method):
    def stop(progress):
        if progress.iteration.number == 11:
            raise KeyboardInterrupt

    short = {"burn_in": 6, "n_draws": 5, "thin": 2, "method": method, "batch_size": 300}
    short["validation"] = None
    whole = chain(**short).fit(parts.train)
    with pytest.warns(InterruptedWarning, match="iteration 11"):
        chain(**short).fit(parts.train, checkpoint=tmp_path, every=3, callbacks=[stop])
    resumed = chain(**short).fit(parts.train, checkpoint=tmp_path, every=3, resume=True)
    for one, two in zip(whole.posterior_.samples, resumed.posterior_.samples, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(whole.component_weights_, resumed.component_weights_)


def test_seeds_and_storage(parts, tmp_path):
    short = {"burn_in": 4, "n_draws": 3, "validation": None}
    one, two = chain(**short).fit(parts.train), chain(**short).fit(parts.train)
    np.testing.assert_array_equal(one.component_weights_, two.component_weights_)
    other = chain(**short, random_state=1).fit(parts.train)
    assert not np.array_equal(one.component_weights_, other.component_weights_)
    one.save(tmp_path)
    np.testing.assert_array_equal(tf.load(tmp_path).component_weights_, one.component_weights_)


def test_a_batch_size_is_a_number_or_a_share(parts):
    by_share = chain(method="online", batch_size=0.5, burn_in=2, n_draws=1).fit(parts.train)
    n_cells = parts.train.nnz - round(parts.train.nnz * 0.1)
    by_number = chain(method="online", batch_size=-(-n_cells // 2), burn_in=2, n_draws=1)
    by_number.fit(parts.train)
    np.testing.assert_array_equal(by_share.component_weights_, by_number.component_weights_)
    for wrong in (0, 1.5, -3):
        with pytest.raises(ParameterError, match="`batch_size` must be a positive integer or"):
            chain(method="online", batch_size=wrong).fit(parts.train)


def test_one_component(parts):
    model = chain(n_components=1, burn_in=20, n_draws=5).fit(parts.train)
    assert np.isfinite(model.score(parts.test))
