"""Training the network on memories: on earlier periods, judged by later ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from tallyfold.inference.past.learning import DistancesStep
from tallyfold.inference.past.periods import PastCells
from tallyfold.inference.past.state import PastState
from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.past_network import NetworkParams, PastNetwork, logit, network_inputs

LOOKS = 12
TRIES_OF_LOOK = 12
"""Looks at the later periods, and evaluations of L-BFGS between two of them."""
LEAST_GAIN = 0.01
"""What a network must gain in every later period, near and further ahead, per cell with a count.

The same periods say when training stops, so that a smaller gain may be chance."""
PENALTY = 0.3
"""Half the sum of squares of parameters is weighted by it, against the sum over cells."""


@dataclass(frozen=True)
class NetworkStep:
    """Train the network on the earlier of the last periods; the later ones say how good it is.

    Attributes
    ----------
    distances
        The step before, with cells of several distances.
    """

    distances: DistancesStep
    _known_logits: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def cells(self) -> PastCells:
        """Cells of the last periods, near and from further away."""
        return self.distances.rates.cells.beside(self.distances.cells)

    @cached_property
    def later_C(self) -> npt.NDArray[np.bool_]:
        """Which cells are of the periods that judge."""
        target_C = self.cells.asked.known_N + self.cells.asked.ahead_N
        periods = np.unique(target_C)
        if len(periods) < 2:
            return np.zeros(len(target_C), bool)
        return np.asarray(np.isin(target_C, periods[-max(1, len(periods) // 4) :]))

    @cached_property
    def standard(self) -> tuple[Floats, Floats, Floats]:
        """Standardised inputs, and what they were standardised by."""
        x_CD = network_inputs(self.distances.rates.history, self.cells.asked)
        early_CD = x_CD[~self.later_C] if len(x_CD) else np.zeros((1, x_CD.shape[1]))
        centre_D, spread_D = early_CD.mean(axis=0), np.maximum(early_CD.std(axis=0), 1e-3)
        blank = PastNetwork(NetworkParams.first(x_CD.shape[1]), centre_D, spread_D)
        return blank.standardised(x_CD), centre_D, spread_D

    def start(self, previous: PastState | None = None) -> PastState:
        """Start with a network that changes nothing."""
        n_inputs = self.standard[0].shape[1]
        return replace(previous or PastState(), network=NetworkParams.first(n_inputs))

    def advance(self, state: PastState, iteration: int) -> tuple[PastState, float]:
        """Train up to the next look; the objective is the log score on the earlier periods."""
        assert state.network is not None
        if not self.later_C.any():
            return state, 0.0
        x_CD, logit_C = self.standard[0], self._logits(state)
        early_C = ~self.later_C
        x_ED, logit_E = x_CD[early_C], logit_C[early_C]
        early = self.cells.where(early_C)
        weight_E, n_filled = early.weight_C, max(early.n_filled, 1.0)
        sign_E = np.where(early.filled_C, 1.0, -1.0)
        like = state.network
        still_P = (
            NetworkParams(*(np.zeros_like(part) for part in like))
            ._replace(skip_2=np.array([0.0, 1.0]))
            .flat()
        )

        def loss(value_P: Floats) -> tuple[float, Floats]:
            params = like.with_flat(value_P)
            unit_EU = params.units(x_ED)
            margin_E = sign_E * params.logits(x_ED, logit_E, unit_EU)
            error_E = -sign_E * weight_E / (1 + np.exp(np.clip(margin_E, -60, 60))) / n_filled
            off_P = value_P - still_P
            told = float(weight_E @ np.logaddexp(0.0, -margin_E)) / n_filled
            slope_P = params.gradient(x_ED, logit_E, unit_EU, error_E).flat()
            strength = PENALTY / n_filled
            return told + strength * float(off_P @ off_P) / 2, slope_P + strength * off_P

        found = minimize(
            loss, like.flat(), jac=True, method="L-BFGS-B", options={"maxiter": TRIES_OF_LOOK}
        )
        state = replace(state, network=like.with_flat(found.x))
        return replace(state, network_gain=self._gain(state)), -float(found.fun)

    def validation_score(self, state: PastState) -> float | None:
        """Return the log score on the later periods."""
        if state.network is None or not self.later_C.any():
            return None
        later = self.cells.where(self.later_C)
        return later.occurrence(self._corrected(state)[self.later_C])

    def made(self, state: PastState) -> PastNetwork | None:
        """Return the network, if it surely helps."""
        if state.network is None or state.network_gain < LEAST_GAIN:
            return None
        return PastNetwork(state.network, *self.standard[1:])

    def _logits(self, state: PastState) -> Floats:
        """Return the logits of the smoothed past, which this phase leaves as they are."""
        known = state.candidate, state.rates
        if self._known_logits.get("of") != known:
            rates, history = self.distances.rates.made(state), self.distances.rates.history
            logit_C = logit(rates.log_zero(history, self.cells.asked))
            self._known_logits.update(of=known, logits=logit_C)
        return np.asarray(self._known_logits["logits"])

    def _corrected(self, state: PastState) -> Floats:
        assert state.network is not None
        logit_C = state.network.logits(self.standard[0], self._logits(state))
        return -np.logaddexp(0.0, logit_C)

    def _gain(self, state: PastState) -> float:
        """Return the least gain over the smoothed past: per period that judges, near and far."""
        target_C = self.cells.asked.known_N + self.cells.asked.ahead_N
        plain_C, told_C = -np.logaddexp(0.0, self._logits(state)), self._corrected(state)
        gains = []
        for period in np.unique(target_C[self.later_C]):
            for near in (True, False):
                own_C = (target_C == period) & ((self.cells.asked.ahead_N == 1) == near)
                if own_C.any():
                    own = self.cells.where(own_C)
                    gains.append(own.occurrence(told_C[own_C]) - own.occurrence(plain_C[own_C]))
        return float(min(gains))
