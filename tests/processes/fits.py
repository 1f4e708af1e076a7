"""Small fits that a test compares between one process and several."""

import warnings
from functools import partial
from unittest.mock import patch

import numpy as np

import tallyfold as tf
from tallyfold.data import empty_cells
from tallyfold.data.empty_cells import MOST_LISTED, draw_empty_cells
from tallyfold.inference.distributed.process_group import current_group
from tallyfold.inference.fit.state_arrays import to_arrays
from tallyfold.inference.head import cells
from tallyfold.inference.occurrence import held_out, phases, step

GUIDED = {
    "seeds": {"first": {"axis_0": ["axis_0-00", "axis_0-01"], "axis_1": ["axis_1-02"]}},
    "background": True,
}
FITS = {
    "bptf": lambda: tf.BPTF(n_components=3, max_iter=8, tol=0.0),
    "bptf, learnt dispersion": lambda: tf.BPTF(
        n_components=3, likelihood="negative-binomial", max_iter=6, tol=0.0
    ),
    "bptf, zeros observed": lambda: tf.BPTF(n_components=3, zeros="observed", max_iter=6, tol=0.0),
    "bptf, gate": lambda: tf.BPTF(
        n_components=3, zeros="observed", gate="auto", max_iter=6, tol=0.0
    ),
    "bptf, guided": lambda: tf.BPTF(
        n_components=3, zeros="observed", gate="auto", max_iter=6, tol=0.0, **GUIDED
    ),
    "complete logs, guided": lambda: tf.VAEBPTF(
        zeros="observed", n_components=3, max_iter=6, amount="negative-binomial", **GUIDED
    ),
    "bptf, compiled": lambda: tf.BPTF(n_components=3, max_iter=4, tol=0.0, backend="numba"),
    "head": lambda: tf.VAEBPTF(zeros="missing", n_components=2, max_iter=6),
    "complete logs": lambda: tf.VAEBPTF(zeros="auto", n_components=2, max_iter=6),
    "complete logs, some entities at a time": lambda: tf.VAEBPTF(
        zeros="observed", n_components=2, max_iter=12, batch_entities=10, amount="negative-binomial"
    ),
    "complete logs, baskets": lambda: tf.VAEBPTF(
        zeros="observed", n_components=2, amount="negative-binomial", validation=0.4
    ),
    "complete logs, drawn empty cells": lambda: tf.VAEBPTF(
        zeros="observed",
        n_components=2,
        amount="negative-binomial",
        max_iter=6,
        gate=("axis_0", "axis_2"),
    ),
    "margins": tf.Margins,
    "margins, trained on some cells": tf.Margins,
    "encoders": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=3, max_iter=16
    ),
    "encoders, chosen likelihood": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=2, max_iter=16, likelihood="auto"
    ),
    "encoders, some entities at a time": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=2, max_iter=14, batch_entities=10
    ),
    "encoders, members": lambda: tf.VAEBPTF(
        zeros="missing", amount="negative-binomial", n_components=2, max_iter=12, n_members=2
    ),
    "paper": lambda: tf.VAEBPTF.paper(n_components=3, max_iter=4, hidden_units=6),
    "paper, weights by error": lambda: tf.VAEBPTF.paper(
        n_components=2, max_iter=5, hidden_units=6, reweight="error"
    ),
}


QUICK = ["encoders", "paper"]
"""Fits of three processes, beside those of `stores`."""
DRAWN = "complete logs, drawn empty cells"
"""A fit that lists no empty cells, as of large tensors, and draws them next to some cells."""
BASKETS = "complete logs, baskets"
"""A fit that learns from baskets and keeps what it learns, however few cells there are."""
MOST_CELLS = {"margins, trained on some cells": 300}
"""How many cells a head is trained on."""


def tensor():
    return tf.simulate((30, 20, 8), n_components=3, density=0.25, random_state=4).tensor


def numbers_of(model, whole):
    """Return what a fit left, and predicts of all cells, as named arrays."""
    fitted = model.fitted_
    found = {} if fitted.head is None else {f"head {n}": a for n, a in fitted.head.arrays().items()}
    if fitted.factors is not None:
        found |= {f"mean {name}": model.posterior_.mean(name) for name in model.posterior_.names}
        found |= {f"sd {name}": model.posterior_.sd(name) for name in model.posterior_.names}
    found |= {f"extra {name}": value for name, value in fitted.extra.items()}
    found |= {f"encoders {n}": value for n, value in to_arrays(fitted.encoders).items()}
    for number, each in enumerate(fitted.derived):
        found |= {f"derived {number} {n}": value for n, value in each.arrays().items()}
    if fitted.occurrence is not None:
        found |= {f"occurrence {n}": value for n, value in fitted.occurrence.arrays().items()}
    found["objective"] = model.history_["objective"].to_numpy()
    found["validation"] = np.array(fitted.validation_score or 0.0)
    found["predicted"] = model.predict(whole)
    return found


def fitted(name, part, **options):
    most = MOST_CELLS.get(name, cells.MOST_CELLS)
    least = 100 if name == BASKETS else step.LEAST_FOR_NETWORK
    gains = (lambda *_: True) if name == BASKETS else step.OccurrenceStep._gains
    drawn = partial(draw_empty_cells, most_listed=0 if name == DRAWN else MOST_LISTED)
    with (
        warnings.catch_warnings(),
        patch.object(held_out, "draw_empty_cells", drawn),
        patch.object(empty_cells, "MOST_BASE", 500 if name == DRAWN else empty_cells.MOST_BASE),
        patch.object(cells, "MOST_CELLS", most),
        patch.object(step, "LEAST_FOR_NETWORK", least),
        patch.object(phases, "LEAST_FOR_NETWORK", least),
        patch.object(step.OccurrenceStep, "_gains", staticmethod(gains)),
    ):
        warnings.simplefilter("ignore")
        model = FITS[name]().fit(part, **options)
    assert name != BASKETS or model.fitted_.occurrence.neighbours is not None
    return model


def main(folder, names):
    with tf.many_processes() as group:
        assert current_group() is group
    left_by(fitted, names, tensor, folder)


def left_by(fitted, names, tensor, folder):
    """Fit in this process together with the others; the first one saves what they leave."""
    whole = tensor()
    with tf.many_processes() as group:
        part = tf.scatter(tensor)
        assert part.nnz < whole.nnz
        for name in names:
            found = numbers_of(fitted(name, part), whole)
            same = group.all_gather(np.concatenate([np.ravel(v) for v in found.values()])[None])
            assert np.array_equal(same, np.repeat(same[:1], group.size, axis=0)), name
            if group.first:
                np.savez(f"{folder}/{name}-{group.size}.npz", **found)
