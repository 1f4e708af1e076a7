"""Models set to be quick, for tests that run over all of them."""

from tallyfold import MODELS, AxisOrder, CountTensor

QUICK = {
    "zeros": "missing",
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
    "period": 1,
}
"""Values for parameters of these names, where a model has them."""


AS_IT_COMES = "vae-bptf, as it comes"
"""The flagship by its defaults; zeros are observed in tables that hold no ratings."""

FORMS = {
    "vae-bptf, negative binomial": ("vae-bptf", {"amount": "negative-binomial"}),
    AS_IT_COMES: ("vae-bptf", {"zeros": "auto"}),
    "bptf, head": ("bptf", {"amount": "head"}),
    "bptf, by torch": ("bptf", {"backend": "torch"}),
    "vae-bptf, by torch": ("vae-bptf", {"backend": "torch"}),
    "vae-bptf-paper, by torch": ("vae-bptf-paper", {"backend": "torch"}),
}
"""Further forms of a model, which must do all that a model must."""


REMEMBER = ("smoothed-past", "moving-average", "seasonal-naive", "last-value")
"""Models that need an axis of time, and counts in two of its periods."""


def in_time(tensor, axis=-1):
    """Declare the labels of an axis, the last one unless said, to be in order."""
    axes = list(tensor.axes)
    axes[axis] = axes[axis].with_order(AxisOrder("ordered"))
    return CountTensor(axes, tensor.indices, tensor.counts)


def quick(name, **parameters):
    """Make a model, or a form of one, that fits in well under a second."""
    model, form = FORMS.get(name, (name, {}))
    kind = MODELS[model]
    known = kind().get_params()
    chosen = {key: value for key, value in QUICK.items() if key in known}
    return kind(**(chosen | form | parameters))


def has(name, parameter):
    return parameter in quick(name).get_params()
