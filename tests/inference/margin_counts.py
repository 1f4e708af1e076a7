"""Counts and stars whose distribution depends on labels and pairs of labels, or on nothing."""

import numpy as np

import tallyfold as tf

NAMES = ("user", "item", "day")


def some_cells(shape, n_cells, rng):
    """Draw cells, each once."""
    place = rng.choice(int(np.prod(shape)), n_cells, replace=False)
    return np.stack(np.unravel_index(place, shape), axis=1)


def tensor_of(shape, cells, counts, names=NAMES):
    axes = [tf.Axis.numbered(name, size) for name, size in zip(names, shape, strict=True)]
    return tf.CountTensor(axes, cells, counts)


def levels(shape, cells, rng, pairs):
    """Return a level for each cell: a user's, an item's, and one of the item on the day."""
    user, item = rng.normal(0, 0.7, shape[0]), rng.normal(0, 0.7, shape[1])
    pair = rng.normal(0, pairs, shape[1:])
    return user[cells[:, 0]] + item[cells[:, 1]] + pair[cells[:, 1], cells[:, 2]]


def simulate_margins(shape=(30, 20, 10), n_cells=2_000, *, pairs=0.0, seed=0):
    """Draw counts of at least one whose rate is e to the level."""
    rng = np.random.default_rng(seed)
    cells = some_cells(shape, n_cells, rng)
    level = levels(shape, cells, rng, pairs)
    return tensor_of(shape, cells, 1 + rng.poisson(np.exp(level)))


def simulate_stars(shape=(30, 20, 10), n_cells=2_000, *, seed=0, best=5):
    """Draw stars from 1 to `best`, most of them good ones."""
    rng = np.random.default_rng(seed)
    cells = some_cells(shape, n_cells, rng)
    level = levels(shape, cells, rng, 0.0) + rng.normal(0, 0.8, n_cells)
    return tensor_of(shape, cells, np.clip(np.round(best - 1 + level), 1, best).astype(int))


def simulate_noise(shape=(20, 15, 10), n_cells=400, *, seed=0):
    """Draw counts that no label says anything of."""
    rng = np.random.default_rng(seed)
    return tensor_of(shape, some_cells(shape, n_cells, rng), rng.geometric(0.5, n_cells))


def simulate_busy_days(seed=0):
    """Draw counts that are larger on days of more cells; the third of five days is like all."""
    rng, shape = np.random.default_rng(seed), (60, 40, 5)
    times_D = np.array([300, 500, 800, 1200, 1800])
    days = [some_cells((*shape[:2], 1), times, rng) for times in times_D]
    cells = np.concatenate(days)
    cells[:, 2] = np.repeat(np.arange(5), times_D)
    level = 0.8 * np.log(times_D / times_D[2])[cells[:, 2]]
    level += 0.5 * rng.standard_normal(shape[0])[cells[:, 0]]
    return tensor_of(shape, cells, 1 + rng.poisson(np.exp(level)))
