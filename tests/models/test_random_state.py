"""random_state=None: a fresh seed, kept on the model, with which the fit can be repeated."""

import numpy as np
import pytest
from sklearn.base import clone

import tallyfold as tf
from tallyfold.errors import ParameterError
from tallyfold.posterior.gamma_factors import GammaFactors

pytestmark = pytest.mark.usefixtures("brief_heads")

TENSOR = tf.simulate((12, 10, 6), n_components=2, density=0.3).tensor
QUICK = {
    "bptf": {"n_components": 2, "max_iter": 4},
    "bptf-gibbs": {"n_components": 2, "burn_in": 2, "n_draws": 2, "thin": 1},
    "online-gibbs": {"n_components": 2, "burn_in": 2, "n_draws": 2},
    "ptf-kl": {"n_components": 2, "max_iter": 3},
    "ntf-ls": {"n_components": 2, "max_iter": 3},
    "mlp-tf": {"max_iter": 2},
    "vae-bptf-paper": {"n_components": 2, "max_iter": 2},
    "vae-bptf": {"n_components": 2, "max_iter": 3, "amount": "negative-binomial"},
}


@pytest.mark.parametrize("name", QUICK)
def test_a_drawn_seed_is_kept_and_repeats_the_fit(name):
    kind = tf.MODELS[name]
    model = kind(random_state=None, **QUICK[name]).fit(TENSOR)
    assert model.random_state is None
    assert clone(model).get_params()["random_state"] is None
    assert 0 <= model.random_state_ < 2**32
    again = kind(random_state=model.random_state_, **QUICK[name]).fit(TENSOR)
    np.testing.assert_array_equal(again.predict(TENSOR), model.predict(TENSOR))


def test_every_fit_draws_another_seed():
    model = tf.BPTF(n_components=2, max_iter=2, random_state=None)
    assert model.fit(TENSOR).random_state_ != model.fit(TENSOR).random_state_


def test_a_seed_given_is_the_one_kept_and_models_without_one_have_none(tmp_path):
    assert tf.BPTF(n_components=2, max_iter=2, random_state=5).fit(TENSOR).random_state_ == 5
    assert tf.Constant().fit(TENSOR).random_state_ is None
    drawn = tf.BPTF(n_components=2, max_iter=2, random_state=None).fit(TENSOR)
    drawn.save(tmp_path / "model")
    assert tf.load(tmp_path / "model").random_state_ == drawn.random_state_


@pytest.mark.parametrize("n_members", [1, 2])
def test_a_fit_that_goes_on_keeps_the_seed_it_began_with(tmp_path, n_members):
    given = {"n_components": 2, "zeros": "missing", "amount": "negative-binomial"}
    given |= {"max_iter": 4, "n_members": n_members, "random_state": None}

    def stop(progress):
        if progress.iteration.number == 2:
            raise KeyboardInterrupt

    with pytest.warns(tf.errors.InterruptedWarning):
        begun = tf.VAEBPTF(**given).fit(TENSOR, checkpoint=tmp_path, every=1, callbacks=[stop])
    done = tf.VAEBPTF(**given).fit(TENSOR, checkpoint=tmp_path, every=1, resume=True)
    assert done.random_state_ == begun.random_state_
    whole = tf.VAEBPTF(**given | {"random_state": done.random_state_}).fit(TENSOR)
    np.testing.assert_array_equal(done.predict(TENSOR), whole.predict(TENSOR))


def test_members_of_a_mixture_follow_the_drawn_seed():
    model = tf.VAEBPTF(
        n_components=2, zeros="missing", amount="negative-binomial", max_iter=2, n_members=2,
        random_state=None,
    ).fit(TENSOR)  # fmt: skip
    (other,) = model.fitted_.others
    assert other.parameters["random_state"] == model.random_state_ + 1


def test_draws_that_are_fresh_differ():
    model = tf.BPTF(n_components=2, max_iter=4).fit(TENSOR)
    drawn = [model.sample(TENSOR, 20, random_state=None) for _ in range(2)]
    assert not np.array_equal(*drawn)
    given = {TENSOR.names[0]: TENSOR.axes[0].label(0)}
    sds = [tf.top(model, TENSOR.names[1], given, random_state=None)["sd"] for _ in range(2)]
    assert not sds[0].equals(sds[1])
    parts = [tf.split(TENSOR, random_state=None).test for _ in range(2)]
    assert parts[0] != parts[1]
    simulated = [tf.simulate((9, 8), 2, random_state=None).tensor for _ in range(2)]
    assert simulated[0] != simulated[1]


def test_draws_and_what_they_say_of_counts_have_one_seed(monkeypatch):
    model = tf.BPTF(n_components=2, max_iter=4).fit(TENSOR)
    seeds, chains = [], GammaFactors.chains

    def noted(self, n_draws=None, random_state=0):
        seeds.append(random_state)
        return chains(self, n_draws, random_state)

    monkeypatch.setattr(GammaFactors, "chains", noted)
    model.to_datatree(TENSOR, 3, random_state=None)
    assert len(seeds) == 2
    assert isinstance(seeds[0], int)
    assert seeds[0] == seeds[1]


def test_settings_that_are_compared_share_a_drawn_seed(monkeypatch):
    seeds = []
    fit = tf.BPTF.fit
    monkeypatch.setattr(
        tf.BPTF,
        "fit",
        lambda self, *a, **k: (seeds.append(self.random_state), fit(self, *a, **k))[1],
    )
    model = tf.BPTF(max_iter=2, random_state=None)
    tf.select_rank(TENSOR, (1, 2), model, folds=2, random_state=None)
    assert len(seeds) == 4
    assert len(set(seeds)) == 2
    assert max(seeds) == min(seeds) + 1


@pytest.mark.parametrize("seed", [-1, 1.5, "0", True, 2**63])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ParameterError, match="must be a non-negative integer or None"):
        tf.BPTF(random_state=seed).fit(TENSOR)
