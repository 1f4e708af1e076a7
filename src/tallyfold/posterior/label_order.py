"""Which labels of a component come first: what is likely in it, or what sets it apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from tallyfold.errors import ParameterError
from tallyfold.kernels.arrays import Floats

By = Literal["sure", "probability", "relevance", "frex"]

RELEVANCE = 0.4
"""How much of a label's relevance is its probability; the rest is how far it is above its own.

With more of it words stand together less often, and more of them are listed twice; see
docs/results/topics.md.
"""
LEAST_STRENGTH = 1e-9
"""Of a label, relative to its mean, where the lower end of its interval is next to nothing."""
FREX = 0.5
"""How much of FREX is how exclusive a label is; the rest is how frequent it is."""


class Weights(NamedTuple):
    """The labels of an axis in every component.

    Attributes
    ----------
    mean_DK, low_DK
        Means of the factors, and the lower ends of their intervals.
    share_K
        Each component's share of the rate.
    expected_D
        What is expected of each label in all, where a gate has a part in it; None: no gate has.
    """

    mean_DK: Floats
    low_DK: Floats
    share_K: Floats
    expected_D: Floats | None = None

    @property
    def probability_DK(self) -> Floats:
        """Each label's share of a component."""
        return np.asarray(self.mean_DK / np.maximum(self.mean_DK.sum(axis=0), 1e-300))

    @property
    def overall_D(self) -> Floats:
        """Each label's share of all that is expected."""
        if self.expected_D is not None:
            return np.asarray(self.expected_D / max(self.expected_D.sum(), 1e-300))
        return np.asarray(self.probability_DK @ self.share_K)

    @property
    def sure_DK(self) -> Floats:
        """Each label's share of a component, by the lower end of its interval."""
        low_DK = np.maximum(self.low_DK, LEAST_STRENGTH * self.mean_DK)
        return np.asarray(low_DK / np.maximum(self.mean_DK.sum(axis=0), 1e-300))


def _relevance(weights: Weights, share: float) -> Floats:
    """Return relevance as LDAvis (Sievert and Shirley, 2014) has it, of what is surely there."""
    log_DK = np.log(np.maximum(weights.sure_DK, 1e-300))
    return log_DK - (1 - share) * np.log(np.maximum(weights.overall_D, 1e-300))[:, None]


def _frex(weights: Weights, share: float) -> Floats:
    """Return the harmonic mean of ranks of frequency and exclusivity (Airoldi and Bischof, 2016).

    Exclusivity is a component's share of a label, were all components of one size.
    """
    frequency_DK = weights.probability_DK
    all_D1 = np.maximum(frequency_DK.sum(axis=1, keepdims=True), 1e-300)
    n_labels = len(frequency_DK)
    frequent_DK = rankdata(frequency_DK, axis=0) / n_labels
    exclusive_DK = rankdata(frequency_DK / all_D1, axis=0) / n_labels
    return np.asarray(1 / (share / exclusive_DK + (1 - share) / frequent_DK))


ORDERS: dict[str, Callable[[Weights, float], Floats]] = {
    "sure": lambda weights, _: weights.low_DK,
    "probability": lambda weights, _: weights.mean_DK,
    "relevance": _relevance,
    "frex": lambda weights, _: _frex(weights, FREX),
}
"""What labels are ranked by, largest first, by name."""


def checked_order(by: str | None, relevance: float | None) -> tuple[str, float]:
    """Return what to rank by, and the share of probability in relevance; refuse nonsense.

    Examples
    --------
    >>> checked_order(None, 0.3)
    ('relevance', 0.3)
    """
    chosen = "relevance" if by is None else by
    if chosen not in ORDERS:
        raise ParameterError(f"`by` must be one of {', '.join(map(repr, ORDERS))}; got {by!r}.")
    if relevance is None:
        return chosen, RELEVANCE
    if chosen != "relevance":
        raise ParameterError(
            f"`relevance` has no effect with by={by!r}; leave it out, or use by='relevance'."
        )
    number = isinstance(relevance, int | float | np.number) and not isinstance(relevance, bool)
    if not number or not 0 <= relevance <= 1:
        raise ParameterError(
            "`relevance` must be from 0 (what sets a component apart) to 1 (what is likely in it); "
            f"got {relevance!r}."
        )
    return chosen, float(relevance)
