"""Whether a fit that is cut short by `max_iter` says so."""

import warnings

import pytest

import tallyfold as tf
from tallyfold.errors import ConvergenceWarning

TENSOR = tf.simulate((20, 15, 8), 2, density=0.4, random_state=0).tensor
CUT = {
    "bptf": {"n_components": 2, "max_iter": 2, "tol": 1e-9},
    "main-effects": {"max_iter": 2, "tol": 1e-9},
    "ptf-kl": {"n_components": 2, "max_iter": 2},
    "ntf-ls": {"n_components": 2, "max_iter": 2, "tol": 1e-9},
    "mlp-tf": {"max_iter": 2},
    "vae-bptf": {"n_components": 2, "max_iter": 3, "zeros": "missing"},
}


def convergence_warnings(model):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(TENSOR)
    return [each for each in said if each.category is ConvergenceWarning]


@pytest.mark.parametrize("name", CUT)
def test_a_fit_that_is_cut_says_so_once(name):
    (told,) = convergence_warnings(tf.MODELS[name](**CUT[name]))
    assert "Allow more by max_iter=" in str(told.message)
    assert told.filename == __file__


@pytest.mark.parametrize(
    "model",
    [
        tf.BPTF(n_components=2, max_iter=500),
        tf.BPTF(n_components=2, max_iter=3, tol=0, validation=None),
        tf.GibbsBPTF(n_components=2, burn_in=2, n_draws=2, thin=1),
        tf.Constant(),
        tf.MainEffects(),
    ],
    ids=["converged", "no other rule", "a chain", "constant", "main effects"],
)
def test_a_fit_that_is_not_cut_says_nothing(model):
    assert convergence_warnings(model) == []
