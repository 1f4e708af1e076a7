"""Posterior draws of all factors, as a sampler leaves them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tallyfold.posterior.factors import Factors, Floats, rates_at


class SampledFactors(Factors):
    """S draws per axis (S x rows x components); the last row is an entity never seen.

    Draws of different axes belong together: the s-th of one axis goes with the s-th of the others.
    """

    def __init__(
        self, names: Sequence[str], labels: Sequence[Any], draws: Sequence[Floats]
    ) -> None:
        super().__init__(names, labels)
        self.samples = tuple(draws)

    @property
    def n_draws(self) -> int:
        """The number of draws kept."""
        return len(self.samples[0])

    def mean(self, axis: str) -> Floats:
        """Return the mean over draws of an axis's factors."""
        return np.asarray(self._rows(axis).mean(axis=0))

    def sd(self, axis: str) -> Floats:
        """Return the standard deviation over draws."""
        return np.asarray(self._rows(axis).std(axis=0))

    def quantile(self, axis: str, p: float) -> Floats:
        """Return a quantile over draws."""
        return np.asarray(np.quantile(self._rows(axis), p, axis=0))

    def draws(self, n: int, rng: np.random.Generator) -> Iterator[list[Floats]]:
        """Return n of the draws: all of them in turn if n is their number, else at random."""
        order = np.arange(n) if n == self.n_draws else rng.integers(self.n_draws, size=n)
        for number in order:
            yield [sample[number] for sample in self.samples]

    def rate_moments(self, indices_NM: npt.NDArray[np.integer]) -> tuple[Floats, Floats]:
        """Return mean and variance of the rates over draws."""
        rate_SN = self.rates(indices_NM)
        return np.asarray(rate_SN.mean(axis=0)), np.asarray(rate_SN.var(axis=0))

    def rates(self, indices_NM: npt.NDArray[np.integer]) -> Floats:
        """Return the rates of cells in every draw."""
        return np.stack(
            [
                rates_at([sample[s] for sample in self.samples], indices_NM)
                for s in range(self.n_draws)
            ]
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the draws by name."""
        return {f"draws_{axis}": sample for axis, sample in enumerate(self.samples)}

    @classmethod
    def from_arrays(
        cls, names: Sequence[str], labels: Sequence[Any], arrays: dict[str, npt.NDArray[Any]]
    ) -> SampledFactors:
        """Build from what `arrays` returned."""
        return cls(names, labels, [arrays[f"draws_{axis}"] for axis in range(len(names))])

    def _rows(self, axis: str) -> Floats:
        return self.samples[self.axis_number(axis)][:, :-1]
