"""The families of count distributions, by name."""

from typing import Protocol

import numpy as np

from tallyfold.kernels.arrays import Floats, Ints
from tallyfold.probability import negative_binomial, poisson


class _Family(Protocol):
    """What a family's module offers: functions of arrays of y, rate and dispersion r."""

    def log_zero(self, rate: Floats, r: Floats) -> Floats: ...
    def log_pmf(self, y: Floats, rate: Floats, r: Floats) -> Floats: ...
    def step(self, y: int, rate: Floats, r: Floats) -> Floats: ...
    def cdf(self, y: Floats, rate: Floats, r: Floats) -> Floats: ...
    def sf(self, y: Floats, rate: Floats, r: Floats) -> Floats: ...
    def sample(self, rng: np.random.Generator, rate: Floats, r: Floats) -> Ints: ...
    def sample_positive(self, rng: np.random.Generator, rate: Floats, r: Floats) -> Ints: ...


FAMILIES: dict[str, _Family] = {
    "poisson": poisson,
    "negative-binomial": negative_binomial,
}
