"""A large tensor with hidden structure, skewed like real data: user x item x day.

Few users and items have most of the cells. Counts given that a cell is there are 1 + Poisson, with
rates made of an effect of the user, one of the item, and ten tastes: users and items of the same
taste meet more often, each taste in a season of its own.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import tallyfold as tf
from tallyfold.data.tensor import CountTensor

TASTES = 10
FULL = 100_000_000
SHAPE = (2_000_000, 200_000, 1_000)
AT_A_TIME = 5_000_000


def large_tensor(cells: int, seed: int = 0) -> CountTensor:
    """Make a tensor of about so many non-zeros; users and items grow with them."""
    share = min(1.0, cells / FULL)
    shape = (max(20, int(SHAPE[0] * share)), max(20, int(SHAPE[1] * share)), SHAPE[2])
    keys = np.empty(int(cells * 1.002), dtype=np.int64)
    for start in range(0, len(keys), AT_A_TIME):
        part = keys[start : start + AT_A_TIME]
        part[:] = _cells(np.random.default_rng([seed, start]), len(part), shape)
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    indices = np.empty((len(keys), 3), dtype=np.int32, order="F")
    counts = np.empty(len(keys), dtype=np.int64)
    for start in range(0, len(keys), AT_A_TIME):
        part = slice(start, start + AT_A_TIME)
        rest, indices[part, 2] = np.divmod(keys[part], shape[2])
        indices[part, 0], indices[part, 1] = np.divmod(rest, shape[1])
        rate = _rates(*indices[part].T, shape[2])
        counts[part] = 1 + np.random.default_rng([seed, 1, start]).poisson(rate)
    days = np.datetime64("2020-01-01", "D") + np.arange(shape[2])  # no labels that items have, too
    labels = np.arange(shape[0]), np.arange(shape[1]), days
    pairs = zip(("user", "item", "day"), labels, strict=True)
    axes = [tf.Axis(name, pa.array(each)) for name, each in pairs]
    return CountTensor.of_canonical(axes, indices, counts)


def _cells(rng: np.random.Generator, number: int, shape: tuple[int, ...]) -> np.ndarray:
    """Draw cells as numbers that count through the axes, the last one fastest."""
    user = (shape[0] * rng.random(number) ** 2.0).astype(np.int64)
    item = (shape[1] * rng.random(number) ** 3.0).astype(np.int64) * 7919 % shape[1]
    day = (shape[2] * rng.random(number)).astype(np.int64)
    return (user * shape[1] + item) * shape[2] + day


def _rates(user: np.ndarray, item: np.ndarray, day: np.ndarray, n_days: int) -> np.ndarray:
    user_taste, item_taste = user % TASTES, (item // 3) % TASTES
    own = 0.4 * np.exp(0.8 * _noise(user) + 0.8 * _noise(item + 7))
    season = 1 + np.cos(2 * np.pi * (day / n_days - item_taste / TASTES))
    return own * np.where(user_taste == item_taste, 3.0, 0.4) * season


def _noise(entity: np.ndarray) -> np.ndarray:
    """Return a number between -1 and 1 that looks random, the same for the same entity."""
    return np.sin(entity.astype(np.float64) * 12.9898) * 43758.5453 % 2 - 1
