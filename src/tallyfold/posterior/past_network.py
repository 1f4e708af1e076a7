"""A small network on memories of all combinations, which corrects the chance that these give.

For every set of the other axes it sees how often the combination had cells, at several decays, how
long ago the last ones were and how many periods had some; and the logit of the smoothed past. Its
output is added to that logit; before it has learned anything, it adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tallyfold.kernels.arrays import Floats
from tallyfold.posterior.history import Asked, History
from tallyfold.posterior.named_arrays import Arrays

DECAYS = (0.5, 0.8, 0.97)
FLOOR = 0.03
"""Added to decayed numbers of cells before their logarithm is taken."""
N_UNITS = 16
INPUT_LIMIT = 5.0
LOGITS = (-40.0, 40.0)


class NetworkParams(NamedTuple):
    """Layers of the network.

    Attributes
    ----------
    inner_DU, bias_U
        From inputs to units.
    outer_U, linear_D
        From units, and from inputs directly, to the logit.
    skip_2
        A constant, and what the logit of the smoothed past is multiplied by.
    """

    inner_DU: Floats
    bias_U: Floats
    outer_U: Floats
    linear_D: Floats
    skip_2: Floats

    @classmethod
    def first(cls, n_inputs: int) -> NetworkParams:
        """Return a network that changes nothing yet."""
        rng = np.random.default_rng(0)
        inner_DU = rng.standard_normal((n_inputs, N_UNITS)) / np.sqrt(max(n_inputs, 1))
        zeros = np.zeros(N_UNITS), np.zeros(N_UNITS), np.zeros(n_inputs)
        return cls(inner_DU, *zeros, np.array([0.0, 1.0]))

    def changing_nothing(self) -> NetworkParams:
        """Return the parameters of a network of the same size whose inputs have no effect."""
        zeros = NetworkParams(*(np.zeros_like(part) for part in self))
        return zeros._replace(skip_2=np.array([0.0, 1.0]))

    def units(self, x_ND: Floats) -> Floats:
        """Return the values of the units."""
        return np.tanh(x_ND @ self.inner_DU + self.bias_U)

    def logits(self, x_ND: Floats, logit_N: Floats, unit_NU: Floats | None = None) -> Floats:
        """Return the corrected logits; `unit_NU` are the units, if they are known already."""
        unit_NU = self.units(x_ND) if unit_NU is None else unit_NU
        added_N = unit_NU @ self.outer_U + x_ND @ self.linear_D
        return np.asarray(added_N + self.skip_2[0] + self.skip_2[1] * logit_N)

    def gradient(
        self, x_ND: Floats, logit_N: Floats, unit_NU: Floats, error_N: Floats
    ) -> NetworkParams:
        """Return the gradient of a loss whose derivative by each logit is `error_N`."""
        back_NU = error_N[:, None] * self.outer_U * (1 - unit_NU**2)
        return NetworkParams(
            x_ND.T @ back_NU,
            back_NU.sum(axis=0),
            unit_NU.T @ error_N,
            x_ND.T @ error_N,
            np.array([error_N.sum(), error_N @ logit_N]),
        )

    def flat(self) -> Floats:
        """Return all parameters in one array."""
        return np.concatenate([np.ravel(part) for part in self])

    def with_flat(self, value_P: Floats) -> NetworkParams:
        """Return parameters of the same shapes from one array."""
        ends = np.cumsum([np.size(part) for part in self])[:-1]
        parts = np.split(value_P, ends)
        return NetworkParams(*(p.reshape(np.shape(o)) for p, o in zip(parts, self, strict=True)))


class Training(NamedTuple):
    """A network on its way, and the running means of AdamW."""

    params: NetworkParams
    mean_P: Floats
    square_P: Floats

    @classmethod
    def first(cls, n_inputs: int) -> Training:
        """Return a network that changes nothing yet."""
        params = NetworkParams.first(n_inputs)
        zero_P = np.zeros_like(params.flat())
        return cls(params, zero_P, zero_P)


@dataclass(frozen=True)
class PastNetwork:
    """A trained network, and what its inputs are standardised by."""

    params: NetworkParams
    centre_D: Floats
    spread_D: Floats

    def log_zero(self, history: History, asked: Asked, log_zero_N: Floats) -> Floats:
        """Return the log probability of no count, given that of the smoothed past."""
        logit_N = logit(log_zero_N)
        x_ND = self.standardised(network_inputs(history, asked, logit_N))
        return -np.logaddexp(0.0, self.params.logits(x_ND, logit_N))

    def standardised(self, x_ND: Floats) -> Floats:
        """Return inputs as the network wants them."""
        return np.clip((x_ND - self.centre_D) / self.spread_D, -INPUT_LIMIT, INPUT_LIMIT)

    def arrays(self) -> Arrays:
        """Return all that is needed to build this again, as named arrays."""
        own = {name: np.asarray(value) for name, value in self.params._asdict().items()}
        return own | {"centre": self.centre_D, "spread": self.spread_D}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> PastNetwork | None:
        """Build from what `arrays` returned; None from nothing."""
        if not arrays:
            return None
        params = NetworkParams(*(arrays[name] for name in NetworkParams._fields))
        return cls(params, arrays["centre"], arrays["spread"])


def logit(log_zero_N: Floats) -> Floats:
    """Return the logit of a count from the log probability of none.

    Examples
    --------
    >>> logit(np.log([0.5, 0.25])).round(4).tolist()
    [0.0, 1.0986]
    """
    some_N = np.log(np.maximum(-np.expm1(log_zero_N), 1e-300))
    return np.clip(some_N - log_zero_N, *LOGITS)


def network_inputs(history: History, asked: Asked, logit_N: Floats) -> Floats:
    """Return what the network sees of cells, not standardised; last the smoothed past's logit."""
    others_NK, known_N, ahead_N = asked
    columns = [np.log(ahead_N.astype(np.float64))]
    for table in history.tables[1:]:
        row_N = table.rows(others_NK, known_N)
        for decay in DECAYS:
            columns.append(np.log(table.decayed(row_N, known_N, decay)[:, 0] + FLOOR))
        never_N = row_N < 0
        since_N = known_N + 1.0
        if len(table.place_E):
            since_N = np.where(never_N, since_N, known_N - table.step_E[row_N])
        columns.append(np.log1p(np.maximum(since_N, 0.0)))
        columns.append(np.log1p(table.active(row_N)))
    return np.stack([*columns, logit_N], axis=1)
