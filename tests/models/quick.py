"""Models set to be quick, for tests that run over all of them."""

from tallyfold import MODELS

QUICK = {
    "n_components": 2,
    "max_iter": 8,
    "burn_in": 5,
    "n_draws": 4,
    "thin": 1,
    "max_inner": 3,
    "hidden_layers": 1,
    "hidden_units": 8,
    "embedding_size": 4,
    "batch_size": 256,
}
"""Values for parameters of these names, where a model has them."""


def quick(name, **parameters):
    """Make a model that fits in well under a second."""
    kind = MODELS[name]
    known = kind().get_params()
    chosen = {key: value for key, value in QUICK.items() if key in known}
    return kind(**(chosen | parameters))


def has(name, parameter):
    return parameter in MODELS[name]().get_params()
