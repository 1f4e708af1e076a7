"""What an iteration of the paper's algorithm starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tallyfold.inference.schemes.adam import Adam
from tallyfold.kernels.arrays import Floats, Mask
from tallyfold.posterior.gamma_posterior import GammaPosterior, GammaTable


class Moments(NamedTuple):
    """First and second moments of an axis's factors, averaged over iterations."""

    mean_DK: Floats
    square_DK: Floats

    @property
    def gamma(self) -> GammaTable:
        """The Gamma distributions that have these moments."""
        mean_DK = self.mean_DK
        variance_DK = np.maximum(self.square_DK - mean_DK**2, 1e-8 * mean_DK**2)
        return GammaTable(mean_DK**2 / variance_DK, mean_DK / variance_DK)


@dataclass(frozen=True)
class PaperState:
    """Encoders, the posteriors they give, and draws of the factors.

    Attributes
    ----------
    encoders
        Of every axis: weights, and Adam's running means.
    encoded
        The posterior by the present weights.
    draws
        The present draws of the factors, which the encoders of the other axes see.
    averages
        Moments of the factors over the last iterations.
    kl_M
        The divergence of each axis's posterior from the prior.
    learning_rate
        Of Adam; halved when a visit fails.
    bound
        The evidence lower bound, estimated at the draws.
    error_N
        Running means of each cell's error, where cells are weighed by them.
    """

    encoders: tuple[Adam, ...]
    encoded: GammaPosterior
    draws: tuple[Floats, ...]
    averages: tuple[Moments, ...]
    kl_M: Floats
    learning_rate: float
    bound: float
    error_N: Floats | None = None

    @property
    def posterior(self) -> GammaPosterior:
        """The result: Gammas with the averaged first and second moments."""
        return GammaPosterior(tuple(moments.gamma for moments in self.averages))

    @property
    def means(self) -> list[Floats]:
        """The averaged means of every axis."""
        return [moments.mean_DK for moments in self.averages]

    def averaged(self, known_M: Sequence[Mask], share: float) -> PaperState:
        """Move the averages towards the moments of the present Gammas.

        A component may double on one axis and halve on another, which changes no rate; while it
        drifts so, the product of averages is far from the average product. So before it is
        averaged, each component is balanced: the entities of `known_M` get the same mean on every
        axis.
        """
        means = self.encoded.means
        size_MK = np.array([m[known].mean(axis=0) for m, known in zip(means, known_M, strict=True)])
        gauge_MK = np.exp(np.log(size_MK).mean(axis=0)) / size_MK
        now = []
        for axis, (table, known_D) in enumerate(zip(self.encoded.axes, known_M, strict=True)):
            gauge_DK = np.where(known_D[:, None], gauge_MK[axis], 1.0)
            balanced_DK = gauge_DK * table.mean_DK
            now.append(Moments(balanced_DK, balanced_DK**2 * (1 + 1 / table.shape_DK)))
        if share < 1:
            now = [
                Moments(*((1 - share) * old + share * new for old, new in zip(*both, strict=True)))
                for both in zip(self.averages, now, strict=True)
            ]
        return replace(self, averages=tuple(now))
