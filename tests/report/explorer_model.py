"""A small fitted model with awkward labels, for tests of the explorer."""

import numpy as np

import tallyfold as tf

SCRIPT = "<script>window.ran = 1</script>"
NASTY = [SCRIPT, "</script><img src=x onerror='window.ran = 2'>", "", "wide " * 30, "été & <b>"]
YEARS = [str(year) for year in range(2003, 2011)]


def labelled_tensor(random_state=3):
    """Draw counts of user x item x year whose labels try to break out of the page."""
    made = tf.simulate((40, 30, 8), 3, density=0.15, random_state=random_state).tensor
    users = [*NASTY, *(f"user {number}" for number in range(35))]
    axes = [
        tf.Axis("user", users),
        tf.Axis("item", [f"item {number}" for number in range(30)]),
        tf.Axis("year", YEARS),
    ]
    return tf.CountTensor(axes, made.indices, made.counts)


def labelled_parts():
    """Return that tensor as a part to train on and a part to test on."""
    return tf.split(labelled_tensor(), 0.2, random_state=0)


def strengths(model, axis, level=0.9):
    """Return the lower ends of the weights' intervals, and the weights overall."""
    factors = model.posterior_
    mean = factors.mean(axis)
    total = mean.sum(axis=0)
    low = factors.quantile(axis, (1 - level) / 2) / total
    return low, (mean / total) @ factors.shares()


def ranking(model, axis, component, relevance):
    """Return the labels of an axis by relevance, worked out from the model itself."""
    low, overall = strengths(model, axis)
    score = relevance * np.log(low[:, component]) + (1 - relevance) * np.log(
        low[:, component] / overall
    )
    labels = model.posterior_.labels[model.posterior_.axis_number(axis)].to_pylist()
    return [labels[position] for position in np.argsort(-score, kind="stable")]
