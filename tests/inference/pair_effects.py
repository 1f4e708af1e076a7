"""Counts with and without an effect of pairs of labels, to see what is made of it."""

from typing import NamedTuple

import numpy as np

import tallyfold as tf

NAMES = ("user", "item", "day")


class PairEffects(NamedTuple):
    tensor: tf.CountTensor
    multipliers: np.ndarray


def simulate_pairs(shape=(30, 20, 10), strength=1.0, level=1.0, seed=0):
    """Draw counts whose rates are a product of factors times a multiplier per (item, day).

    Multipliers are Gamma draws with this shape and mean one; a strength of None leaves them out.
    """
    rng = np.random.default_rng(seed)
    factors = [rng.gamma(1.0, 1.0, (size, 2)) for size in shape]
    rates = level * np.einsum("ik,jk,lk->ijl", *factors)
    multipliers = np.ones(shape[1:])
    if strength is not None:
        multipliers = rng.gamma(strength, 1 / strength, shape[1:])
    return PairEffects(
        tf.CountTensor.from_array(rng.poisson(rates * multipliers), NAMES), multipliers
    )
