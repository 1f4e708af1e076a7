"""What an iteration of training starts from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.gamma_posterior import GammaPosterior
from tallyfold.posterior.predictive import Calibration


@dataclass(frozen=True)
class EncoderState:
    """What an iteration starts from.

    Attributes
    ----------
    posterior
        Gamma posteriors of all axes, and of the derived ones.
    params
        The parameters of every axis's encoder, then of every derived axis's.
    visited
        Which encoders have improved a prediction.
    prior_rate_M, dispersion
        As in `CAVIState`.
    calibration
        Of the predictive distribution in the last iteration.
    score
        The mean log predictive of the held-out cells.
    """

    posterior: GammaPosterior
    params: tuple[Floats, ...]
    visited: tuple[bool, ...]
    prior_rate_M: Floats
    dispersion: float | None
    calibration: Calibration = field(default_factory=Calibration)
    score: float = 0.0

    def active(self) -> EncoderState:
        """Return the state without derived axes whose multipliers all stayed at one."""
        n_axes, derived = len(self.posterior.axes), self.posterior.derived
        kept = [number for number, each in enumerate(derived) if not each.idle]
        numbers = [*range(n_axes), *(n_axes + number for number in kept)]
        posterior = replace(self.posterior, derived=tuple(derived[n] for n in kept))
        return replace(
            self,
            posterior=posterior,
            params=tuple(self.params[n] for n in numbers),
            visited=tuple(self.visited[n] for n in numbers),
        )
