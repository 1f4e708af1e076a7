"""A heavy-tailed log of 100,000 cells, on which several processes must decide what one decides."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
from tests.processes.fits import left_by

import tallyfold as tf
from tallyfold.inference.head import cells
from tallyfold.inference.occurrence import phases, step

CELLS, SHAPE = 100_000, (4_000, 800, 60)
GIVEN = {"n_components": 4, "max_iter": 12}
FITS = {
    "heavy bptf": lambda: tf.BPTF(**GIVEN, tol=0.0),
    "heavy bptf, zeros observed": lambda: tf.BPTF(**GIVEN, tol=0.0, zeros="observed"),
    "heavy": lambda: tf.VAEBPTF(**GIVEN, zeros="missing"),
    "heavy, zeros observed": lambda: tf.VAEBPTF(**GIVEN, zeros="observed"),
    "heavy, encoders": lambda: tf.VAEBPTF(**GIVEN, zeros="missing", amount="negative-binomial"),
}


def tensor():
    """Few labels have most cells, and few cells most of the counts."""
    rng = np.random.default_rng(5)
    columns = [(size * rng.random(2 * CELLS) ** 2).astype(np.int64) for size in SHAPE]
    keys = np.unique(np.ravel_multi_index(columns, SHAPE))
    keys = np.sort(rng.choice(keys, CELLS, replace=False))
    indices = np.stack(np.unravel_index(keys, SHAPE), axis=1).astype(np.int32)
    counts = np.minimum(1 + rng.pareto(0.5, CELLS), 1e7).astype(np.int64)
    axes = [tf.Axis(f"axis_{m}", pa.array(10 * np.arange(n) + m)) for m, n in enumerate(SHAPE)]
    return tf.CountTensor.of_canonical(axes, np.asfortranarray(indices), counts)


def fitted(name, part):
    """Fit with a quick head and without a network for empty cells: small fits have them, too."""
    with (
        patch.object(cells, "MOST_CELLS", 1_500),
        patch.object(step, "LEAST_FOR_NETWORK", CELLS * 10),
        patch.object(phases, "LEAST_FOR_NETWORK", CELLS * 10),
    ):
        return FITS[name]().fit(part)


def main(folder):
    left_by(fitted, list(FITS), tensor, folder)
